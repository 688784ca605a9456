"""LIMIT: the first events of a stream.

Invariants: (1) events that are kept are emitted at once and keep their lifetimes, CTIs (watermarks)
are unchanged; (2) the state is one number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rvertex.events.run import Run
from rvertex.operators.horizon import SameLifetimes
from rvertex.operators.protocol import OperatorState, SameColumns

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from rvertex.operators.protocol import Operator


@dataclass(frozen=True, slots=True)
class Limit(SameColumns, SameLifetimes):
    """Keeps the first ``rows`` events in row order."""

    rows: int

    def open(self, inputs: Sequence[pa.Schema]) -> Operator:
        """Return a new operator with empty state."""
        return _Limiter(self.rows)


class _Limiter:
    """The running operator of :class:`Limit`."""

    def __init__(self, rows: int) -> None:
        #: Number of events that may still pass.
        self._left = rows

    def process(self, ports: Sequence[Run]) -> Run:
        """Emit the events up to the limit."""
        (run,) = ports
        kept = run.events.slice(0, self._left)
        self._left -= kept.num_rows
        return Run(kept, run.ctis)

    def snapshot(self) -> OperatorState:
        """Return the number of events that may still pass."""
        return OperatorState({"left": self._left})

    def load(self, state: OperatorState) -> None:
        """Restore ``state``."""
        self._left = state.header["left"]
