"""The errors of savepoints and changes."""

from __future__ import annotations

from rstream.errors import OperatingError, UsageError, error_class


@error_class
class NotACutError(UsageError):
    """The checkpoints of a job are not consistent, so no change can start from them."""

    root: str
    reason: str

    message = (
        "{root} was killed, or it failed: resume it first, and try again while it runs. It cannot "
        "be saved or changed now, because it did not end with `jobmanager stop`, and {reason}"
    )


@error_class
class ChangePendingError(UsageError):
    """Another change of the job is in progress."""

    root: str

    message = (
        "{root} is being changed already: wait until that is done, "
        "or resume the job if no job manager is running"
    )


@error_class
class ChangeRefusedError(UsageError):
    """The job does not allow this change."""

    root: str
    reason: str

    message = "{root} cannot be changed: {reason}"


@error_class
class ChangeUndoneError(OperatingError):
    """The job stopped at a cut, but the change could not be carried out there."""

    root: str
    reason: str

    message = "{root} was not changed, and continues as before: {reason}"


@error_class
class ChangeWaitsError(OperatingError):
    """A requested change is not completed yet."""

    root: str
    wait_s: float

    message = (
        "{root} is not changed yet after {wait_s:g} s; the change is still pending until "
        "the job reaches a consistent cut: jobmanager status {root} shows what the job "
        "waits for"
    )


@error_class
class NotApprovedError(UsageError):
    """The user has not approved the change. ``approved``: the hash that was passed, or empty."""

    root: str
    hash: str
    approved: str

    def __str__(self) -> str:
        other = f"{self.approved} approves another comparison; " if self.approved else ""
        return f"{self.root} was not changed: {other}give --yes, or --approve {self.hash}"
