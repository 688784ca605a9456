"""Calls asynchronous functions in background threads, with time-outs and retries.

A thread with an event loop decides when each call starts, ends or is retried. Coroutines run in
that loop. Other functions run in a pool of worker threads, so that clients may keep a connection
per thread. A call that does not return within its time-out is abandoned and its thread replaced.

Invariants: (1) at most ``concurrency`` calls that were not abandoned are in progress; (2) every
request is done eventually: each attempt has a time-out, and attempts are limited; (3) the function
may be called while an earlier, abandoned call has not returned.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
import weakref
from collections import deque
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from rstream.errors import StreamEngineError
from rvertex.events.call_counts import CallCounts
from rvertex.user_code.context import Failure
from rvertex.user_code.errors import RAISED, UserResultError, line_of, place_of, reason_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rstream.clock import Clock
    from rvertex.user_code.code import UserCode
    from rvertex.user_code.context import CallPolicy, Request

#: Seconds before the first retry, and the maximum. The pause doubles with each further retry.
_PAUSE_S, _PAUSE_S_MAX = 0.1, 5.0
#: Number of latest calls from which the 99th percentile is computed.
_MEASURED = 1000
#: Most abandoned worker threads, as a multiple of ``concurrency``.
_STUCK_MAX = 4
#: Errors of the code or its arguments: a retry would raise them again, so there is none.
_LASTING = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    FileNotFoundError,
    LookupError,
    NameError,
    NotImplementedError,
    PermissionError,
    RecursionError,
    SyntaxError,
    StreamEngineError,
    SystemExit,
    TypeError,
    ValueError,
)
#: HTTP statuses below 500 after which a retry may succeed.
_PASSING_STATUSES = (408, 421, 425, 429)
#: Classes of SQLSTATE after which a retry may succeed.
_PASSING_STATES = ("08", "40", "53", "55", "57", "58")


def may_pass(error: BaseException) -> bool:
    """Return whether a retry may succeed, judged by the HTTP or SQL status if the error has one."""
    for owner in (getattr(error, "response", None), error):
        for name in ("status_code", "status", "code"):
            status = getattr(owner, name, None)
            if isinstance(status, int) and 400 <= status < 600:
                return status >= 500 or status in _PASSING_STATUSES
    state = getattr(error, "sqlstate", None)
    if isinstance(state, str) and state:
        return state[:2] in _PASSING_STATES
    return not isinstance(error, _LASTING)


class ThreadedCalls:
    """See :class:`rvertex.user_code.context.Calls`. Ends its threads when garbage-collected."""

    def __init__(
        self, code: UserCode, policy: CallPolicy, clock: Clock, wake: Callable[[], None] | None
    ) -> None:
        self._has_ended = threading.Event()
        self._waits = wake is None
        self._caller = _Caller(code, policy, clock, self._has_ended.set if wake is None else wake)
        weakref.finalize(self, self._caller.close)

    def start(self, requests: Sequence[Request]) -> None:
        """Implement :class:`~rvertex.user_code.context.Calls`.

        Raises:
            UserResultError: the function cannot be opened, or too many calls never return.
        """
        self._caller.start(requests)

    def wait(self) -> bool:
        """Implement :class:`~rvertex.user_code.context.Calls`."""
        self._caller.check()
        if self._waits:
            self._has_ended.wait()
            self._has_ended.clear()
        return self._waits

    def counts(self) -> CallCounts:
        """Implement :class:`~rvertex.user_code.context.Calls`."""
        return self._caller.counts()


class _Caller:
    """Runs in the event loop. The public methods are called from the host's thread."""

    def __init__(
        self, code: UserCode, policy: CallPolicy, clock: Clock, tell: Callable[[], None]
    ) -> None:
        self._code, self._policy, self._clock, self._tell = code, policy, clock, tell
        self._loop: asyncio.AbstractEventLoop | None = None
        self._target: Any = None
        self._is_async = False
        self._workers = _Workers(policy.concurrency)
        self._queue: deque[Request] = deque()
        #: Start time of each running call, us, by the number of the call.
        self._running: dict[int, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._lock = threading.Lock()
        self._lasted_us: deque[int] = deque(maxlen=_MEASURED)
        self._calls = self._retries = self._failures = 0
        self._broken = ""
        self._no_memory: MemoryError | None = None

    def start(self, requests: Sequence[Request]) -> None:
        self.check()
        self._open().call_soon_threadsafe(self._accept, requests)

    def check(self) -> None:
        """Raise the error, if there is one, that makes all further calls fail."""
        if self._broken:
            raise UserResultError(self._code.name, self._broken)
        if self._no_memory is not None:
            raise self._no_memory

    def counts(self) -> CallCounts:
        with self._lock:
            lasted = sorted(self._lasted_us)
            began = [*self._running.values()]
        count = len(lasted)
        return CallCounts(
            self._code.name,
            self._calls,
            self._retries,
            self._failures,
            lasted[count // 2] if lasted else 0,
            lasted[min(count - 1, count * 99 // 100)] if lasted else 0,
            len(began),
            self._now_us() - min(began) if began else 0,
        )

    def _now_us(self) -> int:
        return int(self._clock.monotonic_s() * 1_000_000)

    def close(self) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(loop.stop)

    def _open(self) -> asyncio.AbstractEventLoop:
        if self._loop is not None:
            return self._loop
        target = self._code.target
        self._loop = loop = asyncio.new_event_loop()
        name = f"calls-{self._code.name}"
        threading.Thread(target=self._serve, args=(loop,), name=name, daemon=True).start()
        try:
            self._target = target() if isinstance(target, type) else target
            called = getattr(type(self._target), "__call__", None)  # noqa: B004
            self._is_async = any(map(inspect.iscoroutinefunction, (self._target, called)))
            if callable(opens := getattr(self._target, "open", None)):
                opened = opens()
                if inspect.isawaitable(opened):
                    timeout_s = self._policy.timeout_us / 1e6
                    asyncio.run_coroutine_threadsafe(_awaited(opened), loop).result(timeout_s)
        except RAISED as error:
            self._broken = f"raised {reason_of(error)} at {line_of(error)}, when it was opened"
            self.check()
        return loop

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()
        self._workers.close()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        closes = getattr(self._target, "close", None)
        try:
            closed = closes() if callable(closes) else None
            if inspect.isawaitable(closed):
                loop.run_until_complete(asyncio.wait_for(_awaited(closed), 1))
        except RAISED:
            pass  # the loop was stopped; results so far are stored
        finally:
            loop.close()

    def _accept(self, requests: Sequence[Request]) -> None:
        self._queue.extend(requests)
        self._pump()

    def _pump(self) -> None:
        """Start as many calls as the limit on concurrent calls allows."""
        while self._queue and len(self._running) < self._policy.concurrency:
            size = self._policy.batch or 1
            group = [self._queue.popleft() for _ in range(min(size, len(self._queue)))]
            with self._lock:
                self._calls += 1
                number = self._calls
                self._running[number] = self._now_us()
            assert self._loop is not None
            task = self._loop.create_task(self._serve_group(number, group))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve_group(self, number: int, group: list[Request]) -> None:
        await self._ask(group)
        with self._lock:
            lasted_us = self._now_us() - self._running.pop(number)
            self._lasted_us.append(max(0, lasted_us))
        self._pump()
        self._tell()

    async def _ask(self, group: list[Request]) -> None:
        """Call the function for a batch, with retries; halve a batch that fails permanently."""
        attempt = 0
        while True:  # ends after the last retry
            error = await self._attempt(group)
            if error is None:
                return
            if isinstance(error, MemoryError):
                self._no_memory = error
            lasts = not may_pass(error)
            if lasts or attempt >= self._policy.retries:
                break
            self._retries += 1
            await asyncio.sleep(min(_PAUSE_S * 2**attempt, _PAUSE_S_MAX))
            attempt += 1
        if lasts and len(group) > 1 and not isinstance(error, UserResultError):
            half = len(group) // 2
            await self._ask(group[:half])
            await self._ask(group[half:])
            return
        self._failures += 1
        tries = "" if attempt == 0 else f", after {attempt + 1} attempts"
        failure = Failure(f"{reason_of(error)}{tries}", self._line(error))
        for request in group:
            request.failure, request.is_done = failure, True

    async def _attempt(self, group: list[Request]) -> BaseException | None:
        """Call the function once; return the error, or None if all requests have results."""
        given = [request.argument for request in group]
        one = given if self._policy.batch is not None else given[0]
        call = asyncio.ensure_future(self._invoke(one))
        done, _ = await asyncio.wait({call}, timeout=self._policy.timeout_us / 1e6)
        if not done:
            call.cancel()
            return TimeoutError(f"no answer within {self._policy.timeout_us / 1e6:g} s (timeout)")
        is_good, answer = call.result()
        if not is_good:
            return answer  # type: ignore[no-any-return]
        if self._policy.batch is None:
            answers: Any = [answer]
        elif isinstance(answer, list | tuple) and len(answer) == len(group):
            answers = answer
        else:
            shape = f"{len(answer)} values" if hasattr(answer, "__len__") else "no list"
            reason = (
                f"returned {shape} for {len(group)} requests; it must return a list with one "
                "answer for each"
            )
            return UserResultError(self._code.name, reason, place_of(self._target))
        for request, found in zip(group, answers, strict=True):
            request.answer, request.is_done = found, True
        return None

    async def _invoke(self, given: Any) -> tuple[bool, Any]:
        """Return whether the function returned, and its result or error."""
        target = self._target
        arguments = given if isinstance(given, tuple) else (given,)
        try:
            if self._is_async:
                return True, await target(*arguments)
            is_good, answer = await self._in_thread(lambda: target(*arguments))
            if is_good and inspect.isawaitable(answer):
                answer = await answer
        except asyncio.CancelledError:
            raise
        except RAISED as error:
            return False, error
        return is_good, answer

    async def _in_thread(self, call: Callable[[], Any]) -> tuple[bool, Any]:
        job = _Job(call, asyncio.get_running_loop())
        self._workers.run(job)
        try:
            return await job.result
        except asyncio.CancelledError:
            stuck = self._workers.give_up(job)
            if stuck > _STUCK_MAX * self._policy.concurrency:
                self._broken = (
                    f"{stuck} calls have not returned after their time-out of "
                    f"{self._policy.timeout_us / 1e6:g} s, and Python cannot end their threads: "
                    "set a time-out in the client that the function uses"
                )
            raise

    def _line(self, error: BaseException) -> str:
        return line_of(error) if error.__traceback__ is not None else place_of(self._target)


class _Job:
    """A call for a worker thread."""

    def __init__(self, call: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> None:
        self.call, self._loop = call, loop
        self.result: asyncio.Future[tuple[bool, Any]] = loop.create_future()
        self.is_given_up = False

    def end(self, result: tuple[bool, Any]) -> None:
        """Store the result. Called from the worker's thread."""
        # The loop is closed: the result is not needed any more
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._set, result)

    def _set(self, result: tuple[bool, Any]) -> None:
        if not self.result.done():
            self.result.set_result(result)


class _Workers:
    """A thread pool; a thread whose call is abandoned is replaced."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        #: Number of all threads; of threads in abandoned calls; of running calls that were not
        #: abandoned.
        self._threads = self._stuck = self._open = 0

    def run(self, job: _Job) -> None:
        with self._lock:
            self._open += 1
            is_short = self._threads - self._stuck < self._open
            self._threads += is_short
        self._jobs.put(job)
        if is_short:
            threading.Thread(target=self._work, name="call", daemon=True).start()

    def give_up(self, job: _Job) -> int:
        """Abandon a running call; return the number of abandoned calls that have not returned."""
        with self._lock:
            job.is_given_up = True
            self._open -= 1
            self._stuck += 1
            return self._stuck

    def close(self) -> None:
        for _ in range(self._threads):
            self._jobs.put(None)

    def _work(self) -> None:
        # Ends when the caller is closed, which queues None
        while (job := self._jobs.get()) is not None:
            try:
                result = True, job.call()
            except RAISED as error:
                result = False, error
            with self._lock:
                if job.is_given_up:
                    self._stuck -= 1
                else:
                    self._open -= 1
                is_spare = self._threads - self._stuck > self._concurrency
                self._threads -= is_spare
            job.end(result)
            if is_spare:
                return


async def _awaited(value: Any) -> Any:
    return await value
