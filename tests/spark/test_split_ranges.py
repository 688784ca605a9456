"""The hot range of a live job on Spark is split, joined again, and saved while it runs.

Not covered: how long the output pauses (benchmarks/bench_rescale.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import jobmanager
from jobmanager.cli.branching.export import export
from jobmanager.driver.running.deploying import rescale, take_savepoint
from jobmanager.storage.root import JobRoot
from tests.jobmanager.driver.changes.test_ranges import BY_X
from tests.jobmanager.driver.changes.test_savepoints import ends_of, items_of
from tests.support.changed_jobs import ChangedJob, whole_answer
from tests.support.jobs import WAIT_S

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark


def test_a_hot_range_is_split_and_merged_and_the_job_is_saved(tmp_path: Path) -> None:
    changed, shares = ChangedJob(tmp_path), []
    changed.append(2)
    path = changed.query("first", BY_X)
    changed.run(path, executor="spark", master="local[2]", hosts=2)
    for wish in ({"split": "s02"}, {"split": ""}, {"merge": "s02"}, {"merge": "s02.0"}):
        changed.append()
        changed.has_read_all()
        outcome = rescale(changed.root, **wish, wait_s=WAIT_S)
        shares.append([row["share"] for row in outcome["ranges"]])
    plan = JobRoot(changed.root).read_plan()
    assert plan is not None
    assert plan.stage("s02-deduplicate").parallelism == 2
    assert list(map(len, shares)) == [3, 4, 3, 2]
    assert max(shares[1]) < max(shares[0]) < 0.5, "the hottest range was split"
    changed.append()
    assert take_savepoint(changed.root, "live", wait_s=WAIT_S)["stopped_because"] == ""
    changed.append()
    changed.has_read_all()
    assert changed.finish() == whole_answer(changed, BY_X)
    other, ends = str(tmp_path / "other"), ends_of(changed.root, "live")
    export(JobRoot(changed.root), "live", other)
    begun = jobmanager.resume(other)
    begun.stop(finish=True)
    assert begun.wait(WAIT_S)["state"] == "finished"
    assert items_of(other, ends) == items_of(changed.root, ends)
