"""``show`` prints the rows of an output. Not covered: its look on a narrow terminal."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

import jobmanager
from jobmanager.cli.main import app
from jobmanager.storage.root import STATUS
from planner import Stream, agg, event, tumbling
from rstream.errors import UsageError
from tests.support.jobs import WAIT_S

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = str(tmp_path_factory.mktemp("show") / "job")
    items = [event(f"{k}s", k=k % 4, x=k) for k in range(40)]
    stream = Stream.from_items({"k": "int64", "x": "int64"}, items, partitions=2)
    query = stream.group_by("k").window(tumbling("20s")).agg(n=agg.count()).to_parquet()
    jobmanager.run(query, root=root, executor="local", parallelism=2).wait(WAIT_S)
    return root


def shown(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["show", *arguments])


def test_the_first_rows_of_all_partitions_in_order_of_time(root: str) -> None:
    done = shown(root, "--rows", "5")
    head, *rows = done.stdout.splitlines()
    assert head.split() == ["window_start", "window_end", "k", "n"]
    assert [row[:19] for row in rows] == ["1970-01-01 00:00:00"] * 4 + ["1970-01-01 00:00:20"]
    assert sorted(row.split()[4] for row in rows[:4]) == ["0", "1", "2", "3"]
    assert "There are more: --rows" in done.stderr


def test_all_rows_as_json(root: str) -> None:
    done = shown(root, "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["n"] for row in rows] == [5] * 8
    assert rows[0]["window_end"] == "1970-01-01T00:00:20+00:00"
    assert done.stderr == ""


def test_values_that_json_cannot_represent(tmp_path: Path) -> None:
    """Each line is valid JSON, even for values that JSON cannot represent."""
    items = [event(5, x=math.nan, b=b"\xff", s="\x1b[2J\n"), event(1 << 60, x=0.5, b=None, s=None)]
    stream = Stream.from_items({"x": "double", "b": "binary", "s": "string"}, items)
    root = str(tmp_path / "job")
    jobmanager.run(stream.to_parquet(), root=root, executor="local", parallelism=1).wait(WAIT_S)
    first, second = map(json.loads, shown(root, "--json").stdout.splitlines())
    assert (first["x"], first["b"]) == ("NaN", "ff")
    assert second == {"start": 1 << 60, "end": (1 << 60) + 1, "x": 0.5, "b": None, "s": None}
    _, near, far = shown(root).stdout.splitlines()
    assert near.split()[-1] == r"\x1b[2J\n"
    assert far.split() == [f"{1 << 60}us", f"{(1 << 60) + 1}us", "0.5", "null", "null"]


def test_a_folder_without_a_job_is_an_error(tmp_path: Path) -> None:
    done = shown(str(tmp_path))
    assert done.exit_code == 2
    assert "not the folder of a job" in done.stderr
    stream = Stream.from_items({"x": "int64"}, [])
    root = str(tmp_path / "empty")
    jobmanager.run(stream.to_parquet(), root=root, executor="local").wait(WAIT_S)
    assert shown(root).stdout.split() == ["start", "end", "x"]


def test_late_rows_are_counted_beside_the_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.csv").write_text("t,x\n1,1\n5000000,2\n1000000,3\n6000000,4\n")
    stream = Stream.from_csv(str(tmp_path / "a.csv"), vs="t", delay="1s")
    root = str(tmp_path / "job")
    job = jobmanager.run(stream.to_parquet(), root=root, executor="local", parallelism=1)
    job.show(2)
    there = capsys.readouterr()
    assert [line.split()[-1] for line in there.out.splitlines()] == ["x", "1", "2"]
    late, more = there.err.splitlines()
    assert late.startswith("late: 1 of 4 rows of")
    assert 'delay="4s" would have kept all' in late
    assert more == f"There are more: show(rows=...), to_arrow(), or the files of {job.output}"
    done = shown(root, "--rows", "2")
    assert done.stdout == there.out
    assert done.stderr.splitlines()[0] == late
    assert shown(root, "--json").stderr.splitlines() == [late]
    with pytest.raises(UsageError, match=r"show\(rows=0\): must be between 1 and"):
        job.show(0)
    (tmp_path / "job" / STATUS).write_text("{")  # a damaged status does not prevent the result
    assert shown(root, "--rows", "2").stdout == there.out


def test_a_running_job_shows_its_durable_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.csv").write_text("t,x\n1,1\n")
    stream = Stream.from_csv(str(source), vs="t", delay="1s", follow=True)
    job = jobmanager.run(stream.to_parquet(), root=str(tmp_path / "job"), executor="local")
    try:
        job.show(wait=False)
        assert capsys.readouterr().out.splitlines()[0].split() == ["start", "end", "t", "x"]
    finally:
        job.cancel()
        job.wait(WAIT_S)
