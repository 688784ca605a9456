"""Types that a stream cannot return unchanged are an error before anything runs."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from planner import InvalidPlanError, Stream, agg, col, desc, event, tumbling
from planner.physical.lower import lower
from tests.support.plan_runner import answer

if TYPE_CHECKING:
    from pathlib import Path

REFUSED: list[tuple[pa.DataType, Any, str]] = [
    (pa.timestamp("s"), datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None), "timestamp[ms]"),
    (pa.time32("s"), time(1), "time32[ms]"),
    (pa.date64(), date(2026, 1, 1), "date32[day]"),
    (pa.string_view(), "a", "string"),
    (pa.binary_view(), b"a", "binary"),
    (pa.decimal32(5, 2), Decimal("1.25"), "decimal128(5, 2)"),
    (pa.list_(pa.string_view()), ["a"], "list<item: string>"),
    (pa.struct([pa.field("x", pa.int64(), nullable=False)]), {"x": 1}, "struct<x: int64>"),
    (pa.list_(pa.int64(), 0), [], "list<item: int64>"),
    (pa.uuid(), None, "fixed_size_binary[16]"),
]


@pytest.mark.parametrize(("kind", "value", "instead"), REFUSED, ids=[str(k) for k, *_ in REFUSED])
def test_unsupported_types_are_rejected_with_a_replacement(
    kind: pa.DataType, value: Any, instead: str
) -> None:
    stream = Stream.from_items({"x": kind}, [event(0, x=value)])
    with pytest.raises(InvalidPlanError) as raised:
        lower(stream.to_parquet(), root="memory://types")
    assert f"column 'x' is {kind}" in str(raised.value)
    assert f"cast it to {instead}" in str(raised.value)


def test_unsupported_types_made_by_a_step_are_rejected() -> None:
    stream = Stream.from_items({"x": "datetime"}, [])
    made = stream.select(day=col("x").cast(pa.date64()))
    with pytest.raises(InvalidPlanError, match="column 'day' is date64"):
        lower(made.to_parquet(), root="memory://types")


def test_times_within_json_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"ts": "2026-01-01T00:00:01", "m": {"at": ["2026-01-01T00:00:00"]}}\n')
    stream = Stream.from_json(str(file), vs="ts")
    plan = lower(stream.to_parquet(), root="memory://json", parallelism=1)
    assert answer(plan)["m"].to_pylist() == [{"at": [datetime(2026, 1, 1)]}]  # noqa: DTZ001


def test_files_with_types_that_streams_cannot_store_are_read(tmp_path: Path) -> None:
    """A CTI has null in every column, so non-nullable columns of a file become nullable."""
    never_null = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    rows = {
        "ts": pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * 2),
        "s": pa.StructArray.from_arrays(
            [pa.array([1, 0])], fields=list(never_null), mask=pa.array([False, True])
        ),
        "u": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"a" * 16, None], pa.binary(16))),
        "m": pa.array(
            [[("a", 1)], None],
            pa.map_(pa.field("name", pa.string(), nullable=False), pa.field("n", pa.int64())),
        ),
    }
    table = pa.table(rows)
    pq.write_table(table, str(tmp_path / "a.parquet"))
    for stream in (
        Stream.from_parquet(str(tmp_path), vs="ts"),
        Stream.from_arrow(table, vs="ts"),
    ):
        plan = lower(stream.to_parquet(), root="memory://kept", parallelism=1)
        found = answer(plan).select(["s", "u", "m"]).to_pylist()
        assert found == [
            {"s": {"x": 1}, "u": b"a" * 16, "m": [("a", 1)]},
            {"s": None, "u": None, "m": None},
        ]


def test_tables_with_types_that_no_file_has_are_rejected() -> None:
    rows = pa.RunEndEncodedArray.from_arrays([2], [5])
    with pytest.raises(InvalidPlanError, match=r"from_arrow\(\): .*run_end_encoded"):
        Stream.from_arrow(pa.table({"ts": [1, 2], "x": rows}), vs="ts")


def test_half_floats_are_ordered() -> None:
    values = [2.0, float("nan"), -0.0, 0.5, None]
    items = [event(0, x=None if x is None else np.float16(x)) for x in values]
    stream = Stream.from_items({"x": pa.float16()}, items)
    for made, wanted in (
        (stream.window(tumbling(9)).top(2, desc("x")), [float("nan"), 2.0]),
        (stream.sort("x"), [-0.0, 0.5, 2.0, float("nan"), None]),
        (
            stream.group_by("x").window(tumbling(9)).agg(n=agg.count()),
            [-0.0, 0.5, 2.0, float("nan"), None],
        ),
    ):
        found = answer(lower(made.to_parquet(), root="memory://half", parallelism=1))
        assert repr([v if v is None else float(v) for v in found["x"].to_pylist()]) in (
            repr(wanted),
            repr([0.0 if v == 0 else v for v in wanted]),
        )
