"""The doctor's findings on real jobs with problems; test_doctor has the full table.

Not covered: problems of brokers, machines and stores, which test_doctor simulates with statuses.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

import pytest

import streamscope as ss
from jobmanager import JobConfig
from jobmanager.cli.page import doctor
from jobmanager.cli.page.doctor import findings
from jobmanager.cli.page.looking import case_of, log_of, look_at
from jobmanager.driver.running.changes import pending
from jobmanager.storage.root import JobRoot
from rstream.clock import SystemClock
from rstream.types import INF_TIME
from tests.support.jobs import with_limits

if TYPE_CHECKING:
    from pathlib import Path

    from jobmanager.cli.page.doctor import Finding

WAIT_S = 120


def seen(root: Path) -> dict[str, Any]:
    return look_at(str(root), SystemClock().now_us(), must_exist=True)


def found_in(root: Path, before: dict[str, Any]) -> dict[str, Finding]:
    """Return the doctor's findings of its second check, by kind."""
    now_us = SystemClock().now_us()
    case = case_of(str(root), before, seen(root), now_us, lambda: log_of(str(root)))
    return {finding.kind: finding for finding in findings(case)}


def slow(x: int) -> bool:
    time.sleep(0.02)
    return x > 0


def rows(count: int) -> ss.Stream:
    return ss.Stream.from_items(
        {"x": "int64"}, [*(ss.event(k, x=k) for k in range(count)), ss.cti(INF_TIME)]
    )


@pytest.mark.slow
@pytest.mark.parametrize("step_rows", [4, 1_000], ids=["short steps", "one long step"])
def test_slow_user_code_is_named_with_its_share(tmp_path: Path, step_rows: int) -> None:
    slowed = ss.udf(slow, returns="bool", deterministic=True)
    query = rows(250).filter(slowed(ss.col("x"))).to_parquet()
    looks: deque[dict[str, Any]] = deque(maxlen=10)
    found: dict[str, Finding] = {}

    def look(status: dict[str, Any]) -> None:
        if looks and not found:
            case = doctor.Case(looks[0], status, status["written_us"])
            found.update({f.kind: f for f in findings(case) if f.kind == "slow user code"})
        looks.append(status)

    config = with_limits(JobConfig(), step_rows_max=step_rows, busy_after_s=0.5)
    root = str(tmp_path / "job")
    job = ss.run(query, root=root, executor="local", config=config, on_status=look)
    job.wait()
    what = found["slow user code"].what
    assert "slow (test_troubles.py) takes " in what
    assert int(what.split(" takes ")[1].split()[0]) >= 50


def test_excluded_rows_are_reported_with_a_delay_that_would_keep_them(tmp_path: Path) -> None:
    minutes = [f"2026-01-01T00:{k:02}:00Z,{k}" for k in range(30)]
    late = [f"2026-01-01T00:{k:02}:30Z,{k}" for k in (5, 9)]
    (tmp_path / "in.csv").write_text("\n".join(["t,k", *minutes, *late, "x,1"]))
    stream = ss.Stream.from_csv(
        str(tmp_path / "in.csv"), vs="t", delay="5s", late="drop", on_bad_row="dead_letter"
    )
    poisoned = stream.apply(only_even, schema={"k": "int64"}, on_error="skip", deterministic=True)
    ss.run(poisoned.to_parquet(), root=str(tmp_path / "job"), executor="local").wait()
    found = found_in(tmp_path / "job", seen(tmp_path / "job"))
    assert set(found) == {"late rows", "bad rows", "poisoned rows"}, found
    assert "2 of 32 rows" in found["late rows"].what.replace("late: ", "")
    assert 'delay="23m30s" would have kept all' in found["late rows"].what
    assert "ss.read_dead_letters" in found["bad rows"].what


def only_even(batch: Any) -> dict[str, Any]:
    values = batch.column("k").to_pylist()
    if any(value % 15 == 7 for value in values):
        raise ValueError("odd")
    return {"k": values}


def test_a_deployment_that_never_completes_is_reported(tmp_path: Path) -> None:
    root = tmp_path / "job"
    ss.run(rows(5).to_parquet(), root=str(root), executor="local").wait()
    assert found_in(root, seen(root)) == {}
    pending.request(JobRoot(str(root)), pending.new_change("rollback"), None, None)
    found = found_in(root, seen(root))
    assert "a rollback was requested and not completed" in found["open change"].what
    assert found["open change"].advice == f"jobmanager resume {root}"
