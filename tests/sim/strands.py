"""Strands: blocking code of a simulated process, run step by step by the scheduler.

A strand has its own thread, but only one thread of a simulation runs at a time. An event of the
scheduler resumes a strand, and the scheduler waits until the strand waits or has ended. So a seed
determines the run. The code in a strand is not aware of this: it waits for a signal, another task
or an answer, and may be interrupted before any call of the store.

Invariants: (1) the strands of a dead process unwind with CrashedError; (2) the strands of a
suspended process continue when it wakes up.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

from streamscope.testing.simulation.scheduler import CrashedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamscope.testing.simulation.scheduler import Process, Scheduler

#: The share of store calls before which a strand waits a moment.
BREATH_SHARE = 0.2
BREATH_S = 0.02
WAKE_S = 0.002
#: Every wait lasts at least this long, despite rounding.
LEAST_S = 1e-5


class Strands:
    """All strands of a world."""

    def __init__(self, world: Scheduler) -> None:
        self.world = world
        self._all: list[Strand] = []
        #: self.current: Strand|The running strand; None: the scheduler's thread runs.
        self.current: Strand | None = None

    def start(self, process: Process, body: Callable[[], None]) -> Strand:
        """Run ``body`` in ``process``, starting at a random moment."""
        strand = Strand(self, process, body)
        self._all.append(strand)
        return strand

    def breathe(self) -> None:
        """Sometimes let others run, if this is a strand."""
        if self.current is not None and self.world.chance(BREATH_SHARE):
            self.current.sleep(self.world.between(0.0, BREATH_S))

    def sleep(self, delay_s: float) -> None:
        """Let the current strand wait for this time, or until it is woken."""
        assert self.current is not None
        self.current.sleep(delay_s)

    def close(self) -> None:
        """Unwind all waiting strands."""
        for strand in self._all:
            strand.unwind()


class Strand:
    """A body on its own thread (jobmanager.delivery.wiring.Task)."""

    def __init__(self, strands: Strands, process: Process, body: Callable[[], None]) -> None:
        self.process = process
        self._strands, self._world, self._body = strands, strands.world, body
        self._goes_on, self._gives_back = threading.Lock(), threading.Lock()
        self._goes_on.acquire()
        self._gives_back.acquire()
        self._thread = threading.Thread(target=self._run, name="strand", daemon=True)
        #: The number of its next wait: a wake-up for an earlier one is ignored.
        self._wait = 0
        self._is_over = self._is_unwinding = False
        self._failure: BaseException | None = None
        self._joining: list[Strand] = []
        self._world.after(0.0, process, self._begin)

    # ---- what its own code calls

    def sleep(self, delay_s: float) -> None:
        """Wait for this time, or until it is woken."""
        self._check_alive()
        delay_s = max(delay_s, LEAST_S)
        self._world.after(delay_s, self.process, partial(self._resume, self._wait))
        self._gives_back.release()
        self._goes_on.acquire()
        self._check_alive()

    def _check_alive(self) -> None:
        if self._is_unwinding or self.process.is_dead:
            raise CrashedError

    def _run(self) -> None:
        try:
            self._body()
        except CrashedError:
            pass
        except BaseException as error:
            self._failure = error
        self._is_over = True
        for other in self._joining:
            other.wake()
        self._gives_back.release()

    # ---- what others call

    def wake(self) -> None:
        """End its present wait soon."""
        delay_s = self._world.between(0.0, WAKE_S)
        self._world.after(delay_s, self.process, partial(self._resume, self._wait))

    def join(self, timeout: float) -> None:
        """Implement Task; the current strand waits."""
        caller = self._strands.current
        assert caller is not None
        ends_s = self._world.now_s + timeout
        self._joining.append(caller)
        while not self._is_over and self._world.now_s < ends_s:
            caller.sleep(ends_s - self._world.now_s)
        self._joining.remove(caller)

    def is_alive(self) -> bool:
        """Implement Task."""
        return not self._is_over

    def unwind(self) -> None:
        """End the strand, whose process is dead, by an exception from its current call."""
        self._is_unwinding = True
        while self._thread.ident is not None and not self._is_over:
            self._switch(self._goes_on.release)

    def _begin(self) -> None:
        self._switch(self._thread.start)

    def _resume(self, wait: int) -> None:
        if wait == self._wait and not self._is_over:
            self._switch(self._goes_on.release)

    def _switch(self, go_on: Callable[[], None]) -> None:
        """Let it run until it waits or has ended."""
        self._wait += 1
        former, self._strands.current = self._strands.current, self
        go_on()
        self._gives_back.acquire()
        self._strands.current = former
        if self._failure is not None and not self._is_unwinding:
            raise self._failure


class SimSignal:
    """A jobmanager.delivery.wiring.Signal; one strand waits for it."""

    def __init__(self, strands: Strands) -> None:
        self._strands = strands
        self._is_set = False
        self._waiting: Strand | None = None

    def set(self) -> None:
        """Implement Signal."""
        self._is_set = True
        if self._waiting is not None:
            self._waiting.wake()

    def clear(self) -> None:
        """Implement Signal."""
        self._is_set = False

    def wait(self, timeout: float) -> None:
        """Implement Signal."""
        if not self._is_set:
            self._waiting = self._strands.current
            self._strands.sleep(timeout)
            self._waiting = None
