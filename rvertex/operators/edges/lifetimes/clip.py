"""CLIP of rows whose ends are not known yet: a left row ends at the first later right start.

**Rule.** As :mod:`rvertex.operators.lifetimes.clip`. A left row is emitted when it begins, once
both sides have passed that instant. Its end edge is emitted at its own end or at the match,
whichever is first. Points pass unchanged, since no later match can end them.

    clip(right, on="k")    left               right          out
                           start 1 k=1 a                     after 1: start 1 a
                                              5 k=1          after 5: end 5 (of 1) a

Invariants: (1) events are handled by instant, once it has passed; (2) output order is (time, ends
first, left row); (3) a step takes time in the rows that begin or end in it, and the state is the
live rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from rstream.items.batch import VE, VS, event_schema, int64_column
from rstream.items.dictionaries import plain_type
from rstream.types import INF_TIME
from rvertex.events.lifetime import after, with_times
from rvertex.events.run import Run
from rvertex.keys.key_index import KeyIndex, null_keys
from rvertex.operators.edges.emitted import Lives, in_order
from rvertex.operators.edges.instants import Instants
from rvertex.operators.edges.living_rows import LivingRows, bisected
from rvertex.operators.lifetimes.clip import ClipSpec
from rvertex.operators.protocol import OperatorState

if TYPE_CHECKING:
    from collections.abc import Sequence


_CODES_SLACK = 1 << 17


@dataclass(frozen=True, slots=True)
class EdgeClip(ClipSpec):
    """Clips rows whose ends are not known yet."""

    holds_ctis: ClassVar[bool] = False

    def open(self, inputs: Sequence[pa.Schema]) -> EdgeClipOperator:
        """Return a new operator with empty state."""
        return EdgeClipOperator(self, inputs)


class EdgeClipOperator:
    """The running operator of :class:`EdgeClip`."""

    def __init__(self, spec: EdgeClip, inputs: Sequence[pa.Schema]) -> None:
        self._spec = spec
        left, right = inputs
        # Only starts and keys of right rows are used.
        names = dict.fromkeys(spec.right_on)
        self._marks = event_schema(pa.schema([right.field(name) for name in names]))
        self._inputs = (left, pa.schema(list(self._marks)[2:]))
        self._schema = event_schema(left)
        self._key_types = [plain_type(left.field(name).type) for name in spec.left_on]
        self._reset()

    def _reset(self) -> None:
        self._instants = Instants(self._inputs)
        self._keys = KeyIndex(self._key_types)
        self._rows = LivingRows(self._schema)

    def process(self, ports: Sequence[Run]) -> Run:
        """Emit the events at all instants before the frontier."""
        lo = self._instants.frontier
        left, right = self._instants.take([ports[0], self._starts_only(ports[1])])
        born = self._rows.add(left.births, self._codes(left.births))
        dying = self._rows.dying(left.deaths, self._codes(left.deaths), left.known)
        # A row that was clipped before has ended already, so its own end is ignored.
        own = int64_column(left.deaths, VS)[dying >= 0]
        cut, times = self._cut(right.births)
        numbers = np.concatenate([dying[dying >= 0], cut])
        ends = np.concatenate([own, times])
        order = np.lexsort((ends, numbers))
        numbers, at = np.unique(numbers[order], return_index=True)
        self._rows.set_ends(numbers, ends[order][at])
        out = self._events(np.union1d(born, numbers), lo)
        self._rows.forget()
        if len(self._keys) > 2 * self._rows.alive + _CODES_SLACK:
            self.load(self.snapshot())
        return Run(out, ports[0].ctis)

    def snapshot(self) -> OperatorState:
        """Return living and buffered rows, by reference."""
        frontier, tables = self._instants.save()
        return OperatorState({"frontier": frontier}, {**tables, "rows": self._rows.table()})

    def load(self, state: OperatorState) -> None:
        """Restore ``state``."""
        self._reset()
        self._instants.restore(state.header["frontier"], state.tables)
        self._rows.load(state.tables["rows"], self._codes)

    def _starts_only(self, run: Run) -> Run:
        """Drop the end edges of a right run."""
        events = run.events.select(self._marks.names)
        begins = int64_column(events, VS) < int64_column(events, VE)
        if not begins.all():
            events = events.filter(pa.array(begins))
        return Run(with_times(events, ve=np.full(events.num_rows, INF_TIME)), run.ctis)

    def _codes(self, rows: pa.RecordBatch) -> np.ndarray:
        return self._keys.codes([rows.column(name) for name in self._spec.left_on])

    def _cut(self, marks: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
        """Return the live left rows that end at ``marks``, and the time of each end."""
        columns = [marks.column(name) for name in self._spec.right_on]
        nulls = null_keys(columns)
        codes, times = self._keys.codes(columns), int64_column(marks, VS)
        if nulls is not None:
            codes, times = codes[~nulls], times[~nulls]
        order = np.lexsort((times, codes))
        codes, times = codes[order], times[order]
        distinct = np.unique(codes)
        probe, row = self._rows.find(distinct)
        alive = self._rows.ends(row) == INF_TIME
        probe, row = probe[alive], row[alive]
        hi = codes.searchsorted(distinct[probe], side="right")
        lo = codes.searchsorted(distinct[probe], side="left")
        at = bisected(times, lo, hi, self._rows.starts(row), after=True)
        cut = at < hi
        return row[cut], times[at[cut]]

    def _events(self, rows: np.ndarray, lo: int) -> pa.RecordBatch:
        """Return the edges of ``rows`` from ``lo`` on, in output order."""
        held = self._rows
        starts, known = held.starts(rows), held.known_ends(rows)
        known = np.where(known == after(starts), known, INF_TIME)
        edges = Lives(starts, held.ends(rows), known, (rows,)).events(lo, self._instants.frontier)
        names = self._schema.names[2:]
        return in_order([(edges, held.take(edges.ranks[0]).select(names))], self._schema)
