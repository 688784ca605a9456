"""Watches whether the host's thread is still in one poll of a vertex, and in which operator.

A step cannot be interrupted, and until it ends the host reports nothing. So a separate thread
watches the poll. If it lasts long, the watch reports the operator to the job manager, which then
does not take the host for dead; and a step that never returns has a name.

The same thread samples where the time goes: to which vertex, and to which function of the user. So
the page and the doctor name slow user code without a profiler.

Invariant: the watched thread only notes when a poll begins.
"""

from __future__ import annotations

import os
import resource
import sys
import threading
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rvertex.messages import HostBusy, Timing
from rvertex.state.collector import frame_of
from rvertex.state.memory import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from rstream.clock import Clock
    from rvertex.state.memory import StateMemory

_OPERATORS = "rvertex.operators."
#: Modules below these are not code of the user's.
_OURS = ("rstream", "rvertex", "planner", "jobmanager", "pyarrow", "numpy", "threading", "queue")
#: A function of the user is called by ours, so none of these is one.
_NOT_OF_USERS = frozenset({*_OURS, *sys.stdlib_module_names, "pandas", "sqlglot"}) - {"__main__"}
#: How often the thread is sampled; a longer pause of the sampler does not count as work.
SAMPLE_S, SAMPLE_S_MAX = 0.1, 0.5
_SHOWN_CHARACTERS = 200
_KIB = 1024


class Watch:
    """Looks after the polls of one host's thread."""

    def __init__(self, host: str, clock: Clock, busy_after_s: float) -> None:
        self._host, self._clock, self._busy_after_s = host, clock, busy_after_s
        self._poll: tuple[str, int, float] | None = None
        self._thread = 0
        #: By vertex and epoch: seconds in polls, and by function of the user.
        self._busy_s: Counter[tuple[str, int]] = Counter()
        self._user_s: dict[tuple[str, int], Counter[str]] = {}
        #: The memory of the state of each.
        self._memory: dict[tuple[str, int], StateMemory] = {}

    def begin(self, vertex: str, epoch: int) -> None:
        """A poll of a vertex begins."""
        self._poll = (vertex, epoch, self._clock.monotonic_s())

    def end(self) -> None:
        """No poll goes on."""
        self._poll = None

    def sample(self, elapsed_s: float) -> None:
        """Count the time since the last sample for what the thread does now."""
        poll, frame = self._poll, frame_of(self._thread)
        if poll is None:
            return
        key = poll[:2]
        self._busy_s[key] += elapsed_s  # type: ignore[assignment]
        function = user_function(frame)
        if function:
            self._user_s.setdefault(key, Counter())[function] += elapsed_s  # type: ignore[assignment]

    def timing(self, vertex: str, epoch: int, memory: StateMemory | None = None) -> Timing:
        """Where the time of an instance went; ``memory`` of its state is kept for later calls."""
        if memory is not None:
            self._memory[vertex, epoch] = memory
        memory = self._memory.get((vertex, epoch), UNLIMITED)
        spent = self._user_s.get((vertex, epoch), Counter())
        function = max(spent, key=lambda name: (spent[name], name), default="")
        user_s, busy_s = sum(spent.values()), self._busy_s[vertex, epoch]
        used = memory.used_bytes, memory.spills, memory.spilled_bytes
        return Timing(int(busy_s * 1e6), int(user_s * 1e6), function, *used)

    def look(self) -> HostBusy | None:
        """What the poll that goes on is busy with, if it lasts long."""
        poll = self._poll
        if poll is None:
            return None
        vertex, epoch, began_s = poll
        lasted_s = self._clock.monotonic_s() - began_s
        if lasted_s < self._busy_after_s:
            return None
        doing = doing_of(frame_of(self._thread))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB
        timing = self.timing(vertex, epoch)
        return HostBusy(self._host, vertex, epoch, doing, int(lasted_s), peak, timing)

    @contextmanager
    def watching(self, tell: Callable[[HostBusy], None]) -> Iterator[None]:
        """Watch the calling thread; ``tell`` is called from another one."""
        self._thread = threading.get_ident()
        stopped = threading.Event()

        def look() -> None:
            sampled_s = looked_s = self._clock.monotonic_s()
            while not stopped.wait(min(SAMPLE_S, self._busy_after_s)):  # ends when the block does
                now_s = self._clock.monotonic_s()
                self.sample(min(now_s - sampled_s, SAMPLE_S_MAX))
                sampled_s = now_s
                if now_s - looked_s >= self._busy_after_s:
                    looked_s = now_s
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


def user_function(frame: FrameType | None) -> str:
    """The function of the user that an operator has called, with its file; empty: none."""
    found = ""
    while frame is not None:  # ends at the thread's first frame
        module = str(frame.f_globals.get("__name__", "rvertex"))
        if module.startswith(_OPERATORS):
            return found
        if module.partition(".")[0] not in _NOT_OF_USERS:
            code = frame.f_code
            found = f"{code.co_qualname} ({os.path.basename(code.co_filename)})"
        frame = frame.f_back
    return ""


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
