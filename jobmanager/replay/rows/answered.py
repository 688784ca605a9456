"""Recorded answers of lookups and calls, for runs of a part of the input.

A lookup's answers are recorded in the order of all rows, so a run of some rows cannot draw them.
Here the whole input passes once through each vertex with such calls, with the recorded answers. The
answers are kept by argument, with the time of the first row of each. A run of a slice then gives a
row the answer that its argument had at that time. No function is called.

A row whose argument has no recorded answer is left out. So is a row whose call failed, unless the
policy was null. A slice with a wrong answer does not make the output row, so lineage stays right.
"""

from __future__ import annotations

from bisect import bisect_right
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from jobmanager.replay.errors import CannotReplayError
from jobmanager.replay.rerun import Rerun, Shape
from rstream.items.batch import VE, VS, int64_column
from rvertex.events.run import Run
from rvertex.operators.horizon import SameLifetimes
from rvertex.operators.protocol import Stateless
from rvertex.operators.user.answers import arguments_of, key_of
from rvertex.operators.user.call_once import CallOnce, CallOnceOperator
from rvertex.operators.user.lookup import Lookup, LookupOperator
from rvertex.operators.user.outside import AskingOperator
from rvertex.user_code.code import UserCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from jobmanager.replay.recorded import Recorded
    from rvertex.operators.user.outside import Asking
    from rvertex.vertex.spec import VertexSpec

_RETAIN = "Start jobs with --retain all"
_O = TypeVar("_O", bound="_Noting")


@dataclass(frozen=True, slots=True)
class Answers:
    """The recorded answers by argument, each with the times from which it is valid."""

    known: dict[str, tuple[list[int], list[bytes]]] = field(default_factory=dict)
    #: The arguments with which a lookup was called since the last reset.
    used: set[str] = field(default_factory=set)

    def add(self, key: str, at: int, answer: bytes) -> None:
        """Record the answer for a row with time ``at``."""
        times, answers = self.known.setdefault(key, ([], []))
        if not answers or answers[-1] != answer:
            times.append(at)
            answers.append(answer)

    def find(self, key: str, at: int) -> bytes | None:
        """Return the answer at a time, or the first one if all are later; None if there is none."""
        self.used.add(key)
        times, answers = self.known.get(key, ((), ()))
        return answers[max(0, bisect_right(times, at) - 1)] if answers else None


@dataclass(frozen=True, slots=True)
class Answered(SameLifetimes):
    """A lookup, or a call per key, that takes its answers from a record."""

    holds_ctis = False

    spec: Asking
    answers: Answers

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Return the schema of the operator that makes the calls."""
        return self.spec.output_schema(inputs)

    def side_outputs(self, inputs: Sequence[pa.Schema]) -> Any:
        """Return the side outputs of the operator that makes the calls."""
        return self.spec.side_outputs(inputs)

    def open(self, inputs: Sequence[pa.Schema]) -> _AnsweredOperator:
        """Return a new operator."""
        (payload,) = inputs
        return _AnsweredOperator(self, payload)


class _AnsweredOperator(Stateless, AskingOperator):
    def __init__(self, spec: Answered, payload: pa.Schema) -> None:
        super().__init__(spec.spec, payload)
        self._known, self._keys = spec.answers, _keys_of(spec.spec, payload)

    def process_in_pieces(self, ports: Sequence[Run]) -> Iterator[Run | None]:
        """Emit the rows that have answers."""
        (run,) = ports
        kept, row_answers = [], []
        for row, (key, at) in enumerate(_arguments(run.events, self._keys)):
            answer = self._known.find(key, at)
            if answer is not None:
                kept.append(row)
                row_answers.append(answer)
        yield Run(self._answered(run.events, kept, row_answers), run.ctis)


def with_answers(vertices: Mapping[str, VertexSpec], recorded: Recorded) -> dict[str, VertexSpec]:
    """Return the vertices, with recorded answers instead of calls.

    Raises:
        CannotReplayError: answers, or the input of a vertex with calls, are not retained.
    """
    noting = {
        v: replace(spec, operators=tuple(map(_noting, spec.operators)))
        for v, spec in vertices.items()
        if any(isinstance(operator, Lookup | CallOnce) for operator in spec.operators)
    }
    if noting:
        _note_all(noting, recorded)
    known = {
        v: replace(vertices[v], operators=tuple(map(_known, vertices[v].operators, s.operators)))
        for v, s in noting.items()
    }
    return {**vertices, **known}


def _note_all(noting: Mapping[str, VertexSpec], recorded: Recorded) -> None:
    """Run these vertices over their whole input, with the recorded answers, to collect them."""
    shape = Shape.of(recorded.plan)
    rerun = Rerun(Shape({**shape.vertices, **noting}, shape.writers), recorded)
    with closing(rerun):
        try:
            active = rerun.open({v: recorded.beginning(v) for v in noting})
            while active:
                active = [run for run in active if run.turn()]
        except CannotReplayError as error:
            what = f"{', '.join(noting)} on a part of its input"
            reason = f"the recorded answers of its calls cannot be read: {error}"
            raise CannotReplayError(what, reason, _RETAIN) from error


def with_used_answers(vertices: Mapping[str, VertexSpec]) -> dict[str, VertexSpec]:
    """Return the vertices, with only the answers that rows used since the last call."""
    return {v: replace(s, operators=tuple(map(_used, s.operators))) for v, s in vertices.items()}


def _used(operator: Any) -> Any:
    if not isinstance(operator, Answered):
        return operator
    answers = operator.answers
    kept = {
        key: answers_of_key for key, answers_of_key in answers.known.items() if key in answers.used
    }
    answers.used.clear()
    return Answered(operator.spec, Answers(kept))


class _Noting(AskingOperator):
    """Collects the answers of all rows that it emits."""

    noted: Answers
    keys: tuple[str, ...]

    def process_in_pieces(self, ports: Sequence[Run]) -> Iterator[Run | None]:
        """Implement :class:`~rvertex.operators.protocol.EmitsInPieces`."""
        for run in super().process_in_pieces(ports):
            if run is not None and run.events.num_rows:
                self._note(run.events)
            yield run

    def _note(self, events: pa.RecordBatch) -> None:
        width = len(events.schema) - len(self._asking.schema)
        answers = events.select(range(width, len(events.schema)))
        for row, (key, at) in enumerate(_arguments(events, self.keys)):
            self.noted.add(key, at, answers.slice(row, 1).serialize().to_pybytes())


class _NotingLookup(_Noting, LookupOperator):
    """A lookup that collects answers."""


class _NotingCallOnce(_Noting, CallOnceOperator):
    """A call per key that collects answers."""


@dataclass(frozen=True, slots=True)
class _NotedLookup(Lookup):
    noted: Answers = field(default_factory=Answers)

    def open(self, inputs: Sequence[pa.Schema]) -> LookupOperator:
        return _opened(_NotingLookup(self, *inputs), self, self.noted, *inputs)


@dataclass(frozen=True, slots=True)
class _NotedCallOnce(CallOnce):
    noted: Answers = field(default_factory=Answers)

    def open(self, inputs: Sequence[pa.Schema]) -> CallOnceOperator:
        return _opened(_NotingCallOnce(self, *inputs), self, self.noted, *inputs)


def _opened(operator: _O, spec: Asking, noted: Answers, payload: pa.Schema) -> _O:
    operator.noted, operator.keys = noted, _keys_of(spec, payload)
    return operator


def _noting(operator: Any) -> Any:
    if not isinstance(operator, Lookup | CallOnce):
        return operator
    values = {one.name: getattr(operator, one.name) for one in fields(operator)}
    is_lookup = isinstance(operator, Lookup)
    return _NotedLookup(**values) if is_lookup else _NotedCallOnce(**values)


def _known(operator: Any, noting: Any) -> Any:
    if operator is noting:
        return operator
    # A function that is not called would take its globals, such as a password, into a capsule.
    return Answered(
        replace(operator, function=UserCode(operator.function.name, None)), noting.noted
    )


def _keys_of(spec: Asking, payload: pa.Schema) -> tuple[str, ...]:
    """Return the columns on which an answer depends."""
    names = spec.keys if isinstance(spec, CallOnce) else spec.read
    return tuple(names) or tuple(payload.names)


def _arguments(events: pa.RecordBatch, keys: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """Return for each row the text of its argument, and the time of its start."""
    columns = events.select([VS, VE, *dict.fromkeys(keys)])
    texts = (key_of(argument) for argument in arguments_of(columns, keys))
    return zip(texts, int64_column(events, VS).tolist(), strict=True)
