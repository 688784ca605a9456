"""Converts an exception of an instance into the fields of its ``VertexFailed`` notice."""

from __future__ import annotations

from rstream.errors import IntegrityError, OperatingError, StoreError, StreamEngineError, UsageError
from rvertex.errors import CorruptCheckpointError
from rvertex.user_code.errors import reason_of


def family_of(error: Exception) -> str:
    """Return the family of an exception: usage, operating, store, integrity, memory or bug."""
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
        case MemoryError():  # Arrow's out-of-memory error is a subclass
            return "memory"
        case _:
            return "bug"


def message_of(error: Exception) -> str:
    """Return the message of an exception."""
    if isinstance(error, StreamEngineError):
        return str(error)
    return reason_of(error)
