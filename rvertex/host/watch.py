"""Watches whether the host's thread is still in one poll of a vertex, and in which operator.

A step cannot be interrupted, and until it ends the host reports nothing. So a separate thread
watches the poll. If the poll takes long, this thread reports the operator to the job manager. Then
the job manager does not count the host as dead, and it can name a step that never returns.

The same thread samples how the host spends its time: by vertex, and by function of the user. So the
web page and ``doctor`` can name slow user code without a profiler.

Invariant: the watched thread only notes when a poll begins, and what it works on
(:mod:`rvertex.state.doing`).
"""

from __future__ import annotations

import logging
import resource
import threading
from collections import Counter
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from rvertex.messages import HostBusy, Timing
from rvertex.state.doing import Doing, doing, function_name, function_place
from rvertex.state.memory import UNLIMITED
from rvertex.state.stacks import stack_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rstream.clock import Clock
    from rvertex.host.environment import HostLimits
    from rvertex.vertex.rvertex import RVertex

_log = logging.getLogger(__name__)

#: Seconds between two samples of the thread. If the sampler itself was delayed, at most the second
#: number of seconds counts as work.
SAMPLE_S, SAMPLE_S_MAX = 0.1, 0.5
_SHOWN_CHARACTERS = 200
#: The stack is read again when a poll has lasted this many times as long.
_STACK_AGAIN = 2
_KIB = 1024


class Watch:
    """Watches the polls of one host's thread."""

    def __init__(self, host: str, clock: Clock, limits: HostLimits) -> None:
        self._host, self._clock = host, clock
        self._busy_after_s, self._stack_after_s = limits.busy_after_s, limits.stack_after_s
        #: The poll whose stack was read last, that stack, and the duration after which to read it
        #: again, s.
        self._stack: tuple[object, str, float] = (None, "", self._stack_after_s)
        self._poll: tuple[str, int, float] | None = None
        self.attach()
        #: By vertex and epoch: seconds in polls. With a function of the user: seconds in that
        #: function.
        self._busy_s: Counter[tuple[str, int]] = Counter()
        self._user_s: dict[tuple[str, int], Counter[str]] = {}
        self._vertices: dict[tuple[str, int], RVertex] = {}

    def attach(self) -> None:
        """Watch the calling thread."""
        self._doing, self._thread = doing(), threading.get_ident()

    def begin(self, vertex: str, epoch: int) -> None:
        """Record that a poll of a vertex begins."""
        self._doing.clear()
        self._poll = (vertex, epoch, self._clock.monotonic_s())

    def end(self) -> None:
        """Record that no poll is running."""
        self._poll = None

    def sample(self, elapsed_s: float) -> None:
        """Add the time since the last sample to the counters of the current work."""
        poll, function = self._poll, self._doing.function
        if poll is None:
            return
        key = poll[:2]
        self._busy_s[key] += elapsed_s  # type: ignore[assignment]
        if function is not None:
            spent = self._user_s.setdefault(key, Counter())
            spent[function_name(function)] += elapsed_s  # type: ignore[assignment]

    def timing(self, vertex: str, epoch: int, running: RVertex | None = None) -> Timing:
        """Return how an instance spent its time.

        ``running`` is the instance's vertex, which is remembered for calls without it.
        """
        if running is not None:
            self._vertices[vertex, epoch] = running
        running = self._vertices.get((vertex, epoch))
        memory = UNLIMITED if running is None else running.memory
        hottest = ("", 0.0) if running is None else running.hot_keys.hottest
        spent = self._user_s.get((vertex, epoch), Counter())
        function = max(spent, key=lambda name: (spent[name], name), default="")
        user_s, busy_s = sum(spent.values()), self._busy_s[vertex, epoch]
        used = memory.used_bytes, memory.spills, memory.spilled_bytes
        now = memory.keys, memory.stored.nbytes, memory.stored.files
        spent_us = int(busy_s * 1e6), int(user_s * 1e6)
        slots = () if running is None else running.hot_keys.slots
        return Timing(*spent_us, function, *used, *hottest, *now, slots)

    def look(self) -> HostBusy | None:
        """Return the work of the running poll if it lasts long, else None."""
        poll = self._poll
        if poll is None:
            return None
        vertex, epoch, began_s = poll
        lasted_s = self._clock.monotonic_s() - began_s
        if lasted_s < self._busy_after_s:
            return None
        what = doing_of(self._doing)
        if stack := self._stack_in(poll, lasted_s):
            what += f"; its stack, innermost first: {stack}"
        if self._poll is not poll:
            return None
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB
        timing = self.timing(vertex, epoch)
        return HostBusy(self._host, vertex, epoch, what, int(lasted_s), peak, timing)

    def _stack_in(self, poll: tuple[str, int, float], lasted_s: float) -> str:
        """Return the stack of the running poll if it lasts long; empty otherwise."""
        of, stack, due_s = self._stack
        if of is not poll:
            stack, due_s = "", self._stack_after_s
        if lasted_s >= due_s:
            stack, due_s = "", lasted_s * _STACK_AGAIN
            # No folder for temporary files: the watch continues without stacks
            with suppress(OSError):
                stack = stack_of(self._thread)
            extra = {"vertex": poll[0], "lasted_s": int(lasted_s), "stack": stack}
            _log.warning("a step lasts long", extra=extra)
        self._stack = poll, stack, due_s
        return stack

    @contextmanager
    def watching(self, tell: Callable[[HostBusy], None]) -> Iterator[None]:
        """Watch the calling thread in this block; ``tell`` is called in another thread."""
        self.attach()
        stopped = threading.Event()

        def look() -> None:
            sampled_s = looked_s = self._clock.monotonic_s()
            # Ends when the ``with`` block does
            while not stopped.wait(min(SAMPLE_S, self._busy_after_s)):
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


def doing_of(notes: Doing) -> str:
    """Return the operator that a thread runs, and the user's function or expression in it."""
    inside = ""
    if notes.function is not None:
        inside = function_place(notes.function)
    elif notes.expression is not None:
        inside = str(notes.expression)[:_SHOWN_CHARACTERS]
    if notes.operator is None:
        return inside or "its step"
    operator = type(notes.operator).__name__.removesuffix("Operator")
    return f"{operator}: {inside}" if inside else operator
