"""The smoke benchmark runs, checks its answers and ends in the promised line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


def result_of(name: str, *arguments: str, folder: Path, timeout_s: float = 120) -> dict[str, Any]:
    """Run a benchmark in a folder; the JSON object that is its last line."""
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / name), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.mark.slow
def test_the_last_line_is_one_json_object(tmp_path: Path) -> None:
    arguments = ["--rows", "200000", "--executor", "local"]
    result = result_of("bench_smoke.py", *arguments, folder=tmp_path)
    assert list(result) == ["filter_select", "tumbling_count", "temporal_join", "peak_bytes"]
    assert all(isinstance(number, int) and number > 0 for number in result.values())


@pytest.mark.slow
def test_the_checkpoint_benchmark_runs(tmp_path: Path) -> None:
    arguments = ["--state-mb", "4", "--seconds", "0.2", "--rounds", "1"]
    result = result_of("bench_checkpoint.py", *arguments, folder=tmp_path)
    for found in result["state"].values():
        assert found["uploaded_bytes"] < found["whole_bytes"]


@pytest.mark.slow
def test_the_costs_of_operators_are_measured(tmp_path: Path) -> None:
    result = result_of("bench_operator_costs.py", "--rows", "20000", folder=tmp_path)
    assert {"filter", "join", "process", "exchange"} <= result.keys()
    assert all(found["us"] >= 0 and found["model_us"] > 0 for found in result.values())


@pytest.mark.slow
def test_destinations_are_measured() -> None:
    command = [sys.executable, "-m", "benchmarks.bench_destinations"]
    arguments = ["--rows", "20000", "--seconds", "0.1", "--rounds", "1"]
    done = subprocess.run(
        [*command, *arguments], cwd=BENCHMARKS.parent, capture_output=True, text=True, check=True
    )
    result = json.loads(done.stdout.splitlines()[-1])
    assert all(found["bulk"]["rows_per_s"] > 0 for found in result.values())


def test_bids_do_not_depend_on_how_many_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import bids

    whole, part = bids.bids(3, 1_000), bids.bids(3, 10)
    assert whole.slice(0, 10).equals(part)
    assert not bids.bids(4, 10).equals(part)


@pytest.mark.slow
@pytest.mark.spark
def test_workers_are_killed_and_the_answer_is_the_same(tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    result = result_of(
        "bench_recovery.py", "--quick", "--picture", str(picture), folder=tmp_path, timeout_s=240
    )
    assert list(result) == ["checkpoint", "replication"]
    for rows in result.values():
        assert list(rows) == ["1", "2"]
        assert all(row["equal"] for row in rows.values())
    assert all(row["gap_ms"] > row["normal_gap_ms"] for row in result["checkpoint"].values())
    assert picture.stat().st_size > 10_000


@pytest.mark.slow
def test_latency_is_measured(tmp_path: Path) -> None:
    result = result_of("bench_latency.py", "--quick", "--executor", "local", folder=tmp_path)
    assert list(result["ours"]) == ["filter", "window", "join"]
    for rows in result["ours"].values():
        for row in rows.values():
            assert 0 < row["p50_ms"] <= row["p99_ms"] <= row["p999_ms"]


@pytest.mark.slow
def test_scaling_is_measured(tmp_path: Path) -> None:
    picture = tmp_path / "picture.svg"
    arguments = ["--curves", "keys", "state", "--points", "1", "2", "--rows", "20000"]
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "bench_scaling.py"), *arguments, "--repeat", "1",
         "--picture", picture],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert list(result) == ["keys", "state"]
    assert [[x for x, _, _ in points] for points in result.values()] == [[1, 2], [1, 2]]
    assert all(peak > 0 for points in result.values() for _, _, peak in points)
    assert picture.stat().st_size > 1_000


@pytest.mark.slow
def test_a_thousand_executors_are_simulated(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "thousand_executors.py"), "--quick"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert list(result) == ["100 vertices", "exchange of 20 x 20", "channel"]
    assert result["exchange of 20 x 20"]["channels"] == 400
    assert all(row["processors_in_all"] > 0 for row in result.values() if "vertices" in row)


def test_scripted_hosts_start_every_vertex_and_survive_a_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from scaling.thousand_hosts import Cluster

    from tests.support.shapes import chain

    cluster = Cluster(chain("volatile"), hosts=2)
    cluster.start()
    cluster.report()
    cluster.checkpoint()
    cluster.tick()
    cluster.lose(range(1), kind="one")
    assert {v.state for v in cluster.manager.vertices.values()} == {"running"}
    successor = Cluster(chain("volatile"), hosts=2)
    successor.resume(cluster.log)
    assert {v.state for v in successor.manager.vertices.values()} == {"running"}
    assert successor.manager.tracker.newest("c").name
