"""CLIP: each left event ends at the first later start of a matching right event.

``[vs, ve)`` becomes ``[vs, min(ve, m))``, where m is the smallest start ``m > vs`` of a right event
with equal keys. A match that starts at ``vs`` does not end the event. So clip never deletes an
event, and ``s.clip(s, on=k)`` makes every event last until the next one of its key. The ends of
right events are ignored. Null keys never match. The output has the left columns only.

Events stay in left order. The end of an event is final after the CTI (watermark) at its end, or
after the match. Until then the event holds back later events, and ``CTI(t)`` becomes the start of
the earliest event whose end is not final at ``t``.

    clip(right, on="k")   left              right           out
                          [1, 9) k=1 a      [1, 2) k=1
                          [2, 9) k=2 b
                          CTI(3)            CTI(3)          CTI(1)
                                            [5, 6) k=1
                          CTI(6)            CTI(6)          [1, 5) k=1 a, CTI(2)
                          CTI(9)            CTI(9)          [2, 9) k=2 b, CTI(9)

The state is the buffered events, by reference (see :mod:`rvertex.operators.lifetimes.clipping`). A
step takes time in its new events and those whose ends become final.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from rstream.items.batch import VS, event_schema, int64_column
from rvertex.events.run import Run
from rvertex.events.settled_rows import SettledRows
from rvertex.keys.key_index import KeyIndex, null_keys
from rvertex.operators.horizon import SameLifetimes
from rvertex.operators.lifetimes.clipping import Clipping
from rvertex.operators.protocol import OperatorState

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from rvertex.operators.horizon import Durations

_CODES_SLACK = 1 << 17


@dataclass(frozen=True, slots=True)
class ClipSpec(SameLifetimes):
    """Port 0 is left, port 1 is right. Keys are compared pairwise and have equal types."""

    left_on: tuple[str, ...]
    right_on: tuple[str, ...]

    def __post_init__(self) -> None:
        assert len(self.left_on) == len(self.right_on) > 0, (self.left_on, self.right_on)

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Return the left schema."""
        left, _right = inputs
        return left


@dataclass(frozen=True, slots=True)
class Clip(ClipSpec):
    """Clips rows whose ends are known."""

    holds_ctis: ClassVar[bool] = True

    def horizon_us(self, durations: Durations) -> int | None:
        """Return the greatest left lifetime: left events are buffered until they end."""
        return durations[0]

    def open(self, inputs: Sequence[pa.Schema]) -> ClipOperator:
        """Return a new operator with empty state."""
        return ClipOperator(self, inputs)


class ClipOperator:
    """The running operator of :class:`Clip`."""

    def __init__(self, spec: Clip, inputs: Sequence[pa.Schema]) -> None:
        self._spec = spec
        left, right = inputs
        self._left = event_schema(left)
        # Only starts and keys of right events are used.
        names = dict.fromkeys(spec.right_on)
        self._right = event_schema(pa.schema([right.field(name) for name in names]))
        self._key_types = [left.field(name).type for name in spec.left_on]
        self._reset()

    def _reset(self) -> None:
        self._keys = KeyIndex(self._key_types)
        self._settled = SettledRows([self._left, self._right])
        self._clipping = Clipping(self._left)

    def process(self, ports: Sequence[Run]) -> Run:
        """End buffered events at new matches, and emit events whose ends are final."""
        left, right = self._settled.take([ports[0], _only(ports[1], self._right)])
        pending = self._clipping.pending
        if left.num_rows or right.num_rows:
            marks, mark_codes = self._marks(right)
            self._clipping.advance(left, self._left_codes(left), mark_codes, marks)
        out = pending.release(self._settled.frontier, ports[0].ctis)
        waste = max(len(self._keys), self._clipping.chained)
        if waste > 2 * len(pending) + _CODES_SLACK:
            self.load(self.snapshot())
        return out

    def first_held(self) -> tuple[int, dict[str, Any]] | None:
        """Return start and columns of the row that holds back the output; None: there is none."""
        return self._clipping.pending.first_held(self._spec.left_on)

    def snapshot(self) -> OperatorState:
        """Return the buffered rows, by reference."""
        left, right = self._settled.tables()
        header = {
            "frontier": self._settled.frontier,
            "last_cti": self._clipping.pending.last_cti,
        }
        tables = {"left": left, "right": right, "events": self._clipping.pending.table()}
        return OperatorState(header, tables)

    def load(self, state: OperatorState) -> None:
        """Restore ``state``."""
        self._reset()
        tables = state.tables
        self._settled.load(state.header["frontier"], [tables["left"], tables["right"]])
        self._clipping.load(tables["events"], self._left_codes)
        self._clipping.pending.last_cti = state.header["last_cti"]

    def _left_codes(self, events: pa.RecordBatch) -> np.ndarray:
        """Return the codes of left events, -1 if the key cannot match."""
        columns = [events.column(name) for name in self._spec.left_on]
        return self._keys.matching_codes(columns)

    def _marks(self, events: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
        """Return the starts and codes of right events whose keys are not null."""
        columns = [events.column(name) for name in self._spec.right_on]
        codes, vs = self._keys.codes(columns), int64_column(events, VS)
        nulls = null_keys(columns)
        return (vs, codes) if nulls is None else (vs[~nulls], codes[~nulls])


def _only(run: Run, schema: pa.Schema) -> Run:
    return Run(run.events.select(schema.names), run.ctis)
