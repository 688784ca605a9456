"""The job manager as a pure machine: notices in, instructions out, as transcripts.

Golden transcripts are rewritten with ``pytest --rewrite`` and read as diffs. What this cannot
catch: whether hosts follow instructions (tests/jobmanager/driver/test_job.py, tests/spark).
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobmanager.state.messages import (
    CancelRequested,
    DeleteFiles,
    DeleteLeftovers,
    EndJob,
    Feed,
    HostLost,
    JobResumed,
    JobStarted,
    OutputObsolete,
    PartitionsAdded,
    Refuse,
    StartHost,
    Tell,
    Tick,
    is_logged,
)
from rvertex.messages import (
    Collect,
    Counts,
    HostBusy,
    HostReady,
    ItemsLost,
    Mark,
    Progress,
    VertexFailed,
    VertexFinished,
    VertexProgress,
)
from rvertex.user_code.unpickle import UNLOADABLE
from tests.support.scene import SECOND, Scene, started, taken


def test_a_job_without_failures(rewrite: bool) -> None:
    scene = Scene()
    scene.start_all()
    scene.progress("a", 100, 100)
    scene.progress("b", 60, 30)
    scene.finish("a", 200, 200)
    scene.finish("b", 200, 100)
    out = scene.finish("c", 100, 50)
    assert out == [EndJob("finished", "")]
    scene.check("without_trouble", rewrite=rewrite)


def test_a_lost_host_affects_only_its_vertex_and_recomputed_inputs(rewrite: bool) -> None:
    scene = Scene()
    scene.start_all()
    scene.checkpoint("a", "a50", 50, 50)
    scene.checkpoint("b", "b40", 40, 20)
    scene.progress("b", 60, 30)  # releases ab below 60
    out = scene.tell(HostLost("h1.0", "SIGKILL"))
    assert out[:2] == [Refuse("h1.0", 0), StartHost("h1.1")]
    assert started(out) == [("a", "")], "ab was released below 60, so a writes it again"
    scene.ready("h1.1")
    assert scene.at("b").checkpoint == "", "c has consumed nothing: bc from 0"
    assert scene.manager.vertices["c"].restarts == 0
    scene.check("lost_host", rewrite=rewrite)


def test_with_a_durable_channel_upstream_vertices_do_not_restart() -> None:
    scene = Scene(durability="async")
    scene.start_all()
    scene.checkpoint("b", "b40", 40, 20)
    scene.progress("b", 60, 30)
    out = scene.tell(HostLost("h1.0", "SIGKILL"))
    leftovers = DeleteLeftovers("b", scene.manager.job.epoch, (), ("b40",))
    assert out == [Refuse("h1.0", 0), StartHost("h1.1"), leftovers]
    out = scene.tell(HostReady("h1.1", 0, 7, "m", "grpc://h1.1"))
    assert started(out) == [("b", "b40")]


def test_all_hosts_lost_at_once(rewrite: bool) -> None:
    scene = Scene()
    scene.start_all()
    scene.checkpoint("a", "a50", 50, 50)
    scene.checkpoint("b", "b60", 60, 30)
    scene.checkpoint("c", "c40", 40, 20)
    for host in ("h0.0", "h1.0", "h2.0"):
        scene.tell(HostLost(host, "power"))
    for host in ("h2.1", "h0.1", "h1.1"):
        scene.ready(host)
    states = {v: scene.at(v) for v in "abc"}
    assert {v: s.checkpoint for v, s in states.items()} == {"a": "a50", "b": "b60", "c": "c40"}
    scene.check("all_hosts_lost", rewrite=rewrite)


def test_notices_of_old_epochs_have_no_effect() -> None:
    scene = Scene(durability="async")
    scene.start_all()
    old = scene.at("b").epoch
    scene.tell(HostLost("h1.0", "gone"))
    scene.ready("h1.1")
    assert scene.at("b").epoch > old
    before = scene.at("b").consumed
    row = VertexProgress("b", old, (999,), (999,), (0,), 0, 0, Counts(), 0)
    assert scene.tell(Progress("h1.0", (row,))) == []
    assert scene.tell(VertexFinished("b", old, (9,), (9,), (b"",), Counts())) == []
    assert scene.tell(VertexFailed("b", old, "bug", "boom", "")) == []
    late = taken("b", old, "zombie", 9, 9)
    assert scene.tell(late) == [DeleteFiles(("zombie",))]
    assert scene.at("b").consumed == before


def test_a_plan_that_no_worker_can_load_fails_the_job_at_once() -> None:
    scene = Scene(hosts=2)
    reason = "my.Sessions cannot be imported on m; define it in the query file"
    out = scene.lose_to("h0.0", f"{UNLOADABLE}{reason}")
    assert out == [EndJob("failed", reason)]


def test_second_attempts_and_old_hosts_are_rejected() -> None:
    scene = Scene()
    scene.start_all()
    again = HostReady("h1.0", 1, 5, "m", "grpc://zombie")
    assert scene.tell(again) == [Refuse("h1.0", 1)]
    assert scene.tell(replace(again, attempt=0)) == [Refuse("h1.0", 0)]
    scene.tell(HostLost("h1.0", "gone"))
    assert scene.tell(replace(again, attempt=0)) == [Refuse("h1.0", 0)]
    assert scene.tell(HostReady("h1.1", 1, 5, "m", "grpc://x")) == [Refuse("h1.1", 1)]


def test_a_writer_of_lost_items_restarts_low_enough() -> None:
    scene = Scene(hosts=1)
    scene.start_all()
    scene.checkpoint("a", "a50", 50, 50)
    scene.progress("b", 10, 5)
    reader = scene.at("b")
    lost = ItemsLost("b", reader.epoch, "ab", 10, (1,))
    out = scene.tell(lost)
    assert started(out) == [("a", "")], "a50 starts at seq 50, past what b needs"
    assert scene.tell(lost) == [], "already on its way"


def test_volatile_memory_is_freed_as_readers_consume() -> None:
    scene = Scene()
    scene.start_all()
    out = scene.progress("b", 60, 30)
    assert out == [Tell("h0.0", Collect("h0.0", (Mark("ab", 60),)))]
    assert scene.progress("b", 60, 30) == []


def test_checkpoints_let_old_items_and_checkpoints_be_deleted() -> None:
    scene = Scene(durability="async")
    scene.start_all()
    out = scene.checkpoint("b", "b40", 40, 20)
    assert out == [Tell("h0.0", Collect("h0.0", (Mark("ab", 40),)))]
    out = scene.checkpoint("b", "b60", 60, 30)
    assert DeleteFiles(("b40",)) in out


@pytest.mark.parametrize("family", ["usage", "integrity", "bug"])
def test_errors_that_a_retry_cannot_fix_fail_the_job(family: str) -> None:
    scene = Scene()
    scene.start_all()
    epoch = scene.at("b").epoch
    out = scene.tell(VertexFailed("b", epoch, family, "row 7: not a time", "trace"))
    assert out == [EndJob("failed", "b: row 7: not a time")]
    assert scene.tell(Tick(1)) == [], "an ended job does nothing more"


def test_operating_errors_are_retried_up_to_a_limit() -> None:
    scene = Scene(durability="async", hosts=1, vertex_failures_max=3)
    scene.start_all()
    for now_s in (0, 1, 5):
        epoch = scene.at("b").epoch
        scene.obey(scene.tell(VertexFailed("b", epoch, "operating", "disk full", "")))
        scene.pass_time(now_s)
        assert scene.manager.state == "running"
    epoch = scene.at("b").epoch
    out = scene.tell(VertexFailed("b", epoch, "operating", "disk full", ""))
    assert out == [EndJob("failed", "b: disk full (after 3 restarts)")]


def test_progress_resets_the_count_of_restarts() -> None:
    scene = Scene(durability="async", hosts=1, vertex_failures_max=1)
    scene.start_all()
    for k in range(1, 5):
        scene.progress("b", 10 * k, 10 * k)
        epoch = scene.at("b").epoch
        scene.obey(scene.tell(VertexFailed("b", epoch, "operating", "reset", "")))
    assert scene.manager.state == "running"


def test_after_a_corrupt_checkpoint_the_previous_one_is_used() -> None:
    scene = Scene(durability="volatile", hosts=1)
    scene.start_all()
    scene.checkpoint("b", "b40", 40, 20)
    vertex = scene.at("b")
    scene.progress("c", 20, 10)
    out = scene.tell(VertexFailed("b", vertex.epoch, "operating", "reset", ""))
    assert ("b", "b40") in started(out)
    scene.obey(out)
    epoch = scene.at("b").epoch
    out = scene.tell(VertexFailed("b", epoch, "checkpoint", "b40 is corrupt", ""))
    assert ("b", "") in started(out)


def test_a_corrupt_checkpoint_without_a_previous_one_ends_the_job_with_its_name() -> None:
    scene = Scene(durability="async")
    scene.start_all()
    scene.progress("b", 60, 30)
    scene.checkpoint("b", "b60", 60, 30)
    assert [ref.name for ref in scene.manager.tracker.refs("b")] == ["b60"]
    epoch = scene.at("b").epoch
    scene.obey(scene.tell(VertexFailed("b", epoch, "operating", "reset", "")))
    epoch = scene.at("b").epoch
    scene.tell(VertexFailed("b", epoch, "checkpoint", "b60 is corrupt", ""))
    assert scene.manager.state == "failed"
    assert "b60, its only checkpoint, is corrupt or gone" in scene.manager.error


def test_limits_on_silence_and_on_starting() -> None:
    scene = Scene(hosts=1, host_start_wait_s=5.0)
    assert scene.tell(Tick(4 * SECOND)) == []
    out = scene.tell(Tick(6 * SECOND))
    assert isinstance(out[0], EndJob)
    assert "host_start_wait_s" in out[0].error

    scene = Scene(hosts=1, host_silence_s=5.0)
    scene.start_all()
    assert scene.tell(Tick(6 * SECOND)) == [Feed(HostLost("h0.0", "silent for 6 s"))]


def test_losses_of_a_slot_are_counted_across_its_hosts() -> None:
    scene = Scene(host_restarts_max=2)
    scene.start_all()
    for generation in range(3):
        assert scene.manager.state == "running"
        scene.lose(f"h1.{generation}")
    assert scene.manager.error.startswith("host of slot 1 was lost 3 times within")


def test_losses_with_progress_in_between_do_not_add_up() -> None:
    scene = Scene(hosts=1, host_restarts_max=2, vertex_restarts_max=100)
    scene.start_all()
    for generation in range(6):
        scene.progress("a", 10 * generation + 10, 10 * generation + 10)
        scene.lose(f"h0.{generation}")
        assert scene.manager.state == "running", scene.manager.error
        scene.ready(f"h0.{generation + 1}")


def test_the_wait_for_a_starting_host_begins_when_it_is_ordered() -> None:
    scene = Scene(host_start_wait_s=5.0, host_silence_s=1_000.0)
    scene.start_all()
    scene.pass_time(100)
    scene.lose("h1.0")
    scene.pass_time(104)
    assert scene.manager.state == "running"
    scene.pass_time(106)
    assert scene.manager.error.startswith("host h1.1 did not start within host_start_wait_s = 5 s")


def test_a_stalled_job_fails_with_a_diagnosis() -> None:
    scene = Scene(hosts=1, host_silence_s=1e9, stall_wait_s=10.0)
    scene.start_all()
    out = scene.tell(Tick(11 * SECOND))
    assert isinstance(out[0], EndJob)
    assert "stall_wait_s" in out[0].error


def test_a_busy_host_is_not_silent_and_has_its_own_limit() -> None:
    def busy(host: str, lasted_s: int) -> HostBusy:
        return HostBusy(host, "b", 1, "Project: s.str.upper()", lasted_s, 3 << 30)

    scene = Scene(hosts=1, host_silence_s=5.0, step_wait_s=60.0)
    scene.start_all()
    for second in range(2, 40, 2):
        assert scene.tell(Tick(second * SECOND)) == []
        assert scene.tell(busy("h0.0", second)) == []
    out = scene.lose_to("h0.0", "its connection broke")
    assert StartHost("h0.1") in out
    assert (
        "its connection broke; vertex b on h0.0 has been in one step" in scene.manager.job.trouble
    )
    assert "for 38 s, in Project: s.str.upper(); " in scene.manager.job.trouble
    assert "3.0 GiB of memory" in scene.manager.job.trouble
    scene.ready("h0.1")
    assert scene.tell(busy("h0.0", 99)) == [], "it does not hold the slot"
    scene.obey(scene.tell(busy("h0.1", 60)))
    assert scene.manager.state == "failed"
    assert scene.manager.error.startswith("vertex b on h0.1 has been in one step for 60 s")
    assert "(step_wait_s = 60 s)" in scene.manager.error


def test_notices_that_repeat_by_themselves_are_not_logged() -> None:
    busy = HostBusy("h0.0", "a", 1, "a call", 3, 0)
    for notice in (Progress("h0.0", ()), busy, OutputObsolete((Mark("out", 3),)), Tick(1)):
        assert not is_logged(notice)
    for logged in (JobStarted(1, 0), HostLost("h0.0", "killed"), PartitionsAdded(())):
        assert is_logged(logged)


def test_a_job_is_cancelled() -> None:
    scene = Scene()
    scene.start_all()
    assert scene.tell(CancelRequested()) == [EndJob("cancelled", "")]


def test_a_replayed_job_manager_continues_at_the_end_of_the_log(rewrite: bool) -> None:
    scene = Scene()
    scene.start_all()
    scene.checkpoint("a", "a50", 50, 50)
    scene.checkpoint("b", "b60", 60, 30)
    scene.checkpoint("c", "c30", 30, 10)
    scene.finish("a", 100, 100)
    epochs = {i.epoch for _, i in scene.manager.job.instances()}
    out = scene.tell(JobResumed(1, 5 * SECOND))
    assert out[0] == StartHost("h0.1.0")
    scene.ready("h0.1.0")
    states = {v: scene.at(v) for v in "abc"}
    assert {v: s.checkpoint for v, s in states.items()} == {"a": "a50", "b": "b60", "c": "c30"}
    assert all(s.epoch > max(epochs) for s in states.values())
    scene.check("resumed", rewrite=rewrite)


def test_finished_vertices_with_durable_output_do_not_run_again() -> None:
    scene = Scene(durability="async")
    scene.start_all()
    scene.finish("a", 100, 100)
    scene.tell(JobResumed(1, 5 * SECOND))
    scene.ready("h0.1.0")
    assert scene.manager.vertices["a"].state == "finished"
    told = [i for i in scene.lines if "Locate(vertex='a'" in i]
    assert told[-1].endswith("endpoints=()))"), "its stream is read from Parquet"


def test_a_resumed_job_that_had_finished_ends_at_once() -> None:
    scene = Scene(durability="async")
    scene.start_all()
    for vertex in "abc":
        scene.finish(vertex, 10, 10)
    out = scene.tell(JobResumed(1, SECOND))
    assert out[-1] == EndJob("finished", "")


@pytest.mark.parametrize("retain_s", [0, 10])
def test_checkpoints_are_retained_as_long_as_requested(retain_s: int) -> None:
    """The newest checkpoint of that age and all later ones stay, because a restart may need it."""
    scene = Scene(durability="async", retain_us=retain_s * SECOND)
    scene.start_all()
    kept: list[str] = []
    for k in range(8):
        notice = taken("b", scene.at("b").epoch, f"b{k}", 10 * k + 10, 5 * k + 5)
        out = scene.tell(replace(notice, taken_us=(k + 1) * 4 * SECOND))
        kept.append(f"b{k}")
        for deleted in (i.names for i in out if isinstance(i, DeleteFiles)):
            kept = [name for name in kept if name not in deleted]
        assert kept[-1] == f"b{k}"
        refs = scene.manager.job.tracker.refs("b")
        assert [ref.name for ref in refs if ref.name] == kept
    assert kept == (["b4", "b5", "b6", "b7"] if retain_s else ["b7"])
