"""Pauses of Python's cyclic garbage collector, which several threads may request at once."""

from __future__ import annotations

import gc
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_lock = threading.Lock()
#: Number of current pauses, and whether the collector was enabled before the first of them.
_pauses = 0
_was_on = False


@contextmanager
def collector_paused() -> Iterator[None]:
    """Disable the cyclic collector in the whole process until the ``with`` block ends."""
    global _pauses, _was_on
    with _lock:
        if _pauses == 0:
            _was_on = gc.isenabled()
            gc.disable()
        _pauses += 1
    try:
        yield
    finally:
        with _lock:
            _pauses -= 1
            if _pauses == 0 and _was_on:
                gc.enable()
