"""The interface of an operator: a frozen, picklable specification, and the operator that it opens.

An operator takes a run (see :mod:`rvertex.events.run`) and returns a run. **The concatenation of
its output runs must not depend on how its input was divided into runs**, nor on a ``snapshot`` and
``load`` between any two items. ``tests/support/operator_harness.py`` checks this for every
operator. Every operator emits in ``vs`` order, so it buffers a row until no row with a smaller
``vs`` can follow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from rstream.types import implements
from rvertex.events.run import Run, concat
from rvertex.state.doing import doing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class OperatorState:
    """An operator's snapshot: a small header for msgpack, and immutable Arrow tables."""

    header: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, pa.Table] = field(default_factory=dict)


EMPTY_STATE = OperatorState()
#: The fields of :class:`~rvertex.messages.Counts` that operators have as attributes.
_OPERATOR_COUNTS = ("poisoned_events", "duplicates")
_END = object()
#: In the name of a table: it is an index of other tables, which can be loaded without it.
INDEX_MARK = "#"
#: A name of an index. Tables of user code may have the mark, but their names contain a space.
_INDEX = re.compile(rf"[\w.]+{INDEX_MARK}\w+")


class Evaluator(Protocol):
    """A vectorised expression, as the planner's expressions are."""

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        """Return one value per row of ``batch`` (columns ``_vs, _ve, payload``)."""


def evaluate_all(evaluators: Sequence[Evaluator], batch: pa.RecordBatch) -> list[pa.Array]:
    """Evaluate expressions. ``evaluate_with`` lets them compute common subexpressions once.

    If the first evaluator has ``evaluate_with``, all must be of one kind, as the expressions of one
    plan are.
    """
    if len(evaluators) < 2 or not hasattr(evaluators[0], "evaluate_with"):
        return [evaluator.evaluate(batch) for evaluator in evaluators]
    values: list[pa.Array] = evaluators[0].evaluate_with(evaluators[1:], batch)
    return values


class Operator(Protocol):
    """A running operator. One vertex owns it and calls it from one thread."""

    def process(self, ports: Sequence[Run]) -> Run:
        """Consume the next run of each port and return the output run.

        All runs carry the same CTIs (watermarks). Unary operators have one port. Events of port 0
        precede events of port 1 at equal ``vs``.
        """

    def snapshot(self) -> OperatorState:
        """Return the state, in O(1), by reference. Later calls must not change it."""

    def load(self, state: OperatorState) -> None:
        """Restore a ``state`` that an operator of the same specification returned."""


class OperatorSpec(Protocol):
    """A frozen dataclass that describes an operator; plans contain it."""

    #: Whether the emitted CTIs also depend on the rows. If not, they depend on the input CTIs
    #: alone, whichever rows share the vertex. True is correct for every operator, but may be
    #: slower.
    holds_ctis: ClassVar[bool]

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Return the payload schema of the output, given the payload schema of each port."""

    def open(self, inputs: Sequence[pa.Schema]) -> Operator:
        """Return a new operator in its initial state."""


class SameColumns:
    """Base of specifications with one input whose columns do not change."""

    __slots__ = ()
    holds_ctis: ClassVar[bool] = False

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Return the input's schema."""
        (payload,) = inputs
        return payload


class Stateless:
    """Base of operators whose snapshot is empty."""

    def snapshot(self) -> OperatorState:
        return EMPTY_STATE

    def load(self, state: OperatorState) -> None:
        assert not state.header, state.header
        assert not state.tables, list(state.tables)


@runtime_checkable
class EmitsInPieces(Protocol):
    """An operator whose output may be larger than memory."""

    def process_in_pieces(self, ports: Sequence[Run]) -> Iterator[Run | None]:
        """Return the output of ``process`` as consecutive runs, at least one.

        The caller takes all runs before it calls any other method, so the operator may compute them
        one by one. None instead of a run means that the next run needs a response that has not
        arrived yet. The vertex is woken when it arrives.
        """


def in_pieces(
    operators: Sequence[Operator],
    ports: Sequence[Run],
    emitted: Callable[[int, Run], None] | None = None,
    begin: int = 0,
) -> Iterator[Run | None]:
    """Return the output of a chain of operators, in as many pieces as its operators emit.

    ``emitted`` is called with each run and the index of the operator that emitted it. ``begin`` is
    the index of the operator that processes ``ports``.
    """
    now = doing()
    for k in range(begin, len(operators)):
        operator = now.operator = operators[k]
        if implements(operator, EmitsInPieces):
            for run in operator.process_in_pieces(ports):
                if run is None:
                    yield None
                else:
                    if emitted is not None:
                        emitted(k, run)
                    yield from in_pieces(operators, [run], emitted, k + 1)
                now.operator = operator
            return
        run = operator.process(ports)
        if emitted is not None:
            emitted(k, run)
        ports = [run]
    yield from ports


class Pieces:
    """The output runs of a step; one run is computed in advance."""

    def __init__(self) -> None:
        self._runs: Iterator[Run | None] = iter(())
        self._ahead: Run | None = None
        #: Whether the next piece needs a response that has not arrived yet.
        self.is_waiting = False

    @property
    def has_more(self) -> bool:
        """Whether there are more pieces, now or after a wait."""
        return self._ahead is not None or self.is_waiting

    def begin(self, runs: Iterator[Run | None], *, as_one: bool) -> None:
        """Start with the first piece; ``as_one``: concatenate all pieces into one."""
        self._runs = _joined(runs) if as_one else runs
        self._advance()

    def take(self) -> Run | None:
        """Return the next piece; None: there is none, or a response is missing."""
        if self._ahead is None and self.is_waiting:
            self._advance()
        run = self._ahead
        if run is not None:
            self._advance()
        return run

    def _advance(self) -> None:
        following = next(self._runs, _END)
        self.is_waiting = following is None
        self._ahead = following if isinstance(following, Run) else None


def whole(runs: Iterator[Run | None]) -> Run:
    """Concatenate all pieces. Only for operators that block until their responses arrive."""
    return concat([run for run in runs if run is not None])


def _joined(runs: Iterator[Run | None]) -> Iterator[Run | None]:
    """Yield None for each wait, and then all pieces as one run."""
    joined: list[Run] = []
    for run in runs:
        if run is None:
            yield None
        else:
            joined.append(run)
    yield concat(joined)


def counted(operators: Sequence[Operator]) -> dict[str, Any]:
    """Return the sum of each counter over all operators, and over the inner ones of ranges."""
    inner = [o for outer in operators for o in getattr(outer, "inner_operators", (outer,))]
    return {name: sum(int(getattr(o, name, 0)) for o in inner) for name in _OPERATOR_COUNTS}


@runtime_checkable
class ShowsState(Protocol):
    """An operator that shows its state to users, in columns of the query."""

    def held_tables(self) -> dict[str, pa.Table]:
        """Return the state as tables by name; a copy, the operator keeps its state."""


def held_tables(operator: Operator) -> dict[str, pa.Table]:
    """Return the state of an operator for a user: keys, open windows, rows that may still match."""
    if implements(operator, ShowsState):
        return operator.held_tables()
    return without_indexes(operator.snapshot().tables)


def without_indexes(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Return the tables that are not an index of others."""
    return {name: table for name, table in tables.items() if not _INDEX.fullmatch(name)}
