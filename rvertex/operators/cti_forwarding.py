"""CAUGHT UP: emits the CTIs (watermarks) that an operator holds back, once its rows were emitted.

The planner wraps sessions, left joins and similar operators in it if a keyed process with timers
follows; :mod:`rvertex.operators.cti_hold` explains why. A transform does the same by itself.

    session(5)    in                  out              out, caught up
                  [0, 1)
                  CTI(3)              CTI(0)           CTI(0)
                  CTI(INF)            [0, 5)           [0, 5), CTI(3)
                                      CTI(INF)         CTI(INF)

Invariants: as in the wrapped operator. It must emit a row at the latest when time passes the row's
start.
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
    """Emits CTIs that ``operator`` holds back; it has no side outputs, no logged values."""

    holds_ctis: ClassVar[bool] = False

    operator: OperatorSpec

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Return the schema of the wrapped operator."""
        return self.operator.output_schema(inputs)

    def horizon_us(self, durations: Durations) -> int | None:
        """Return the wrapped operator's horizon: buffered CTIs are later than the CTI it emits."""
        return horizon_of(self.operator, durations)

    def output_duration(self, durations: Durations) -> int | None:
        """Return the output duration of the wrapped operator."""
        return output_duration_of(self.operator, durations)

    def open(self, inputs: Sequence[pa.Schema]) -> CtiForwarder:
        """Open the wrapped operator, without buffered CTIs."""
        return CtiForwarder(self.operator.open(inputs))


class CtiForwarder:
    """The running operator of :class:`ForwardCtis`."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._held = HeldCtis(keeps_own=True)

    def use_memory(self, memory: StateMemory) -> None:
        """Implement :class:`rvertex.state.memory.SpillsState`."""
        give_memory(self._operator, memory)

    def held_tables(self) -> dict[str, pa.Table]:
        """Implement :class:`rvertex.operators.protocol.ShowsState`."""
        return held_tables(self._operator)

    def process(self, ports: Sequence[Run]) -> Run:
        """Return the wrapped operator's output, and the buffered CTIs that it has reached."""
        return self._held.follow(ports, self._operator.process)

    def first_held(self) -> tuple[int, Mapping[str, Any]] | None:
        """Return the row that holds back the wrapped operator; None if it cannot name one."""
        inside: Any = self._operator
        first: tuple[int, Mapping[str, Any]] | None = None
        if hasattr(inside, "first_held"):
            first = inside.first_held()
        return first

    def snapshot(self) -> OperatorState:
        """Return the wrapped operator's state, and the buffered CTIs."""
        return joined_states({_INSIDE: self._operator.snapshot()}, {"held": self._held.save()}, {})

    def load(self, state: OperatorState) -> None:
        """Restore ``state``."""
        self._operator.load(part_state(state, _INSIDE))
        self._held.load(state.header["held"])
