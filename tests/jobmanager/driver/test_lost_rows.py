"""Reports of late rows name the source, the numbers, and a sufficient delay.

Not covered: whether the text is clear.
"""

from __future__ import annotations

import json
import re
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import jobmanager
from jobmanager import JobConfig, LateRowsWarning
from jobmanager.cli.main import app
from jobmanager.driver.lost_rows import lost_lines
from planner import Stream, agg, tumbling
from planner.durations import duration_us
from tests.support.jobs import WAIT_S, with_limits, write_events
from tests.support.trouble import run_and_cancel

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.trouble import Gate

ROWS = 5_000
RNG = np.random.default_rng(30)
#: A row a second, up to 30 s out of order.
TIMES_US = np.arange(ROWS) * 1_000_000 - RNG.integers(0, 30_000_000, ROWS) + 40_000_000
BEFORE_US = np.maximum.accumulate(TIMES_US)
LATENESS_US = BEFORE_US - TIMES_US


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("orders") / "orders.csv"
    path.write_text("t,k\n" + "".join(f"{t},{n % 7}\n" for n, t in enumerate(TIMES_US)))
    return path


def late_rows(delay_us: int) -> int:
    return int((delay_us < LATENESS_US).sum())


def check(found: dict[str, Any], delay_us: int, policy: str = "drop") -> None:
    """Compare the status of the source with the rows."""
    assert found["source"] == "s01-orders"
    assert found["path"].endswith("orders.csv")
    assert (found["rows"], found["late"]) == (ROWS, late_rows(delay_us))
    assert found["policy"] == policy
    assert found["delay_for_all_us"] == LATENESS_US.max()
    most = found["delay_for_99_us"]
    least = np.sort(LATENESS_US)[ROWS - ROWS // 100 - 1]
    assert least <= most <= least * 33 // 32
    assert late_rows(most) <= ROWS // 100


def run(*arguments: object) -> Any:
    found = CliRunner().invoke(app, [str(a) for a in arguments])
    assert found.exit_code == 0, found.output
    return found


def test_the_command_prints_lost_rows_last(orders: Path, tmp_path: Path) -> None:
    query = tmp_path / "query.py"
    query.write_text(
        "from planner import Stream\n"
        f"query = Stream.from_csv({str(orders)!r}, vs='t', delay='1s').to_parquet()\n"
    )
    root = tmp_path / "job"
    last = run("run", query, "--root", root, "--executor", "local").stdout.splitlines()[-1]
    late = late_rows(1_000_000)
    assert f"late: {late:,} of 5,000 rows of {orders} (s01-orders)" in last
    kept = f"(ss.read_late({str(root)!r}, 's01-orders') has them)"
    assert f"later than delay=1s allows and were dropped {kept}" in last
    assert "5,000 events in" in run("resume", root).stdout
    assert run("resume", root).stdout.splitlines()[-1] == last
    assert run("status", root).stdout.splitlines()[-1] == last
    (found,) = json.loads(run("status", root, "--json").stdout.splitlines()[-1])["late"]
    check(found, 1_000_000)
    (again,) = json.loads(run("resume", root, "--json").stdout.splitlines()[-1])["late"]
    assert again == found
    told = last.partition('delay="')[2].partition('"')[0]
    assert duration_us(told, what="delay") == LATENESS_US.max()
    about = last.partition('about "')[2].partition('"')[0]
    assert late_rows(duration_us(about, what="delay")) <= ROWS // 100


@pytest.mark.parametrize(("delay", "policy"), [(0, "drop"), ("2s", "adjust")])
def test_collect_warns_about_lost_rows(orders: Path, delay: Any, policy: Any) -> None:
    stream = Stream.from_csv(str(orders), vs="t", delay=delay, late=policy)
    with pytest.warns(
        LateRowsWarning, match=f"{late_rows(duration_us(delay, what='')):,} of 5,000"
    ):
        found = jobmanager.collect(stream)
    assert found.num_rows == ROWS - (late_rows(0) if policy == "drop" else 0)


def test_with_an_automatic_delay_no_row_is_late(orders: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert jobmanager.collect(Stream.from_csv(str(orders), vs="t")).num_rows == ROWS


def test_few_late_rows_and_an_estimated_delay(orders: Path, tmp_path: Path) -> None:
    long = Stream.from_csv(str(orders), vs="t", delay=int(np.sort(LATENESS_US)[-4]))
    status = jobmanager.run(long, root=str(tmp_path / "a"), executor="local").wait(WAIT_S)
    (found,) = status["late"]
    assert (found["late"], found["delay_for_99_us"]) == (3, None)
    assert found["delay_for_all_us"] == LATENESS_US.max()
    assert "about" not in lost_lines(status)[0]
    guessed = Stream.from_csv(str(orders), vs="t", delay="p80")
    status = jobmanager.run(guessed, root=str(tmp_path / "b"), executor="local").wait(WAIT_S)
    (found,) = status["late"]
    assert found["delay"] == "p80"
    assert found["delay_for_all_us"] == LATENESS_US.max()
    assert late_rows(found["delay_for_99_us"]) <= ROWS // 100


def test_all_rows_count_as_events_in(orders: Path, tmp_path: Path) -> None:
    events = Stream.from_csv(str(orders), vs="t", delay=0).group_by("k")
    counted = events.window(tumbling("10s")).agg(n=agg.count())
    status = jobmanager.run(counted, root=str(tmp_path / "job"), executor="local").wait(WAIT_S)
    assert status["events_in"] == ROWS
    assert status["late_events"] == late_rows(0)
    (source,) = [row for row in status["vertices"] if row["vertex"].startswith("s01")]
    assert source["events_in"] == ROWS


@pytest.mark.slow
def test_the_counts_are_the_same_after_a_failure(gate: Gate, tmp_path: Path) -> None:
    """The same with two partitions: each partition has its own lateness."""
    path = write_events(tmp_path / "events.parquet")
    query = Stream.from_parquet(str(path), vs="t", delay="50ms", partitions=2).to_parquet()
    whole = jobmanager.run(query, root=str(tmp_path / "whole"), executor="local").wait(WAIT_S)
    times = pq.read_table(path).column("t").to_numpy()
    groups = times.reshape(8, -1)
    parts = [groups[::2].ravel(), groups[1::2].ravel()]
    lateness = np.concatenate([np.maximum.accumulate(part) - part for part in parts])
    (expected,) = whole["late"]
    assert expected["late"] == (lateness > 50_000).sum() > 500
    assert expected["delay_for_all_us"] == lateness.max()
    limits = {"checkpoint_interval_s": 0.02, "step_rows_max": 100}
    config = with_limits(JobConfig(tick_s=0.02), **limits)
    root = str(tmp_path / "disturbed")
    options: dict[str, Any] = {"root": root, "paced": 40.0, "config": config}
    run_and_cancel(query, gate, len(times) // 2, lambda told: told["late_events"] > 50, **options)
    assert jobmanager.resume(root).wait(WAIT_S)["late"] == [expected]


def test_a_stopped_job_does_not_count_waiting_rows_as_lost() -> None:
    bad = {"source": "s01-a", "path": "a.csv", "rows": 5, "bad": 2, "policy": "fail"}
    said = {state: lost_lines({"state": state, "bad": [bad]}) for state in ("stopped", "finished")}
    assert said["stopped"][0].startswith("bad rows: 2 of the rows read so far of a.csv")
    assert said["finished"][0].startswith("bad rows: 2 of 5 rows of a.csv")


@pytest.mark.parametrize(("most_us", "said"), [(29_930_000_000, False), (29_500_000_000, True)])
def test_a_delay_for_most_rows_is_suggested_if_it_is_shorter_than_that_for_all(
    most_us: int, said: bool
) -> None:
    """Delays are rounded up to three digits: 8h18m50s becomes 8h20m, and 8h19m covers all rows."""
    rows = {"rows": 500, "late": 456, "delay_for_all_us": 29_940_000_000}
    found = {"source": "s01-a", "path": "a.csv", "policy": "drop", "delay": "0s", **rows}
    (line,) = lost_lines({"late": [{**found, "delay_for_99_us": most_us}]})
    assert 'delay="8h19m" would have kept all' in line
    assert ("99 %" in line) == said


def test_poisoned_events_are_reported() -> None:
    assert lost_lines({"poisoned_events": 0, "late": []}) == []
    assert lost_lines({"poisoned_events": 1})[0].startswith("poisoned: 1 event was skipped")
    assert "1,200 events were" in lost_lines({"poisoned_events": 1_200})[0]


def test_no_delay_is_suggested_if_one_row_is_years_ahead(tmp_path: Path) -> None:
    """It suggested ``delay="3652d..."``."""
    path, year_us = tmp_path / "a.csv", 31_556_952_000_000
    times = [100_000_000, 10 * year_us + 100_000_000, *range(101_000_000, 111_000_000, 1_000_000)]
    path.write_text("t\n" + "".join(f"{t}\n" for t in times))
    stream = Stream.from_csv(str(path), vs="t", delay="1s")
    status = jobmanager.run(stream, root=str(tmp_path / "a"), executor="local").wait(WAIT_S)
    (line,) = lost_lines(status)
    assert (status["late"][0]["far_late"], status["late"][0]["delay_for_near_us"]) == (10, 0)
    assert "; 10 of them are up to 9 years behind an earlier row: that row has a wrong time" in line
    assert 'max_ahead="1h"' in line
    assert "delay=" not in line.partition("allows")[2]
    path.write_text(
        "t\n" + "".join(f"{t}\n" for t in [90_000_000, 100_000_000, 95_000_000, *times])
    )
    again = Stream.from_csv(str(path), vs="t", delay="1s")
    status = jobmanager.run(again, root=str(tmp_path / "b"), executor="local").wait(WAIT_S)
    (line,) = lost_lines(status)
    assert re.search(r'; delay="5s\d*(ms)?" would have kept the others$', line)
