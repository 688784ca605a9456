"""OF BEGINS: runs an operator that reads only starts over rows whose ends arrive later.

**Rule.** The operator ``inner`` keeps lifetimes and order. It drops rows or adds columns, based on
the rows that have begun: frames, deduplication, as-of joins. It gets each row at its start, with a
row number. When the row ends, the output row with that number ends, too.

    first of each k    start 1 k=1 a              after 1: start 1 k=1 a
                       start 3 k=1 b              (not the first)
                       end 5 (of 1) k=1 a         after 5: end 5 (of 1) k=1 a
                       end 6 (of 3) k=1 b         (no output row with this number)

Invariants: (1) row numbers follow the merged order of starts, and ``inner`` emits in that order;
(2) an end is emitted before all starts at its time, and after all earlier starts; (3) the state is
that of ``inner``, and the live rows, both as input and as output rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from rstream.items.batch import VE, VS, event_schema, int64_column
from rstream.items.dictionaries import join_batches
from rstream.items.edges import is_end
from rstream.types import INF_TIME, MIN_TIME
from rvertex.events.lifetime import with_times
from rvertex.events.reorder_buffer import SortedRuns
from rvertex.events.run import Run
from rvertex.events.settled_rows import SettledRows
from rvertex.operators.composite_state import joined_states, part_state
from rvertex.operators.edges.living_rows import LivingRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.operators.protocol import OperatorSpec, OperatorState

#: The name of the column with the row number that ``inner`` gets.
NUMBER = "number of row"
_ENDS = event_schema(pa.schema([(NUMBER, pa.int64())]))


@dataclass(frozen=True, slots=True)
class EdgeOfBegins:
    """Runs ``inner``, which must keep the column ``NUMBER`` of port 0 in its output."""

    holds_ctis: ClassVar[bool] = True

    inner: OperatorSpec

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Return the schema of ``inner``, without the row number."""
        whole = self.inner.output_schema(_numbered(inputs))
        return pa.schema([field for field in whole if field.name != NUMBER])

    def open(self, inputs: Sequence[pa.Schema]) -> EdgeOfBeginsOperator:
        """Return a new operator with empty state."""
        return EdgeOfBeginsOperator(self, inputs)


class EdgeOfBeginsOperator:
    """The running operator of :class:`EdgeOfBegins`."""

    def __init__(self, spec: EdgeOfBegins, inputs: Sequence[pa.Schema]) -> None:
        self._inner = spec.inner.open(_numbered(inputs))
        self._event_schema = event_schema(inputs[0])
        self._schema = event_schema(spec.output_schema(inputs))
        self._left = event_schema(spec.inner.output_schema(_numbered(inputs)))
        self._settled = SettledRows([self._event_schema])
        #: Live input rows; ``_numbers`` has the row number of each.
        self._rows = LivingRows(self._event_schema)
        self._numbers = np.empty(0, np.int64)
        #: The output rows of these, by row number.
        self._made = self._left.empty_table().combine_chunks()
        #: Ends that are not emitted yet: time, start of the row, row number.
        self._ends = SortedRuns(_ENDS)
        self._next = 0

    @property
    def duplicates(self) -> int:
        """Number of events that ``inner`` dropped as duplicates."""
        return getattr(self._inner, "duplicates", 0)

    def process(self, ports: Sequence[Run]) -> Run:
        """Emit the output of ``inner`` for the starts, and the ends that are due."""
        (rows,) = self._settled.take(ports[:1], advancing=ports[1:])
        ends = is_end(int64_column(rows, VS), int64_column(rows, VE))
        births = rows.filter(pa.array(~ends)) if ends.any() else rows
        numbers = np.arange(self._next, self._next + births.num_rows)
        self._next += len(numbers)
        lasting = np.flatnonzero(int64_column(births, VE) == INF_TIME)
        self._rows.add(births.take(pa.array(lasting)), np.zeros(len(lasting), np.int64))
        self._numbers = np.append(self._numbers, numbers[lasting])
        if ends.any():
            self._end(rows.filter(pa.array(ends)))
        columns = [*births.columns, pa.array(numbers)]
        schema = self._event_schema.append(pa.field(NUMBER, pa.int64()))
        given = Run(pa.RecordBatch.from_arrays(columns, schema=schema), ports[0].ctis)
        made = self._inner.process([given, *ports[1:]])
        self._keep(made.events)
        out = self._merged(made.events, self._due(made))
        kept = self._rows.forget()
        if kept is not None:
            self._numbers = self._numbers[kept]
        return Run(out, made.ctis)

    def snapshot(self) -> OperatorState:
        """Return the inner state, live rows and buffered ends, by reference."""
        (waiting,) = self._settled.tables()
        numbers = pa.table({NUMBER: self._numbers})
        tables = {"waiting": waiting, "rows": self._rows.table(), "numbers": numbers}
        tables |= {"made": self._made, "ends": self._ends.table()}
        header = {"frontier": self._settled.frontier, "next": self._next}
        return joined_states({"inner": self._inner.snapshot()}, header, tables)

    def load(self, state: OperatorState) -> None:
        """Restore ``state``."""
        tables = state.tables
        self._inner.load(part_state(state, "inner"))
        self._settled.load(state.header["frontier"], [tables["waiting"]])
        self._next = state.header["next"]
        alive = LivingRows.is_alive(tables["rows"])
        self._numbers = tables["numbers"].column(0).to_numpy()[alive]
        self._rows.load(tables["rows"], lambda rows: np.zeros(rows.num_rows, np.int64))
        self._made = tables["made"]
        for batch in tables["ends"].to_batches():
            self._ends.push(batch)

    def _end(self, deaths: pa.RecordBatch) -> None:
        """Buffer the ends of the live rows that the end edges ``deaths`` name."""
        unknown = np.full(deaths.num_rows, INF_TIME)
        found = self._rows.end(deaths, np.zeros(deaths.num_rows, np.int64), unknown)
        numbers = self._numbers[found]
        times = int64_column(deaths, VS)
        order = np.lexsort((numbers, times))
        began = self._rows.starts(found)
        columns = [pa.array(column[order]) for column in (times, began, numbers)]
        self._ends.push(pa.RecordBatch.from_arrays(columns, schema=_ENDS))

    def _keep(self, events: pa.RecordBatch) -> None:
        """Store the output rows that may end later."""
        lasting = int64_column(events, VE) == INF_TIME
        if lasting.any():
            added = pa.Table.from_batches([events.filter(pa.array(lasting))]).cast(self._left)
            self._made = pa.concat_tables([self._made, added])

    def _due(self, made: Run) -> pa.RecordBatch:
        """Return the end edges of output rows that precede every later start."""
        upto = int(made.ctis[-1]) if len(made.ctis) else int(MIN_TIME)
        if made.events.num_rows:  # ends at the time of a row precede the row
            upto = max(upto, int(int64_column(made.events, VS)[-1]) + 1)
        ends = self._ends.take_below(upto)
        if ends.num_rows == 0:
            return made.events.slice(0, 0)
        rows = self._made.combine_chunks()
        known = rows.column(NUMBER).to_numpy()
        wanted = ends.column(NUMBER).to_numpy()
        at = np.minimum(known.searchsorted(wanted), max(len(known) - 1, 0))
        hit = known[at] == wanted if len(known) else np.zeros(len(wanted), bool)
        gone = np.isin(known, wanted)
        self._made = rows.filter(pa.array(~gone))
        batches = rows.take(pa.array(at[hit])).combine_chunks().to_batches()
        if not batches:
            return made.events.slice(0, 0)
        times = int64_column(ends, VS)[hit], int64_column(ends, VE)[hit]
        return with_times(batches[0], vs=times[0], ve=times[1])

    def _merged(self, begins: pa.RecordBatch, ends: pa.RecordBatch) -> pa.RecordBatch:
        """Merge the starts and the end edges, in output order."""
        events = join_batches([ends, begins]).select(self._schema.names)
        is_begin = np.repeat([False, True], [ends.num_rows, begins.num_rows])
        order = np.lexsort((is_begin, int64_column(events, VS)))
        return events.take(pa.array(order))


def _numbered(inputs: Sequence[pa.Schema]) -> list[pa.Schema]:
    """Return the input schemas, with the row number added to port 0."""
    return [inputs[0].append(pa.field(NUMBER, pa.int64())), *inputs[1:]]
