"""Row groups that a filter after the source excludes: fewer columns are read, same result.

Every plan is also run without the rule, and late rows are compared, payload included.
"""

from __future__ import annotations

import math
import struct
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from planner import Stream, col, lit
from planner.api.sources import checked_rows
from planner.errors import EvaluationError
from planner.optimizer.optimizer import RULES
from planner.optimizer.rules import skip_row_groups
from planner.physical.lower import lower
from rvertex.sources.readers import open_reader
from tests.support.plan_runner import answer, run_plan

if TYPE_CHECKING:
    from pathlib import Path

    from planner import Expr
    from planner.physical.plan import PhysicalPlan

GROUPS, ROWS = 4, 10
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Four row groups of ten rows; group k has x in [10 k, 10 k + 10), s "k-...", f with NaN."""
    n = GROUPS * ROWS
    columns: dict[str, Any] = {
        "t": pa.array([START + timedelta(seconds=i) for i in range(n)], pa.timestamp("us", "UTC")),
        "x": pa.array(range(n), pa.int32()),
        "f": pa.array([float("nan") if i % 10 == 9 else i / 2 for i in range(n)]),
        "s": pa.array([f"{i // ROWS}-{i}" for i in range(n)]),
        "nothing": pa.array([i if i < ROWS else None for i in range(n)], pa.int64()),
        "list": pa.array([[i] for i in range(n)]),
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=ROWS)
    return str(tmp_path / "a.parquet")


def plans(path: str, predicate: Expr, **source: Any) -> tuple[PhysicalPlan, PhysicalPlan]:
    stream = Stream.from_parquet(path, **{"vs": "t", "partitions": 1, **source})
    query = stream.filter(predicate).select("x", "s").to_parquet()
    without = tuple(rule for rule in RULES if rule is not skip_row_groups)
    return lower(query, root="r"), lower(query, root="r", rules=without)


def skipped(plan: PhysicalPlan) -> list[int]:
    sources = [v.source for v in plan.vertices if v.source is not None]
    units = [u for partition in sources for u in partition.units]
    return sorted(u.row_group for u in units if u.only_times and u.row_group is not None)


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (col("x") >= 25, [0, 1]),
        (col("x") > 29, [0, 1, 2]),
        (lit(10) > col("x"), [1, 2, 3]),
        (lit(10) >= col("x"), [2, 3]),
        (lit(29) < col("x"), [0, 1, 2]),
        (lit(29) <= col("x"), [0, 1]),
        (lit(17) == col("x"), [0, 2, 3]),
        (col("x") <= 10, [2, 3]),
        (col("x") == 17, [0, 2, 3]),
        (col("x").between(12, 18), [0, 2, 3]),
        (col("x").is_in([11, 21]), [0, 3]),
        ((col("x") > 12) & (col("f") < 12.0), [0, 3]),
        (col("x") > 19.5, [0, 1]),
        (col("s") < "1", [1, 2, 3]),
        (col("s") == "2-25", [0, 1, 3]),
        (col("t") >= "2026-01-01T00:00:30Z", [0, 1, 2]),
        (col("nothing") > 3, [1, 2, 3]),
        (col("f") != 3.0, []),
        ((col("x") > 35) | (col("s") == "0-1"), []),
        (col("x") + 1 > 35, []),
        (col("s").cast(str).str.length() > 3, []),
        (col("nothing").is_null(), []),
    ],
    ids=str,
)
def test_which_row_groups_are_skipped(path: str, predicate: Expr, expected: list[int]) -> None:
    plan, plain = plans(path, predicate)
    assert skipped(plan) == expected
    assert skipped(plain) == []
    assert answer(plan).equals(answer(plain))


def test_an_expression_that_fails_on_a_row_of_a_group_still_fails(path: str) -> None:
    """A filter that comes first is evaluated for all rows."""
    for plan in plans(path, (col("s").cast(int) > 3) & (col("x") >= 25)):
        assert skipped(plan) == []
        with pytest.raises(EvaluationError):
            answer(plan)


@pytest.mark.parametrize("time", ["vs", "ve"])
def test_columns_needed_for_lifetimes_are_read(path: str, time: str) -> None:
    of_x = col("t") + (col("x") + 1).cast("duration")
    plan, plain = plans(path, col("x") >= 25, **{time: of_x}, delay=0)
    assert skipped(plan) == []
    assert answer(plan).equals(answer(plain))
    assert answer(plan).num_rows == 15


@pytest.mark.parametrize("on_bad_row", ["fail", "skip"])
def test_columns_that_must_not_be_null_are_read(path: str, on_bad_row: Any) -> None:
    source = Stream.from_parquet(path, vs="t", partitions=1, on_bad_row=on_bad_row)
    stream = Stream(checked_rows(source.plan, ["s"], {})).filter(col("x") >= 25).select("x", "s")
    plan = lower(stream.to_parquet(), root="r")
    assert skipped(plan) == []
    assert answer(plan).num_rows == 15


@pytest.mark.parametrize("late", ["drop", "adjust", "error"])
@pytest.mark.parametrize("partitions", [1, 2, 3])
def test_frontiers_and_late_rows_are_unchanged(tmp_path: Path, late: str, partitions: int) -> None:
    """Times jump back between and within row groups, by more and by less than the delay."""
    jumps = [0, 1, 2, 7, 4, 5, 6, 3, 8, 9] if late != "error" else [0, 1, 2, 4, 3, 5, 6, 8, 7, 9]
    seconds = [10 * group + jump for group in range(6) for jump in jumps]
    if late != "error":
        seconds[45] = 12
    times = [START + timedelta(seconds=s) for s in seconds]
    table = pa.table({"t": times, "x": [i // 10 for i in range(60)], "s": ["a"] * 60})
    pq.write_table(table, tmp_path / "b.parquet", row_group_size=10)
    path = str(tmp_path / "b.parquet")
    options = {"late": late, "delay": "2s", "partitions": partitions}
    plan, plain = plans(path, (col("x") == 2) | (col("x") == 3), **options)
    assert skipped(plan) == []
    plan, plain = plans(path, col("x").between(2, 3), **options)
    assert skipped(plan) == [0, 1, 4, 5]
    mine, other = run_plan(plan), run_plan(plain)
    assert mine.keys() == other.keys()
    for stream, items in other.items():
        expected = [row for piece in items for row in piece.batch.to_pylist()]
        assert [row for piece in mine[stream] for row in piece.batch.to_pylist()] == expected


def test_each_file_is_skipped_by_its_own_statistics(tmp_path: Path) -> None:
    """One vertex reads both files."""
    for number, first in enumerate((0, 30)):
        times = [START + timedelta(seconds=100 * number + i) for i in range(20)]
        table = pa.table({"t": times, "x": list(range(first, first + 20)), "s": ["a"] * 20})
        pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=10)
    plan, plain = plans(str(tmp_path), col("x").between(12, 38))
    assert skipped(plan) == [0, 1]
    assert answer(plan).equals(answer(plain))
    assert answer(plan).num_rows == 17


def test_a_reader_opened_at_any_row_returns_the_same_rows(path: str) -> None:
    plan, _ = plans(path, col("x") >= 25)
    (source,) = [v.source for v in plan.vertices if v.source is not None]
    whole = _rows(source, 0, 7)
    assert [row["x"] for row in whole] == [None] * 20 + list(range(20, 40))
    for first in (0, 3, 10, 19, 20, 33, 40):
        assert _rows(source, first, 3) == whole[first:]


def test_late_rows_keep_their_payload(tmp_path: Path) -> None:
    """A group with a row that may be late is read completely."""
    times = [START + timedelta(seconds=s) for s in (0, 1, 2, 3, 1, 4, 5, 6)]
    table = pa.table({"t": times, "x": list(range(8))})
    pq.write_table(table, tmp_path / "c.parquet", row_group_size=2)
    stream = Stream.from_parquet(str(tmp_path / "c.parquet"), vs="t", delay=0, partitions=1)
    plan = lower(stream.filter(col("x") > 5).to_parquet(), root="r")
    assert skipped(plan) == [0, 1, 2]
    (source,) = [v.source for v in plan.vertices if v.source is not None]
    assert [row["x"] for row in _rows(source, 0, 8)] == [None] * 4 + [4, 5, 6, 7]


def test_lateness_counts_all_earlier_groups_and_not_only_the_last(tmp_path: Path) -> None:
    """Wherever the reader starts."""
    times = [START + timedelta(seconds=s) for s in (0, 9, 1, 2, 3, 4, 10, 11)]
    table = pa.table({"t": times, "x": list(range(8))})
    pq.write_table(table, tmp_path / "c.parquet", row_group_size=2)
    stream = Stream.from_parquet(str(tmp_path / "c.parquet"), vs="t", delay=0, partitions=1)
    plan = lower(stream.filter(col("x") > 7).to_parquet(), root="r")
    (source,) = [v.source for v in plan.vertices if v.source is not None]
    for first in range(8):
        xs = [row["x"] for row in _rows(source, first, 8)]
        assert xs == [None, None, 2, 3, 4, 5, None, None][first:]


def test_files_without_statistics_are_read(tmp_path: Path) -> None:
    table = pa.table({"t": [START], "x": [1]})
    pq.write_table(table, tmp_path / "d.parquet", write_statistics=False)
    plan, plain = plans_of_x(str(tmp_path / "d.parquet"))
    assert skipped(plan) == []
    assert answer(plan).equals(answer(plain))


def test_times_outside_of_pythons_range_exclude_nothing(tmp_path: Path) -> None:
    """Statistics of times after the year 9999 cannot be compared, so the group is read."""
    far = pa.array([2**58, 2**58 + 1], pa.timestamp("us"))
    columns = {"t": pa.array([START, START], pa.timestamp("us", "UTC")), "far": far}
    table = pa.table({**columns, "x": pa.array([1, 2], pa.int32()), "s": ["a", "b"]})
    pq.write_table(table, tmp_path / "a.parquet")
    new, _ = plans(str(tmp_path / "a.parquet"), col("far") > lit(datetime(2020, 1, 1)))  # noqa: DTZ001
    assert skipped(new) == []


@pytest.mark.parametrize("kind", ["float64", "float32"])
@pytest.mark.parametrize("lost", [("min",), ("max",), ("min", "max")], ids="-".join)
def test_statistics_that_are_nan_exclude_nothing(
    tmp_path: Path, kind: str, lost: tuple[str, ...]
) -> None:
    """Some writers include NaN in the statistics, which then say nothing about the other values."""
    code = {"float64": "<d", "float32": "<f"}[kind]
    ends = {"min": 1.25, "max": 77.5}
    columns = {
        "t": pa.array([START, START], pa.timestamp("us", "UTC")),
        "f": pa.array(ends.values(), kind),
        "x": pa.array([1, 2], pa.int32()),
        "s": ["a", "b"],
    }
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table(columns), file)
    whole = file.read_bytes()
    at = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    data, footer = whole[:at], whole[at:]
    for end in lost:
        was, nan = (struct.pack(code, value) for value in (ends[end], float("nan")))
        assert was in footer
        footer = footer.replace(was, nan)
    file.write_bytes(data + footer)
    group = pq.read_metadata(file).row_group(0)
    found = group.column(1).statistics
    assert [end for end in ends if math.isnan(getattr(found, end))] == list(lost)
    for predicate in (col("f") > 50, col("f") < 50, col("f") == ends["max"]):
        plan, plain = plans(str(file), predicate)
        assert skipped(plan) == []
        assert answer(plan).num_rows == 1
        assert answer(plan).equals(answer(plain))


def test_a_source_with_two_readers_is_read_completely(path: str) -> None:
    source = Stream.from_parquet(path, vs="t", partitions=1).select("x")
    query = source.filter(col("x") > 30).union(source.filter(col("x") < 3)).to_parquet()
    plan = lower(query, root="r")
    assert skipped(plan) == []
    assert answer(plan).num_rows == 12


def plans_of_x(path: str) -> tuple[PhysicalPlan, PhysicalPlan]:
    query = Stream.from_parquet(path, vs="t").filter(col("x") > 5).select("x").to_parquet()
    without = tuple(rule for rule in RULES if rule is not skip_row_groups)
    return lower(query, root="r"), lower(query, root="r", rules=without)


def _rows(source: Any, first: int, size: int) -> list[dict[str, Any]]:
    reader = open_reader(source, first)
    rows: list[dict[str, Any]] = []
    while (batch := reader.read_next(size)) is not None:
        rows += batch.to_pylist()
    reader.close()
    return rows
