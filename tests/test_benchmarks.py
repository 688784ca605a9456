"""The smoke benchmark runs, checks its results, and prints the documented last line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


def result_of(name: str, *arguments: str, folder: Path, timeout_s: float = 400) -> dict[str, Any]:
    """Run a benchmark in a folder. Return the JSON object in its last line."""
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
def test_the_pause_of_a_rescale_is_measured(tmp_path: Path) -> None:
    arguments = ["--rate", "1000", "--changes", "3", "--executor", "local"]
    result = result_of("bench_rescale.py", *arguments, folder=tmp_path)
    assert result["is_right"]
    assert result["most_ms"] > 0


@pytest.mark.slow
def test_patterns_are_measured(tmp_path: Path) -> None:
    result = result_of("bench_match.py", "--rows", "200000", "--rounds", "1", folder=tmp_path)
    assert all(found["rows_per_s"] > 0 and found["matches"] > 0 for found in result.values())


@pytest.mark.slow
def test_destinations_are_measured() -> None:
    command = [sys.executable, "-m", "benchmarks.bench_destinations"]
    arguments = ["--rows", "20000", "--seconds", "0.1", "--rounds", "1"]
    done = subprocess.run(
        [*command, *arguments], cwd=BENCHMARKS.parent, capture_output=True, text=True, check=True
    )
    result = json.loads(done.stdout.splitlines()[-1])
    assert all(found["bulk"]["rows_per_s"] > 0 for found in result.values())


def test_bids_do_not_depend_on_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import bids

    whole, part = bids.bids(3, 1_000), bids.bids(3, 10)
    assert whole.slice(0, 10).equals(part)
    assert not bids.bids(4, 10).equals(part)


@pytest.mark.slow
@pytest.mark.spark(own_java=True)
def test_the_result_is_the_same_after_workers_are_killed(tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    result = result_of(
        "bench_recovery.py", "--quick", "--picture", str(picture), folder=tmp_path, timeout_s=400
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
        timeout=400,
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
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert list(result) == ["100 vertices", "exchange of 20 x 20", "channel"]
    assert result["exchange of 20 x 20"]["channels"] == 400
    assert all(row["processors_in_all"] > 0 for row in result.values() if "vertices" in row)


@pytest.mark.slow
def test_results_between_topics_are_timed_and_correct(tmp_path: Path) -> None:
    arguments = ["--rates", "500", "--seconds", "1.2", "--most", "0", "--rows", "20000"]
    few = ["--queries", "window", "--formats", "json", "arrow", "--executor", "local"]
    known = ["--systems", "floor", "ours"]
    result = result_of("bench_live.py", *arguments, *few, *known, folder=tmp_path, timeout_s=400)
    windows = result["latency"]["window"]["ours"]
    assert windows["right"], windows
    assert 0 < windows["rates"]["500"]["p50_ms"] <= windows["rates"]["500"]["p99_ms"]
    for form in ("json", "arrow"):
        found = result["throughput"][form]
        assert found["ours"]["right"], found
        assert found["ours"]["finished"], found
        assert found["alone"]["per_s"] > 0


@pytest.mark.parametrize("query", ["filter", "scarce", "window", "join"])
def test_the_results_of_the_live_benchmark_are_known(
    query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from live.events import ALWAYS, Step, expected, judged

    steps = [Step(0, 1_000_000, 3_000, 2_000, 200), Step(1, 2_100_000, 500, 300, 200)]
    right = expected(query, steps)
    assert sorted(map(tuple, right.tolist())) == sorted(plain_answer(query, steps))
    assert judged(query, right[::-1], steps, 0, ALWAYS).right
    other = right.copy()
    other[0], other[1] = other[2], (0, 0, *other[1, 2:])
    verdict = judged(query, other, steps, 0, ALWAYS)
    assert (verdict.missing, verdict.wrong) == (2, 1)  # one row twice, one missing before the time


def plain_answer(query: str, steps: list[Any]) -> list[tuple[int, ...]]:
    """Compute the right output of a query, event by event."""
    events = [row for step in steps for row in zip(*map(list, step.events()), strict=True)]
    sides = [row for step in steps for row in zip(*map(list, step.sides()), strict=True)]
    if query == "join":
        return [
            (at, key, amount, side)
            for at, key, amount in events
            for since, other, side in sides
            if other == key and since <= at < since + 1_000_000
        ]
    if query == "window":
        windows: dict[tuple[int, int], list[int]] = {}
        for at, key, amount in events:
            windows.setdefault((at // 10_000 * 10_000 + 10_000, key), []).append(amount)
        return [(*window, len(found), sum(found)) for window, found in windows.items()]
    return [row for row in events if (row[2] % 2 == 0 if query == "filter" else row[2] < 100)]


def test_the_totals_of_the_live_benchmark_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from live.changes import answered, totals
    from live.events import Step

    steps = [Step(k, 1_000_000 * (k + 1), 500, 400, 0, 9, True) for k in range(2)]
    right, so_far = totals(steps), dict.fromkeys(range(9), (0, 0))
    for step in steps:
        for at, key, amount in zip(*map(list, step.events()), strict=True):
            n, total = so_far[key]
            so_far[key] = n + 1, total + amount
            assert [at, key, n + 1, total + amount] in right.tolist()
    assert len(right) == 800
    # Each row is read 7 us after its event, except the first of key 3, which the second replaces.
    found = right.copy()
    found[:, 0] += 7
    of_key = np.flatnonzero(right[:, 1] == 3)
    done = answered(np.delete(found, of_key[0], axis=0), right)
    late = done.read_us - right[:, 0]
    assert done.wrong == 0
    assert late[of_key[0]] == right[of_key[1], 0] + 7 - right[of_key[0], 0]
    assert (np.delete(late, of_key[0]) == 7).all()
    found[5, 3] += 1
    assert answered(found, right).wrong == 1
    last = right[:, 2] == np.array([so_far[key][0] for key in right[:, 1].tolist()])
    assert (answered(found[~last], right).read_us[last] == 0).all()


def test_rows_of_all_systems_are_parsed_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from live.events import rows_of

    ours = b'{"window_start":"2026-11-23T02:00:00.000Z","window_end":"2026-11-23T02:00:00.010Z",'
    others = b'{"window_end":1795399200010000,'
    fields = b'"key":7,"n":2,"total":9}'
    assert rows_of("window", [ours + fields]).tolist() == [[1_795_399_200_010_000, 7, 2, 9]]
    assert rows_of("window", [others + fields]).tolist() == [[1_795_399_200_010_000, 7, 2, 9]]
    taken_back = b'{"at":1,"key":2,"amount":4,"diff":-1,"time":3}'
    assert rows_of("filter", [taken_back]).tolist() == [[1, -1, -1]]
    assert rows_of("filter", []).shape == (0, 3)


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
