"""Which vertices restart from which checkpoint; the cascade upstream ends at a durable stream."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jobmanager.state.recovery import plan_restarts
from jobmanager.state.tracker import SnapshotTracker
from tests.support.shapes import chain, diamond, snapshot_at

if TYPE_CHECKING:
    from jobmanager.state.topology import Topology


@dataclass
class View:
    """A job whose facts the test sets."""

    topology: Topology
    serving: set[str]
    consumed_at: dict[str, tuple[int, ...]] = field(default_factory=dict)
    retired: set[str] = field(default_factory=set)
    released_at: dict[str, int] = field(default_factory=dict)
    lost: dict[str, int] = field(default_factory=dict)
    collected: dict[str, int] = field(default_factory=dict)

    def consumed(self, vertex: str) -> tuple[int, ...]:
        return self.consumed_at.get(vertex, (0,) * self.topology.vertices[vertex].input_count)

    def is_serving(self, vertex: str) -> bool:
        return vertex in self.serving

    def is_retired(self, vertex: str) -> bool:
        return vertex in self.retired

    def released(self, stream: str) -> int:
        return self.released_at.get(stream, 0)


def test_figure_5_recomputing_item_16_needs_inputs_3_and_8_on() -> None:
    """T died; the sink has consumed up to 16; s1 = <2,7>,<12> is the largest snapshot below."""
    topology = diamond()
    tracker = SnapshotTracker(topology)
    s1 = snapshot_at("s1", (2, 7), (12,))
    tracker.add("t", s1)
    tracker.add("t", snapshot_at("s2", (5, 10), (20,)))
    job = View(topology, serving={"a", "b", "sink"}, consumed_at={"sink": (16,)})
    assert plan_restarts(["t"], topology, tracker, job) == {"t": s1}


def test_upstream_restarts_only_if_its_memory_lacks_the_input() -> None:
    topology = diamond()
    tracker = SnapshotTracker(topology)
    s1 = snapshot_at("s1", (2, 7), (12,))
    a1 = snapshot_at("a1", (100,), (2,))
    tracker.add("t", s1)
    tracker.add("a", a1)
    tracker.add("a", snapshot_at("a2", (300,), (6,)))
    job = View(
        topology,
        serving={"a", "b", "sink"},
        consumed_at={"sink": (12,)},
        released_at={"i1": 5, "i2": 7},
    )
    assert plan_restarts(["t"], topology, tracker, job) == {"a": a1, "t": s1}


def test_three_vertices_that_fail_together_restart_consistently() -> None:
    topology = chain()
    tracker = SnapshotTracker(topology)
    for name, inputs, outputs in [("a", 10, 10), ("a", 50, 50), ("b", 40, 40), ("b", 45, 45)]:
        tracker.add(name, snapshot_at(f"{name}{inputs}", (inputs,), (outputs,)))
    tracker.add("c", snapshot_at("c42", (42,), (42,)))
    chosen = plan_restarts(["c", "b", "a"], topology, tracker, View(topology, serving=set()))
    assert {k: v.name for k, v in chosen.items()} == {"a": "a10", "b": "b40", "c": "c42"}
    assert list(chosen) == ["a", "b", "c"], "upstream first"


def test_a_durable_channel_ends_the_cascade() -> None:
    topology = chain("async")
    tracker = SnapshotTracker(topology)
    tracker.add("a", snapshot_at("a50", (50,), (50,)))
    tracker.add("b", snapshot_at("b40", (40,), (40,)))
    alive = View(topology, serving={"a", "c"})
    assert {k: v.name for k, v in plan_restarts(["b"], topology, tracker, alive).items()} == {
        "b": "b40"
    }
    dead = View(topology, serving={"c"}, retired={"a"})
    assert set(plan_restarts(["b"], topology, tracker, dead)) == {"b"}
