"""The open-loop benchmarks measure correctly: the schedule, the result, the effect of a kill."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import jobmanager
from planner import Stream, agg, tumbling

if TYPE_CHECKING:
    from collections.abc import Iterator

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
SECOND = 1_000_000
WINDOW_US = 20_000


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make the benchmarks' modules importable."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield
    for name in (
        "open_loop",
        "processes",
        "recovery.measures",
        "recovery.flink",
        "recovery.flink_cluster",
    ):
        sys.modules.pop(name, None)


def seen_run(load: Any, delay_us: Any, kill_us: int) -> Any:
    """A run in which each window arrived ``delay_us(its end)`` after its end, or never (None)."""
    from open_loop import START_US
    from recovery.measures import Run

    answer = load.answer()
    window, key = np.nonzero(answer)
    ends = (window + 1) * WINDOW_US
    seen = ends + np.array([delay_us(int(end)) for end in ends])
    order = np.argsort(seen, kind="stable")
    at = np.unique(seen).tolist()
    return Run(
        load=load,
        started_us=0,
        killed_us=kill_us,
        warm_us=0,
        seen_us=seen[order],
        vs=(START_US + window * WINDOW_US)[order],
        key=key[order],
        total=answer[window, key][order],
        batches=(at, [0] * len(at)),
        usage=None,
        digest="d",
        recomputed=None,
    )


def test_a_stall_counts_from_when_events_were_due() -> None:
    from open_loop import Load
    from recovery.measures import measure

    load = Load(rate=2_000, seconds=6.0, keys=4, window_us=WINDOW_US)

    def delay_us(end: int) -> int:
        return max(5_000, int(3.5 * SECOND) - end) if end > 2 * SECOND else 5_000

    row = measure(seen_run(load, delay_us, 2 * SECOND), "d")
    assert row["equal"]
    assert row["normal_p50_ms"] == pytest.approx(15, abs=1)
    assert row["normal_gap_ms"] == 20
    assert row["gap_ms"] == pytest.approx(1_495, abs=1)
    assert row["max_ms"] == pytest.approx(1_500, abs=20)
    assert row["recovered_ms"] == pytest.approx(1_500, abs=100)
    assert row["late_share"] == pytest.approx(0.5 / 4, abs=0.01)
    assert row["p50_ms"] < 25 < row["p99_ms"]
    assert not measure(seen_run(load, delay_us, 2 * SECOND), "other")["equal"]


def test_missing_and_wrong_rows_are_reported() -> None:
    from dataclasses import replace

    from open_loop import Load
    from recovery.measures import is_right, measure

    load = Load(rate=2_000, seconds=1.0, keys=4, window_us=WINDOW_US)
    run = seen_run(load, lambda _: 5_000, SECOND // 2)
    assert is_right(run)
    assert not is_right(replace(run, total=run.total + 1))
    rows = {name: getattr(run, name)[1:] for name in ("seen_us", "vs", "key", "total")}
    assert not is_right(replace(run, **rows))
    with pytest.raises(ValueError, match="in no window of the output"):
        measure(replace(run, **rows), None)


def test_rows_repeated_by_flink_are_counted_and_do_not_hide_a_loss() -> None:
    from dataclasses import replace

    from open_loop import Load
    from recovery.flink import repeats
    from recovery.measures import is_right

    load = Load(rate=2_000, seconds=1.0, keys=4, window_us=WINDOW_US)
    run = seen_run(load, lambda _: 5_000, SECOND // 2)
    assert repeats(run) == {"repeated_rows": 0, "equal_without_repeats": True}
    names = ("seen_us", "vs", "key", "total")
    again = {name: np.append(getattr(run, name), getattr(run, name)[-3:]) for name in names}
    assert not is_right(replace(run, **again))
    assert repeats(replace(run, **again)) == {"repeated_rows": 3, "equal_without_repeats": True}
    other = {**again, "total": np.append(run.total, run.total[-3:] + 1)}
    assert repeats(replace(run, **other)) == {"repeated_rows": 0, "equal_without_repeats": False}
    lost = {name: rows[1:] for name, rows in again.items()}
    assert repeats(replace(run, **lost)) == {"repeated_rows": 3, "equal_without_repeats": False}


def test_flink_output_is_parsed_line_by_line() -> None:
    from latency.flink import parsed
    from recovery.flink_cluster import whole_lines

    chunks = [(10, b"1> +I[-20, 3, 4]\n1> +I[0, "), (20, b"5, 6]"), (30, b"\n2> +I[20, 7,")]
    whole = whole_lines(chunks)
    assert whole == [(10, b"1> +I[-20, 3, 4]\n"), (30, b"1> +I[0, 5, 6]\n")]
    seen_us, rows = parsed(whole)
    assert seen_us.tolist() == [10, 30]
    assert rows.tolist() == [[-20, 3, 4], [0, 5, 6]]


def test_pauses_of_flink_are_read_from_its_subtasks() -> None:
    from latency.flink import parsed
    from recovery.flink import batches_of, subtasks_of

    printed = [
        (10, b"1> +I[0, 3, 4]\n1> +I[0, 5, 6]\n2> +I[0, 7, 8]\n"),
        (30, b"1> +I[20, 5, 6]\n2> +I[20, 7, 8]\n"),  # key 3 has no event: no pause
        (50, b"1> +I[40, 3, 1]\n2> +I[20, 7, 8]\n"),  # a repeated one does not end a pause
        (70, b"2> +I[40, 7, 1]\n"),
    ]
    subtasks = subtasks_of(printed)
    assert subtasks == {3: 1, 5: 1, 7: 2}
    at_us, subtask = batches_of(*parsed(printed), subtasks)
    assert list(zip(at_us, subtask, strict=True)) == [
        *((10, 1), (10, 1), (10, 2)),
        *((30, 1), (30, 2)),
        *((50, 1), (70, 2)),
    ]
    files = [(90, b"+I[0, 7, 8]\n+I[0, 5, 6]\n")]
    assert batches_of(*parsed(files), subtasks) == ([90, 90], [2, 1])
    with pytest.raises(RuntimeError, match=r"no subtask printed rows of the keys \[9\]"):
        batches_of(*parsed([(90, b"+I[0, 9, 8]\n")]), subtasks)
    with pytest.raises(RuntimeError, match="several subtasks printed rows of one key"):
        subtasks_of([*printed, (80, b"1> +I[60, 7, 8]\n")])


#: Prints its subprocesses, and ends them when it ends.
ENDS_IN_ORDER = """
import subprocess, sys, processes
processes.end_in_order()
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
try:
    print(child.pid, flush=True)
    child.wait()
finally:
    child.kill()
    print(child.wait(), flush=True)
"""
END_WAIT_S = 60.0


def test_a_terminated_benchmark_ends_its_processes() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ENDS_IN_ORDER], stdout=subprocess.PIPE, text=True, cwd=BENCHMARKS
    ) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) > 0
        process.terminate()
        try:
            told, _ = process.communicate(timeout=END_WAIT_S)
        finally:
            process.kill()
        assert int(told) == -signal.SIGKILL
        assert process.returncode == 128 + signal.SIGTERM


def test_flink_gets_the_events_of_the_load(tmp_path: Path) -> None:
    from open_loop import START_US, Load
    from recovery.flink_cluster import write_events

    load = Load(rate=2_000, seconds=0.1, keys=4, window_us=WINDOW_US)
    write_events(load, tmp_path / "events")
    content = (tmp_path / "events").read_bytes()
    assert np.frombuffer(content[:24], ">i8").tolist() == [load.rows // 2, 2_000, START_US]
    rows = np.frombuffer(content[24:], ">i4").reshape(-1, 2)
    assert np.array_equal(rows[:, 0], load.keys_of())
    assert np.array_equal(rows[:, 1], load.values_of())


def test_the_load_equals_its_expected_result(tmp_path: Path) -> None:
    from open_loop import GROUP_ROWS, START_US, Load

    load = Load(rate=50_000, seconds=0.7, keys=10, window_us=WINDOW_US)
    path = load.write(tmp_path / "events.parquet")
    metadata = pq.ParquetFile(path).metadata
    sizes = [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)]
    assert sum(sizes) == load.rows
    assert sizes[0] == sizes[1] == GROUP_ROWS
    windows = Stream.from_parquet(str(path), vs="time", partitions=2).group_by("key")
    table = jobmanager.collect(windows.window(tumbling(WINDOW_US)).agg(total=agg.sum("value")))
    answer = np.zeros((load.windows, load.keys), int)
    window = (table["_vs"].to_numpy() - START_US) // WINDOW_US
    answer[window, table["key"].to_numpy()] = table["total"].to_numpy()
    assert np.array_equal(answer, load.answer())


def test_the_usage_of_processes() -> None:
    import os

    from processes import Usage, descendants, usage_of

    used = usage_of([os.getpid()])
    assert used.cpu_s > 0
    assert used - used == Usage()
    assert os.getpid() not in descendants(os.getpid())
