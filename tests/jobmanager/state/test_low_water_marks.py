"""Garbage collection: the seed's GC(o, m).

Not covered: deletion before the log is durable (see test_driver).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, strategies as st

from jobmanager.state.low_water_marks import low_water_marks
from jobmanager.state.recovery import plan_restarts
from jobmanager.state.tracker import SnapshotTracker
from tests.support.shapes import chain, diamond, snapshot_at

if TYPE_CHECKING:
    from jobmanager.state.topology import Topology


def never(vertex: str) -> bool:
    return False


def far(vertex: str) -> tuple[int, ...]:
    """Every instance is past all its checkpoints."""
    return (10**9, 10**9)


def test_figure_7_of_the_paper_has_the_same_marks() -> None:
    """Figure 7 of the StreamScope paper: output durable up to 8 keeps t2, and drops t0 and t1."""
    topology = diamond()
    tracker = SnapshotTracker(topology)
    t1, t2 = snapshot_at("t1", (2, 1), (3,)), snapshot_at("t2", (6, 4), (7,))
    t3 = snapshot_at("t3", (9, 8), (12,))
    for ref in (t1, t2, t3):
        tracker.add("t", ref)
    tracker.add("sink", snapshot_at("d", (8,), (8,)))
    low = low_water_marks(topology, tracker, never, far)
    assert low.keep["t"] == t2
    assert low.marks == {"o": 8, "i1": 6, "i2": 4}
    assert tracker.drop_before("t", t2) == [t1]
    assert [r.name for r in tracker.refs("t")] == ["t2", "t3"]


def test_a_durable_stream_does_not_delay_deletions_of_its_writer() -> None:
    topology = chain("async")
    tracker = SnapshotTracker(topology)
    newest = snapshot_at("b9", (90,), (90,))
    tracker.add("b", snapshot_at("b1", (10,), (10,)))
    tracker.add("b", newest)
    low = low_water_marks(topology, tracker, never, far)
    assert low.keep["b"] == newest
    assert low.marks == {"bc": 0, "ab": 90}


def test_an_instance_restarted_further_back_keeps_what_it_reads_again() -> None:
    topology = chain("async")
    tracker = SnapshotTracker(topology)
    older = snapshot_at("b1", (10,), (10,))
    tracker.add("b", older)
    tracker.add("b", snapshot_at("b9", (90,), (90,)))
    low = low_water_marks(topology, tracker, never, lambda vertex: (20,))
    assert low.keep["b"] == older
    assert low.marks["ab"] == 10


def test_finished_vertices_need_nothing() -> None:
    topology = chain()
    tracker = SnapshotTracker(topology)
    low = low_water_marks(topology, tracker, lambda vertex: True, far)
    assert low.marks == {"bc": None, "ab": None}
    assert set(low.keep.values()) == {None}


class DeadJob:
    """All hosts are dead: only checkpoints are left."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology

    def consumed(self, vertex: str) -> tuple[int, ...]:
        return (0,) * self.topology.vertices[vertex].input_count

    def is_serving(self, vertex: str) -> bool:
        return False

    def is_retired(self, vertex: str) -> bool:
        return False

    def released(self, stream: str) -> int:
        return 0

    @property
    def collected(self) -> dict[str, int]:
        return {}

    @property
    def lost(self) -> dict[str, int]:
        return {}


steps = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 9)), max_size=25)


@given(steps, st.sampled_from(["volatile", "async"]))
def test_nothing_that_recovery_needs_is_deleted(
    history: list[tuple[str, int]], durability: str
) -> None:
    """Checkpoints arrive in any order, with marks applied after each; then all hosts die."""
    topology = chain(durability)  # type: ignore[arg-type]
    tracker = SnapshotTracker(topology)
    at = {"a": 0, "b": 0, "c": 0}
    marks_before = dict.fromkeys(topology.streams, 0)
    for k, (name, gain) in enumerate(history):
        upstream = {"a": 10**6, "b": at["a"], "c": at["b"]}[name]
        at[name] = min(at[name] + gain, upstream)
        tracker.add(name, snapshot_at(f"{name}{k}", (at[name],), (at[name],)))
        low = low_water_marks(topology, tracker, never, far)
        for vertex, ref in low.keep.items():
            assert ref is not None
            tracker.drop_before(vertex, ref)
        for stream, mark in low.marks.items():
            assert mark is not None
            assert mark >= marks_before[stream], "a low-water mark went back"
            marks_before[stream] = mark
        chosen = plan_restarts(list("abc"), topology, tracker, DeadJob(topology))
        assert set(chosen) == set("abc")
        if durability == "volatile":
            assert chosen["a"].outputs[0] <= chosen["b"].inputs[0]
            assert chosen["b"].outputs[0] <= chosen["c"].inputs[0]
        assert chosen["b"].inputs[0] >= marks_before["ab"], "a needed item was collected"
        assert chosen["c"].inputs[0] >= marks_before["bc"], "a needed item was collected"
