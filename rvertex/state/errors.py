"""Errors of scratch files."""

from __future__ import annotations

from rstream.errors import OperatingError, error_class


@error_class
class ScratchFullError(OperatingError):
    """State that does not fit into memory cannot be written to scratch: there is no room."""

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

    message = "scratch folder {folder}: {reason}; name a folder that can be written to (scratch)"
