"""CAUGHT UP: an operator that holds CTIs back, with its CTIs let through once its rows have left.

The planner puts it around sessions, left joins and the like where a keyed process with timers
follows; why is in :mod:`rvertex.operators.cti_hold`. A transform does the same by itself.

    session(5)    in                  out              out, caught up
                  [0, 1)
                  CTI(3)              CTI(0)           CTI(0)
                  CTI(INF)            [0, 5)           [0, 5), CTI(3)
                                      CTI(INF)         CTI(INF)

Invariants: as of the operator inside; its rows leave when time has passed their starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from rvertex.operators.composite_state import joined_states, part_state
from rvertex.operators.cti_hold import HeldCtis
from rvertex.operators.horizon import horizon_of, output_duration_of
from rvertex.operators.protocol import held_tables
from rvertex.state.memory import give_memory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from rvertex.events.run import Run
    from rvertex.operators.horizon import Durations
    from rvertex.operators.protocol import Operator, OperatorSpec, OperatorState
    from rvertex.state.memory import StateMemory

_INSIDE = "inside"


@dataclass(frozen=True, slots=True)
class ForwardCtis:
    """``operator`` has no side outputs and draws no values."""

    holds_ctis: ClassVar[bool] = False

    operator: OperatorSpec

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """That of the operator."""
        return self.operator.output_schema(inputs)

    def horizon_us(self, durations: Durations) -> int | None:
        """CTIs that wait are later than the one that the operator owes, and thin by themselves."""
        return horizon_of(self.operator, durations)

    def output_duration(self, durations: Durations) -> int | None:
        """That of the operator."""
        return output_duration_of(self.operator, durations)

    def open(self, inputs: Sequence[pa.Schema]) -> CtiForwarder:
        """The operator, without CTIs that wait."""
        return CtiForwarder(self.operator.open(inputs))


class CtiForwarder:
    """See :class:`ForwardCtis`."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._held = HeldCtis(keeps_own=True)

    def use_memory(self, memory: StateMemory) -> None:
        """See :class:`rvertex.state.memory.SpillsState`."""
        give_memory(self._operator, memory)

    def held_tables(self) -> dict[str, pa.Table]:
        """See :class:`rvertex.operators.protocol.ShowsState`."""
        return held_tables(self._operator)

    def process(self, ports: Sequence[Run]) -> Run:
        """What the operator puts out, and the CTIs that it has come to."""
        return self._held.follow(ports, self._operator.process)

    def first_held(self) -> tuple[int, Mapping[str, Any]] | None:
        """That of the operator inside, if it can name one."""
        inside: Any = self._operator
        found: tuple[int, Mapping[str, Any]] | None = None
        if hasattr(inside, "first_held"):
            found = inside.first_held()
        return found

    def snapshot(self) -> OperatorState:
        """The operator's state, and the CTIs that wait."""
        return joined_states({_INSIDE: self._operator.snapshot()}, {"held": self._held.save()}, {})

    def load(self, state: OperatorState) -> None:
        """Continue from ``state``."""
        self._operator.load(part_state(state, _INSIDE))
        self._held.load(state.header["held"])
