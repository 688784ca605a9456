"""Runs work that must not delay the caller: flushes, uploads, deletions.

:class:`ThreadBackground` runs it on daemon threads. :class:`InlineBackground` runs it at once in
the caller's thread, which makes tests and simulations deterministic.

Invariants: (1) tasks start in the order of submission; (2) a future is always completed, with the
task's exception if it raised; (3) threads start with the first task.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections import deque
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from rstream.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_Task = tuple["Future[Any]", "Callable[[], Any]"]
#: How long ``close`` waits for each thread.
JOIN_WAIT_S = 10.0


class Background(Protocol):
    """Runs tasks away from the critical path."""

    def submit(self, task: Callable[[], T]) -> Future[T]:
        """Run ``task`` soon."""

    def submit_later(self, delay_s: float, task: Callable[[], object]) -> None:
        """Run ``task`` after ``delay_s``. It is dropped if ``close`` is called before."""

    def wait_for(
        self, changed: threading.Condition, is_done: Callable[[], bool], timeout_s: float
    ) -> bool:
        """Wait until a task has made ``is_done()`` true.

        The caller holds the condition ``changed``.

        Returns whether it is done; False after ``timeout_s``.
        """

    def close(self) -> None:
        """Finish the submitted tasks, drop the delayed ones, stop the threads."""


class ThreadBackground:
    """Daemon threads ``name-0``, ``name-1``, ... that share one queue."""

    def __init__(self, name: str, threads: int = 1) -> None:
        assert threads >= 1, threads
        self._name = name
        self._threads_max = threads
        self._threads: list[threading.Thread] = []
        self._queue: SimpleQueue[_Task | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._timer = _Timer(f"{name}-timer")
        self._is_closed = False

    def submit(self, task: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        with self._lock:
            if self._is_closed:
                future.set_exception(RuntimeError(f"background {self._name} is closed"))
                return future
            self._start_thread()
            self._queue.put((future, task))
        return future

    def submit_later(self, delay_s: float, task: Callable[[], object]) -> None:
        self._timer.add(delay_s, lambda: self.submit(task))

    def wait_for(
        self, changed: threading.Condition, is_done: Callable[[], bool], timeout_s: float
    ) -> bool:
        return changed.wait_for(is_done, timeout_s)

    def close(self) -> None:
        self._timer.close()
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            for _ in self._threads:
                self._queue.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(JOIN_WAIT_S)

    def _start_thread(self) -> None:
        if len(self._threads) < self._threads_max:
            name = f"{self._name}-{len(self._threads)}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _work(self) -> None:
        while True:  # ends with the None that close() enqueues
            item = self._queue.get()
            if item is None:
                return
            _run(*item)


class InlineBackground:
    """Runs each task before ``submit`` returns. A task that a task submits runs after it.

    Delayed tasks are kept until :meth:`run_delayed`.
    """

    def __init__(self) -> None:
        self._ready: deque[_Task] = deque()
        self._delayed: list[Callable[[], object]] = []
        self._is_running = False

    def submit(self, task: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        self._ready.append((future, task))
        if self._is_running:
            return future
        self._is_running = True
        try:
            while self._ready:
                _run(*self._ready.popleft())
        finally:
            self._is_running = False
        return future

    def submit_later(self, delay_s: float, task: Callable[[], object]) -> None:
        self._delayed.append(task)

    def run_delayed(self) -> None:
        """Run every delayed task now."""
        delayed, self._delayed = self._delayed, []
        for task in delayed:
            self.submit(task)

    def wait_for(
        self, changed: threading.Condition, is_done: Callable[[], bool], timeout_s: float
    ) -> bool:
        return changed.wait_for(is_done, timeout_s)

    def close(self) -> None:
        self._delayed.clear()


class _Timer:
    """One lazily started daemon thread that calls each task when it is due."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()
        self._heap: list[tuple[float, int, Callable[[], object]]] = []
        self._order = itertools.count()
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._clock = SystemClock()

    def add(self, delay_s: float, task: Callable[[], object]) -> None:
        due = self._clock.monotonic_s() + delay_s
        with self._changed:
            if self._is_closed:
                return
            heapq.heappush(self._heap, (due, next(self._order), task))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._heap.clear()
            self._changed.notify()

    def _work(self) -> None:
        while True:  # ends with close()
            task = self._next_due()
            if task is None:
                return
            task()

    def _next_due(self) -> Callable[[], object] | None:
        with self._changed:
            while not self._is_closed:
                if not self._heap:
                    self._changed.wait()
                    continue
                delay_s = self._heap[0][0] - self._clock.monotonic_s()
                if delay_s <= 0:
                    return heapq.heappop(self._heap)[2]
                self._changed.wait(delay_s)
            return None


def _run(future: Future[Any], task: Callable[[], Any]) -> None:
    try:
        result = task()
    except BaseException as error:  # the future raises it in the waiting thread
        future.set_exception(error)
    else:
        future.set_result(result)
