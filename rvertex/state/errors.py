"""Errors of state that exceeds its memory or its scratch folder."""

from __future__ import annotations

from rstream.errors import OperatingError, error_class


@error_class
class ScratchFullError(OperatingError):
    """State exceeds memory and cannot be written to scratch: there is no room."""

    folder: str
    nbytes: int
    reason: str

    message = (
        "scratch folder {folder} has no room for {nbytes} bytes of state: {reason}. No state is "
        "lost: free space, or name another folder (scratch) or a larger limit (scratch_limit), or "
        "give state more memory (state_memory), and resume the job"
    )


@error_class
class ScratchUnusableError(OperatingError):
    """The scratch folder cannot be written to."""

    folder: str
    reason: str

    advice: str = "name a folder that can be written to (scratch)"

    message = "scratch folder {folder}: {reason}; {advice}"


@error_class
class UnspillableStateError(OperatingError):
    """Python objects of an operator exceed the memory budget, and cannot be spilled."""

    operator: str
    nbytes: int
    budget_bytes: int

    message = (
        "{operator} keeps about {nbytes} bytes of objects that cannot be spilled, more than the "
        "budget of {budget_bytes} bytes (state_memory). No state is lost: give state more memory, "
        "use more hosts, or let keys end earlier (a shorter `within`), and resume the job"
    )
