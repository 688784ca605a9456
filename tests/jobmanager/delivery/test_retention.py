"""Output is deleted after its retention, once no reader needs it.

Not covered: rows that a reader of the Parquet folder misses, because no delivery represents it.
"""

from __future__ import annotations

import functools
import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import pytest

import jobmanager
from jobmanager import JobConfig
from jobmanager.delivery.checked_output import CheckedOutput
from jobmanager.delivery.claim import recorded_positions, report_position
from jobmanager.delivery.deliveries import Deliveries
from jobmanager.delivery.output_tap import Endpoints
from jobmanager.delivery.retention import AGES, OutputRetention
from jobmanager.delivery.standalone import deliver
from jobmanager.delivery.wiring import ThreadWiring
from jobmanager.driver.subscription import Subscription
from jobmanager.options import RunOptions, for_plan
from jobmanager.storage.output_check import verify_output
from jobmanager.storage.root import JobRoot
from planner import Query, Stream, agg, sinks, tumbling
from planner.physical.lower import lower
from rstream import MemoryBlobs, open_store
from rstream.clock import ManualClock
from rstream.errors import OutputCollectedError, StoreError, UsageError
from rstream.log.durable import DurableLog
from rstream.log.retention import collect
from rstream.store.part_files import part_uri
from rvertex.messages import Mark
from rvertex.sinks.limits import DeliveryLimits
from tests.support.content import items, open_inline
from tests.support.interrupted_store import Interrupted
from tests.support.jobs import ROWS, WAIT_S, outcome, with_limits, write_events
from tests.support.live import Watch, write_file
from tests.support.synced_store import Synced

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

    from jobmanager import Job
    from planner.physical.plan import PhysicalPlan
    from tests.support.trouble import Gate

CONFIG = with_limits(
    JobConfig(tick_s=0.02, retention_look_s=0.02), step_rows_max=100, report_interval_s=0.02
)
CONFIG = with_limits(CONFIG, stream=replace(CONFIG.host.stream, flush_interval_ms=20))
#: Whole segments are deleted, and a slow machine flushes many rows at once.
COLLECTING = with_limits(CONFIG, stream=replace(CONFIG.host.stream, segment_rows_max=20))
PACE = 10.0
STOP = "stop"


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_events(tmp_path_factory.mktemp("events") / "events.parquet")


def keep(folder: str, first_seq: int, batch: pa.RecordBatch, stream: str) -> None:
    """Append a line for each call; fail while a file ``stop`` exists."""
    if Path(folder, STOP).exists():
        raise OSError("stopped by the test")
    rows = [list(row.values()) for row in batch.to_pylist()]
    with Path(folder, stream.replace("/", ".")).open("a") as lines:
        lines.write(json.dumps([first_seq, rows], default=str) + "\n")


def kept_rows(folder: Path) -> list[str]:
    """All rows that arrived; a repeated call counts once."""
    rows: list[str] = []
    for file in sorted(folder.glob("*")):
        calls = dict(json.loads(line) for line in file.read_text().splitlines())
        rows += [json.dumps(row) for call in calls.values() for row in call]
    return sorted(rows)


def windows(events: Path) -> Stream:
    stream = Stream.from_parquet(str(events), vs="t", delay="1s").group_by("key")
    return stream.window(tumbling("100ms")).agg(n=agg.count(), total=agg.sum("x"))


def kept_from(status: dict[str, Any]) -> list[int]:
    return [row["kept_from_seq"] for row in status.get("kept", ())]


def running_and_collecting(events: Path, root: Path, folder: Path, watch: Watch) -> Job:
    """A job that delivers into ``folder``, and has already deleted some of its output."""
    folder.mkdir()
    query = windows(events).deliver(sinks.function(functools.partial(keep, str(folder))))
    job = jobmanager.run(
        query,
        root=str(root),
        executor="local",
        parallelism=2,
        paced=PACE,
        config=COLLECTING,
        on_status=watch,
        fsync=False,
        retention="delivered",
    )
    watch.until(lambda status: bool(kept_from(status)) and min(kept_from(status)) > 0)
    return job


@pytest.mark.slow
def test_rows_delivered_by_a_successor_are_deleted(
    events: Path, gate: Gate, tmp_path: Path
) -> None:
    """Another process has taken the delivery over, so the job's own one keeps no items."""
    root, folder, watch = tmp_path / "job", tmp_path / "rows", Watch()
    gate.close_at(ROWS // 4)
    job = running_and_collecting(events, root, folder, watch)
    other = threading.Thread(target=deliver, args=(str(root),), daemon=True)
    other.start()
    status = watch.until(lambda seen: {d["state"] for d in seen["deliveries"]} == {"fenced"})
    held = {d["partition"]: d["delivered_seq"] for d in status["deliveries"]}
    gate.close_at(ROWS // 2)
    watch.until(lambda status: all(seq > held[k] for k, seq in enumerate(kept_from(status))))
    gate.open()
    job.wait(WAIT_S)
    other.join(WAIT_S)
    assert {row["state"] for row in deliver(str(root))} == {"finished"}
    whole = jobmanager.run(windows(events), root=f"{tmp_path}/whole", executor="local", fsync=False)
    assert len(kept_rows(folder)) == whole.wait(WAIT_S)["events_out"]


@pytest.mark.slow
def test_delivered_rows_are_deleted_and_others_are_kept(
    events: Path, gate: Gate, tmp_path: Path
) -> None:
    """The destination fails for a while; the job is stopped and resumed; no row is missing."""
    root, folder, watch = tmp_path / "job", tmp_path / "rows", Watch()
    gate.close_at(ROWS // 4)
    job = running_and_collecting(events, root, folder, watch)
    with (
        pytest.raises(OutputCollectedError, match=r"keeps it from seq \d+ on"),
        job.subscribe(start={0: 0, 1: 0}) as below,
    ):
        next(below)
    (folder / STOP).touch()
    gate.close_at(ROWS // 2)
    status = watch.until(lambda seen: any(d["state"] == "waiting" for d in seen["deliveries"]))
    held = [d["delivered_seq"] for d in status["deliveries"]]
    assert all(first <= seq for first, seq in zip(kept_from(status), held, strict=True))
    job.stop()
    job.wait(WAIT_S)
    gate.open()
    (folder / STOP).unlink()
    assert json.loads((root / AGES).read_text())["points"]
    job = jobmanager.resume(str(root), config=CONFIG, on_status=watch)
    status = job.wait(WAIT_S)
    whole = jobmanager.run(windows(events), root=str(tmp_path / "whole"), executor="local")
    assert outcome(status) == outcome(whole.wait(WAIT_S))
    assert len(kept_rows(folder)) == status["events_out"]
    found = verify_output(JobRoot(str(root)))
    assert found["output_digest"] == status["output_digest"]
    assert found["events"] < status["events_out"]
    rows = deliver(str(root), [sinks.console(name="late")])
    assert {row["state"] for row in rows} == {"failed"}
    assert all("retention keeps it from seq" in row["error"] for row in rows)


def test_the_position_of_a_reader_counts_until_it_is_silent_for_long() -> None:
    store = MemoryBlobs()
    report_position(store, "a", 0, 5, 1_000)
    report_position(store, "b", 0, 3, 2_000)
    report_position(store, "b", 1, 9, 2_000)
    assert recorded_positions(store, 0) == {0: 3, 1: 9}
    report_position(store, "b", 0, 8, 3_000)
    assert recorded_positions(store, 0) == {0: 5, 1: 9}
    assert recorded_positions(store, 1_500) == {0: 8, 1: 9}


def test_a_reported_position_survives_a_power_failure() -> None:
    store = Synced({})
    report_position(store, "a", 0, 5, 1_000)
    assert recorded_positions(MemoryBlobs(store.on_disk), 0) == {0: 5}


def test_retention_delivered_needs_a_delivery(events: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no delivery: add"):
        jobmanager.run(
            windows(events), root=str(tmp_path / "job"), executor="local", retention="delivered"
        )
    assert not (tmp_path / "job").exists()


def test_an_endless_output_is_compacted_in_the_root_but_not_in_a_folder_of_the_user(
    tmp_path: Path,
) -> None:
    (tmp_path / "in").mkdir()
    root = str(tmp_path / "job")

    def compacts(query: Query, **options: Unpack[RunOptions]) -> bool:
        plan = lower(query, root=root, parallelism=1)
        return for_plan(CONFIG, options, plan).host.compact_output

    def stream(*, follow: bool) -> Stream:
        columns = {"t": "int64", "key": "int64"}
        return Stream.from_json(
            str(tmp_path / "in"), vs="t", delay="1s", schema=columns, follow=follow
        )

    write_file(tmp_path / "in", 0)
    assert compacts(stream(follow=True).to_parquet())
    assert not compacts(stream(follow=False).to_parquet())
    assert not compacts(stream(follow=True).to_parquet(str(tmp_path / "named")))
    named = stream(follow=True).to_parquet(str(tmp_path / "named"))
    assert compacts(named, compact_output=True)
    assert not compacts(stream(follow=True).to_parquet(), compact_output=False)


@pytest.mark.slow
def test_an_output_is_delivered_unchanged_while_it_is_compacted(
    events: Path, tmp_path: Path
) -> None:
    """Many small files are merged while they are read; the digest and the rows stay the same."""
    root, folder = tmp_path / "job", tmp_path / "rows"
    folder.mkdir()
    query = windows(events).deliver(sinks.function(functools.partial(keep, str(folder))))
    config = with_limits(CONFIG, compact_segments_min=3)
    job = jobmanager.run(
        query,
        root=str(root),
        executor="local",
        paced=PACE,
        config=config,
        fsync=False,
        compact_output=True,
    )
    with job.subscribe() as subscription:
        seen = sum(batch.num_rows for batch in subscription)
    status = job.wait(WAIT_S)
    whole = jobmanager.run(windows(events), root=str(tmp_path / "whole"), executor="local")
    assert outcome(status) == outcome(whole.wait(WAIT_S))
    assert seen == len(kept_rows(folder)) == status["events_out"]
    assert verify_output(JobRoot(str(root)))["events"] == status["events_out"]
    files = list((root / "output").glob("part-*.parquet"))
    assert len(files) <= 2 * 3 * 4


def one_partition(events: Path, root: Path) -> PhysicalPlan:
    """The plan of a job that has written 20 items."""
    plan = lower(windows(events).to_parquet(), root=str(root), parallelism=1)
    ((_, uri),) = plan.sink_streams()
    stream = open_inline(uri)
    stream.write(0, items(0, 20))
    stream.close()
    return plan


def retention_of(
    plan: PhysicalPlan,
    store: MemoryBlobs,
    clock: ManualClock,
    told: list[tuple[Mark, ...]],
    needed: Callable[[], Mapping[int, int]] = dict[int, int],
) -> OutputRetention:
    """A retention that deletes all unneeded items at once, and records that in ``told``."""
    config, wiring = JobConfig(retention_us=0, reader_wait_s=10.0), ThreadWiring()
    wiring.clock = clock
    return OutputRetention(plan, store, config, needed=needed, tell=told.append, wiring=wiring)


def subscribed(plan: PhysicalPlan, kept_from: Mapping[int, int]) -> Subscription:
    return Subscription(
        plan,
        endpoints=Endpoints(),
        secret="",
        has_ended=lambda: True,
        raise_failure=lambda: None,
        start={},
        kept_from=kept_from,
        progress=True,
    )


def test_a_subscription_starts_above_the_range_that_writers_may_delete(
    events: Path, tmp_path: Path
) -> None:
    """Writers may delete those items at any time, so items below are not kept for anyone."""
    plan, told = one_partition(events, tmp_path), list[tuple[Mark, ...]]()
    kept = retention_of(plan, MemoryBlobs(), ManualClock(1_000_000), told)
    kept.look()
    assert [mark.seq for mark in told[-1]] == [20]
    with kept.opening() as kept_from, subscribed(plan, kept_from) as found:
        assert found.positions == {0: 20}


def test_the_age_of_items_counts_from_the_end_of_the_listing_that_found_them(
    events: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Segments that arrive while retention lists a slow store count from the next check on."""
    plan, clock = one_partition(events, tmp_path), ManualClock(1_000_000)
    kept = retention_of(plan, MemoryBlobs(), clock, list[tuple[Mark, ...]]())
    refresh = DurableLog.refresh

    def slow(log: DurableLog) -> None:
        refresh(log)
        clock.advance(7_000_000)

    monkeypatch.setattr(DurableLog, "refresh", slow)
    kept.look()
    (stream,) = kept._streams
    assert stream.ages.since_us(20) == clock.now_us()


def test_ages_recorded_by_a_predecessor_survive_a_failed_read(events: Path, tmp_path: Path) -> None:
    def fail() -> None:
        raise StoreError(AGES, "no answer")

    plan, blobs, clock = one_partition(events, tmp_path), dict[str, bytes](), ManualClock(1_000_000)
    retention_of(plan, MemoryBlobs(blobs), clock, []).look()
    clock.advance(5_000_000)
    kept = retention_of(plan, Interrupted(blobs, 0, fail), clock, [])
    with pytest.raises(StoreError):
        kept.look()
    kept.look()
    assert kept._streams[0].ages.since_us(20) == 1_000_000


def test_a_subscription_reports_deleted_items_even_after_the_job_has_ended(
    events: Path, tmp_path: Path
) -> None:
    plan = one_partition(events, tmp_path)
    ((_, uri),) = plan.sink_streams()
    with subscribed(plan, {}) as found:
        next(found)
        (seq,) = found.positions.values()
        assert seq < 20
        stream = open_inline(uri)
        stream.write(20, items(20, 60))
        stream.close()
        log = DurableLog(open_store(uri), "s")
        log.keeps_digest = True
        collect(log, 40)
        with pytest.raises(OutputCollectedError, match=f"seq {seq} is deleted"):
            next(found)


def test_side_outputs_of_removed_vertices_are_deleted(events: Path, tmp_path: Path) -> None:
    """Side outputs of removed vertices have no writer, so retention deletes their old segments."""
    plan, told = one_partition(events, tmp_path), list[tuple[Mark, ...]]()
    uri = part_uri(f"{plan.root}/late/s09-gone", "g2-part-3")
    stream = open_inline(uri)
    stream.write(0, items(0, 60))
    stream.close()
    (first, *_, last) = DurableLog(open_store(uri), "s").segments()
    kept = OutputRetention(
        plan,
        open_store(plan.root),
        JobConfig(side_retention_us=0),
        needed=dict[int, int],
        tell=told.append,
    )
    kept.look()
    kept.look()
    assert first != last
    assert DurableLog(open_store(uri), "s").segments() == [last]
    assert not told
    assert [row["output"] for row in kept.rows()] == ["late/s01-events"]


def test_nothing_is_deleted_while_a_subscription_opens_or_before_it_has_read_it(
    events: Path, tmp_path: Path
) -> None:
    plan, told = one_partition(events, tmp_path), list[tuple[Mark, ...]]()
    needed: dict[int, int] = {}
    kept = retention_of(plan, MemoryBlobs(), ManualClock(1_000_000), told, lambda: needed)
    with kept.opening() as kept_from:
        kept.look()
        assert not told
        with subscribed(plan, kept_from) as found:
            needed.update(found.positions)
    kept.look()
    assert not told
    needed.clear()
    kept.look()
    assert [mark.seq for mark in told[-1]] == [20]
    needed[0] = 5  # too late: these items may be deleted already
    kept.look()
    assert [mark.seq for mark in told[-1]] == [20]
    with kept.opening() as kept_from:
        assert kept_from == {0: 20}


def test_partitions_of_a_subscription_are_read_in_turn(events: Path, tmp_path: Path) -> None:
    """A stream with many files to delete does not delay the others."""
    plan = lower(windows(events).to_parquet(), root=str(tmp_path), parallelism=2)
    for _, uri in plan.sink_streams():
        stream = open_inline(uri)
        stream.write(0, items(0, 40))
        stream.close()
    with subscribed(plan, {}) as found:
        turns = [next(found)["partition"][0].as_py() for _ in range(4)]
    assert turns == [0, 1, 0, 1]


def test_the_slowest_of_several_deliveries_decides(events: Path, tmp_path: Path) -> None:
    plan, store = one_partition(events, tmp_path), MemoryBlobs()
    found = Deliveries(
        [sinks.console(name=name) for name in "abc"],
        plan,
        job_id="j",
        store=store,
        endpoints=Endpoints(),
        secret="",
        has_ended=lambda: False,
        limits=DeliveryLimits(),
    )
    parts = [part for _, _, part in found._parts]
    for part, seq in zip(parts, (7, 4, 9), strict=True):
        part._delivered_seq = seq
    assert found.positions() == {0: 4}
    parts[1].state = "fenced"
    report_position(store, "b", 0, 3, 0)
    assert found.positions() == {0: 4}, "the other process tells less often than it delivers"
    report_position(store, "b", 0, 8, 0)
    assert found.positions() == {0: 7}


def test_a_reader_that_is_silent_for_too_long_keeps_no_rows(events: Path, tmp_path: Path) -> None:
    plan, store = one_partition(events, tmp_path), MemoryBlobs()
    clock, told = ManualClock(1_000_000), list[tuple[Mark, ...]]()
    kept = retention_of(plan, store, clock, told)
    report_position(store, "a", 0, 5, clock.now_us())
    clock.advance(9_000_000)
    kept.look()
    clock.advance(2_000_000)
    kept.look()
    assert [mark.seq for marks in told for mark in marks] == [4, 20]


def checked(plan: PhysicalPlan) -> CheckedOutput:
    ((vertex, uri),) = plan.sink_streams()
    return CheckedOutput(
        vertex,
        "out",
        uri,
        endpoints=Endpoints(),
        secret="",
        wake=lambda: None,
        wiring=ThreadWiring(),
        destination="a topic",
    )


def test_a_delivery_below_the_kept_range_is_told_the_first_kept_seq(
    events: Path, tmp_path: Path
) -> None:
    plan = one_partition(events, tmp_path)
    ((_, uri),) = plan.sink_streams()
    log = DurableLog(open_store(uri), "s")
    log.keeps_digest = True
    stream = open_inline(uri)
    stream.write(20, items(20, 60))
    stream.close()
    collect(log, 20)  # only whole files are deleted: items from 16 on are kept
    for seq in (0, 15, 16):
        found = checked(plan)
        found.seek(seq, None)
        if seq < 16:
            with pytest.raises(OutputCollectedError, match=f"seq {seq} is deleted.*from seq 16 on"):
                found.read(has_ended=True)
        else:
            read = found.read(has_ended=True)
            assert read is not None
            assert read.first_seq == 16
        found.close()
