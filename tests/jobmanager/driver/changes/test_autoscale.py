"""A job with a policy rescales itself, or only reports that it would.

Not covered: whether the load of a real job calls for a change (tests/planner/cost).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

import jobmanager
import streamscope as ss
from jobmanager import JobConfig
from jobmanager.driver.running.changes.scaling.autoscaler import Autoscaler, reading
from jobmanager.driver.running.changes.scaling.widths import RescaleError, fitted, scalable
from jobmanager.driver.running.changes.stopped import Changing
from jobmanager.manager.manager import JobManager
from jobmanager.state.topology import Topology
from jobmanager.storage.root import GENERATION, JobRoot
from planner.cost.autoscaling import Reading, StageLoad
from planner.cost.policy import Policy
from planner.physical.layout import Stages
from planner.physical.lower import lower
from rstream import MemoryBlobs
from rstream.clock import ManualClock
from rstream.errors import StoreError
from tests.jobmanager.cli.page.cases import S, log, vertex
from tests.jobmanager.driver.changes.test_ranges import plan_of
from tests.support.changed_jobs import COUNTS, QUICK, ChangedJob, whole_answer
from tests.support.interrupted_store import Interrupted
from tests.support.jobs import WAIT_S

if TYPE_CHECKING:
    from pathlib import Path

WIDE: dict[str, Any] = {"min": 3, "max": 3, "settle": "100ms", "cooldown": "100ms"}
REASON = "s02-agg 2 -> 3: s02-agg must have 3 to 3 vertices"


@pytest.mark.slow
def test_a_job_rescales_itself_by_its_policy(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    changed = ChangedJob(tmp_path)
    changed.append(2)
    job = changed.run(changed.query("counts", COUNTS), autoscale={**WIDE, "dry_run": True})
    changed.watch.until(lambda status: f"autoscale (dry run): {REASON}" in status["notes"])
    assert int(JobRoot(changed.root).settings().get(GENERATION, 0)) == 0
    job.stop()
    job.wait(WAIT_S)
    changed.append()
    changed.watch.forget()
    changed.job = jobmanager.resume(
        changed.root, config=QUICK, on_status=changed.watch, autoscale=WIDE
    )
    changed.watch.until(
        lambda status: (
            f"autoscale: {REASON}" in status["notes"]
            and sum(row["stage"] == "s02-agg" for row in status["vertices"]) >= 3
        )
    )
    changed.append()
    changed.has_read_all()
    assert any(f"autoscale: {REASON}" in record.getMessage() for record in caplog.records)
    assert int(JobRoot(changed.root).settings()[GENERATION]) == 1, "once within the limits it stays"
    assert changed.finish() == whole_answer(changed, COUNTS)


def test_a_reading_is_the_load_between_two_statuses(tmp_path: Path) -> None:
    def status(at_s: float, *busy_s: float, **fields: Any) -> dict[str, Any]:
        rows = [
            vertex(f"s02-agg.{k}", stage="s02-agg", busy_us=int(one * S), state_bytes=10 * k)
            for k, one in enumerate(busy_s)
        ]
        source = vertex("s01.0", logs=[log(0, 0, lag_s=90.0), log(1, 5, lag_s=7.0)])
        memory = {"used_bytes": 3, "limit_bytes": 4}
        hosts = [{"memory": memory}, {"memory": None}]
        return {"written_us": int(at_s * S), "vertices": [*rows, source], "hosts": hosts}

    found = reading(Stages(plan_of(tmp_path)), status(10, 1.0, 5.0), status(20, 3.0, 9.0), 20.0)
    assert found == Reading(20.0, {"s02-agg": StageLoad(2, 0.3, 10)}, 7.0, 0.75)


def test_stages_whose_state_cannot_be_divided_are_left_out(tmp_path: Path) -> None:
    rows = ss.Stream.from_items({"key": "int64", "x": "int64"}, [ss.event(1, key=1, x=1)])
    keyed = rows.group_by("key").window(ss.tumbling("1s")).agg(n=ss.agg.count(), x=ss.agg.max("x"))
    again = keyed.group_by("n").window(ss.tumbling("1s")).agg(m=ss.agg.quantile("x", 0.5))
    whole = again.window(ss.tumbling("1s")).agg(k=ss.agg.quantile("m", 0.5))
    plan = lower(whole.to_parquet(), root=str(tmp_path), parallelism=2)
    assert [stage.name for stage in plan.stages][1:] == ["s02-agg", "s03-agg", "s04-agg"]
    assert scalable(Stages(plan)) == ["s02-agg", "s03-agg"]


def test_limits_of_a_stage_apply_to_its_group_and_invalid_ones_are_errors(tmp_path: Path) -> None:
    rows = ss.Stream.from_items({"key": "int64", "x": "int64"}, [ss.event(1, key=1, x=1)])
    keyed = rows.group_by("key").window(ss.tumbling("1s")).agg(m=ss.agg.quantile("x", 0.5))
    query = keyed.join(rows, on="key").to_parquet()
    plan = lower(query, root=str(tmp_path), parallelism=2)
    found, errors = fitted(Policy(stages=(("s03", (2, 3)), ("s02-agg", (2, 3)))), plan)
    assert (found.limits("s02-agg"), errors) == ((2, 3), [])
    unlike = Policy(stages=(("s01", (1, 2)), ("s02", (1, 2)), ("s03", (1, 3)), ("s09", (1, 2))))
    source, other, unknown = fitted(unlike, plan)[1]
    assert "[stages.s01] has no effect: the state of s01-items cannot be divided" in source
    assert "s03-join and s02-agg always have the same number of vertices" in other
    assert "there is no stage 's09'" in unknown
    with pytest.raises(RescaleError, match="no stage 's09'"):
        jobmanager.run(
            query, root=f"{tmp_path}/job", executor="local", autoscale={"stages": {"s09": {}}}
        )
    assert not JobRoot(f"{tmp_path}/job").store.list(), "nothing has begun"
    scaler = Autoscaler(JobRoot(MemoryBlobs()), plan, unlike, ManualClock(0), lambda: None)
    assert scaler.notes[-1].startswith("autoscale: [stages.s09] has no effect")


def test_a_store_failure_after_a_request_does_no_harm(tmp_path: Path) -> None:
    def fail() -> None:
        raise StoreError("change/requests", "no answer")

    plan, root = plan_of(tmp_path), JobRoot(Interrupted({}, 3, fail))  # the read after the request
    changing = Changing(root, None, lambda: None)  # type: ignore[arg-type]
    scaler = Autoscaler(root, plan, Policy(), ManualClock(0), changing.note_request)
    assert scaler._requested({"s02-agg": 3}, "why") == "why"
    changing.note(JobManager(Topology(plan.vertices), JobConfig()))
    assert changing.change is not None
    assert changing.change.widths == {"s02-agg": 3}
    assert "why; failed: " in scaler._requested({"s02-agg": 4}, "why"), "one is pending"
