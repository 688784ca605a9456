"""Side outputs of a vertex: their order, their end, and independence of the schedule.

Not covered: side streams in a job (tests/jobmanager/storage/test_side_output.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given

from rstream.items.batch import CTI, KIND, VE, VS
from rstream.types import INF_TIME
from rvertex.events.run import Run
from rvertex.events.side_output import SideOutput, side_outputs_of
from rvertex.operators.protocol import Stateless
from rvertex.vertex.reorder import FRONTIER, late_payload
from rvertex.vertex.spec import OutputEdge, VertexSpec
from tests.rvertex.vertex.test_rvertex import (
    LEFT,
    Action,
    arrival,
    assert_same_run,
    check_digests,
    run_vertex,
    schedules,
    source_vertex,
)
from tests.support.budget import examples
from tests.support.builders import Ev, ev
from tests.support.strategies import events, times

if TYPE_CHECKING:
    from collections.abc import Sequence

BAD = pa.schema([("k", pa.int64())])


@dataclass(frozen=True)
class Refuse:
    """Sends events without a key to two side outputs: unchanged, and as keys only."""

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        return inputs[0]

    def side_outputs(self, inputs: Sequence[pa.Schema]) -> tuple[SideOutput, ...]:
        return (SideOutput("dead_letters/all", inputs[0]), SideOutput("dead_letters/keys", BAD))

    def open(self, inputs: Sequence[pa.Schema]) -> Refusing:
        return Refusing()


class Refusing(Stateless):
    def __init__(self) -> None:
        self._refused: list[pa.RecordBatch] = []

    def process(self, ports: Sequence[Run]) -> Run:
        (run,) = ports
        is_bad = pc.is_null(run.events.column("k"))
        refused = run.events.filter(is_bad)
        self._refused = [refused, refused.select([VS, VE, "k"])]
        return Run(run.events.filter(pc.invert(is_bad)), run.ctis)

    def drain_side_outputs(self) -> Sequence[pa.RecordBatch]:
        return self._refused


def vertex() -> VertexSpec:
    """A source that keeps its late rows, followed by an operator that rejects some rows."""
    plain = source_vertex()
    sides = (SideOutput("late/v", late_payload(LEFT)), *Refuse().side_outputs([LEFT]))
    edges = [OutputEdge((s.name,), (s.name,), (), "async", False, s.name, s.payload) for s in sides]
    return replace(plain, operators=(Refuse(), *plain.operators), outputs=(*plain.outputs, *edges))


@examples(15)
@given(table=events(LEFT, times=times(0, 40), max_size=24), schedule=schedules(1))
def test_side_outputs_do_not_depend_on_the_schedule(
    table: list[Ev], schedule: list[Action]
) -> None:
    whole = run_vertex(vertex(), [arrival(table)], [])
    check_digests(whole)
    assert_same_run(run_vertex(vertex(), [arrival(table)], schedule), whole)
    late, refused, keys = whole.items()[-3:]
    assert max(late.num_rows - 1, 0) == whole.vertex.counts.late_events
    assert keys.num_rows == refused.num_rows
    for items in (late, refused):
        if items.num_rows:
            assert items.column(KIND).to_pylist() == [0] * (items.num_rows - 1) + [CTI]
            assert items.column(VS)[-1].as_py() == INF_TIME


def test_rows_keep_their_order_and_a_stream_without_rows_has_no_items() -> None:
    table = [ev(20, k=1, x=0.0), ev(3, k=2, x=1.0), ev(30, k=1, x=2.0), ev(13, k=3, x=3.0)]
    late, refused, keys = run_vertex(vertex(), [arrival(table)], []).items()[-3:]
    rows = [(r[VS], r["k"], r[FRONTIER]) for r in late.to_pylist()[:-1]]
    assert rows == [(3, 2, 14), (13, 3, 24)]
    assert (refused.num_rows, keys.num_rows) == (0, 0)


def test_most_operators_have_no_side_output() -> None:
    assert side_outputs_of(source_vertex().operators[0], [LEFT]) == ()
    assert len(side_outputs_of(Refuse(), [LEFT])) == 2
