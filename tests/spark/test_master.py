"""The master of a job without ``master=``: the session's, or that of spark-submit.

Each case is a separate process, because a process has only one Spark.

Not covered: a cluster that spark-submit sends the driver to.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from jobmanager.storage.root import JobRoot

pytestmark = pytest.mark.spark(own_java=True)
WAIT_S = 400.0
PROJECT = Path(__file__).parent.parent.parent
SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
RUN = """\
import jobmanager
from planner import Stream, event

stream = Stream.from_items({"x": "int64"}, [event("1s", x=7)])
job = jobmanager.run(stream.to_parquet(), root="job", executor="spark")
assert job.wait(300)["events_out"] == 1
"""
SESSION = """\
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[3]").config("spark.ui.enabled", "false").getOrCreate()
"""


@pytest.mark.parametrize(
    ("command", "before"),
    [([str(SUBMIT), "--master", "local[3]"], ""), ([sys.executable], SESSION)],
    ids=["spark-submit", "session"],
)
def test_the_master_of_running_spark_is_kept(
    tmp_path: Path, command: list[str], before: str
) -> None:
    (tmp_path / "job.py").write_text(before + RUN)
    known = {**os.environ, "PYTHONPATH": str(PROJECT)}
    known.pop("PYSPARK_PYTHON", None)
    if not before:  # a session uses this interpreter, spark-submit is another program
        known["PYSPARK_PYTHON"] = sys.executable
    done = subprocess.run(
        [*command, "job.py"],
        cwd=tmp_path,
        env=known,
        timeout=WAIT_S,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    assert JobRoot(str(tmp_path / "job")).settings()["master"] == "local[3]"
