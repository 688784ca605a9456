"""LOOKUP: columns that a user's function fetches from outside systems, for each row.

Many calls run concurrently; rows are emitted in their order. Responses are recorded in row order
(:mod:`rvertex.user_code.context`). So the records do not depend on which call returned first, and a
restart repeats only the calls for rows after the recorded ones. A row whose call fails after all
retries is recorded as failed, unless the failure ends the job.

Invariants: (1) the state depends only on the rows that were emitted; (2) which rows share a
response depends only on arguments and event times. A cached response is valid for ``cache_us`` from
the start of the row that caused the call; failures are not cached.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from rstream.items.batch import VS, int64_column
from rvertex.events.run import Run
from rvertex.operators.protocol import OperatorState
from rvertex.operators.user.answers import AnswerCache, arguments_of, key_of
from rvertex.operators.user.outside import Asking, AskingOperator, values_of
from rvertex.user_code.context import CallPolicy, Request

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from rvertex.user_code.code import UserCode


OnFailure = Literal["fail", "null", "skip", "dead_letter"]
#: How many rows after the first row without a response may have calls, as a multiple of the
#: greatest number of concurrent calls.
_AHEAD = 4
#: Rows per step, as a multiple of the same number. A checkpoint waits until all of them have
#: responses.
_STEP = 16


@dataclass(frozen=True, slots=True)
class Lookup(Asking):
    """Adds the columns ``schema``, which ``function`` returns for the values of ``on``."""

    verb: ClassVar[str] = "lookup"

    function: UserCode
    #: The columns that the function gets; empty: the whole row.
    on: tuple[str, ...]
    schema: pa.Schema
    policy: CallPolicy
    cache_us: int | None = None
    on_error: OnFailure = "fail"
    #: Folder of its dead letters; "": named after the function.
    letters: str = ""

    @property
    def read(self) -> tuple[str, ...]:
        """The argument columns."""
        return self.on

    @property
    def failing(self) -> str:
        """The policy for rows whose call failed."""
        return self.on_error

    @property
    def how(self) -> str:
        """The columns and limits as text, for ``explain``."""
        on = f" of {', '.join(self.on)}" if self.on else ""
        policy = self.policy
        batch = "" if policy.batch is None else f" x {policy.batch}"
        ttl = "" if self.cache_us is None else f", cache {self.cache_us / 1e6:g} s"
        return f"{on}, {policy.concurrency}{batch} at a time{ttl}"

    def open(self, inputs: Sequence[pa.Schema]) -> LookupOperator:
        """Return a new operator without calls."""
        (payload,) = inputs
        return LookupOperator(self, payload)


@dataclass(slots=True)
class _Step:
    """The rows of one step."""

    events: pa.RecordBatch
    times: list[int]
    arguments: list[Any]
    keys: list[str]
    #: The first row without a response, and the first row for which no call was considered yet.
    at: int = 0
    ahead: int = 0


class LookupOperator(AskingOperator):
    """The running operator of :class:`Lookup`."""

    def __init__(self, spec: Lookup, payload: pa.Schema) -> None:
        super().__init__(spec, payload)
        self._spec = spec
        self._cache = None if spec.cache_us is None else AnswerCache(spec.cache_us)
        #: By row of the step: the request of its call.
        self._requests: dict[int, Request] = {}
        #: By argument: the start of the row that caused the open call.
        self._called: dict[str, int] = {}
        self._width = spec.policy.concurrency * (spec.policy.batch or 1)
        self.step_rows_max = self._width * _STEP

    def process_in_pieces(self, ports: Sequence[Run]) -> Iterator[Run | None]:
        """Emit rows as soon as they and all earlier rows have responses."""
        (run,) = ports
        events, passed = run.events, 0
        arguments = arguments_of(events, self._spec.on)
        times = int64_column(events, VS)
        step = _Step(events, times.tolist(), arguments, [key_of(a) for a in arguments])
        self._requests, self._called = {}, {}
        while step.at < events.num_rows:
            first = step.at
            rows = self._resolve(step)
            if step.at == first:
                self._start(step)
                if not self._open_calls().wait():
                    yield None
            elif step.at < events.num_rows:
                self._start(step)
                until = int(run.ctis.searchsorted(times[step.at - 1], side="right"))
                yield Run(rows, run.ctis[passed:until])
                passed = until
            else:
                yield Run(rows, run.ctis[passed:])
        if not events.num_rows:
            yield Run(self._answered(events, [], []), run.ctis)
        self._seq += events.num_rows

    def snapshot(self) -> OperatorState:
        """Return counters and the cache."""
        tables = {} if self._cache is None else {"cache": self._cache.table()}
        return OperatorState(self._counters(), tables)

    def load(self, state: OperatorState) -> None:
        """Restore ``state``."""
        self._load_counters(state.header)
        if self._cache is not None:
            self._cache.load(state.tables["cache"])

    def _resolve(self, step: _Step) -> pa.RecordBatch:
        """Return the next rows that have responses; advance ``step.at`` past them."""
        kept: list[int] = []
        answers: list[bytes] = []
        while step.at < len(step.times) and self._has_answer(step):
            answer = self._answer(step)
            if answer is not None:
                kept.append(step.at)
                answers.append(answer)
            step.at += 1
        return self._answered(step.events, kept, answers)

    def _has_answer(self, step: _Step) -> bool:
        """Return whether the current row has a response, or needs none."""
        if self._is_known(step, step.at) or self._drawing().has_recorded:
            return True
        request = self._requests.get(step.at)
        return request is not None and request.is_done

    def _is_known(self, step: _Step, row: int) -> bool:
        """Return whether a row needs no call."""
        if step.arguments[row] is None:
            return True
        cache = self._cache
        return cache is not None and cache.find(step.keys[row], step.times[row]) is not None

    def _answer(self, step: _Step) -> bytes | None:
        """Return the response for the current row; None: the row is dropped."""
        row, key, at = step.at, step.keys[step.at], step.times[step.at]
        if step.arguments[row] is None:
            return self._answers.null
        known = None if self._cache is None else self._cache.find(key, at)
        if known is not None:
            return known
        request = self._requests.pop(row, None)
        drawn = self._drawing().draw(
            "lookup", f"{self._spec.function.name}, {key}", lambda: self._outcome(request, step)
        )
        if isinstance(drawn, bytes):
            if self._cache is not None:
                self._cache.add(key, at, drawn)
            return drawn
        return self._passed(step.events, row, *drawn)

    def _outcome(self, request: Request | None, step: _Step) -> bytes | list[str]:
        """Return the value to record for a call: its response, or the failure's reason and line.

        Raises:
            UserCodeError: the call failed, and the policy is to fail.
        """
        assert request is not None, step.at
        ended = self._ended(request)
        if isinstance(ended, bytes):
            return ended
        if self._spec.on_error == "fail":
            where = self._seq + step.at, *values_of(step.events, step.at)
            raise self._poison.failure(ended.reason, ended.line, *where)
        return [ended.reason, ended.line]

    def _start(self, step: _Step) -> None:
        """Start calls for the current row, and for rows ahead that will not share a response."""
        requests: list[Request] = []
        if step.at not in self._requests and not self._is_known(step, step.at):
            requests.append(self._request(step, step.at))  # e.g. because the shared call failed
            step.ahead = max(step.ahead, step.at + 1)
        until = min(len(step.times), step.at + self._width * _AHEAD)
        while step.ahead < until:
            if not self._is_shared(step, step.ahead):
                requests.append(self._request(step, step.ahead))
            step.ahead += 1
        if requests:
            self._open_calls().start(requests)

    def _request(self, step: _Step, row: int) -> Request:
        """Create the request of a row."""
        request = self._requests[row] = Request(step.arguments[row])
        self._called[step.keys[row]] = step.times[row]
        return request

    def _is_shared(self, step: _Step, row: int) -> bool:
        """Return whether a row is likely to share the response of an earlier row."""
        if self._is_known(step, row) or row in self._requests:
            return True
        called = self._called.get(step.keys[row])
        ttl_us = self._spec.cache_us
        return ttl_us is not None and called is not None and step.times[row] - called < ttl_us
