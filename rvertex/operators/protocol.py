"""What an operator is: a frozen, picklable specification and the running thing it opens.

The rhythm of every operator: it is given a run (see :mod:`rvertex.events.run`) and returns the run
that follows from it. **The concatenation of its output runs must not depend on how its input was
cut**, nor on a ``snapshot``/``load`` between any two items; ``tests/support/operator_harness.py``
asks that of every operator. Every operator emits in ``vs`` order and keeps back what would not be.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeGuard, runtime_checkable

from rvertex.events.run import Run, concat
from rvertex.state.doing import doing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class OperatorState:
    """A snapshot of an operator: a small msgpack-able header and immutable Arrow tables."""

    header: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, pa.Table] = field(default_factory=dict)


EMPTY_STATE = OperatorState()
_END = object()


class Evaluator(Protocol):
    """A vectorised expression; the planner's expressions are such."""

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        """One value per row of ``batch`` (columns ``_vs, _ve, payload``)."""


def evaluate_all(evaluators: Sequence[Evaluator], batch: pa.RecordBatch) -> list[pa.Array]:
    """The values of each. Evaluators that offer ``evaluate_with`` share what they have in common.

    They must then all be of one kind, as the expressions of a plan are.
    """
    if len(evaluators) < 2 or not hasattr(evaluators[0], "evaluate_with"):
        return [evaluator.evaluate(batch) for evaluator in evaluators]
    found: list[pa.Array] = evaluators[0].evaluate_with(evaluators[1:], batch)
    return found


class Operator(Protocol):
    """A running operator; owned by one vertex, called from one thread."""

    def process(self, ports: Sequence[Run]) -> Run:
        """Consume the next run of each port (all carry the same CTIs) and return what follows.

        Unary operators have one port. Events of port 0 precede those of port 1 at equal ``vs``.
        """

    def snapshot(self) -> OperatorState:
        """The state now. O(1) by reference: later calls never change what was returned."""

    def load(self, state: OperatorState) -> None:
        """Continue from ``state``, which this operator's ``snapshot`` returned."""


class OperatorSpec(Protocol):
    """A frozen dataclass that says what an operator does; it travels inside plans."""

    #: Whether the CTIs it emits follow from its rows too. If not, they follow from the CTIs it gets
    #: alone, whichever rows share its vertex; True is right for every operator, and may cost time.
    holds_ctis: ClassVar[bool]

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Payload schema of the output, given the payload schema of each port."""

    def open(self, inputs: Sequence[pa.Schema]) -> Operator:
        """A new operator in its initial state."""


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
        """The output of ``process`` as consecutive runs, at least one.

        All are taken before anything else is called. The operator may compute them meanwhile.
        None: the next run needs an answer that is not there yet; the vertex is woken when it is.
        """


def emits_in_pieces(operator: Operator) -> TypeGuard[EmitsInPieces]:
    """Whether an operator does; ``isinstance`` takes 0.1 ms for one that does not."""
    return issubclass(type(operator), EmitsInPieces)


def in_pieces(operators: Sequence[Operator], ports: Sequence[Run]) -> Iterator[Run | None]:
    """What a chain of operators emits, in as many pieces as the operators make of it."""
    if not operators:
        yield from ports
        return
    first, *rest = operators
    now = doing()
    now.operator = first
    if not emits_in_pieces(first):
        yield from in_pieces(rest, [first.process(ports)])
        return
    for run in first.process_in_pieces(ports):
        yield from (None,) if run is None else in_pieces(rest, [run])
        now.operator = first


class Pieces:
    """The output of a step; computes one piece ahead."""

    def __init__(self) -> None:
        self._runs: Iterator[Run | None] = iter(())
        self._ahead: Run | None = None
        #: The next piece needs an answer that is not there yet.
        self.is_waiting = False

    @property
    def has_more(self) -> bool:
        """Whether there are more pieces, now or after a wait."""
        return self._ahead is not None or self.is_waiting

    def begin(self, runs: Iterator[Run | None], *, as_one: bool) -> None:
        """Start with the first piece; ``as_one``: all of them are one."""
        self._runs = _joined(runs) if as_one else runs
        self._advance()

    def take(self) -> Run | None:
        """The next piece; None: there is none, or it is waiting."""
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
    """All pieces as one run; the operator waits by itself."""
    return concat([run for run in runs if run is not None])


def _joined(runs: Iterator[Run | None]) -> Iterator[Run | None]:
    found: list[Run] = []
    for run in runs:
        if run is None:
            yield None
        else:
            found.append(run)
    yield concat(found)


@runtime_checkable
class ShowsState(Protocol):
    """An operator that shows its state in columns of the query."""

    def held_tables(self) -> dict[str, pa.Table]:
        """Tables by name; a copy, the operator keeps its state."""


def held_tables(operator: Operator) -> dict[str, pa.Table]:
    """The state of an operator for a user: keys, open windows, rows that may still match."""
    if isinstance(operator, ShowsState):
        return operator.held_tables()
    return dict(operator.snapshot().tables)
