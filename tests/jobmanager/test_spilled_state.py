"""Whole jobs whose state exceeds memory: the same output items, also after a resume.

Not covered: memory that grows in a process of its own (``benchmarks/bench_state.py`` measures it).
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest

import jobmanager
import streamscope as ss
from jobmanager import JobConfig
from jobmanager.errors import JobFailedError
from planner import Stream, agg, col, hopping, session, tumbling
from tests.support.budget import one_in
from tests.support.jobs import ROWS, WAIT_S, outcome, output_items, with_limits, write_events
from tests.support.trouble import run_and_cancel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from planner import Query
    from tests.support.trouble import Gate

CONFIG = with_limits(
    JobConfig(tick_s=0.02),
    checkpoint_interval_s=0.05,
    checkpoint_inline_bytes_max=200,
    step_rows_max=400,
)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rvertex.state.memory.RUN_BYTES_MIN", 4_000)
    monkeypatch.setattr("rvertex.state.array_spill.LOOK_BYTES", 1)
    monkeypatch.setattr("rvertex.state.key_runs.BLOCK_ROWS", 50)
    monkeypatch.setattr("rvertex.operators.windows.grouping._MEASURE_ROWS", 10)
    monkeypatch.setattr("rvertex.operators.windows.grouping._TOGETHER_ROWS", 100)
    monkeypatch.setattr("rvertex.operators.ordered.deduplicate._MEASURED_KEYS", 100)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB; needs root."""
    folder = tmp_path / "disk"
    folder.mkdir()
    size = ["-o", "size=64k", "tmpfs", str(folder)]
    made = subprocess.run(["mount", "-t", "tmpfs", *size], capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"mount: {made.stderr.decode()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_events(tmp_path_factory.mktemp("events") / "events.parquet")


def query(events: Path) -> Query:
    rows = Stream.from_parquet(str(events), vs="t", delay="1s").select(
        "x", k=(col("t") / 10_000).floor().cast("int64") * 10**9
    )
    counted = rows.group_by("k").window(tumbling("60s")).agg(total=agg.sum("x"), last=agg.last("x"))
    return (
        (
            counted.group_by("k")
            .window(hopping("120s", "60s"))
            .agg(n=agg.count(), t=agg.sum("total"))
        )
        .to_parquet()
        .recover_with("checkpoint")
    )


class Count(ss.KeyedProcess):
    """Emits a row per event, and one when its key was quiet for 5 s."""

    output = {"n": "int64"}  # noqa: RUF012  as docs/USERCODE.md shows it
    n: int = 0

    def on_event(self, event: Any, ctx: ss.KeyedContext) -> None:
        self.n += 1
        ctx.set_timer("5s")
        ctx.emit(self.n)

    def on_timer(self, timer: Any, ctx: ss.KeyedContext) -> None:
        ctx.emit(-self.n)


def keyed(events: Path) -> Query:
    rows = Stream.from_parquet(str(events), vs="t", delay="1s").select(
        k=(col("x") * 1_000).floor().cast("int64"), y=(col("x") * 3e5).floor().cast("int64")
    )
    once = rows.deduplicate("y")
    return once.group_by("k").process(Count).to_parquet().recover_with("checkpoint")


def sessions(events: Path) -> Query:
    """An operator without spilling of its own: its arrays are memory-mapped."""
    rows = Stream.from_parquet(str(events), vs="t", delay="1s").select(
        "x", k=(col("x") * 1_000).floor().cast("int64")
    )
    counted = rows.group_by("k").window(session("20s")).agg(n=agg.count(), last=agg.last("x"))
    return counted.to_parquet().recover_with("checkpoint")


QUERIES = [query, keyed]


def options(tmp_path: Path, name: str, budget: int | None) -> dict[str, Any]:
    root = str(tmp_path / name)
    return {"root": root, "config": CONFIG, "state_memory": budget, "scratch": str(tmp_path)}


def has_spilled(status: dict[str, Any]) -> bool:
    hosts = [host["memory"] for host in status["hosts"] if host.get("memory")]
    assert all(memory["state_budget_bytes"] == 1_000 for memory in hosts)
    assert all(
        (vertex["scratch_bytes"] > 0) == (vertex["scratch_files"] > 0)
        for vertex in status["vertices"]
    )
    spills = sum(vertex["spills"] for vertex in status["vertices"])
    written = sum(vertex["spilled_bytes"] for vertex in status["vertices"])
    used = sum(vertex["scratch_bytes"] for vertex in status["vertices"])
    return (
        sum(memory["spilled_bytes"] for memory in hosts) > 0 and 0 < spills < written and used > 0
    )


@pytest.mark.parametrize("make", one_in(3, [*QUERIES, sessions]))
def test_the_output_does_not_depend_on_the_budget(
    make: Callable[[Path], Query], events: Path, tmp_path: Path, gate: Gate
) -> None:
    whole = jobmanager.run(make(events), executor="local", **options(tmp_path, "whole", None))
    expected = outcome(whole.wait(WAIT_S)), output_items(whole.output)
    assert expected[0][0] == "finished"
    little = options(tmp_path, "little", 1_000)
    run_and_cancel(make(events), gate, ROWS // 2, has_spilled, **little)
    resumed = jobmanager.resume(little["root"], config=CONFIG)
    assert (outcome(resumed.wait(WAIT_S)), output_items(resumed.output)) == expected
    assert [path.name for path in tmp_path.iterdir() if "streamscope" in path.name] == []


@pytest.mark.slow
def test_a_scratch_limit_fails_the_job_by_name_and_a_larger_one_resumes_it(
    events: Path, tmp_path: Path
) -> None:
    little = options(tmp_path, "limited", 1_000)
    job = jobmanager.run(query(events), executor="local", scratch_limit=5_000, **little)
    with pytest.raises(JobFailedError, match=r"has no room for \d+ bytes.*scratch_limit"):
        job.wait(WAIT_S)
    resumed = jobmanager.resume(little["root"], config=CONFIG, scratch_limit="1GB")
    assert resumed.wait(WAIT_S)["state"] == "finished"


@pytest.mark.slow
@pytest.mark.parametrize("make", QUERIES)
def test_a_full_disk_fails_the_job_by_name_and_another_folder_resumes_it(
    make: Callable[[Path], Query], events: Path, tmp_path: Path, small_disk: Path
) -> None:
    whole = jobmanager.run(make(events), executor="local", **options(tmp_path, "whole", None))
    expected = outcome(whole.wait(WAIT_S)), output_items(whole.output)
    little = {**options(tmp_path, "full", 1_000), "scratch": str(small_disk)}
    job = jobmanager.run(make(events), executor="local", **little)
    with pytest.raises(JobFailedError, match=r"its disk is full\. No state is lost: free space"):
        job.wait(WAIT_S)
    assert list(small_disk.iterdir()) == []
    resumed = jobmanager.resume(little["root"], config=CONFIG, scratch=str(tmp_path))
    assert (outcome(resumed.wait(WAIT_S)), output_items(resumed.output)) == expected
