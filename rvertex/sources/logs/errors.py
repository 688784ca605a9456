"""Errors of live logs."""

from __future__ import annotations

from rstream.errors import IntegrityError, OperatingError, UsageError, error_class


@error_class
class LostInputError(IntegrityError):
    """A log no longer has rows that the job has not read."""

    log: str
    partition: int
    wanted: int
    first: int
    reason: str

    message = (
        "{log}, partition {partition}: the rows from position {wanted} on are gone ({reason}; the "
        'log begins at {first}); give on_lost="skip" to count them and go on, or start anew'
    )


@error_class
class LogNotFoundError(UsageError):
    """There is no such log, or no such partition of it."""

    log: str
    reason: str

    message = "{log}: {reason}"


@error_class
class LogUnreachableError(OperatingError):
    """A log could not be asked where it begins and ends."""

    log: str
    reason: str

    message = "{log}: {reason}; check the address and that the log's server runs"
