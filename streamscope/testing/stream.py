"""Runs a query in this process on rows, watermarks and a clock that the test controls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from planner.durations import Duration, Time, duration_us, time_us
from rstream.errors import UsageError
from rstream.items.batch import (
    CTI,
    EVENT,
    KIND,
    VS,
    cti_batch,
    event_schema,
    int64_column,
    item_schema,
    kinds,
)
from rstream.items.dictionaries import as_declared
from rstream.types import MIN_TIME
from rvertex.events.side_output import DEAD_LETTERS, LATE
from streamscope.testing.clocks import VirtualClock
from streamscope.testing.inputs import batches_of, bound
from streamscope.testing.keyed_state import read_state, set_state
from streamscope.testing.plan_run import PlanRun, Schedule
from streamscope.testing.tables import Table, compare, rows, show_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rstream.items.batch import Items
    from rvertex.vertex.spec import VertexSpec
    from streamscope.testing.inputs import QueryLike, RowsLike

_AT_ONCE = Schedule((0,), 1 << 20)


class TestStream:
    """A query that runs in this process on rows that a test pushes.

    It has the plan and the operators of a job. It writes no files, and only the test moves its
    clocks.

    Args:
        query: SQL, a function of streams, a ``Stream`` or a ``Query``.
        inputs: By name: a schema, an :class:`Input`, or rows, whose columns define the schema. A
            ``Stream`` or ``Query`` needs none: each of its sources is an input, by its label.
        now: The first value of ``ctx.now()``.
        seed: The seed of ``ctx.random()``.
        parallelism: The number of vertices of each keyed stage.
        answers: By lookup function: a dict from argument (several arguments: a tuple) to result,
            or a function to call instead. A result that is an exception is raised. A function
            without an entry is called itself.
    """

    __test__ = False  # pytest must not collect this class as a test

    def __init__(
        self,
        query: QueryLike,
        inputs: Mapping[str, Any] | None = None,
        *,
        now: Time = 0,
        seed: int = 0,
        parallelism: int = 1,
        answers: Mapping[str, Any] | None = None,
    ) -> None:
        self._bound = bound(query, inputs)
        self.clock = VirtualClock(now, seed, answers)
        self.plan = self._bound.plan(parallelism=parallelism)
        self._run = PlanRun(self.plan, self.clock)
        self._expected = {"output": 0}
        self._is_finished = False

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return self._bound.names

    def push(self, given: RowsLike, to: str | None = None) -> TestStream:
        """Push rows to an input in order of arrival; ``to``: its name if there are several."""
        name = self._input(to)
        for spec in self._sources(name):
            assert spec.source is not None
            for batch in batches_of(spec.source.spec, given, follows=self._bound.follows[name]):
                self._run.feed(spec.id, batch)
        self._settle()
        return self

    def advance_watermark(self, time: Time, of: str | None = None) -> TestStream:
        """Move the watermark of input ``of``, or of all, to ``time``: earlier rows are late."""
        time_at = time_us(time, what="advance_watermark")
        for name in self.inputs if of is None else (self._input(of),):
            for spec in self._sources(name):
                assert spec.source is not None
                schema = item_schema(spec.source.spec.row_schema)
                self._run.feed(spec.id, cti_batch(time_at, schema))
        self._settle()
        return self

    def advance_clock(self, by: Duration) -> TestStream:
        """Advance the wall clock, which ``ctx.now()`` reads. Event time does not change."""
        self.clock.us += duration_us(by, what="advance_clock")
        return self

    def restart(self) -> TestStream:
        """Replace all vertices by new ones from checkpoints, as after a crash."""
        self._run.restart()
        return self

    def state(self, process: str | None = None) -> list[dict[str, Any]]:
        """Return the state of a keyed process: per key a row of key columns, fields and timers."""
        return read_state(self._run, process)

    def set_state(self, key: Any, *, process: str | None = None, **fields: Any) -> TestStream:
        """Set state fields of a keyed process for ``key``; for two or more columns, a tuple."""
        set_state(self._run, key, fields, process)
        return self

    def finish(self) -> TestStream:
        """End all inputs: all windows close and all timers fire."""
        self._run.end()
        self._is_finished = True
        self._settle()
        return self

    @property
    def watermark(self) -> int:
        """The watermark of the output, us; MIN_TIME before the first CTI."""
        last_ctis = [self._last_cti(stream) for stream, _ in self.plan.sink_streams()]
        return min(last_ctis)

    @property
    def output(self) -> pa.Table:
        """All events so far in output order: ``_vs``, ``_ve`` and the columns."""
        streams = [stream for stream, _ in self.plan.sink_streams()]
        return self._events(streams, self.plan.schema)

    @property
    def late(self) -> pa.Table:
        """The late rows that were dropped, each with the watermark at its arrival."""
        return self._side(LATE)

    @property
    def bad(self) -> pa.Table:
        """The dead letters: bad rows of inputs, and rows on which user code failed."""
        return self._side(DEAD_LETTERS)

    def expect(self, expected: str | Table, *, in_order: bool = True) -> TestStream:
        """Assert that the events since the last ``expect`` are these.

        The table has all columns. ``time``, or ``start`` and ``end``, may be left out. Floats may
        differ by a relative 1e-9; ``~19.3`` compares only the digits shown.

        Raises:
            AssertionError: the events differ; the message shows the difference line by line.
        """
        return self._expect("output", self.output, expected, in_order)

    def expect_late(self, expected: str | Table) -> TestStream:
        """Assert that the late rows since the last ``expect_late`` are these."""
        return self._expect("late", _without(self.late, "_frontier"), expected, True)

    def _expect(
        self, what: str, found: pa.Table, expected: str | Table, in_order: bool
    ) -> TestStream:
        __tracebackhide__ = True
        table = expected if isinstance(expected, Table) else rows(expected)
        first = self._expected.get(what, 0)
        self._expected[what] = found.num_rows
        message = compare(table, found.slice(first), in_order=in_order, what=what)
        if message:
            raise AssertionError(message)
        return self

    def _input(self, name: str | None) -> str:
        if name is None and len(self.inputs) == 1:
            return self.inputs[0]
        if name not in self.inputs:
            raise UsageError(f"name an input: {', '.join(self.inputs)}")
        return name

    def _sources(self, name: str) -> list[VertexSpec]:
        vertices = [v for v in self.plan.vertices if v.source is not None]
        return [v for v in vertices if v.source is not None and v.source.spec.path == name]

    def _settle(self) -> None:
        self._run.settle(_AT_ONCE)

    def _items(self, stream: str) -> list[Items]:
        return self._run.streams.get(stream, [])

    def _last_cti(self, stream: str) -> int:
        for items in reversed(self._items(stream)):
            times = int64_column(items.batch, VS)[kinds(items.batch) == CTI]
            if len(times):
                return int(times[-1])
        return MIN_TIME

    def _events(self, streams: list[str], payload: pa.Schema) -> pa.Table:
        schema = item_schema(payload)
        batches = [as_declared(i.batch, schema) for s in streams for i in self._items(s)]
        table = pa.Table.from_batches(batches, schema)
        table = table.filter(pc.equal(table.column(KIND), EVENT)).drop_columns([KIND])
        return table.take(pc.sort_indices(table.column(VS))) if len(streams) > 1 else table

    def _side(self, kind: str) -> pa.Table:
        tables = [
            self._events(list(edge.streams), vertex.payload_of(edge))
            for vertex in self.plan.vertices
            for edge in vertex.outputs
            if edge.side.startswith(kind)
        ]
        if not tables:
            return event_schema(pa.schema([])).empty_table()
        return pa.concat_tables(tables, promote_options="default")

    def __repr__(self) -> str:
        at = show_time(self.watermark)
        end = ", finished" if self._is_finished else ""
        return f"TestStream({', '.join(self.inputs)}; watermark {at}{end})"


def _without(table: pa.Table, name: str) -> pa.Table:
    return table.drop_columns([name]) if name in table.column_names else table
