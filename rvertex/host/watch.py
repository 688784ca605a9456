"""Watches whether the host's thread is still in one poll of a vertex, and in which operator.

A step cannot be interrupted, and until it ends the host reports nothing. So a separate thread
watches the poll. If it lasts long, the watch reports the operator to the job manager, which then
does not take the host for dead; and a step that never returns has a name.

Invariant: the watched thread only notes when a poll begins.
"""

from __future__ import annotations

import resource
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rvertex.messages import HostBusy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from rstream.clock import Clock

_OPERATORS = "rvertex.operators."
#: Modules below these are not code of the user's.
_OURS = ("rstream", "rvertex", "planner", "jobmanager", "pyarrow", "numpy", "threading", "queue")
_SHOWN_CHARACTERS = 200
_KIB = 1024


class Watch:
    """Looks after the polls of one host's thread."""

    def __init__(self, host: str, clock: Clock, busy_after_s: float) -> None:
        self._host, self._clock, self._busy_after_s = host, clock, busy_after_s
        self._poll: tuple[str, int, float] | None = None
        self._thread = 0

    def begin(self, vertex: str, epoch: int) -> None:
        """A poll of a vertex begins."""
        self._poll = (vertex, epoch, self._clock.monotonic_s())

    def end(self) -> None:
        """No poll goes on."""
        self._poll = None

    def look(self) -> HostBusy | None:
        """What the poll that goes on is busy with, if it lasts long."""
        poll = self._poll
        if poll is None:
            return None
        vertex, epoch, began_s = poll
        lasted_s = self._clock.monotonic_s() - began_s
        if lasted_s < self._busy_after_s:
            return None
        doing = doing_of(sys._current_frames().get(self._thread))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB
        return HostBusy(self._host, vertex, epoch, doing, int(lasted_s), peak)

    @contextmanager
    def watching(self, tell: Callable[[HostBusy], None]) -> Iterator[None]:
        """Watch the calling thread; ``tell`` is called from another one."""
        self._thread = threading.get_ident()
        stopped = threading.Event()

        def look() -> None:
            while not stopped.wait(self._busy_after_s):  # ends when the block is left
                notice = self.look()
                if notice is not None:
                    tell(notice)

        watcher = threading.Thread(target=look, name=f"watch-{self._host}", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            stopped.set()
            watcher.join()


def doing_of(frame: FrameType | None) -> str:
    """The operator and, inside of it, the call or the user's function that a stack is in."""
    call = line = ""
    while frame is not None:  # ends at the thread's first frame
        this: Any = frame.f_locals.get("self")
        kind = type(this)
        module = str(frame.f_globals.get("__name__", ""))
        if not call and getattr(kind, "is_shown_while_busy", False):
            call = str(this)[:_SHOWN_CHARACTERS]
        if not call and module.partition(".")[0] not in _OURS:
            line = f"{frame.f_code.co_name} at line {frame.f_lineno} of {frame.f_code.co_filename}"
        if str(kind.__module__).startswith(_OPERATORS):
            inside = line or call
            operator = kind.__name__.removesuffix("Operator")
            return f"{operator}: {inside}" if inside else operator
        frame = frame.f_back
    return line or call or "its step"
