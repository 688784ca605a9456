"""Vertices with damaged checkpoints start over, and so do their writers; pure."""

from __future__ import annotations

import pytest

from jobmanager.config import JobConfig
from jobmanager.errors import NoCheckpointError
from jobmanager.state.job_state import JobState
from jobmanager.state.low_water_marks import low_water_marks
from jobmanager.state.recovery import plan_restarts
from jobmanager.state.tracker import SnapshotTracker
from tests.jobmanager.state.test_low_water_marks import DeadJob, far, never
from tests.support.shapes import chain, snapshot_at


def at(tracker: SnapshotTracker, vertex: str, name: str, seq: int) -> None:
    """A vertex with this checkpoint only."""
    ref = snapshot_at(name, (seq,), (seq,))
    tracker.add(vertex, ref)
    tracker.drop_before(vertex, ref)


def test_a_volatile_input_is_recomputed_from_its_start() -> None:
    topology = chain("volatile")
    tracker = SnapshotTracker(topology)
    for vertex in "abc":
        at(tracker, vertex, f"{vertex}1", 9)
    with pytest.raises(NoCheckpointError, match="its only checkpoint"):
        tracker.discard("b", "b1")
    tracker.discard("b", "b1", may_start_over=True)
    with pytest.raises(NoCheckpointError, match="vertex a cannot restart"):
        plan_restarts(["b"], topology, tracker, DeadJob(topology))
    chosen = plan_restarts(["b"], topology, tracker, DeadJob(topology), lambda vertex: True)
    assert {v: (ref.name, ref.outputs) for v, ref in chosen.items()} == {
        "a": ("", (0,)),
        "b": ("", (0,)),
    }


def test_the_writer_keeps_what_a_restarted_reader_may_need() -> None:
    """The writer of the restarted vertex may be alive, with all items in memory.

    If the writer were lost, it would have to start over, too.
    """
    topology = chain("volatile")
    tracker = SnapshotTracker(topology)
    at(tracker, "a", "a1", 9)
    with pytest.raises(NoCheckpointError):
        low_water_marks(topology, tracker, never, far)
    low = low_water_marks(topology, tracker, never, far, may_start_over=lambda vertex: True)
    assert low.keep["a"] == tracker.refs("a")[0] == tracker.initial("a")
    tracker.check()


def test_only_complete_inputs_are_read_from_the_start_again() -> None:
    job = JobState(chain("async"), JobConfig())
    assert not any(map(job.may_start_over, "abc")), "nothing was damaged: that would be a mistake"
    job.is_damaged = True
    assert all(map(job.may_start_over, "abc"))
    job.collected["bc"] = 1
    assert [v for v in "abc" if job.may_start_over(v)] == ["a", "b"]
