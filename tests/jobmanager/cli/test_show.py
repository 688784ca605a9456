"""What ``show`` prints of an answer. Cannot catch: how it reads on a narrow terminal."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

import jobmanager
from jobmanager.cli.main import app
from planner import Stream, agg, event, tumbling
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


def test_values_that_json_lacks(tmp_path: Path) -> None:
    """A program reads each line, whatever is in it."""
    items = [event(5, x=math.nan, b=b"\xff", s="\x1b[2J\n"), event(1 << 60, x=0.5, b=None, s=None)]
    stream = Stream.from_items({"x": "double", "b": "binary", "s": "string"}, items)
    root = str(tmp_path / "job")
    jobmanager.run(stream.to_parquet(), root=root, executor="local", parallelism=1).wait(WAIT_S)
    first, second = map(json.loads, shown(root, "--json").stdout.splitlines())
    assert (first["x"], first["b"]) == ("nan", "ff")
    assert second == {"start": 1 << 60, "end": (1 << 60) + 1, "x": 0.5, "b": None, "s": None}
    _, near, far = shown(root).stdout.splitlines()
    assert near.split()[-1] == r"\x1b[2J\n"
    assert far.split() == ["-", "-", "0.5", "null", "null"]


def test_where_nothing_is(tmp_path: Path) -> None:
    done = shown(str(tmp_path))
    assert done.exit_code == 2
    assert "no job" in done.stderr
    stream = Stream.from_items({"x": "int64"}, [])
    root = str(tmp_path / "empty")
    jobmanager.run(stream.to_parquet(), root=root, executor="local").wait(WAIT_S)
    assert shown(root).stdout.split() == ["start", "end", "x"]
