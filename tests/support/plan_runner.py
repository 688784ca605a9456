"""Results of physical plans, computed in one thread by the test kit's :mod:`plan_run`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from rstream.items.batch import EVENT, KIND, VE, VS, item_schema
from rstream.items.dictionaries import as_declared
from streamscope.testing.plan_run import Schedule, Streams, VertexRun, run_plan, source_rows

if TYPE_CHECKING:
    from planner.physical.plan import PhysicalPlan
    from rstream.items.batch import Items
    from rvertex.vertex.spec import VertexSpec

__all__ = ["Schedule", "Streams", "answer", "answers", "run_plan", "run_vertex", "sorted_rows"]


def answer(
    plan: PhysicalPlan, *, rows_max: int = 1000, schedule: Schedule | None = None
) -> pa.Table:
    """The events of the only output, partition after partition, in sequence order."""
    (table,) = answers(plan, rows_max=rows_max, schedule=schedule)
    return table


def answers(
    plan: PhysicalPlan, *, rows_max: int = 1000, schedule: Schedule | None = None
) -> list[pa.Table]:
    """The events of each output."""
    streams = run_plan(plan, rows_max=rows_max, schedule=schedule)
    return [_events(output, streams) for output in plan.of_outputs]


def _events(plan: PhysicalPlan, streams: Streams) -> pa.Table:
    schema = item_schema(plan.schema)
    found = [i.batch for stream, _ in plan.sink_streams() for i in streams[stream]]
    table = pa.Table.from_batches([as_declared(batch, schema) for batch in found], schema)
    return table.filter(pc.equal(table[KIND], EVENT)).drop_columns([KIND])


def sorted_rows(table: pa.Table) -> list[dict[str, object]]:
    """The rows of a result, sorted, to compare results as multisets."""
    return sorted(table.to_pylist(), key=lambda row: (row[VS], row[VE], repr(row)))


def run_vertex(spec: VertexSpec, streams: Streams, schedule: Schedule) -> None:
    """Run a vertex over the streams of others, and add its own streams to ``streams``."""
    run = VertexRun(spec)
    run.is_ended = True
    if spec.source is not None:
        for batch in source_rows(spec):
            run.inputs[0].append(batch)
    for rows, channel in zip(run.inputs, spec.inputs, strict=False):
        for items in streams[channel.stream]:
            rows.append(items.batch)

    def write(_: VertexSpec, stream: str, items: Items) -> None:
        streams[stream].append(items)

    run.run(schedule, write)
    assert run.vertex.is_finished, f"{spec.id} waits for input that never arrives"
