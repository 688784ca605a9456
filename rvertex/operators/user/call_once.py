"""CALL ONCE: a call that must not be made twice for a key, with a ledger of calls.

The ledger is the operator's state, and the log of values between two checkpoints
(:mod:`rvertex.checkpoint.value_log`). A call is *begun* in the log, durably, before it is made, and
*ended* there with its answer before a row leaves. A restart reads the log to its end. A key that
is begun and not ended is *unknown*: the call may have been made, and the policy decides.

Invariants: (1) of two instances of a vertex one creates the entry that begins a call, and the other
stops; (2) all rows of a key are in one vertex; (3) a failed call is ended, and not made again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgpack
import pyarrow as pa

from rstream.items.batch import event_schema
from rstream.types import INF_TIME
from rvertex.errors import UnknownColumnError
from rvertex.events.run import NO_CTIS, Run
from rvertex.operators.protocol import OperatorState, whole
from rvertex.operators.user.answers import AnswerCache, Answers, arguments_of, key_of
from rvertex.user_code.code import OnError, Poison, UserCode, dead_letter_outputs
from rvertex.user_code.context import Failure, Request
from rvertex.user_code.errors import (
    NoLoggedValuesError,
    UnknownCallError,
    UserResultError,
    place_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rvertex.events.call_counts import CallCounts
    from rvertex.events.side_output import SideOutput
    from rvertex.operators.horizon import Durations
    from rvertex.user_code.context import CallPolicy, Calls, ValueShell, ValueSource

OnUnknown = Literal["fail", "skip", "retry"]
OnFailed = Literal["null", "skip", "dead_letter"]
#: Rows of a step, in times of the calls at a time.
_STEP = 4
_BEGIN, _END = "begin", "end"
_UNKNOWN = "the call was begun before a restart, and its answer is unknown"
_NO_KEY = "the key is null, so the call cannot be made once"


@dataclass(frozen=True, slots=True)
class CallOnce:
    """Adds the columns of ``schema``, which one call of ``function`` per key returns."""

    holds_ctis: ClassVar[bool] = False

    function: UserCode
    keys: tuple[str, ...]
    #: Columns that the function gets; empty: the whole row.
    on: tuple[str, ...]
    schema: pa.Schema
    policy: CallPolicy
    unknown: OnUnknown = "fail"
    on_error: OnFailed = "dead_letter"
    #: Folder of its dead letters; "" for the name of the function.
    letters: str = ""

    @property
    def passing(self) -> OnError:
        """How rows without an answer are passed over."""
        return "dead_letter" if self.on_error == "dead_letter" else "skip"

    @property
    def how(self) -> str:
        """Its key and limits, for plans."""
        return (
            f" by {', '.join(self.keys)}, {self.policy.concurrency} at a time, "
            f"unknown={self.unknown}"
        )

    def side_outputs(self, inputs: Sequence[pa.Schema]) -> tuple[SideOutput, ...]:
        """The dead letters, if they are kept."""
        return dead_letter_outputs(self.function, self.passing, self.letters, inputs[0])

    def horizon_us(self, durations: Durations) -> int | None:
        """None: its answers cannot be computed again."""
        return None

    def output_duration(self, durations: Durations) -> int | None:
        """Lifetimes pass."""
        return durations[0]

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """The input, then the declared columns.

        Raises:
            UnknownColumnError: a column that the input does not have.
        """
        (payload,) = inputs
        for name in (*self.keys, *self.on):
            if name not in payload.names:
                raise UnknownColumnError("call_once", name, tuple(payload.names))
        return pa.schema([*payload, *self.schema])

    def open(self, inputs: Sequence[pa.Schema]) -> CallOnceOperator:
        """An empty ledger."""
        (payload,) = inputs
        return CallOnceOperator(self, payload)


@dataclass(slots=True, eq=False)
class _Open:
    """A key that is begun and not ended."""

    key: str
    request: Request


class CallOnceOperator:
    """See :class:`CallOnce`."""

    def __init__(self, spec: CallOnce, payload: pa.Schema) -> None:
        self._spec, self._name = spec, spec.function.name
        self._schema = event_schema(spec.output_schema([payload]))
        self._answers = Answers(self._name, spec.schema)
        self._ledger = AnswerCache(INF_TIME, rows_max=None)
        #: Keys that the log has as begun and not as ended, before this instance made a call.
        self._unknown: set[str] = set()
        self._poison = Poison(spec.function, spec.passing, payload)
        self._source: ValueSource | None = None
        self._shell: ValueShell | None = None
        self._calls: Calls | None = None
        self._seq = 0
        self.step_rows_max = spec.policy.concurrency * _STEP

    @property
    def poisoned_events(self) -> int:
        """Rows without an answer."""
        return self._poison.count

    def drain_side_outputs(self) -> Sequence[pa.RecordBatch]:
        """The dead letters since the last call."""
        return self._poison.drain_side_outputs()

    def use_values(self, source: ValueSource, shell: ValueShell) -> None:
        """See :class:`~rvertex.user_code.context.DrawsValues`."""
        self._source, self._shell = source, shell

    def call_counts(self) -> CallCounts:
        """See :class:`~rvertex.user_code.context.CallsOutside`."""
        return self._open_calls().counts()

    def process(self, ports: Sequence[Run]) -> Run:
        """Wait for all answers."""
        return whole(self.process_in_pieces(ports))

    def process_in_pieces(self, ports: Sequence[Run]) -> Iterator[Run | None]:
        """Begin the calls, make them, then emit all rows.

        An empty run and a wait make the records so far durable: the step continues after that.
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
        """Counters, and the ledger."""
        drawn = 0 if self._source is None else self._source.next_index
        header = {
            "seq": self._seq,
            "poisoned": self._poison.count,
            "drawn": drawn,
            "unknown": sorted(self._unknown),
        }
        return OperatorState(header, {"ledger": self._ledger.table()})

    def load(self, state: OperatorState) -> None:
        """Continue from ``state``; the log has what happened since."""
        self._seq, self._poison.count = state.header["seq"], state.header["poisoned"]
        self._unknown = set(state.header["unknown"])
        if self._source is not None:
            self._source.load(state.header["drawn"])
        self._ledger.load(state.tables["ledger"])

    def _durably(self) -> Iterator[Run | None]:
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
        """One call for each key without an answer, unless the policy for unknown keys forbids it.

        Raises:
            UnknownCallError: the answer of a key is unknown, and the policy is to fail.
        """
        found: dict[str, _Open] = {}
        for row, text in enumerate(texts):
            if text is None or text in found or self._ledger.find(text, 0) is not None:
                continue
            if text in self._unknown and not self._may_retry(text):
                self._record_end(source, text, self._failed(_UNKNOWN))
                continue
            found[text] = _Open(text, Request(arguments[row]))
        return list(found.values())

    def _may_retry(self, text: str) -> bool:
        """Whether to call again for a key whose call may have been made."""
        policy: str = self._spec.unknown
        if policy == "fail" and self._shell is not None:
            policy = self._shell.unknown_calls() or policy
        if policy == "fail":
            raise UnknownCallError(self._name, text)
        return policy == "retry"

    def _end(self, source: ValueSource, one: _Open) -> None:
        failure = one.request.failure
        if failure is None:
            try:
                self._record_end(source, one.key, b"\0" + self._answers.of(one.request))
                return
            except UserResultError as error:
                failure = Failure(
                    f"UserResultError: it {error.reason}", place_of(self._spec.function.target)
                )
        self._record_end(source, one.key, _failed(failure))

    def _record_end(self, source: ValueSource, text: str, ended: bytes) -> None:
        source.draw(_END, text, lambda: ended)
        self._unknown.discard(text)
        self._ledger.add(text, 0, ended)

    def _rows(self, events: pa.RecordBatch, texts: list[str | None]) -> pa.RecordBatch:
        """All rows with the answers of their keys; the policies decide about those without."""
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
        rows = events.take(pa.array(kept, pa.int64()))
        columns = [*rows.columns, *self._answers.table(answers).columns]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _passed(self, events: pa.RecordBatch, row: int, reason: str, line: str) -> bytes | None:
        """Pass over a row without an answer, or give it nulls."""
        vs, ve, *values = (column[row].as_py() for column in events.columns)
        self._poison.pass_over(reason, line, self._seq + row, vs, ve, tuple(values))
        return self._answers.null if self._spec.on_error == "null" else None

    def _failed(self, reason: str) -> bytes:
        return _failed(Failure(reason, place_of(self._spec.function.target)))

    def _drawing(self) -> ValueSource:
        if self._source is None:
            raise NoLoggedValuesError("call_once")
        return self._source

    def _open_calls(self) -> Calls:
        if self._calls is None:
            if self._shell is None:
                raise NoLoggedValuesError("call_once")
            self._calls = self._shell.calls(self._spec.function, self._spec.policy)
        return self._calls


def _failed(failure: Failure) -> bytes:
    packed: bytes = msgpack.packb([failure.reason, failure.line])
    return b"\1" + packed
