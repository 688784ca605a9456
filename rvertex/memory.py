"""Memory that was freed goes back to the system; the one door to the allocators.

Allocators keep what was freed for whoever asks next. That is right for batches, which come and go
all the time, and wrong for what was large once: a long window that has closed, a job that ended.
"""

from __future__ import annotations

import contextlib
import ctypes

import pyarrow as pa

#: A step that puts out so much has freed about as much, which later ones do not need.
LARGE_STEP_BYTES = 32 << 20


def give_back() -> None:
    """Let go of all that nobody uses; takes milliseconds."""
    pa.default_memory_pool().release_unused()
    with contextlib.suppress(AttributeError):  # only glibc has to be asked
        ctypes.CDLL(None).malloc_trim(0)
