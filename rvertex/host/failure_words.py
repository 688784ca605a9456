"""Turns the exception of an instance into its notice to the job manager."""

from __future__ import annotations

from rstream.errors import IntegrityError, OperatingError, StoreError, StreamEngineError, UsageError
from rvertex.errors import CorruptCheckpointError
from rvertex.user_code.errors import reason_of


def family_of(error: Exception) -> str:
    """Who must act on what an instance raised, in one word of a notice."""
    match error:
        case CorruptCheckpointError():
            return "checkpoint"
        case UsageError():
            return "usage"
        case IntegrityError():
            return "integrity"
        case StoreError():
            return "store"
        case OperatingError():
            return "operating"
        case MemoryError():  # Arrow's is one, too
            return "memory"
        case _:
            return "bug"


def message_of(error: Exception) -> str:
    """What an instance raised, in words."""
    if isinstance(error, StreamEngineError):
        return str(error)
    return reason_of(error)
