"""Seals: the file that lists the segments of a complete stream, and the file that precedes it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rstream.store.protocol import BlobStore

SEAL_NAME = "_sealed"
#: A file that a sealing process creates before it lists the segments.
CLOSING_NAME = "_closing"


def sealed_names(store: BlobStore) -> tuple[str, ...] | None:
    """Return the segments of a complete stream, in order; None while it is not complete.

    An unreadable seal is ignored, because the segments it would exclude are only duplicates.
    """
    try:
        return tuple(json.loads(store.get(SEAL_NAME))["segments"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def is_closing(store: BlobStore) -> bool:
    """Return whether sealing of the stream has started or is complete."""
    return store.exists(CLOSING_NAME) or store.exists(SEAL_NAME)


def break_seal(store: BlobStore) -> None:
    """Delete the seal, because more items will be written to the stream."""
    store.delete(SEAL_NAME)
    store.delete(CLOSING_NAME)
