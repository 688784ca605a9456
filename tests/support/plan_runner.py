"""Runs a physical plan in one thread, vertex after vertex, without streams, hosts or a job manager.

It shows what a plan means, whatever a :class:`Schedule` does to every vertex on the way. It cannot
show anything about timing, recovery or flushing.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from rstream.items.batch import VE, VS, Items, events_table, item_schema
from rstream.items.dictionaries import as_declared
from rvertex.checkpoint.codec import decode_snapshot, encode_snapshot
from rvertex.sources.readers import open_reader
from rvertex.vertex.rvertex import RVertex

if TYPE_CHECKING:
    from planner.physical.plan import PhysicalPlan
    from rvertex.vertex.spec import VertexSpec

Streams = dict[str, list[Items]]
#: More than any input has; what is read again is not cut a second time.
_ALL = 1 << 20


@dataclass(slots=True)
class Schedule:
    """How inputs are cut and vertices restored; its numbers are used again and again.

    Each decision takes one number: which input is next, how many items of it, and whether the
    vertex dies before or after it looks at them (``restores``), to come back from its snapshot.
    """

    numbers: tuple[int, ...]
    rows_max: int = 1000
    restores: bool = False
    _at: int = field(default=0)

    def next(self, below: int) -> int:
        """A number from 0 up to ``below``."""
        self._at = (self._at + 1) % len(self.numbers)
        return self.numbers[self._at] % below

    def rows(self) -> int:
        """How many items to offer."""
        return self.rows_max if len(self.numbers) == 1 else 1 + self.next(self.rows_max)

    def restored(self, vertex: RVertex, last: tuple[int, ...]) -> RVertex:
        """The vertex, or its successor; only if it has come further than ``last``.

        What was only read ahead is lost, so a vertex that died every time would stand still.
        """
        further = not vertex.is_replaying and vertex.get_snapshot().inputs != last
        return reborn(vertex) if self.restores and further and self.next(2) == 0 else vertex


def reborn(vertex: RVertex) -> RVertex:
    """A new vertex from the snapshot of one, after a trip through the bytes of a checkpoint."""
    snapshot, spec = vertex.get_snapshot(), vertex.spec
    data = encode_snapshot(snapshot)
    again = RVertex(spec, pending_rows_max=1_000_000)
    again.load(decode_snapshot(data, name="test", state_schema=spec.state_schema))
    return again


def run_plan(
    plan: PhysicalPlan, *, rows_max: int = 1000, schedule: Schedule | None = None
) -> Streams:
    """All items of all streams of the plan, offered ``rows_max`` at a time or by ``schedule``."""
    schedule = schedule or Schedule((0,), rows_max)
    streams: Streams = defaultdict(list)
    for vertex_id in plan.topological_order():
        run_vertex(plan.vertex(vertex_id), streams, schedule)
    return streams


def answer(
    plan: PhysicalPlan, *, rows_max: int = 1000, schedule: Schedule | None = None
) -> pa.Table:
    """The events of the sink, partition after partition, in sequence order."""
    streams = run_plan(plan, rows_max=rows_max, schedule=schedule)
    schema = item_schema(plan.schema)
    found = [i.batch for stream, _ in plan.sink_streams() for i in streams[stream]]
    batches = [as_declared(batch, schema) for batch in found]
    return events_table(batches, schema)


def sorted_rows(table: pa.Table) -> list[dict[str, object]]:
    """The rows of an answer in an order of their own, to compare answers as bags."""
    return sorted(table.to_pylist(), key=lambda row: (row[VS], row[VE], repr(row)))


def run_vertex(spec: VertexSpec, streams: Streams, schedule: Schedule) -> None:
    """All that a vertex writes, given what others have written; added to ``streams``."""
    vertex = RVertex(spec, pending_rows_max=1_000_000)
    inputs = _source_rows(spec) if spec.source is not None else _channels(spec, streams)
    last: tuple[int, ...] = ()
    while not vertex.is_finished:  # ends: every turn offers something, or ends the source
        waiting = [k for k, rows in enumerate(inputs) if vertex.read_positions[k] < rows.num_rows]
        open_ = [k for k in waiting if vertex.wants(k)]
        if open_:
            k = open_[schedule.next(len(open_)) if len(schedule.numbers) > 1 else 0]
            at = vertex.read_positions[k]
            rows = _ALL if vertex.is_replaying else schedule.rows()
            vertex.offer(k, Items(at, inputs[k].slice(at, vertex.rows_wanted(k, rows))))
        else:
            assert spec.source is not None, f"{spec.id} waits for what does not come"
            vertex.end_source()
        before = vertex
        vertex = schedule.restored(vertex, last)
        _collect(vertex, spec, streams)
        vertex = schedule.restored(vertex, last)
        last = last if vertex is before else vertex.get_snapshot().inputs


def _source_rows(spec: VertexSpec) -> list[pa.RecordBatch]:
    assert spec.source is not None
    reader, batches = open_reader(spec.source, 0), []
    while (batch := reader.read_next(_ALL)) is not None:
        batches.append(batch)
    reader.close()
    return [pa.concat_batches(batches) if batches else pa.record_batch({"none": []})]


def _channels(spec: VertexSpec, streams: Streams) -> list[pa.RecordBatch]:
    return [pa.concat_batches([i.batch for i in streams[c.stream]]) for c in spec.inputs]


def _collect(vertex: RVertex, spec: VertexSpec, streams: Streams) -> None:
    while (result := vertex.execute()) is not None:
        for stream, items in zip(spec.output_streams, result.outputs, strict=True):
            if items is not None:
                streams[stream].append(items)
