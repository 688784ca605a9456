"""Implausible times are reported while a job runs: far ahead, or in another unit.

Not covered: a row that is less than a day ahead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import jobmanager
from jobmanager.state.health import health_line
from jobmanager.state.odd_times import span
from planner import Stream
from planner.cost.statistics import Discovery
from rstream.clock import SystemClock
from rvertex.sources.logs.opening import discover_units
from tests.support.jobs import with_limits
from tests.support.live import Watch, finish

if TYPE_CHECKING:
    from pathlib import Path

YEAR_US = 31_556_952_000_000
NOW_US = SystemClock().now_us()


def followed(folder: Path, times: list[int]) -> Stream:
    (folder / "0.json").write_text("".join(f'{{"t": {t}}}\n' for t in times))
    return Stream.from_json(str(folder), vs="t", delay="1s", follow=True, poll_every="20ms")


def odd_times(stream: Stream, root: Path) -> list[dict[str, Any]]:
    watch = Watch()
    config = with_limits(lease_s=0.5)
    job = jobmanager.run(stream, root=str(root), config=config, executor="local", on_status=watch)
    status = watch.until(has_read_a_file)
    finish(job)
    found = status["odd_times"]
    line = health_line(status)
    assert line.startswith("degraded: ") == bool(found)
    assert not found or found[0]["reason"] in line
    return found  # type: ignore[no-any-return]


def has_read_a_file(status: dict[str, Any]) -> bool:
    return any(log["position"] >> 32 for row in status["vertices"] for log in row["logs"])


def test_a_row_that_is_years_ahead_of_the_clock_is_named(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    stream = followed(tmp_path / "in", [NOW_US, NOW_US + 10 * YEAR_US + 3_600_000_000, NOW_US + 1])
    (found,) = odd_times(stream, tmp_path / "job")
    assert "partition 0: one row is 10 years ahead of the clock" in found["reason"]
    assert 'max_ahead="1h"' in found["advice"]
    assert found["kind"] == "ahead"


@pytest.mark.parametrize(
    ("per_second", "unit", "remedy"),
    [(1, "seconds", "* 1_000_000"), (1_000, "milliseconds", "* 1_000")],
)
def test_numbers_in_another_unit_are_named(
    tmp_path: Path, per_second: int, unit: str, remedy: str
) -> None:
    (tmp_path / "in").mkdir()
    stream = followed(tmp_path / "in", [NOW_US * per_second // 1_000_000])
    (found,) = odd_times(stream, tmp_path / "job")
    assert "column 't' holds whole numbers, which are microseconds" in found["reason"]
    assert found["reason"].endswith(f"these look like {unit}")
    assert f'vs=ss.col("t") {remedy} converts them' in found["advice"]


def test_plausible_times_get_no_note(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    stream = followed(tmp_path / "in", [NOW_US - YEAR_US, NOW_US])
    assert odd_times(stream, tmp_path / "job") == []


def test_files_with_an_explicit_delay_get_the_note_about_units_too(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"t,x\n{NOW_US // 1_000},1\n")
    for delay in ("auto", "5s"):
        spec = Stream.from_csv(path, vs="t", delay=delay).plan.spec  # type: ignore[attr-defined]
        (note,) = Discovery(discover_units).notes(spec)
        assert "these look like milliseconds: vs=ss.col(" in note


@pytest.mark.parametrize(
    ("us", "words"),
    [(YEAR_US, "1 year"), (3 * YEAR_US - 1, "2 years"), (86_400_000_000, "1 day"), (5, "1 hour")],
)
def test_time_spans_as_text(us: int, words: str) -> None:
    assert span(us) == words
