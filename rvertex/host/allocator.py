"""Returns freed memory to the system; the one door to the allocators.

Allocators keep freed memory for the next caller. That is right for batches, which come and go all
the time, and wrong for memory that was large once: a long window that has closed, a job that ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
from typing import TYPE_CHECKING

import pyarrow as pa

from rstream.items.dictionaries import batch_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rstream.clock import Clock

#: A step that puts out so much has freed about as much, which later ones do not need.
LARGE_STEP_BYTES = 32 << 20
#: Least time between two times after steps: a steady flow of wide rows needs again what it frees.
GIVE_BACK_EVERY_S = 1.0


class LargeSteps:
    """When to give back after the steps of one host: soon after a large one, but not after each."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._is_owed = False
        self._not_before_s = -math.inf

    def is_due(self, put_out: Iterable[pa.RecordBatch]) -> bool:
        """Whether to give back now, after a step; a batch that went to several streams is one."""
        batches = {id(batch): batch for batch in put_out}
        if sum(map(batch_bytes, batches.values())) >= LARGE_STEP_BYTES:
            self._is_owed = True
        if not self._is_owed:
            return False
        now_s = self._clock.monotonic_s()
        if now_s < self._not_before_s:
            return False
        self._is_owed, self._not_before_s = False, now_s + GIVE_BACK_EVERY_S
        return True


def give_back() -> None:
    """Let go of all that nobody uses; takes milliseconds."""
    pa.default_memory_pool().release_unused()
    with contextlib.suppress(AttributeError):  # only glibc has to be asked
        ctypes.CDLL(None).malloc_trim(0)
