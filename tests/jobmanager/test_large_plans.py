"""For large plans the job manager skips some work without losing information.

Not covered: costs, which ``make bench-thousand`` measures.
"""

from __future__ import annotations

from dataclasses import replace

from jobmanager.config import JobConfig
from jobmanager.manager.collection import SMALL_PLAN
from jobmanager.state.messages import DeleteFiles, Tell
from rvertex.messages import CheckpointTaken, Collect
from tests.support.scene import Scene
from tests.support.shapes import siblings

SINKS = 4 * SMALL_PLAN


def taken(scene: Scene, number: int, at: int, *, taken_us: int = 0) -> list[object]:
    """A sink announces a checkpoint. Return the job manager's instructions."""
    vertex = f"b{number}"
    epoch, where = scene.at(vertex).epoch, (at,)
    name = f"{vertex}-{at}"
    notice = CheckpointTaken(vertex, epoch, name, where, where, 1, where, (), taken_us, asked=False)
    return list(scene.tell(notice))


def test_low_water_marks_are_updated_for_many_checkpoints_at_once() -> None:
    scene = Scene(siblings(SINKS), hosts=4)
    scene.start_all()
    answers = [taken(scene, k, at) for at in (10, 20, 30) for k in range(SINKS)]
    assert 1 <= sum(bool(answer) for answer in answers) <= 3
    deleted = {n for out in answers for i in out if isinstance(i, DeleteFiles) for n in i.names}
    marked = {
        mark.stream: mark.seq
        for out in answers
        for i in out
        if isinstance(i, Tell) and isinstance(i.instruction, Collect)
        for mark in i.instruction.marks
    }
    assert deleted >= {f"b{k}-10" for k in range(SINKS)}
    assert len(marked) == SINKS
    assert min(marked.values()) >= 20


def test_a_checkpoint_after_a_pause_updates_the_marks_at_once() -> None:
    scene = Scene(siblings(SINKS), hosts=4)
    scene.start_all()
    assert taken(scene, 0, 10, taken_us=1) == []
    assert taken(scene, 1, 10, taken_us=6_000_000) != []


def test_a_successor_keeps_no_deleted_checkpoint() -> None:
    scene = Scene(siblings(SINKS), hosts=4)
    scene.start_all()
    answers = [taken(scene, k, at) for at in (10, 20, 30) for k in range(SINKS)]
    deleted = {n for out in answers for i in out if isinstance(i, DeleteFiles) for n in i.names}
    successor = Scene(siblings(SINKS), hosts=4, log=scene.log())
    tracker = successor.manager.tracker
    kept = {ref.name for k in range(SINKS) for ref in tracker.refs(f"b{k}")}
    assert deleted
    assert not kept & deleted
    assert all(tracker.newest(f"b{k}").name == f"b{k}-30" for k in range(SINKS))


def test_a_host_gets_only_the_addresses_of_streams_it_reads() -> None:
    scene = Scene(siblings(3), hosts=4)
    told: list[tuple[str, str]] = []
    for host in ("h0.0", "h1.0", "h2.0", "h3.0"):
        at = len(scene.lines)
        scene.ready(host)
        told += [(host, line) for line in scene.lines[at:] if "Locate(vertex='a'" in line]
    assert [host for host, _ in told] == ["h1.0", "h2.0", "h3.0"]


def test_the_address_of_a_sink_is_sent_to_a_subscriber() -> None:
    scene = Scene(siblings(1), hosts=2)
    scene.start_all()
    assert any("Locate(vertex='b0'" in line for line in scene.lines)


def test_many_hosts_report_less_often() -> None:
    config = JobConfig()
    assert config.host_limits(4) == replace(config.host, job_hosts=4)
    assert config.host_limits(1_000).report_interval_s == 1.0
    assert config.host_limits(1_000).report_interval_s < config.host_silence_s
