"""Jobs with several outputs: shared sources and stages run once, each output is complete.

Not covered: a store that fails between completing two outputs; jobs in tests/sim have one output.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import jobmanager
import streamscope as ss
from jobmanager.cli.page.answers import conditions
from jobmanager.driver.running.batch.run import run_batch
from jobmanager.replay.rows.bisecting import bisect
from jobmanager.replay.rows.capsules import make_capsule
from planner import Query, Stream, agg, col, sinks, tumbling
from planner.errors import InvalidPlanError, UnknownOutputError
from planner.logical.query import together
from planner.physical.lower import lower
from rstream.store.blobs import open_store
from tests.support.jobs import WAIT_S, with_limits, write_events
from tests.support.live import Watch, finish, write_file

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from jobmanager import Job

QUICK = with_limits(checkpoint_interval_s=0.05, lease_s=0.5)


def writes_to(folder: Path) -> Callable[..., None]:
    """A destination that writes a file per call, by partition and number; a repeat replaces it."""
    folder.mkdir()
    place = str(folder)

    def write(first_seq: int, batch: pa.RecordBatch, stream: str) -> None:
        lines = [json.dumps(row, default=str) for row in batch.to_pylist()]
        Path(place, f"{stream.rpartition('/')[2]}-{first_seq}").write_text("\n".join(lines))

    return write


def arrived(folder: Path) -> list[dict[str, Any]]:
    texts = [file.read_text() for file in folder.iterdir()]
    return _sorted([json.loads(line) for text in texts for line in text.splitlines()])


def has_taken(files: int) -> Callable[[dict[str, Any]], bool]:
    """Whether the source has read this number of files.

    Buffered rows do not count as events yet.
    """
    return lambda status: any(
        log["position"] >= files << 32 for row in status["vertices"] for log in row["logs"]
    )


def _sorted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: [str(value) for value in row.values()])


def three(events: Stream) -> dict[str, Stream]:
    """Rows of a filter, counts of the same rows, and the filter's rows again with a new column."""
    busy = events.filter(col("key") > 1)
    counts = busy.group_by("key").window(tumbling("500ms")).agg(n=agg.count())
    return {"busy": busy, "counts": counts, "doubled": busy.select("key", twice=col("key") * 2)}


def rows_of(job: Job) -> dict[str, list[dict[str, Any]]]:
    return {name: _sorted(out.to_arrow().to_pylist()) for name, out in job.outputs.items()}


def alone(stream: Stream, root: Path) -> list[dict[str, Any]]:
    job = jobmanager.run(stream, root=str(root), executor="local")
    job.wait(WAIT_S)
    return _sorted(job.to_arrow().to_pylist())


@pytest.mark.slow
def test_each_output_equals_that_of_its_query_alone_and_sources_are_read_once(
    tmp_path: Path,
) -> None:
    events = Stream.from_parquet(str(write_events(tmp_path / "in.parquet")), vs="t", delay="1s")
    queries = three(events.select("key"))
    job = jobmanager.run(queries, root=str(tmp_path / "job"), executor="local", parallelism=2)
    status = job.wait(WAIT_S)
    assert rows_of(job) == {name: alone(s, tmp_path / name) for name, s in queries.items()}
    assert status["events_in"] == 4_000
    lengths = {name: out.to_arrow().num_rows for name, out in job.outputs.items()}
    assert {row["output"]: row["events_out"] for row in status["outputs"]} == lengths
    assert all(row["state"] == "finished" for row in status["outputs"])
    assert status["events_out"] == sum(lengths.values())
    again = jobmanager.resume(str(tmp_path / "job"))
    assert again.status()["notes"] == ["the job has already finished; its output is unchanged"]
    assert rows_of(again) == rows_of(job)


def test_shared_stages_are_planned_once(tmp_path: Path) -> None:
    events = Stream.from_parquet(str(write_events(tmp_path / "in.parquet")), vs="t", delay="1s")
    queries = {name: stream.to_parquet() for name, stream in three(events).items()}
    plan = lower(together(queries), root="memory://job", parallelism=2)
    assert [stage.name for stage in plan.stages if not stage.inputs] == ["s01-in"]
    assert sum("filter" in line for stage in plan.stages for line in stage.operators) == 1
    assert [p.output for p in plan.of_outputs] == [f"memory://job/output-{n}" for n in queries]
    busy, counts, _ = plan.of_outputs
    assert busy.stages == counts.stages
    assert busy.schema.names == ["t", "key", "x"]
    assert counts.partitions[0] == len(busy.sink_streams())


@pytest.mark.slow
def test_outputs_and_deliveries_continue_after_a_cancelled_job(tmp_path: Path) -> None:
    """The job reads a growing folder and is cancelled in the middle; its successor ends it."""
    folder, root, watch = tmp_path / "in", tmp_path / "job", Watch()
    folder.mkdir()
    write_file(folder, 0)
    live = {"follow": True, "poll_every": "20ms", "idle_after": "100ms"}
    events = Stream.from_json(str(folder), vs="t", delay="1s", partitions=1, **live)  # type: ignore[arg-type]
    queries: dict[str, Query | Stream] = dict(three(events))
    for name in ("busy", "doubled"):
        to = sinks.function(writes_to(tmp_path / f"to-{name}"), name=f"to-{name}")
        queries[name] = three(events)[name].deliver(to)
    job = jobmanager.run(queries, root=str(root), executor="local", config=QUICK, on_status=watch)
    for number in (1, 2):
        watch.until(has_taken(number))
        write_file(folder, number)
    watch.until(has_taken(3))
    job.cancel()
    assert job.wait(WAIT_S)["state"] == "cancelled"
    write_file(folder, 3)
    job = jobmanager.resume(str(root), on_status=watch, config=QUICK)
    watch.until(has_taken(4))
    write_file(folder, 4)
    watch.until(has_taken(5))
    status = finish(job)
    assert status["state"] == "finished"
    assert {row["delivery"] for row in status["deliveries"]} == {"to-busy", "to-doubled"}
    found = rows_of(job)
    batch = Stream.from_json(str(folder), vs="t", delay="1s")
    assert found == {name: alone(s, tmp_path / name) for name, s in three(batch).items()}
    for name in ("busy", "doubled"):
        written = [json.loads(json.dumps(row, default=str)) for row in found[name]]
        assert arrived(tmp_path / f"to-{name}") == _sorted(written)


@pytest.mark.slow
def test_each_output_has_its_own_folder_success_mark_and_readers(tmp_path: Path) -> None:
    events = Stream.from_parquet(str(write_events(tmp_path / "in.parquet")), vs="t", delay="1s")
    queries = three(events)
    given = [queries["busy"].to_parquet(str(tmp_path / "there")), queries["counts"]]
    job = ss.run(given, root=str(tmp_path / "job"), executor="local")
    job.wait(WAIT_S)
    assert list(job.outputs) == ["1", "2"]
    folders = [out.folder for out in job.outputs.values()]
    assert folders == [str(tmp_path / "there"), str(tmp_path / "job" / "output-2")]
    assert all(open_store(folder).exists("_SUCCESS") for folder in folders)
    root = str(tmp_path / "job")
    assert jobmanager.read_table(root, output="2").num_rows == 0
    with job.outputs["2"].subscribe() as found:
        rows = sum(batch.num_rows for batch in found)
    assert rows == job.outputs["2"].to_arrow().num_rows
    with pytest.raises(UnknownOutputError, match="outputs of this job are 1, 2: name one"):
        job.to_arrow()
    with pytest.raises(UnknownOutputError, match="none is called '3'"):
        jobmanager.read_table(root, output="3")
    with pytest.raises(UnknownOutputError, match="outputs of this job are 1, 2: name one"):
        jobmanager.why(root, "n = 1")
    open_store(folders[0]).delete("_SUCCESS")  # one output is no longer complete
    again = jobmanager.resume(root)
    assert again.wait(WAIT_S)["state"] == "finished"
    assert open_store(folders[0]).exists("_SUCCESS")


@pytest.mark.slow
def test_an_output_is_explained_and_validated_like_its_query_alone(tmp_path: Path) -> None:
    events = Stream.from_parquet(str(write_events(tmp_path / "in.parquet")), vs="t", delay="1s")
    queries = three(events.select("key"))
    root, lone = str(tmp_path / "job"), str(tmp_path / "lone")
    jobmanager.run(queries, root=root, executor="local").wait(WAIT_S)
    job = jobmanager.run(queries["counts"], root=lone, executor="local")
    job.wait(WAIT_S)
    row = conditions(job.to_arrow().slice(7, 1))[0]
    whys = jobmanager.why(root, row, output="counts"), jobmanager.why(lone, row)
    assert (whys[0].row, whys[0].inputs) == (whys[1].row, whys[1].inputs)
    assert whys[0].rows > 0
    changed = three(events.select("key").filter(col("key") != 2))
    new = together({name: stream.to_parquet() for name, stream in changed.items()})
    for code in (new, changed["counts"].to_parquet()):
        found = jobmanager.diff(root, code, output="counts")
        assert found.differing > 0
        assert found == jobmanager.diff(lone, changed["counts"].to_parquet())
    assert jobmanager.diff(root, new, output="busy").differing > found.differing
    capsule = make_capsule(root, row, str(tmp_path / "c.zip"), output="counts")
    assert capsule.is_reproduced()
    bisected = [
        bisect(root, row="n > 12", output="counts"),
        bisect(lone, row="n > 12"),
    ]
    assert bisected[0].to_json() == bisected[1].to_json()
    with pytest.raises(UnknownOutputError, match="none is called 'count'"):
        jobmanager.diff(root, new, output="count")


def test_functions_for_one_query_reject_several(tmp_path: Path) -> None:
    events = Stream.from_parquet(str(write_events(tmp_path / "in.parquet")), vs="t", delay="1s")
    query = together({name: s.to_parquet() for name, s in three(events).items()})
    for take in (run_batch, jobmanager.collect_batch):
        with pytest.raises(InvalidPlanError, match=r"several outputs \(busy, counts, doubled\)"):
            take(query)  # type: ignore[operator]
    with pytest.raises(InvalidPlanError, match="'a/b': a name may have only letters"):
        together({"a/b": events.to_parquet(), "c": events.to_parquet()})
    with pytest.raises(InvalidPlanError, match="different recoveries"):
        together({"a": events.to_parquet(), "b": events.to_parquet().recover_with("checkpoint")})
