"""The first rows of a stream, formatted for people."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

import jobmanager
from jobmanager.errors import BadRowsWarning, LateRowsWarning
from planner import Stream, agg, event, tumbling
from rstream.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

HOUR_US = 3_600_000_000
EVENTS = [event(k * HOUR_US, k=f"k{k % 3}") for k in range(40)]


def test_head_returns_the_first_rows_by_time() -> None:
    stream = Stream.from_items({"k": "string"}, EVENTS, partitions=2)
    found = jobmanager.head(stream, 7)
    assert found.column_names == ["start", "end", "k"]
    assert found["k"].to_pylist() == [f"k{k % 3}" for k in range(7)]
    assert found["start"][1].as_py() == datetime(1970, 1, 1, 1, tzinfo=UTC)
    assert jobmanager.head(stream, 1_000).num_rows == 40
    with pytest.raises(UsageError, match="between 1 and"):
        jobmanager.head(stream, 0)


def test_columns_may_be_named_like_those_of_a_subscription() -> None:
    names = {"partition": "string", "_n": "int64"}
    found = jobmanager.head(Stream.from_items(names, [event(1, partition="p", _n=2)]), 1)
    assert found.select(["partition", "_n"]).to_pylist() == [{"partition": "p", "_n": 2}]


def test_a_growing_folder_can_be_inspected(tmp_path: Path) -> None:
    lines = [f"{k * HOUR_US},k{k}" for k in range(5)]
    (tmp_path / "a.csv").write_text("\n".join(["t,k", *lines]) + "\n")
    stream = Stream.from_csv(str(tmp_path), vs="t", delay="0s", follow=True, poll_every="20ms")
    assert jobmanager.head(stream, 3)["k"].to_pylist() == ["k0", "k1", "k2"]


def test_a_warning_reports_excluded_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("t,k\n50,a\nnoon,b\n1,c\n60,d\n")
    path = str(tmp_path / "a.csv")
    stream = Stream.from_csv(path, vs="t", delay="0s", on_bad_row="skip", schema={"t": "int64"})
    with (
        pytest.warns(LateRowsWarning, match="1 of 3 rows") as late,
        pytest.warns(BadRowsWarning, match="1 of 4 rows"),
    ):
        assert jobmanager.head(stream)["k"].to_pylist() == ["a", "d"]
    assert late[0].filename == __file__


def test_show_prints_readable_times(capsys: pytest.CaptureFixture[str]) -> None:
    stream = Stream.from_items({"k": "string"}, EVENTS)
    jobmanager.show(stream.group_by("k").window(tumbling("1d")).agg(n=agg.count()), 2)
    assert capsys.readouterr().out.splitlines() == [
        "window_start         window_end           k   n",
        "1970-01-01 00:00:00  1970-01-02 00:00:00  k0  8",
        "1970-01-01 00:00:00  1970-01-02 00:00:00  k1  8",
    ]
    jobmanager.show(Stream.table({"name": ["a\nb", None]}))
    cells = capsys.readouterr().out.splitlines()[1].split()
    assert cells == ["0001-01-01", "00:00:00", "-", "a\\nb"]


def test_notebooks_show_streams() -> None:
    html = Stream.from_items({"a<b": "int64"}, [])._repr_html_()
    assert "<td>a&lt;b</td><td>int64</td>" in html
    assert "<pre>0 items" in html


def test_notebooks_show_jobs(tmp_path: Path) -> None:
    stream = Stream.from_items({"k": "string"}, EVENTS)
    job = jobmanager.run(stream.to_parquet(), root=str(tmp_path / "<job>"), executor="local")
    job.wait()
    html = job._repr_html_()
    assert "finished" in html
    assert "&lt;job&gt;" in html
    assert "<td>40</td>" in html
