"""Pauses of Python's cyclic garbage collector, which several threads may make at once."""

from __future__ import annotations

import gc
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_lock = threading.Lock()
#: How many pauses there are, and whether the collector ran before the first of them.
_pauses = 0
_was_on = False


@contextmanager
def collector_paused() -> Iterator[None]:
    """No search for cycles in any thread of the process until the block ends."""
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


def frame_of(thread: int) -> FrameType | None:
    """What a thread executes now.

    Python makes frames under a lock that new threads need. A collection there may run code of
    Python, which lets another thread begin a thread: then all threads wait for ever.
    """
    with collector_paused():
        return sys._current_frames().get(thread)
