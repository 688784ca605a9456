"""Peak memory of all Python processes of a session, sampled from ``/proc``.

Counted are this process and its descendants (Spark's Python workers hang below the JVM) whose
program is Python; shared pages are counted once (PSS). On other systems than Linux the peak is 0.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING

from processes import is_python, pss_bytes, tree

if TYPE_CHECKING:
    from collections.abc import Iterator

INTERVAL_S = 0.25


@contextlib.contextmanager
def sampled_peak() -> Iterator[list[int]]:
    """Yield a list whose only number is the peak so far, in bytes."""
    peak = [0]
    stop = threading.Event()

    def sample() -> None:
        while not stop.is_set():  # ends with the block
            peak[0] = max(peak[0], python_bytes())
            stop.wait(INTERVAL_S)

    thread = threading.Thread(target=sample, name="memory", daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        stop.set()
        thread.join()


def python_bytes() -> int:
    """Return the memory of this process and its descendants that run Python."""
    return sum(pss_bytes(pid) for pid in tree(os.getpid()) if is_python(pid))
