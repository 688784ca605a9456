"""Run a query over rows in one order of arrival, and compare the results of such runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from planner.logical.nodes import Source
from planner.logical.traversal import transform
from rstream.items.batch import (
    EVENT,
    KIND,
    VS,
    cti_batch,
    empty_events,
    int64_column,
    item_schema,
    payload_schema,
)
from rstream.items.dictionaries import as_declared
from rstream.items.digest import content_hashes
from rvertex.sources.spec import PlanItems, SourceSpec
from streamscope.testing.clocks import VirtualClock
from streamscope.testing.inputs import as_items, batches_of
from streamscope.testing.plan_run import PlanRun, Schedule
from streamscope.testing.tables import NULL, show, show_time, show_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.logical.nodes import LogicalNode
    from planner.logical.query import Query
    from planner.logical.traversal import Shared
    from planner.physical.plan import PhysicalPlan
    from rvertex.vertex.spec import VertexSpec
    from streamscope.testing.inputs import BoundQuery, RowsLike

#: By source vertex: the batches that it reads.
Feeds = dict[str, list[pa.RecordBatch]]
Change = Callable[[pa.RecordBatch], pa.RecordBatch]
_SHOWN_MAX = 4
TOLERANCE = 1e-9
#: How far rows may be out of order, as shares of the input's time span.
_DISORDER = (0.0, 0.1, 0.5, 1.0)


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a run: the items of each output stream, in stream order."""

    streams: tuple[pa.Table, ...]

    def is_same_sequence(self, other: Answer) -> bool:
        """Return whether all streams have the same items in the same order, bit for bit."""
        pairs = zip(self.streams, other.streams, strict=True)
        return all(np.array_equal(_hashes(a), _hashes(b)) for a, b in pairs)

    @property
    def table(self) -> pa.Table:
        """All events: ``_vs``, ``_ve`` and the columns."""
        tables = [t.filter(pc.equal(t[KIND], EVENT)).drop_columns([KIND]) for t in self.streams]
        return pa.concat_tables(tables)

    @property
    def events(self) -> Counter[tuple[str, ...]]:
        """The events as a multiset of rows of text cells; floats have all digits."""
        rows: Counter[tuple[str, ...]] = Counter()
        for row in self.table.to_pylist():
            (_, vs), (_, ve), *values = row.items()
            cells = (show_value(value) for _, value in values)
            rows[show_time(vs), show_time(ve), *cells] += 1
        return rows


def _hashes(table: pa.Table) -> np.ndarray:
    hashes = [content_hashes(batch) for batch in table.to_batches()]
    return np.concatenate(hashes) if hashes else np.empty(0, np.uint64)


@dataclass(frozen=True, slots=True)
class Difference:
    """Events that only one of two results has, as rows of text cells."""

    names: tuple[str, ...]
    before: list[tuple[str, ...]]
    now: list[tuple[str, ...]]

    #: The indexes of float columns among the cells of a row.
    floats: frozenset[int]

    def is_rounding(self, tolerance: float) -> bool:
        """Return whether only floats differ, by rounding or by at most ``tolerance``."""
        if len(self.before) != len(self.now):
            return False
        lines = zip(*(sorted(n, key=self._order) for n in (self.before, self.now)), strict=True)
        return all(
            a == b or (k in self.floats and _is_close(a, b, tolerance))
            for one, other in lines
            for k, (a, b) in enumerate(zip(one, other, strict=True))
        )

    def _order(self, line: tuple[str, ...]) -> tuple[list[str], list[tuple[bool, float]]]:
        """Return the sort key of a row: exact cells, then floats by value with nulls first."""
        exact = [cell for k, cell in enumerate(line) if k not in self.floats]
        values = [line[k] for k in sorted(self.floats)]
        return exact, [(v != NULL, 0.0 if v == NULL else float(v)) for v in values]

    def __str__(self) -> str:
        lines = [("-", line) for line in self.before[:_SHOWN_MAX]]
        lines += [("+", line) for line in self.now[:_SHOWN_MAX]]
        table = show(["start", "end", *self.names], [line for _, line in lines])
        marked = [f"  {line}" for line in table[:2]]
        marked += [f"{mark} {line}" for (mark, _), line in zip(lines, table[2:], strict=True)]
        more = max(len(self.before), len(self.now)) - _SHOWN_MAX
        return "\n".join([*marked, *([f"  and {more} more"] if more > 0 else [])])


def difference(before: Answer, now: Answer) -> Difference | None:
    """Return the difference between the events of two results, ignoring order; None if equal."""
    a, b = before.events, now.events
    if a == b:
        return None
    left, right = sorted((a - b).elements()), sorted((b - a).elements())
    payload = payload_schema(before.streams[0].schema)
    floats = {k for k, f in enumerate(payload, 2) if pa.types.is_floating(f.type)}
    return Difference(tuple(payload.names), left, right, frozenset(floats))


def _is_close(a: str, b: str, tolerance: float) -> bool:
    if NULL in (a, b):
        return False
    return math.isclose(float(a), float(b), rel_tol=TOLERANCE, abs_tol=tolerance)


def answer_of(plan: PhysicalPlan, feeds: Feeds, schedule: Schedule) -> Answer:
    """Run the plan with these rows for its sources, and return its result."""
    run = PlanRun(plan, VirtualClock(0, 0))
    for vertex, batches in feeds.items():
        for batch in batches:
            run.feed(vertex, batch)
    run.end()
    run.settle(schedule)
    run.require_end()
    schema = item_schema(plan.schema)
    streams = []
    for stream, _ in plan.sink_streams():
        batches = [as_declared(items.batch, schema) for items in run.streams[stream]]
        streams.append(pa.Table.from_batches(batches, schema).combine_chunks())
    return Answer(tuple(streams))


def same(events: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows unchanged."""
    return events


def reversed_rows(events: pa.RecordBatch) -> pa.RecordBatch:
    """Reverse the rows."""
    return events.take(pa.array(np.arange(events.num_rows)[::-1]))


def other_floats(events: pa.RecordBatch) -> pa.RecordBatch:
    """Replace floats by values of very different magnitudes, whose sums depend on the order."""
    random = Random("magnitudes")
    columns = []
    for column in events.columns:
        if pa.types.is_floating(column.type):
            values = [_moved(value, random) for value in column.to_pylist()]
            column = pa.array(values, column.type)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=events.schema)


def _moved(value: float | None, random: Random) -> float | None:
    factor = (1 + random.random()) * 10.0 ** random.randint(-4, 4)
    return None if value is None else value * factor


def in_order(
    bound: BoundQuery, plan: PhysicalPlan, rows: Mapping[str, RowsLike], change: Change = same
) -> Feeds:
    """Feed all rows by time, ties in row order. ``change``: applied to the rows before sorting."""
    return _feeds(bound, plan, rows, None, change)


def out_of_order(
    bound: BoundQuery,
    plan: PhysicalPlan,
    rows: Mapping[str, RowsLike],
    seed: int,
    change: Change = same,
) -> Feeds:
    """Feed the rows in a random order that the delay allows, with watermarks in between.

    Rows of one instant are also shuffled, and rows are distributed to the input's partitions.
    """
    return _feeds(bound, plan, rows, seed, change)


def _feeds(
    bound: BoundQuery,
    plan: PhysicalPlan,
    rows: Mapping[str, RowsLike],
    seed: int | None,
    change: Change,
) -> Feeds:
    feeds: Feeds = {}
    for vertex in plan.vertices:
        if vertex.source is None:
            continue
        name = vertex.source.spec.path
        (*_, last) = [v.source.index for v in _same(plan, name) if v.source is not None]
        random = None if seed is None else Random(f"{seed} {name}")
        events = change(_events(vertex, rows[name]))
        feeds[vertex.id] = _fed(vertex, events, random, last + 1, bound.follows[name])
    return feeds


def _same(plan: PhysicalPlan, name: str) -> list[VertexSpec]:
    return [v for v in plan.vertices if v.source is not None and v.source.spec.path == name]


def _events(vertex: VertexSpec, rows: RowsLike) -> pa.RecordBatch:
    assert vertex.source is not None
    batches = batches_of(vertex.source.spec, rows, follows=True)
    assert len(batches) <= 1, "rows cannot be shuffled together with bad rows"
    return batches[0] if batches else empty_events(vertex.source.spec.row_schema)


def _fed(
    vertex: VertexSpec,
    events: pa.RecordBatch,
    random: Random | None,
    partitions: int,
    follows: bool,
) -> list[pa.RecordBatch]:
    assert vertex.source is not None
    vs = int64_column(events, VS)
    order = _order(events, vertex.source.spec, random, follows=follows)
    if random is None:
        dealt = np.arange(len(vs)) % partitions
    else:
        dealt = np.array([random.randrange(partitions) for _ in vs], np.int64)
    own = order[dealt[order] == vertex.source.index]
    events = events.take(pa.array(own, pa.int64()))
    return [events] if follows else _with_watermarks(events, random)


def _order(
    events: pa.RecordBatch, spec: SourceSpec, random: Random | None, *, follows: bool = False
) -> np.ndarray:
    """Return a permutation of the rows: by time, or random within the delay and within instants."""
    vs = int64_column(events, VS)
    if random is None:
        return np.argsort(vs, kind="stable")
    span = int(vs.max() - vs.min()) if len(vs) else 0
    delay = int(min(spec.delay_us if follows else span, span * random.choice(_DISORDER)))
    key = vs + np.array([random.randint(0, delay) for _ in vs], np.int64)
    ties = np.array([random.random() for _ in vs])
    return np.lexsort((ties, key))


def _with_watermarks(events: pa.RecordBatch, random: Random | None) -> list[pa.RecordBatch]:
    """Convert events to items with watermarks that no later row contradicts.

    With rows in order of time, a watermark precedes every new time; else only some new times.
    """
    vs = int64_column(events, VS)
    items = as_items(events)
    schema = items.schema
    if not len(vs):
        return [items]
    least = np.minimum.accumulate(vs[::-1])[::-1]
    pieces, lo = [], 0
    for at in range(1, len(vs)):
        if least[at] > vs[at - 1] if random is None else random.random() < 0.5:
            pieces += [items.slice(lo, at - lo), cti_batch(int(least[at]), schema)]
            lo = at
    return [*pieces, items.slice(lo)]


def greatest(feeds: Feeds) -> float:
    """Return the greatest absolute value of a float in the input."""
    found = [0.0]
    for batches in feeds.values():
        for batch in batches:
            columns = [c for c in batch.columns if pa.types.is_floating(c.type)]
            for column in columns:
                values = np.abs(column.drop_null().to_numpy(zero_copy_only=False))
                found.append(float(values[np.isfinite(values)].max(initial=0.0)))
    return max(found)


def with_items(
    bound: BoundQuery, rows: Mapping[str, RowsLike], random: Random | None = None
) -> Query:
    """Return the query with the rows inside its sources: by time, or in a random order."""

    def given(node: LogicalNode, shared: Shared) -> LogicalNode:
        del shared
        if not isinstance(node, Source):
            return node
        spec = node.spec
        (events,) = batches_of(spec, rows[spec.path], follows=True) or [
            empty_events(spec.row_schema)
        ]
        events = events.take(pa.array(_order(events, spec, random), pa.int64()))
        items = pa.concat_batches(_with_watermarks(events, random))
        found = SourceSpec(PlanItems(items), "", spec.schema, pa.schema([]), None)
        return replace(node, spec=found)

    return replace(bound.query, plan=transform(bound.query.plan, given))  # type: ignore[arg-type]
