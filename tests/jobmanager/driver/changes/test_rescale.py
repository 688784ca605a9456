"""A job whose stages change their number of vertices while it runs returns the same rows.

Not covered: the order of rows of equal time, which depends on the number of vertices.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import jobmanager
import streamscope as ss
from jobmanager.driver.job_deliveries import JobDeliveries
from jobmanager.driver.running.changes import pending
from jobmanager.driver.running.changes.scaling.widths import RescaleError
from jobmanager.driver.running.deploying import deploy, rescale, rescale_stopped, roll_back
from jobmanager.errors import JobFailedError
from jobmanager.storage.ownership import give_back, owned
from jobmanager.storage.query_file import load_query, query_file
from jobmanager.storage.root import JobRoot
from rstream import Appender
from rstream.errors import StoreError
from rvertex.checkpoint.ranges.slots import NotByKeyError
from rvertex.host.executor import LocalExecutor
from tests.support.changed_jobs import (
    BY_CODE,
    COUNTS,
    LOSING_KEYS,
    ODD,
    QUICK,
    ROWS,
    SCHEMA,
    STATEFUL,
    ChangedJob,
    batch,
    rows_of,
    whole_answer,
    whole_job,
)
from tests.support.jobs import WAIT_S
from tests.support.live import Watch

if TYPE_CHECKING:
    import threading

    from planner.physical.plan import PhysicalPlan

QUERIES = {"tumbling": COUNTS, **STATEFUL, **LOSING_KEYS, **BY_CODE}


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
def test_the_result_equals_that_of_a_job_that_was_never_rescaled(name: str, tmp_path: Path) -> None:
    draw = random.Random(name)
    changed = ChangedJob(tmp_path)
    changed.append(2)
    job = changed.run(changed.query("first", QUERIES[name]))
    changed.has_read_all()
    width = QUICK.parallelism
    for _ in range(3):
        width = draw.choice([n for n in (1, 2, 3, 5) if n != width])
        outcome = rescale(changed.root, parallelism=width, wait_s=WAIT_S)
        assert outcome["state"] == "done"
        changed.append()
    changed.has_read_all()
    assert job.plan.stages[-1].parallelism >= width
    assert changed.finish() == whole_answer(changed, QUERIES[name])


SEVERAL = """None
query = {{
    "counts": {counts}.deliver(ss.sinks.parquet({folder!r}, name="c", roll="0s")),
    "sessions": rows.filter(ss.col("x") < 3).group_by("key").window(ss.session("150ms"))
        .agg(n=ss.agg.count()).deliver(ss.sinks.parquet({folder!r} + "2", name="s", roll="0s")),
    "few": {counts}.filter(ss.col("key") > 2).to_parquet(),
}}"""


@pytest.mark.slow
def test_each_output_of_a_rescaled_job_is_complete_and_delivered(tmp_path: Path) -> None:
    changed, folder = ChangedJob(tmp_path), str(tmp_path / "delivered")
    text = SEVERAL.format(counts=COUNTS, folder=folder)
    changed.append(2)
    changed.run(changed.query("several", text))
    for width in (5, 1, 3):
        changed.has_read_all()
        rescale(changed.root, parallelism=width, wait_s=WAIT_S)
        changed.append()
    deploy(changed.query("again", text), changed.root, yes=True, wait_s=WAIT_S)
    changed.append()
    changed.has_read_all()
    job = changed.job
    assert job is not None
    job.stop(finish=True)
    assert job.wait(WAIT_S)["state"] == "finished"
    changed.close()
    whole = whole_job(changed, text.replace(folder, f"{folder}-whole"))
    outputs = {name: out.to_arrow().to_pylist() for name, out in job.outputs.items()}
    assert len(outputs["few"]) > 5
    for name, out in whole.outputs.items():
        assert sorted(map(str, outputs[name])) == sorted(map(str, out.to_arrow().to_pylist()))
    for name, at in (("counts", folder), ("sessions", f"{folder}2")):
        tables = [pq.read_table(path).to_pylist() for path in Path(at).rglob("*.parquet")]
        found = [row for table in tables for row in table]
        assert sorted(map(str, found)) == sorted(map(str, outputs[name]))


TOTALS = COUNTS.replace("ss.agg.count()", 'ss.agg.count(), total=ss.agg.sum("x")')


@pytest.mark.slow
def test_a_rescaled_job_gets_another_query_and_is_rolled_back(tmp_path: Path) -> None:
    """Each vertex has two states side by side, and both are converted.

    A rollback undoes one change.
    """
    changed, folder = ChangedJob(tmp_path), str(tmp_path / "delivered")
    to = f'.deliver(ss.sinks.parquet({folder!r}, roll="0s"))'
    changed.append(2)
    changed.run(changed.query("counts", f"{COUNTS}{to}"))
    changed.has_read_all()
    for width in (5, 2, 3):
        rescale(changed.root, parallelism=width, wait_s=WAIT_S)
        changed.append()
    new = changed.query("totals", f"{TOTALS}{to}")
    found = deploy(new, changed.root, yes=True, wait_s=WAIT_S).comparison
    assert [row.verdict for row in found.rows][:2] == ["converted", "converted"], found.rows
    changed.append()
    changed.has_emitted_all()  # rows delivered since the change could not be taken back
    rescale(changed.root, parallelism=2, wait_s=WAIT_S)
    roll_back(changed.root, wait_s=WAIT_S)
    changed.append()
    changed.has_read_all()
    rows = changed.finish()
    files = [pq.read_table(path).to_pylist() for path in Path(folder).rglob("*.parquet")]
    delivered = [row for file in files for row in file]
    assert sorted(map(_counted, delivered)) == sorted(map(_counted, rows))
    assert sorted(map(_counted, rows)) == sorted(map(_counted, whole_answer(changed, COUNTS)))


def _counted(row: dict[str, Any]) -> tuple[Any, ...]:
    return str(row["window_start"]), row["key"], row["n"], row["m"]


class ResumedMeanwhile(JobRoot):
    """A job that is resumed between the reads of its status and of its plan."""

    def read_plan(self, *, to_run: bool = False) -> PhysicalPlan | None:
        with owned(self):
            return super().read_plan(to_run=to_run)


@pytest.mark.slow
def test_dead_letters_of_former_vertices_are_readable_and_continue_when_they_return(
    tmp_path: Path,
) -> None:
    changed = ChangedJob(tmp_path)
    changed.append()
    changed.run(changed.query("odd", ODD))
    for width in (1, 3, 2):
        changed.has_read_all()
        rescale(changed.root, parallelism=width, wait_s=WAIT_S)
        changed.append()
    changed.has_read_all()
    rows = changed.finish()
    whole = whole_job(changed, ODD)
    assert rows == rows_of(whole)
    found, expected = (
        jobmanager.read_dead_letters(root, "even").select(["t", "key", "x"]).to_pylist()
        for root in (changed.root, str(tmp_path / "whole"))
    )
    assert len(expected) > 10
    assert sorted(found, key=str) == sorted(expected, key=str)


@pytest.mark.slow
def test_a_stopped_job_is_resumed_with_another_number_of_vertices(tmp_path: Path) -> None:
    changed = ChangedJob(tmp_path)
    changed.append(2)
    job = changed.run(changed.query("counts", COUNTS))
    changed.has_read_all()
    with pytest.raises(RescaleError, match="between 1 and 256"):
        rescale(changed.root, parallelism=0)
    with pytest.raises(RescaleError, match="no stage 's09'"):
        rescale(changed.root, stages={"s09": 2})
    with pytest.raises(NotByKeyError, match="s01-log cannot be divided"):
        rescale(changed.root, stages={"s01": 2})
    job.stop()
    job.wait(WAIT_S)
    changed.append()
    root = ResumedMeanwhile(changed.root)
    rescale_stopped(root, 5)
    give_back(root)
    assert pending.pending(root.store) is None
    resumed = jobmanager.resume(changed.root, config=QUICK, on_status=changed.watch, parallelism=5)
    assert resumed.plan.stage("s02-agg").parallelism == 5
    changed.job = resumed
    changed.has_read_all()
    assert changed.finish() == whole_answer(changed, COUNTS)


@pytest.mark.slow
def test_a_rescaled_job_with_replay_is_resumed(tmp_path: Path) -> None:
    """States side by side may depend on all input, and so may the stages that read them."""
    changed, text = ChangedJob(tmp_path), STATEFUL["two_stages"]
    changed.append(2)
    job = changed.run(changed.query("first", text), recovery="replay")
    changed.has_read_all()
    rescale(changed.root, stages={"s02": 1}, wait_s=WAIT_S)
    changed.append()
    changed.has_read_all()
    job.cancel()
    job.wait(WAIT_S)
    changed.resume()
    changed.append()
    changed.has_read_all()
    assert changed.finish() == whole_answer(changed, text)


@pytest.mark.slow
def test_readers_of_the_output_get_its_new_partitions(tmp_path: Path) -> None:
    changed = ChangedJob(tmp_path)
    changed.append(2)
    changed.run(changed.query("counts", COUNTS))
    changed.has_read_all()
    answer = ss.Stream.from_rstream(f"{changed.root}/output", follow=True)
    reader = jobmanager.run(
        answer.select("key", "n"), root=str(tmp_path / "reader"), executor="local", config=QUICK
    )
    rescale(changed.root, parallelism=5, wait_s=WAIT_S)
    with pytest.raises(JobFailedError, match="has 5 partitions, and this job reads 2"):
        reader.wait(WAIT_S)
    changed.append()
    changed.has_read_all()
    assert changed.finish() == whole_answer(changed, COUNTS)


TWO_LOGS = """import streamscope as ss
class Visits(ss.KeyedProcess):
    output = {{"pages": "int64", "at": "int64"}}
    pages: int = 0
    def on_event(self, event, ctx):
        self.pages += 1
        ctx.set_timer(event.vs + 300_000)
    def on_timer(self, timer, ctx):
        ctx.emit(self.pages, timer.at)
        self.pages = 0
def log(uri):
    return ss.Stream.from_rstream(uri, vs="t", delay="50ms", follow={follow}, idle_after="60s")
rows = log({a!r}).union(log({b!r})).filter(ss.col("x") < 9).group_by("key")
query = {query}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "query", ['rows.window(ss.session("150ms")).agg(n=ss.agg.count())', "rows.process(Visits)"]
)
def test_rows_that_wait_for_a_slower_source_go_to_the_owner_of_their_key(
    query: str, tmp_path: Path
) -> None:
    """Vertices of a stage are at different times, so their states cannot be merged.

    Timers are due.
    """
    uris = [str(tmp_path / name) for name in "ab"]
    logs, counts, watch = [Appender(uri, SCHEMA) for uri in uris], [0, 0], Watch()

    def file(*, follow: bool) -> str:
        path = tmp_path / f"{follow}.py"
        path.write_text(TWO_LOGS.format(a=uris[0], b=uris[1], follow=follow, query=query))
        return str(path)

    def append(log: int, seconds: int) -> None:
        for _ in range(seconds):
            logs[log].append(batch(counts[log]))
            counts[log] += 1

    append(0, 3)
    append(1, 1)
    path, root = file(follow=True), str(tmp_path / "job")
    job = jobmanager.run(
        load_query(path), root=root, query_file=query_file(path), executor="local", config=QUICK,
        on_status=watch,
    )  # fmt: skip
    watch.until(lambda status: _read(status) == sum(counts) * ROWS)
    for log, width in ((1, 3), (0, 2), (1, 5)):
        rescale(root, parallelism=width, wait_s=WAIT_S)
        append(log, 1)
    append(1, counts[0] - counts[1])
    watch.until(lambda status: _read(status) == sum(counts) * ROWS)
    assert job.plan.stages[-1].parallelism >= 5
    job.stop(finish=True)
    assert job.wait(WAIT_S)["state"] == "finished"
    for appender in logs:
        appender.close()
    query_of_all = load_query(file(follow=False))
    whole = jobmanager.run(query_of_all, root=str(tmp_path / "w"), executor="local", config=QUICK)
    whole.wait(WAIT_S)
    assert rows_of(job) == rows_of(whole)


def _read(status: dict[str, Any]) -> int:
    return sum(log["position"] for vertex in status.get("vertices", ()) for log in vertex["logs"])


@pytest.mark.slow
def test_called_hosts_exit_if_the_next_leg_cannot_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = ChangedJob(tmp_path)
    changed.append()
    job = changed.run(changed.query("counts", COUNTS))
    changed.has_read_all()
    started: list[threading.Thread] = []
    start = LocalExecutor.start

    def noting(executor: LocalExecutor, *given: Any) -> None:
        start(executor, *given)
        started.append(executor._threads[-1])

    def fail(deliveries: JobDeliveries) -> None:
        raise StoreError("claims", "no answer")

    monkeypatch.setattr(LocalExecutor, "start", noting)
    monkeypatch.setattr(JobDeliveries, "start", fail)
    rescale(changed.root, parallelism=3, wait_s=WAIT_S)
    with pytest.raises(JobFailedError, match="no answer"):
        job.wait(WAIT_S)
    assert started
    for thread in started:
        thread.join(WAIT_S)
    assert not any(thread.is_alive() for thread in started)
    changed.append()
    monkeypatch.undo()
    changed.resume()
    changed.has_read_all()
    assert changed.finish() == whole_answer(changed, COUNTS)
