"""Stream files that are deleted, cut, emptied or flipped: written again, or an error with the name.

A job whose output lacks anything never ends as finished. Each damage is done at each stage: while
the job runs, before it is resumed, after it has finished.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import jobmanager
from jobmanager import JobConfig, JobFailedError
from jobmanager.cli.main import app
from planner import Query, Stream, agg, col, hopping
from rstream import Items, OperatingError, StreamLimits, open_store
from rstream.log.damage import find_damage
from rstream.log.durable import DurableLog
from rstream.log.overlap import seal
from rstream.store.part_files import part_uri
from tests.support.content import SCHEMA, items
from tests.support.jobs import ROWS, WAIT_S, outcome, output_items, until, with_limits, write_events

if TYPE_CHECKING:
    from pathlib import Path

    from jobmanager import Job
    from tests.support.trouble import Gate

#: Segments of a few items, so that there are many.
LIMITS = StreamLimits(segment_rows_max=16, flush_interval_ms=20)


def delete(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip(path: Path) -> None:
    """Flip a bit of a column's last value, which no footer reveals."""
    group = pq.read_metadata(path).row_group(0)
    column = group.column(group.num_columns - 1)
    data = bytearray(path.read_bytes())
    data[column.data_page_offset + column.total_compressed_size - 1] ^= 4
    path.write_bytes(bytes(data))


HARMS = {"deleted": delete, "cut": cut, "emptied": empty, "flipped": flip}


def do_harm(harm: str, path: Path) -> None:
    HARMS[harm](path)
    end = int(path.stem.rpartition("-")[2])
    assert find_damage(open_store(stream_of(path)), "s", end, contents=True)


def query(path: Path, strategy: str = "") -> Query:
    events = Stream.from_parquet(str(path), vs="t", delay="1s")
    counts = events.group_by("key").window(hopping("2s", "1s"))
    result = counts.agg(n=agg.count(), most=agg.max("x")).filter(col("n") > 0)
    return (result.recover_with("strong") if strategy == "strong" else result).to_parquet()


def config(interval_s: float) -> JobConfig:
    return with_limits(stream=LIMITS, checkpoint_interval_s=interval_s)


def start(data: Path, root: Path, *, interval_s: float = 0.1, **options: Any) -> Job:
    strategy = options.pop("strategy", "")
    return jobmanager.run(
        query(data, strategy),
        root=str(root),
        executor="local",
        config=config(interval_s),
        **options,
    )


def resumed(root: Path, interval_s: float = 0.1) -> dict[str, Any]:
    return jobmanager.resume(str(root), config=config(interval_s)).wait(WAIT_S)


def stream_of(segment: Path) -> str:
    """The stream of a segment, which may share its folder with others."""
    name = segment.stem[:-41].rstrip("-")
    return part_uri(str(segment.parent), name) if name else str(segment.parent)


def segments(folder: Path) -> list[Path]:
    """The segments with rows of the stream that has most of them."""
    streams: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("*.parquet")):
        with contextlib.suppress(FileNotFoundError):
            if pq.read_metadata(path).num_rows:
                streams.setdefault(stream_of(path), []).append(path)
    return max(streams.values(), key=len, default=[])


def stopped_half_way(
    data: Path, root: Path, folder: str, gate: Gate, *, is_saved: bool = False, **options: Any
) -> list[Path]:
    """Run a job, and cancel it once a stream below ``folder`` has some segments. Return these.

    ``is_saved``: the job is stopped instead, so it has checkpoints of its state.
    """
    with gate.closed_at(ROWS // 2):
        job = start(data, root, **options)
        until(lambda: len(segments(root / folder)) >= 4)
        job.stop() if is_saved else job.cancel()
        assert job.wait(WAIT_S)["state"] == ("stopped" if is_saved else "cancelled")
    return segments(root / folder)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_events(tmp_path_factory.mktemp("damage") / "in.parquet")


@pytest.fixture(scope="module")
def expected(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """Return the result of an undisturbed job."""
    root = tmp_path_factory.mktemp("undisturbed") / "job"
    job = start(data, root)
    return outcome(job.wait(WAIT_S)), output_items(job.output)


def check(root: Path, status: dict[str, Any], expected: tuple[Any, Any]) -> None:
    output = root / "output"
    assert outcome(status) == expected[0]
    assert output_items(str(output)) == expected[1]
    for name in json.loads((output / "_SUCCESS").read_bytes())["files"]:
        assert (output / name).is_file()
    taken = [path.name for path in (root / "output").glob("*.parquet")]
    assert all(name.startswith("part-") for name in taken), "DuckDB and Polars read by that pattern"


@pytest.mark.parametrize(
    ("harm", "which"),
    [
        ("flipped", 0),
        *(
            pytest.param(harm, which, marks=pytest.mark.slow)
            for harm in HARMS
            for which in (0, 1, -1)
            if (harm, which) != ("flipped", 0)
        ),
    ],
)
def test_output_damaged_before_resume_is_written_again(
    harm: str, which: int, data: Path, tmp_path: Path, gate: Gate, expected: tuple[Any, Any]
) -> None:
    root = tmp_path / "job"
    do_harm(harm, stopped_half_way(data, root, "output", gate)[which])
    check(root, resumed(root), expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    "harm",
    ["flipped", *(pytest.param(h, marks=pytest.mark.slow) for h in ("deleted", "cut", "emptied"))],
)
def test_output_damaged_while_the_job_runs_is_written_again(
    harm: str, data: Path, tmp_path: Path, gate: Gate, expected: tuple[Any, Any]
) -> None:
    root = tmp_path / "job"
    with gate.closed_at(ROWS // 2):
        job = start(data, root)
        until(lambda: len(segments(root / "output")) >= 4)
        do_harm(harm, segments(root / "output")[1])
    check(root, job.wait(WAIT_S), expected)


@pytest.mark.parametrize(
    "harm",
    ["flipped", *(pytest.param(h, marks=pytest.mark.slow) for h in ("deleted", "cut", "emptied"))],
)
def test_output_damaged_after_the_end_is_written_again_by_resume(
    harm: str, data: Path, tmp_path: Path, expected: tuple[Any, Any]
) -> None:
    root = tmp_path / "job"
    start(data, root).wait(WAIT_S)
    before = sorted(root.rglob("*"))
    assert resumed(root)["state"] == "finished"
    assert sorted(root.rglob("*")) == before, "nothing is done to a whole one"
    do_harm(harm, segments(root / "output")[-1])
    check(root, resumed(root), expected)


@pytest.mark.parametrize(
    ("harm", "interval_s"),
    [
        ("flipped", 60.0),
        *(
            pytest.param(harm, interval_s, marks=pytest.mark.slow)
            for harm in HARMS
            for interval_s in (60.0, 0.1)
            if (harm, interval_s) != ("flipped", 60.0)
        ),
    ],
)
@pytest.mark.slow
def test_channels_damaged_before_resume_are_written_again(
    harm: str,
    interval_s: float,
    data: Path,
    tmp_path: Path,
    gate: Gate,
    expected: tuple[Any, Any],
) -> None:
    """``verify`` makes channels durable; without checkpoints they are read from the start."""
    root = tmp_path / "job"
    there = stopped_half_way(data, root, "streams", gate, interval_s=interval_s, verify=True)
    for path in (there[0], there[-2]):
        do_harm(harm, path)
    check(root, resumed(root, interval_s), expected)


def test_an_unrecoverable_stream_is_named_in_the_error(
    data: Path, tmp_path: Path, gate: Gate, expected: tuple[Any, Any]
) -> None:
    root = tmp_path / "job"
    first = stopped_half_way(data, root, "output", gate, is_saved=True, strategy="strong")[0]
    shutil.copy(first, tmp_path / "copy")
    first.unlink()
    for _ in range(2):
        with pytest.raises(JobFailedError, match=first.name) as failure:
            resumed(root)
        assert "put the file back from a copy and resume" in str(failure.value)
        assert not (root / "output" / "_SUCCESS").exists()
    shutil.copy(tmp_path / "copy", first)
    check(root, resumed(root), expected)


def test_verify_reads_the_whole_output_back(data: Path, tmp_path: Path) -> None:
    root = tmp_path / "job"
    with pytest.raises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as told:
        app(["verify", str(root)])
    assert "is not the folder of a job" in told.getvalue()
    status = start(data, root).wait(WAIT_S)
    with pytest.raises(SystemExit) as done, contextlib.redirect_stdout(io.StringIO()) as out:
        app(["verify", str(root)])
    assert done.value.code == 0
    found = json.loads(out.getvalue())
    assert (found["events"], found["output_digest"]) == outcome(status)[2:]
    assert found["files"] == len(list((root / "output").glob("*.parquet")))
    harmed = segments(root / "output")[0]
    flip(harmed)
    with pytest.raises(SystemExit) as done, contextlib.redirect_stderr(io.StringIO()) as told:
        app(["verify", str(root)])
    assert done.value.code == 1
    assert harmed.name in told.getvalue()
    assert "jobmanager resume" in told.getvalue()


def test_a_stream_with_a_hole_is_not_sealed(data: Path, tmp_path: Path, gate: Gate) -> None:
    there = stopped_half_way(data, tmp_path / "job", "output", gate)
    stream = stream_of(there[1])
    there[1].unlink()
    with pytest.raises(OperatingError, match="was lost"):
        seal(stream)


def test_a_damaged_segment_covered_by_others_is_no_loss(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    log = DurableLog(store, "s", schema=SCHEMA)
    for lo, hi in ((0, 20), (5, 15), (20, 30)):
        log.write(Items(lo, items(lo, hi)))
    covered = sorted(tmp_path.glob("*.parquet"))[1]
    flip(covered)
    assert find_damage(store, "s", 30, contents=True, set_aside=True) == []
    assert not covered.exists()
    (lost,) = find_damage(store, "s", 40, contents=False)
    assert (lost.seqs.lo, lost.seqs.hi) == (30, 40)
