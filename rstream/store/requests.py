"""Counts of the requests that this process has sent to stores; a retry counts again."""

from __future__ import annotations

import threading
from typing import Final

#: What a request does: reads a blob or its attributes, creates or copies one, lists, deletes one.
KINDS: Final = ("read", "write", "list", "delete")
_counts = dict.fromkeys(KINDS, 0)
_counting = threading.Lock()


def count_request(kind: str) -> None:
    """Count a request of one of :data:`KINDS`."""
    with _counting:
        _counts[kind] += 1


def requests_sent() -> tuple[int, ...]:
    """Return the number of requests until now, in the order of :data:`KINDS`."""
    with _counting:
        return tuple(_counts.values())
