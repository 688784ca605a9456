"""CALL ONCE: a call that must not be made twice for a key, with a ledger of calls.

The ledger is the operator's state, plus the log of values since the last checkpoint
(:mod:`rvertex.checkpoint.value_log`). A call is *begun*: recorded in the log, durably, before it is
made. It is *ended*: recorded with its response, before a row is emitted. A restart reads the log to
its end. A key that was begun but not ended is *unknown*: the call may have been made. Then the
user's policy decides.

Invariants: (1) of two instances of a vertex only one can create the entry that begins a call; the
other instance stops; (2) all rows of a key are in one vertex; (3) a failed call is ended, and never
repeated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgpack
import pyarrow as pa

from rstream.types import INF_TIME
from rvertex.events.run import NO_CTIS, Run
from rvertex.operators.protocol import OperatorState
from rvertex.operators.user.answers import AnswerCache, arguments_of, key_of
from rvertex.operators.user.outside import Asking, AskingOperator
from rvertex.user_code.context import Failure, Request
from rvertex.user_code.errors import (
    UnknownCallError,
    place_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rvertex.user_code.code import UserCode
    from rvertex.user_code.context import CallPolicy, ValueSource

OnUnknown = Literal["fail", "skip", "retry"]
OnFailed = Literal["null", "skip", "dead_letter"]
#: Rows per step, as a multiple of the greatest number of concurrent calls.
_STEP = 4
_BEGIN, _END = "begin", "end"
_UNKNOWN = "the call was begun before a restart, and its answer is unknown"
_NO_KEY = "the key is null, so the call cannot be made once"


@dataclass(frozen=True, slots=True)
class CallOnce(Asking):
    """Adds the columns ``schema``, which one call of ``function`` per key returns."""

    verb: ClassVar[str] = "call_once"

    function: UserCode
    keys: tuple[str, ...]
    #: The columns that the function gets; empty: the whole row.
    on: tuple[str, ...]
    schema: pa.Schema
    policy: CallPolicy
    unknown: OnUnknown = "fail"
    on_error: OnFailed = "dead_letter"
    #: Folder of its dead letters; "": named after the function.
    letters: str = ""

    @property
    def read(self) -> tuple[str, ...]:
        """The key columns and the columns of the arguments."""
        return (*self.keys, *self.on)

    @property
    def failing(self) -> str:
        """The policy for rows without a response."""
        return self.on_error

    @property
    def how(self) -> str:
        """The key and the limits as text, for ``explain``."""
        return (
            f" by {', '.join(self.keys)}, {self.policy.concurrency} at a time, "
            f"unknown={self.unknown}"
        )

    def open(self, inputs: Sequence[pa.Schema]) -> CallOnceOperator:
        """Return a new operator with an empty ledger."""
        (payload,) = inputs
        return CallOnceOperator(self, payload)


@dataclass(slots=True, eq=False)
class _Open:
    """A key whose call is begun and not ended."""

    key: str
    request: Request


class CallOnceOperator(AskingOperator):
    """The running operator of :class:`CallOnce`."""

    def __init__(self, spec: CallOnce, payload: pa.Schema) -> None:
        super().__init__(spec, payload)
        self._spec = spec
        self._ledger = AnswerCache(INF_TIME, rows_max=None)
        #: Keys that a previous instance began and did not end, according to the log.
        self._unknown: set[str] = set()
        self.step_rows_max = spec.policy.concurrency * _STEP

    def process_in_pieces(self, ports: Sequence[Run]) -> Iterator[Run | None]:
        """Begin the calls, make them, then emit all rows.

        It yields an empty run and then waits, until the records so far are durable. The step
        continues after that.
        """
        (run,) = ports
        source, events = self._drawing(), run.events
        self._catch_up(source)
        arguments = arguments_of(events, self._spec.on)
        columns = events.select(["_vs", "_ve", *dict.fromkeys(self._spec.keys)])
        keys = arguments_of(columns, self._spec.keys)
        texts = [None if key is None else key_of(key) for key in keys]
        waiting = self._needed(source, texts, arguments)
        running: list[_Open] = []
        while waiting or running:
            done = [one for one in running if one.request.is_done]
            for one in done:
                self._end(source, one)
            running = [one for one in running if one not in done]
            fresh = waiting[: self._spec.policy.concurrency - len(running)]
            del waiting[: len(fresh)]
            for one in fresh:
                source.draw(_BEGIN, one.key, lambda: None)
            if done or fresh:
                yield from self._durably()
                self._open_calls().start([one.request for one in fresh])
                running += fresh
            elif not self._open_calls().wait():
                yield None
        yield Run(self._rows(events, texts), run.ctis)
        self._seq += events.num_rows

    def snapshot(self) -> OperatorState:
        """Return counters and the ledger."""
        header = {**self._counters(), "unknown": sorted(self._unknown)}
        return OperatorState(header, {"ledger": self._ledger.table()})

    def load(self, state: OperatorState) -> None:
        """Restore ``state``. The log has the calls that were made after it."""
        self._load_counters(state.header)
        self._unknown = set(state.header["unknown"])
        self._ledger.load(state.tables["ledger"])

    def _durably(self) -> Iterator[Run | None]:
        """Wait until all records so far are durable."""
        yield Run(pa.RecordBatch.from_pylist([], self._schema), NO_CTIS)
        yield None

    def _catch_up(self, source: ValueSource) -> None:
        """Read the log to its end."""
        while source.has_recorded:
            drawn = source.take_recorded()
            if drawn.kind == _BEGIN:
                self._unknown.add(drawn.argument)
            else:
                self._unknown.discard(drawn.argument)
                self._ledger.add(drawn.argument, 0, drawn.value)

    def _needed(
        self, source: ValueSource, texts: list[str | None], arguments: list[Any]
    ) -> list[_Open]:
        """Return the calls to make: one for each key without a response.

        An unknown key gets a call only if the policy allows it.

        Raises:
            UnknownCallError: a key is unknown, and the policy is to fail.
        """
        needed: dict[str, _Open] = {}
        for row, text in enumerate(texts):
            if text is None or text in needed or self._ledger.find(text, 0) is not None:
                continue
            if text in self._unknown and not self._may_retry(text):
                self._record_end(source, text, self._failed(_UNKNOWN))
                continue
            needed[text] = _Open(text, Request(arguments[row]))
        return list(needed.values())

    def _may_retry(self, text: str) -> bool:
        """Return whether the policy allows repeating a call that may have been made."""
        policy: str = self._spec.unknown
        if policy == "fail" and self._shell is not None:
            policy = self._shell.unknown_calls() or policy
        if policy == "fail":
            raise UnknownCallError(self._spec.function.name, text)
        return policy == "retry"

    def _end(self, source: ValueSource, one: _Open) -> None:
        """Record the result of a call."""
        ended = self._ended(one.request)
        record = b"\0" + ended if isinstance(ended, bytes) else _failed(ended)
        self._record_end(source, one.key, record)

    def _record_end(self, source: ValueSource, text: str, ended: bytes) -> None:
        source.draw(_END, text, lambda: ended)
        self._unknown.discard(text)
        self._ledger.add(text, 0, ended)

    def _rows(self, events: pa.RecordBatch, texts: list[str | None]) -> pa.RecordBatch:
        """Return all rows with the responses of their keys; policies handle rows without one."""
        kept: list[int] = []
        answers: list[bytes] = []
        for row, text in enumerate(texts):
            known = None if text is None else self._ledger.find(text, 0)
            ended = self._failed(_NO_KEY) if known is None else known
            if ended[:1] == b"\0":
                answer: bytes | None = ended[1:]
            else:
                answer = self._passed(events, row, *msgpack.unpackb(ended[1:]))
            if answer is not None:
                kept.append(row)
                answers.append(answer)
        return self._answered(events, kept, answers)

    def _failed(self, reason: str) -> bytes:
        return _failed(Failure(reason, place_of(self._spec.function.target)))


def _failed(failure: Failure) -> bytes:
    packed: bytes = msgpack.packb([failure.reason, failure.line])
    return b"\1" + packed
