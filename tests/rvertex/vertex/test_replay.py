"""Vertices restored from positions: any schedule of offers, steps and restores has one output.

Not covered: how hosts feed a replaying vertex (tests/rvertex/host/test_host.py); the horizons of
operators (tests/rvertex/operators/test_horizon.py).
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from rstream.items.batch import Items
from rvertex.aggregates.spec import AggregateSpec
from rvertex.errors import ReplayDifferenceError
from rvertex.operators.horizon import chain_horizon
from rvertex.operators.protocol import OperatorState
from rvertex.operators.windows.hopping import PartialAggregate
from rvertex.operators.windows.session_phases import PartialSession
from rvertex.sources.spec import PlanItems, SourceSpec
from rvertex.vertex.replay import POINTS_MAX, ReplayPoints
from rvertex.vertex.rvertex import RVertex
from rvertex.vertex.spec import Recovery, Snapshot, VertexSpec
from tests.support.budget import examples
from tests.support.builders import Cti, Ev, Item, cti, ev, make_items
from tests.support.lives import (
    LEFT,
    RESTORE,
    RIGHT,
    STEP,
    Action,
    Inputs,
    Life,
    arrival,
    assert_same_run,
    channel,
    join_vertex,
    payload_after,
    run_vertex,
    schedules,
    source_vertex,
    three_channels,
    vertex_spec,
)
from tests.support.strategies import events, times

if TYPE_CHECKING:
    from rvertex.sources.spec import LatePolicy

DURATION_MAX = 4


def replayed(spec: VertexSpec, *durations: int) -> VertexSpec:
    """The vertex with recovery by replay, with its horizon."""
    horizon_us = chain_horizon(spec.operators, durations)
    assert horizon_us is not None
    return dataclasses.replace(spec, recovery=Recovery("replay", horizon_us=horizon_us))


def joining() -> VertexSpec:
    return replayed(join_vertex(), DURATION_MAX, DURATION_MAX)


def item_source() -> VertexSpec:
    """A source of items with their own CTIs, before the aggregate of :func:`source_vertex`."""
    kind = PlanItems(make_items([], LEFT))
    spec = SourceSpec(kind, "", LEFT, pa.schema([]), vs=None, cti_every_us=4)
    operators = list(source_vertex().operators)
    return replayed(vertex_spec([LEFT], operators, source=spec, channel_ports=[]), 1)


@examples(15)
@given(
    table=events(LEFT, times=times(0, 90), max_size=30),
    late=st.sampled_from(["drop", "adjust"]),
    early=st.booleans(),
    schedule=schedules(1),
)
def test_restores_do_not_change_a_source(
    table: list[Ev], late: LatePolicy, early: bool, schedule: list[Action]
) -> None:
    spec = replayed(source_vertex(late=late, early=early), 1)
    inputs = [arrival(table)]
    whole = run_vertex(source_vertex(late=late), inputs, [])
    assert_same_run(run_vertex(spec, inputs, schedule), whole)


def exact(spec: VertexSpec, *, sorts: bool, sessions: bool) -> VertexSpec:
    """The source vertex with order-independent aggregates, and perhaps unsorted rows."""
    assert spec.source is not None
    names = (("count", None), ("count", "x"), ("sum", "k"), ("max", "k"))
    specs = tuple(AggregateSpec(f, column, f"{f}-{column}") for f, column in names)
    aggregate: PartialAggregate | PartialSession
    if sessions:
        aggregate = PartialSession(("k",), 4, specs, any_order=not sorts)
    else:
        aggregate = PartialAggregate(("k",), 8, 4, specs, points=True, any_order=not sorts)
    operators = (*spec.operators[:-1], aggregate)
    source = dataclasses.replace(spec.source.spec, sorts=sorts)
    return dataclasses.replace(
        spec,
        source=dataclasses.replace(spec.source, spec=source),
        operators=operators,
        output_payload=payload_after(operators, [LEFT]),
    )


@examples(15)
@given(
    table=events(LEFT, times=times(0, 90), max_size=30),
    late=st.sampled_from(["drop", "adjust"]),
    early=st.booleans(),
    replays=st.booleans(),
    sessions=st.booleans(),
    schedule=schedules(1),
)
def test_an_unsorted_source_equals_a_sorted_one(
    table: list[Ev],
    late: LatePolicy,
    early: bool,
    replays: bool,
    sessions: bool,
    schedule: list[Action],
) -> None:
    spec = exact(source_vertex(late=late, early=early), sorts=False, sessions=sessions)
    inputs = [arrival(table)]
    whole = run_vertex(exact(source_vertex(late=late), sorts=True, sessions=sessions), inputs, [])
    assert_same_run(run_vertex(replayed(spec, 1) if replays else spec, inputs, schedule), whole)


@examples(40)
@given(
    table=events(LEFT, times=times(0, 90), max_size=30),
    ctis=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 90)), max_size=6),
    schedule=schedules(1),
)
def test_restores_do_not_change_a_source_of_items(
    table: list[Ev], ctis: list[tuple[int, int]], schedule: list[Action]
) -> None:
    items: list[Item] = list(table)
    for at, time in sorted(ctis, key=lambda c: c[1]):
        items.insert(at, Cti(time))
    inputs = [make_items(items, LEFT)]
    whole = run_vertex(dataclasses.replace(item_source(), recovery=Recovery()), inputs, [])
    assert_same_run(run_vertex(item_source(), inputs, schedule), whole)


@examples(15)
@given(
    inputs=three_channels(90, DURATION_MAX),
    schedule=schedules(3),
    pending_rows_max=st.sampled_from([1, 4, 1_000]),
)
def test_restores_do_not_change_a_join(
    inputs: Inputs, schedule: list[Action], pending_rows_max: int
) -> None:
    whole = run_vertex(join_vertex(), inputs, [])
    assert_same_run(run_vertex(joining(), inputs, schedule, pending_rows_max), whole)


def long_inputs() -> Inputs:
    lefts = [ev(t, t + 1 + t % DURATION_MAX, k=t % 3, x=t / 7) for t in range(600)]
    rights = [ev(t, t + 2, k=t % 2, n=t) for t in range(0, 600, 3)]
    ctis = list(range(0, 600, 5))
    return [
        channel(lefts[::2], LEFT, ctis),
        channel(lefts[1::2], LEFT, ctis[::2]),
        channel(rights, RIGHT, ctis[::3]),
    ]


def test_a_replay_reads_exactly_the_horizon() -> None:
    schedule = [*((k % 3, 17) if k % 4 else (STEP, 0) for k in range(60)), (RESTORE, 0)]
    schedule += [*((k % 3, 5) if k % 4 else (STEP, 0) for k in range(30)), (RESTORE, 0)]
    run = run_vertex(joining(), long_inputs(), schedule)
    assert_same_run(run, run_vertex(join_vertex(), long_inputs(), []))
    consumed = sum(run.last.inputs)
    assert consumed > 500
    assert 0 < min(run.reread) <= max(run.reread) < consumed / 3, (run.reread, consumed)


def test_a_vertex_dies_again_during_its_replay() -> None:
    schedule: list[Action] = [*((k % 3, 40) if k % 4 else (STEP, 0) for k in range(40))]
    for _ in range(3):
        schedule += [(RESTORE, 0), (0, 3), (1, 3), (STEP, 0)]
    run = run_vertex(joining(), long_inputs(), schedule)
    assert len({*run.reread}) == 1, "it comes back to where it stood"
    assert_same_run(run, run_vertex(join_vertex(), long_inputs(), []))


def test_a_snapshot_for_replay_contains_no_rows() -> None:
    life = Life(joining(), long_inputs(), 1_000)
    for _ in range(4):
        for k in range(3):
            life.offer(k, 100)
        life.step()
    snapshot = life.vertex.get_snapshot()
    assert snapshot.replay_from is not None
    assert all(a <= p for a, p in zip(snapshot.reads, snapshot.inputs, strict=True))
    assert sum(snapshot.reads) > 0
    assert [state.tables for state in snapshot.states] == [{}]
    assert not snapshot.replay_from.input_state.tables


def test_a_vertex_loaded_from_a_state_keeps_it_until_it_can_be_rebuilt() -> None:
    life = Life(join_vertex(), long_inputs(), 1_000)
    kinds = []
    for step in range(6):
        for k in range(3):
            life.offer(k, 20)
        life.step()
        if step == 2:
            life.spec = joining()
        life.restore()
        kinds.append(life.last.replay_from is not None)
    assert kinds == sorted(kinds)
    assert kinds[-1]
    life.drain()
    assert_same_run(life, run_vertex(join_vertex(), long_inputs(), []))


def test_a_changed_source_is_detected() -> None:
    spec = replayed(source_vertex(), 1)
    table = [ev(t, k=t % 2, x=1.0) for t in range(40)]
    life = Life(spec, [arrival(table)], 1_000)
    life.offer(0, 30)
    life.step()
    life.restore()
    life.inputs = [arrival([ev(t + 1000, k=0, x=1.0) for t in range(40)])]
    with pytest.raises(ReplayDifferenceError, match="a source has changed"):
        life.drain()


def rebuild(vertex: RVertex, inputs: Inputs) -> int:
    """Let a vertex read its input again, a few rows per turn. Return the number of turns."""
    turns = 0
    while vertex.is_replaying:  # ends: each turn offers what is wanted of every channel
        for k, batch in enumerate(inputs):
            at = vertex.read_positions[k]
            rows = vertex.rows_wanted(k, 7)
            if rows:
                vertex.offer(k, Items(at, batch.slice(at, rows)))
        assert vertex.execute() is None
        turns += 1
    return turns


def test_nothing_is_emitted_before_the_old_position_is_reached() -> None:
    life = Life(joining(), long_inputs(), 1_000)
    for k in (0, 1, 2):
        life.offer(k, 100)
    life.step()
    snapshot: Snapshot = life.vertex.get_snapshot()
    again = RVertex(joining(), pending_rows_max=1_000)
    again.load(snapshot)
    assert again.output_seqs == list(snapshot.outputs)
    assert rebuild(again, life.inputs) > 1
    assert again.consumed == snapshot.inputs
    assert again.digests() == snapshot.digests
    mine = dataclasses.replace(again.get_snapshot(), replay_from=snapshot.replay_from)
    assert mine == snapshot


def test_a_finished_vertex_replays_nothing() -> None:
    run = run_vertex(joining(), [channel([], p, []) for p in (LEFT, LEFT, RIGHT)], [])
    run.restore()
    assert run.vertex.is_finished
    assert not run.vertex.is_replaying
    assert run.reread == [0]


def test_there_are_few_points_and_the_newest_old_enough_one_is_found() -> None:
    points = ReplayPoints(1_000_000)
    points.begin((0,), OperatorState())
    for time in range(0, 5_000_000, 100):
        if points.is_due(time):
            points.add(time, (time,), OperatorState())
        found = points.find(time)
        assert found is not None
        assert found.inputs[0] < max(time - 1_000_000, 1)
        assert found.inputs[0] >= time - 1_000_000 - 2 * 1_000_000 // 100
    assert len(points) < 200


@pytest.mark.parametrize("horizon_us", [0, 1, 5_000])
def test_one_point_is_stored_per_time(horizon_us: int) -> None:
    """If several steps end at the same time, this time gets only one replay point."""
    points = ReplayPoints(horizon_us)
    points.begin((0,), OperatorState())
    assert points.is_due(7)
    points.add(7, (1,), OperatorState())
    assert not points.is_due(7)
    assert points.is_due(7 + max(horizon_us, 1))


def test_the_number_of_points_is_limited_without_ctis() -> None:
    points = ReplayPoints(0)
    points.begin((0,), OperatorState())
    for time in range(10 * POINTS_MAX):
        assert points.is_due(time)
        points.add(time, (time,), OperatorState())
        assert len(points) <= POINTS_MAX
    found = points.find(10)
    assert found is not None
    assert found.inputs == (0,)
    assert points.find(10 * POINTS_MAX) is not None


def test_a_cti_at_the_start_is_not_a_bound() -> None:
    inputs = [make_items([cti(5), ev(7, k=0, x=1.0), cti(9), ev(9, k=1, x=2.0)], LEFT)]
    spec = item_source()
    run = run_vertex(
        spec, inputs, [(0, 1), (STEP, 0), (RESTORE, 0), (0, 2), (STEP, 0), (RESTORE, 0)]
    )
    whole = run_vertex(dataclasses.replace(spec, recovery=Recovery()), inputs, [])
    assert_same_run(run, whole)


def skewed_inputs() -> Inputs:
    """A channel with few events and no CTI: its last item is far behind the others'."""
    ctis = list(range(0, 240, 3))
    return [
        channel([ev(t, t + 1 + t % DURATION_MAX, k=t % 3, x=1.0) for t in range(240)], LEFT, ctis),
        channel([ev(t, t + 2, k=0, x=2.0) for t in range(0, 240, 60)], LEFT, []),
        channel([ev(t, t + DURATION_MAX, k=t % 2, n=t) for t in range(240)], RIGHT, ctis),
    ]


@pytest.mark.parametrize("rows", [40, 60])
def test_a_slow_channel_hides_no_item_from_a_replay(rows: int) -> None:
    turn: list[Action] = [(0, rows), (1, 2), (2, rows), (STEP, 0)]
    schedule = [*turn, *turn, *turn, (RESTORE, 0)] * (900 // rows)
    run = run_vertex(joining(), skewed_inputs(), schedule)
    assert_same_run(run, run_vertex(join_vertex(), skewed_inputs(), []))
    assert sum(run.last.inputs) > 400
    assert 0 < max(run.reread) < sum(run.last.inputs) / 3, "it is rebuilt, but not from the start"


def test_a_horizon_that_is_too_short_is_detected() -> None:
    schedule = [*((k % 3, 2) if k % 4 else (STEP, 0) for k in range(400)), (RESTORE, 0)]
    short = dataclasses.replace(joining(), recovery=Recovery("replay", horizon_us=0))
    run = run_vertex(short, long_inputs(), schedule)
    with pytest.raises(AssertionError):
        assert_same_run(run, run_vertex(join_vertex(), long_inputs(), []))
