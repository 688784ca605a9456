"""Seals: the file that names the segments of a complete stream, and the one that announces it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rstream.store.protocol import BlobStore

SEAL_NAME = "_sealed"
#: Somebody is about to seal the stream, and has not listed its segments yet.
CLOSING_NAME = "_closing"


def sealed_names(store: BlobStore) -> tuple[str, ...] | None:
    """The segments of a complete stream, in order; None while it is not complete.

    A seal that cannot be read is none: what it would leave out is only there a second time.
    """
    try:
        return tuple(json.loads(store.get(SEAL_NAME))["segments"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def is_closing(store: BlobStore) -> bool:
    """Whether somebody seals the stream, or has."""
    return store.exists(CLOSING_NAME) or store.exists(SEAL_NAME)


def break_seal(store: BlobStore) -> None:
    """The stream is to be written further."""
    store.delete(SEAL_NAME)
    store.delete(CLOSING_NAME)
