"""Ownership of a root: at most one job manager works on it.

Within this process a set of roots records the ownership. Other processes check the status file
(:mod:`root`).
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from jobmanager.errors import JobRunningError
from jobmanager.storage.documents import json_document
from jobmanager.storage.root import FORMAT, JOB, display_uri
from rstream.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobmanager.storage.root import JobRoot

_live_roots: set[str] = set()
_live_lock = threading.Lock()


@contextlib.contextmanager
def owned(root: JobRoot) -> Iterator[None]:
    """Own the root until :func:`give_back`. If the body raises, the root is given back at once.

    Raises:
        JobRunningError: a live job manager, of this or another process, works on the root.
    """
    with _live_lock:
        if root.uri in _live_roots:
            raise JobRunningError(display_uri(root.uri), "in this process")
        _live_roots.add(root.uri)
    try:
        root.take_over(SystemClock().now_us())
        yield
    except BaseException:
        give_back(root)
        raise


def upgrade(root: JobRoot) -> None:
    """Write this release's format into the root, so that older releases do not read it.

    Raises:
        JobRunningError: another job manager has taken over.
    """
    settings = root.readable_settings()
    if settings["format"] != FORMAT:
        root.replace(JOB, json_document({**settings, "format": FORMAT}))


def is_live_here(root: JobRoot) -> bool:
    """Return whether a job manager of this process works on the root."""
    return root.uri in live_here()


def live_here() -> frozenset[str]:
    """Return the uris of the roots on which job managers of this process work."""
    with _live_lock:
        return frozenset(_live_roots)


def give_back(root: JobRoot) -> None:
    """End the ownership of a root, after the job has ended."""
    with _live_lock:
        _live_roots.discard(root.uri)
