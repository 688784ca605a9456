"""Rows too far ahead of the clock are bad with ``max_ahead``; later rows are not late by them.

Cannot catch: a host whose clock is wrong by more than ``max_ahead``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import jobmanager
from planner import Stream, agg, tumbling
from planner.errors import InvalidDurationError
from rstream.clock import SystemClock
from tests.support.jobs import WAIT_S, with_limits
from tests.support.live import Watch, answer_rows, finish, has_read

if TYPE_CHECKING:
    from pathlib import Path

QUICK = with_limits(checkpoint_interval_s=0.05, lease_s=0.2)
YEAR_US = 365 * 86_400_000_000


def write(folder: Path, number: int, times: list[int]) -> None:
    folder.mkdir(exist_ok=True)
    part = folder / f"{number}.json.tmp"
    part.write_text("".join(f'{{"t": {t}, "n": {k}}}\n' for k, t in enumerate(times)))
    part.rename(folder / f"{number}.json")


def counts(folder: Path, **given: Any) -> Any:
    rows = Stream.from_json(str(folder), vs="t", **given)
    return rows.window(tumbling("1s")).agg(n=agg.count()).to_parquet()


@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
def test_a_far_row_of_a_file_is_bad_and_delays_nothing(tmp_path: Path, policy: str) -> None:
    now_us = SystemClock().now_us() // 1_000_000 * 1_000_000
    write(tmp_path / "in", 0, [now_us, now_us + 10 * YEAR_US, now_us + 1, now_us + 600_000_000])
    query = counts(tmp_path / "in", max_ahead="1h", on_bad_row=policy)
    root = str(tmp_path / "job")
    job = jobmanager.run(query, root=root, executor="local")
    assert job.wait(WAIT_S)["bad"][0]["bad"] == 1
    assert [row["n"] for row in answer_rows(job)] == [2, 1]
    if policy == "dead_letter":
        (dead,) = jobmanager.read_dead_letters(root).to_pylist()
        assert (dead["column"], dead["position"]) == ("t", 2)
        assert dead["reason"].startswith("starts further ahead of the clock than max_ahead allows")


def test_without_it_and_where_it_fails_the_row_is_named(tmp_path: Path) -> None:
    now_us = SystemClock().now_us()
    write(tmp_path / "in", 0, [now_us, now_us + 10 * YEAR_US])
    (job, root) = (counts(tmp_path / "in", max_ahead="1h"), str(tmp_path / "job"))
    with pytest.raises(Exception, match=r"row 2.*column 't'.*further ahead of the clock"):
        jobmanager.run(job, root=root, executor="local").wait(60)
    job = jobmanager.run(counts(tmp_path / "in"), root=str(tmp_path / "all"), executor="local")
    assert job.wait(WAIT_S)["events_in"] == 2
    with pytest.raises(InvalidDurationError, match="max_ahead"):
        counts(tmp_path / "in", max_ahead="-1h")


@pytest.mark.slow
def test_a_far_row_of_a_growing_folder_is_bad_also_for_a_successor(tmp_path: Path) -> None:
    """Rows behind it are in time, in this life and in the next one."""
    folder, root, watch = tmp_path / "in", tmp_path / "job", Watch()
    now_us = SystemClock().now_us() // 1_000_000 * 1_000_000
    write(folder, 0, [now_us, now_us + 10 * YEAR_US, now_us + 1])
    live = {"follow": True, "delay": "1s", "poll_every": "20ms"}
    query = counts(folder, **live, max_ahead="1h", on_bad_row="dead_letter")
    options = {"executor": "local", "config": QUICK, "on_status": watch}
    job = jobmanager.run(query, root=str(root), **options)
    watch.until(has_read(2))
    job.cancel()
    assert job.wait(WAIT_S)["state"] == "cancelled"
    write(folder, 1, [now_us + 2, now_us + 20 * YEAR_US, now_us + 600_000_000])
    job = jobmanager.resume(str(root), on_status=watch, config=QUICK)
    watch.until(has_read(4))
    write(folder, 2, [now_us + 601_000_000])
    watch.until(has_read(5))
    status = finish(job)
    assert (status["events_in"], status["late_events"]) == (5, 0)
    assert [row["n"] for row in answer_rows(job)] == [3, 1, 1]
    dead = jobmanager.read_dead_letters(str(root)).to_pylist()
    assert [row["position"] & 0xFFFF for row in dead] == [1, 1]
    assert all("max_ahead is 3600 s" in row["reason"] for row in dead)
