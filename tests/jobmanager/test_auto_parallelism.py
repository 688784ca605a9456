"""``parallelism="auto"`` from the API to the job's folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import jobmanager
from planner import agg, tumbling
from rstream.errors import UsageError
from tests.support.jobs import WAIT_S
from tests.support.plan_runner import sorted_rows
from tests.support.queries import bids

if TYPE_CHECKING:
    from pathlib import Path


def test_a_job_runs_with_the_recommended_parallelism(tmp_path: Path) -> None:
    counts = bids().group_by("auction").window(tumbling("20ms")).agg(n=agg.count())
    root = str(tmp_path / "job")
    job = jobmanager.run(counts.to_parquet(), root=root, executor="local", parallelism="auto")
    job.wait(WAIT_S)
    assert [stage.parallelism for stage in job.plan.stages] == [2, 1], "the source says two"
    again = jobmanager.resume(root)
    assert again.plan.plan_hash == job.plan.plan_hash
    auto = jobmanager.collect(counts, parallelism="auto")
    assert sorted_rows(auto) == sorted_rows(jobmanager.collect(counts, parallelism=3))


def test_other_values_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at least 1, or 'auto', not many"):
        jobmanager.run(bids(), root=str(tmp_path / "job"), parallelism="many")  # type: ignore[arg-type]
