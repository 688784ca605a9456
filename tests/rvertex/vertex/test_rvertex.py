"""A whole vertex under any schedule: its output and digests do not depend on it.

A schedule is the order and size of offers, steps, and restores of the serialised snapshot. Cannot
catch: the host's work around a vertex (tests/jobmanager), other operators (see the operator
harness).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, strategies as st

from rstream.items.batch import KIND, VS
from rstream.items.hashing import partition_of
from rstream.types import INF_TIME
from rvertex.checkpoint.codec import decode_snapshot, encode_snapshot
from rvertex.errors import SnapshotSchemaError
from rvertex.vertex.rvertex import RVertex
from tests.support.budget import examples
from tests.support.builders import Ev, ev
from tests.support.exact import assert_same_items
from tests.support.lives import (
    LEFT,
    RIGHT,
    Action,
    Inputs,
    arrival,
    assert_same_run,
    channel,
    check_digests,
    join_vertex,
    run_vertex,
    schedules,
    source_vertex,
    three_channels,
)
from tests.support.strategies import events, times

if TYPE_CHECKING:
    from collections.abc import Callable

    from rvertex.sources.spec import LatePolicy
    from rvertex.vertex.spec import Snapshot, VertexSpec


@examples(40)
@given(
    table=events(LEFT, times=times(0, 40), max_size=24),
    schedule=schedules(1),
)
def test_the_schedule_does_not_change_a_source_vertex(
    table: list[Ev], schedule: list[Action]
) -> None:
    inputs = [arrival(table)]
    whole = run_vertex(source_vertex(), inputs, [])
    check_digests(whole)
    cut = run_vertex(source_vertex(), inputs, schedule)
    assert_same_run(cut, whole)


@examples(40)
@given(
    table=events(LEFT, times=times(0, 40), max_size=24),
    schedule=schedules(1),
    late=st.sampled_from(["drop", "adjust"]),
)
def test_a_filter_before_the_sort_keeps_the_same_rows(
    table: list[Ev], schedule: list[Action], late: LatePolicy
) -> None:
    inputs = [arrival(table)]
    behind = run_vertex(source_vertex(late=late), inputs, [])
    early = run_vertex(source_vertex(late=late, early=True), inputs, schedule)
    assert_same_run(early, behind)


@examples(10)
@given(
    inputs=three_channels(), schedule=schedules(3), pending_rows_max=st.sampled_from([1, 4, 1_000])
)
def test_the_schedule_does_not_change_a_join_vertex(
    inputs: Inputs, schedule: list[Action], pending_rows_max: int
) -> None:
    whole = run_vertex(join_vertex(), inputs, [])
    check_digests(whole)
    cut = run_vertex(join_vertex(), inputs, schedule, pending_rows_max)
    assert_same_run(cut, whole)


@pytest.mark.parametrize("make", [source_vertex, join_vertex])
def test_a_finished_vertex_stays_finished(make: Callable[[], VertexSpec]) -> None:
    spec = make()
    empty = [channel([], p, []) for p in (LEFT, LEFT, RIGHT)] if spec.inputs else [arrival([])]
    run = run_vertex(spec, empty, [])
    run.restore()
    assert run.vertex.is_finished
    assert run.vertex.get_snapshot().is_final
    assert not run.vertex.wants(0)
    assert [batch.to_pylist() for batch in run.items()] == [
        [{**dict.fromkeys(spec.output_payload.names), KIND: 1, VS: INF_TIME, "_ve": INF_TIME}]
    ] * 4


def test_events_are_partitioned_by_key_and_ctis_are_sent_to_all() -> None:
    table = [ev(t, k=t % 5 if t % 7 else None, x=float(t)) for t in range(60)]
    run = run_vertex(source_vertex(), [arrival(table)], [])
    *hashed, single = run.items()
    whole = single.filter(pc.equal(single[KIND], 0))
    for part, items in enumerate(hashed):
        rows = items.filter(pc.equal(items[KIND], 0))
        assert set(partition_of([rows.column("k")], 3).tolist()) <= {part}
        mine = partition_of([whole.column("k")], 3) == part
        assert_same_items(rows, whole.filter(pa.array(mine)), f"part {part}")
        ctis = items.filter(pc.equal(items[KIND], 1))
        assert ctis[VS].equals(single.filter(pc.equal(single[KIND], 1))[VS])
    assert sum(batch.num_rows > 12 for batch in hashed) >= 2


def test_a_snapshot_of_another_plan_is_rejected() -> None:
    snapshot: Snapshot = RVertex(source_vertex(), pending_rows_max=1).get_snapshot()
    data = encode_snapshot(snapshot)
    with pytest.raises(SnapshotSchemaError, match="resume with the query that wrote it"):
        decode_snapshot(data, name="c", state_schema="another")
