"""The errors of replays."""

from __future__ import annotations

from rstream.errors import UsageError, error_class


@error_class
class CannotReplayError(UsageError):
    """What a replay needs is not retained, or cannot be repeated. ``instead``: what to do."""

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
