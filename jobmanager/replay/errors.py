"""The errors of replays."""

from __future__ import annotations

from rstream.errors import UsageError, error_class


@error_class
class CannotReplayError(UsageError):
    """Data for a replay is not retained, or the code gives no equal output. ``instead``: advice."""

    what: str
    reason: str
    instead: str

    message = "cannot replay {what}: {reason}. {instead}"


@error_class
class InvalidConditionError(UsageError):
    """A condition on rows cannot be read. ``columns``: the columns that it may name."""

    text: str
    reason: str
    columns: str

    message = "condition {text!r}: {reason}; it may name the columns {columns}"


@error_class
class NoSuchRowError(UsageError):
    """No output row, or more than one, satisfies the condition of a command."""

    reason: str

    message = "cannot select a result row: {reason}"


@error_class
class NotACapsuleError(UsageError):
    """A file cannot be opened as a capsule."""

    path: str
    reason: str

    message = "capsule {path}: {reason}"


@error_class
class CannotMaskError(UsageError):
    """A column of a capsule cannot be masked."""

    column: str
    reason: str

    message = "cannot mask {column}: {reason}"
