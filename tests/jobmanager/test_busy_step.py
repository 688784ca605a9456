"""A step that does not return ends the job after a limit; the message names vertex and call."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

import jobmanager
from jobmanager import JobConfig, JobFailedError
from planner import Stream, col, cti, event, udf
from rstream.types import INF_TIME
from tests.support.jobs import with_limits

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = with_limits(
    JobConfig(step_wait_s=1.0, host_silence_s=2.0, host_stop_wait_s=0.5),
    busy_after_s=0.1,
    stack_after_s=0.2,
)


@pytest.mark.slow
def test_a_busy_step_is_reported_with_vertex_and_operator(tmp_path: Path) -> None:
    @udf(returns="bool", deterministic=True)
    def endless(path: str) -> bool:
        while not os.path.exists(path):
            pass
        return True

    rows = [event(k, path=str(tmp_path / "end")) for k in range(3)]
    stream = Stream.from_items({"path": "string"}, [*rows, cti(INF_TIME)])
    query = stream.filter(endless(col("path"))).to_parquet()
    job = jobmanager.run(query, root=str(tmp_path / "job"), executor="local", config=CONFIG)
    try:
        with pytest.raises(JobFailedError) as failed:
            job.wait()
    finally:
        (tmp_path / "end").touch()
    told = str(failed.value)
    assert "has been in one step for 1 s, in Filter: endless, defined at line " in told
    assert "(step_wait_s = 1 s)" in told
    assert "; its stack, innermost first: " in told
    assert f"endless ({__file__}:" in told
    assert "GiB of memory" in told
