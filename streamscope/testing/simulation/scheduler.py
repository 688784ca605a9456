"""One thread, one seed: virtual time, processes and their next steps.

A process is a unit that can die by itself: a host, a job manager. Every event belongs to one
process. Time jumps from event to event. Ties have no effect, because delays are drawn from the
seed. While a process waits for its own background work, the others continue
(:meth:`Scheduler.wait`).

Invariants: (1) no event of a dead process ever runs; (2) no event of a paused process runs until it
resumes; (3) the trace of a seed is the same in every run and on every machine.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
from collections import Counter, deque
from concurrent.futures import Future
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

T = TypeVar("T")
Action = "Callable[[], object]"
BACKGROUND_WORKERS = 2
START_US = 1_700_000_000_000_000
#: Nested waits; more means that the simulation itself runs away.
WAITS_MAX = 12


#: Longest pause after the first poll without work, and after many; pauses grow.
IDLE_S, IDLE_MAX_S = 0.05, 0.5


def idle_s(times: int) -> float:
    """Return the longest pause after ``times`` consecutive polls without work."""
    return min(IDLE_S * max(1.0, times / 10), IDLE_MAX_S)


class CrashedError(BaseException):
    """Unwinds the stack of a process that died; a BaseException, so error handlers ignore it."""


class Process:
    """A unit that can die by itself and then loses its memory."""

    def __init__(self, name: str, on_death: Callable[[str], None]) -> None:
        self.name = name
        self.is_dead = False
        #: Depth of waits of its main thread. While above 0, only its background tasks and
        #: connections run.
        self.waits = 0
        self.deferred: list[Callable[[], object]] = []
        self.paused_until_s = 0.0
        #: Wall clock minus virtual time.
        self.skew_us = 0
        self._on_death = on_death

    def pause(self, until_s: float) -> None:
        """Suspend the process; its events are delayed and keep their order."""
        self.paused_until_s = max(self.paused_until_s, until_s)

    def kill(self, reason: str) -> None:
        """Kill the process: none of its events runs any more."""
        if not self.is_dead:
            self.is_dead = True
            self._on_death(reason)


class Scheduler:
    """Runs the events of a simulation in the order of their virtual times."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now_s = 0.0
        self.steps = 0
        self.violations: list[str] = []
        #: Called between two steps, to check laws.
        self.look: Callable[[], None] = lambda: None
        #: Counts of what happened in the run, by name.
        self.met: Counter[str] = Counter()
        self._heap: list[tuple[float, int, Process | None, bool, Callable[[], object]]] = []
        self._order = itertools.count()
        self._trace = hashlib.blake2b(digest_size=16)
        #: The last lines of the trace, for failure messages.
        self.tail: deque[str] = deque(maxlen=4000)

    def note(self, text: str) -> None:
        """Append a line to the trace."""
        line = f"{self.now_s:.6f} {text}"
        self._trace.update(line.encode())
        self.tail.append(line)

    def violate(self, law: str, detail: str) -> None:
        """Report a broken law."""
        self.note(f"VIOLATION {law}: {detail}")
        self.violations.append(f"{law}: {detail}")

    @property
    def trace_digest(self) -> str:
        """The digest of the trace so far."""
        return self._trace.hexdigest()

    def between(self, low: float, high: float) -> float:
        """Draw a random delay in ``[low, high]``, s."""
        return low + (high - low) * self.random.random()

    def chance(self, probability: float) -> bool:
        """Draw True with this probability."""
        return self.random.random() < probability

    def after(
        self,
        delay_s: float,
        owner: Process | None,
        action: Callable[[], object],
        *,
        is_main: bool = False,
    ) -> None:
        """Run ``action`` in ``owner``; ``is_main``: in its main thread, which may be waiting."""
        self.at(self.now_s + delay_s, owner, action, is_main=is_main)

    def at(
        self,
        at_s: float,
        owner: Process | None,
        action: Callable[[], object],
        *,
        is_main: bool = False,
    ) -> None:
        """As ``after``, at a virtual time; events at the same time run in the order of calls."""
        heapq.heappush(self._heap, (at_s, next(self._order), owner, is_main, action))

    def step(self) -> bool:
        """Run the next event; False if there was none."""
        self.look()
        if not self._heap:
            return False
        at_s, _, owner, is_main, action = heapq.heappop(self._heap)
        self.now_s = max(self.now_s, at_s)
        self.steps += 1
        if owner is None:
            action()
            return True
        if owner.is_dead:
            return True
        if owner.paused_until_s > self.now_s:
            self.at(owner.paused_until_s, owner, action, is_main=is_main)
        elif is_main and owner.waits:
            owner.deferred.append(action)
        else:
            self.run_in(owner, action)
        return True

    def run_in(self, owner: Process, action: Callable[[], object]) -> None:
        """Run ``action`` as ``owner``; a crash of ``owner`` is caught here."""
        try:
            action()
        except CrashedError:
            assert owner.is_dead, f"{owner.name} crashed alive"

    def wait(self, owner: Process, is_done: Callable[[], bool], timeout_s: float) -> bool:
        """Let the main thread of ``owner`` wait while others run. Raise CrashedError if it dies."""
        deadline_s = self.now_s + timeout_s
        owner.waits += 1
        assert owner.waits <= WAITS_MAX, owner.name
        try:
            while not is_done() and self.now_s < deadline_s and self.step():
                if owner.is_dead:
                    raise CrashedError
        finally:
            owner.waits -= 1
            if not owner.waits:
                deferred, owner.deferred = owner.deferred, []
                for action in deferred:
                    self.after(0.001, owner, action, is_main=True)
        return is_done()


class SimClock:
    """The clock of one process; its wall time may jump."""

    def __init__(self, world: Scheduler, process: Process) -> None:
        self._world, self._process = world, process

    def now_us(self) -> int:
        return START_US + int(self._world.now_s * 1e6) + self._process.skew_us

    def monotonic_s(self) -> float:
        return self._world.now_s


class SimBackground:
    """The background threads of one process: tasks start in order and take random times."""

    def __init__(self, world: Scheduler, process: Process, *, slow_s: float) -> None:
        self._world, self._process = world, process
        self._slow_s = slow_s
        self._queue: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._idle = BACKGROUND_WORKERS
        self._is_closed = False

    def submit(self, task: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        if self._is_closed:
            future.set_exception(RuntimeError("background is closed"))
            return future
        self._queue.append((future, task))
        self._pump()
        return future

    def submit_later(self, delay_s: float, task: Callable[[], object]) -> None:
        def due() -> None:
            if not self._is_closed:
                self.submit(task)

        self._world.after(delay_s, self._process, due)

    def wait_for(
        self, changed: threading.Condition, is_done: Callable[[], bool], timeout_s: float
    ) -> bool:
        return is_done() or self._world.wait(self._process, is_done, timeout_s)

    def close(self) -> None:
        self._is_closed = True
        self._world.wait(
            self._process, lambda: not self._queue and self._idle == BACKGROUND_WORKERS, 10.0
        )

    def _pump(self) -> None:
        while self._idle and self._queue:
            self._idle -= 1
            future, task = self._queue.popleft()
            delay_s = self._world.random.expovariate(1 / 0.005)
            if self._slow_s and self._world.chance(0.1):
                delay_s += self._world.between(0, self._slow_s)
            self._world.after(delay_s, self._process, partial(self._run, future, task))

    def _run(self, future: Future[Any], task: Callable[[], Any]) -> None:
        try:
            result = task()
        except Exception as error:  # the future carries it to the waiting thread
            future.set_exception(error)
        else:
            future.set_result(result)
        self._idle += 1
        self._pump()
