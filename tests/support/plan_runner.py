"""Runs a physical plan in one thread, vertex after vertex, without streams, hosts or a job manager.

It shows what a plan means. It cannot show anything about timing, recovery or flushing.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from rstream.batch import VE, VS, Items, events_table, item_schema
from rvertex.sources.readers import open_reader
from rvertex.vertex import RVertex

if TYPE_CHECKING:
    import pyarrow as pa

    from planner.physical import PhysicalPlan
    from rvertex.types import VertexSpec

Streams = dict[str, list[Items]]


def run_plan(plan: PhysicalPlan, *, rows_max: int = 1000) -> Streams:
    """All items of all streams of the plan, offered ``rows_max`` at a time."""
    streams: Streams = defaultdict(list)
    for vertex_id in plan.topological_order():
        _run_vertex(plan.vertex(vertex_id), streams, rows_max)
    return streams


def answer(plan: PhysicalPlan, *, rows_max: int = 1000) -> pa.Table:
    """The events of the sink, partition after partition, in sequence order."""
    streams = run_plan(plan, rows_max=rows_max)
    schema = item_schema(plan.schema)
    batches = [i.batch for stream, _ in plan.sink_streams() for i in streams[stream]]
    return events_table(batches, schema)


def sorted_rows(table: pa.Table) -> list[dict[str, object]]:
    """The rows of an answer in an order of their own, to compare answers as bags."""
    return sorted(table.to_pylist(), key=lambda row: (row[VS], row[VE], repr(row)))


def _run_vertex(spec: VertexSpec, streams: Streams, rows_max: int) -> None:
    vertex = RVertex(spec, pending_rows_max=1_000_000)
    if spec.source is not None:
        _run_source(vertex, spec, streams, rows_max)
    else:
        _run_channels(vertex, spec, streams, rows_max)
    assert vertex.is_finished, spec.id


def _run_source(vertex: RVertex, spec: VertexSpec, streams: Streams, rows_max: int) -> None:
    assert spec.source is not None
    reader, row = open_reader(spec.source, 0), 0
    while (batch := reader.read_next(rows_max)) is not None:
        vertex.offer(0, Items(row, batch))
        row += batch.num_rows
        _collect(vertex, spec, streams)
    vertex.end_source()
    _collect(vertex, spec, streams)
    reader.close()


def _run_channels(vertex: RVertex, spec: VertexSpec, streams: Streams, rows_max: int) -> None:
    pending = [
        [
            Items(items.first_seq + at, items.batch.slice(at, rows_max))
            for items in streams[c.stream]
            for at in range(0, items.batch.num_rows, rows_max)
        ]
        for c in spec.inputs
    ]
    while any(pending):
        for k, pieces in enumerate(pending):
            if pieces:
                vertex.offer(k, pieces.pop(0))
        _collect(vertex, spec, streams)


def _collect(vertex: RVertex, spec: VertexSpec, streams: Streams) -> None:
    while (result := vertex.execute()) is not None:
        for stream, items in zip(spec.output_streams, result.outputs, strict=True):
            if items is not None:
                streams[stream].append(items)
