"""Times of every type become the same microseconds; the first bad row is reported."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

import jobmanager
from planner import Stream
from rvertex.sources.times import Fault, first_failure, is_time_type, parse_times

if TYPE_CHECKING:
    from pathlib import Path

MOMENT = datetime(2013, 1, 1, 5, 0, 0, 250_000, tzinfo=UTC)
MICROS = 1_357_016_400_250_000


@pytest.mark.parametrize(
    "column",
    [
        pa.array([MICROS]),
        pa.array([MICROS], pa.uint64()),
        pa.array([MOMENT], pa.timestamp("us", "UTC")),
        pa.array([MOMENT], pa.timestamp("ms", "America/New_York")),
        pa.array([MOMENT.replace(tzinfo=None)], pa.timestamp("ns")),
        pa.array(["2013-01-01T05:00:00.25"]),
        pa.array(["2013-01-01 05:00:00.250000999"]),
        pa.array(["2013-01-01T07:00:00.25+02:00"]),
        pa.array([" 2013-01-01T05:00:00.25Z "], pa.large_string()),
    ],
)
def test_every_type_has_the_same_microseconds(column: pa.Array) -> None:
    times = parse_times(column)
    assert isinstance(times, np.ndarray)
    assert times.dtype == np.int64
    assert times.tolist() == [MICROS]


def test_dates_and_seconds_and_narrow_integers() -> None:
    day = date(1969, 12, 31)
    for column in (pa.array([day]), pa.array([day], pa.date64()), pa.array(["1969-12-31"])):
        assert parse_times(column).tolist() == [-86_400_000_000]  # type: ignore[union-attr]
    assert parse_times(pa.array([2], pa.timestamp("s"))).tolist() == [2_000_000]  # type: ignore[union-attr]
    assert parse_times(pa.array([7], pa.int16())).tolist() == [7]  # type: ignore[union-attr]


def test_nanoseconds_are_rounded_down_also_before_1970() -> None:
    column = pa.array([-1, 999, 1_000], pa.timestamp("ns"))
    assert parse_times(column).tolist() == [-1, 0, 1]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("column", "index", "reason"),
    [
        (pa.array([1, None, 3]), 1, "null"),
        (pa.array(["2013-01-01", "nonsense", "x"]), 1, "ISO-8601"),
        (pa.array(["2013-01-01", "2013-13-01T00:00Z", "x", "y"]), 1, "ISO-8601"),
        (pa.array(["bad", "2013-13-01T00:00Z", "x", "y"]), 0, "ISO-8601"),
        (pa.array([0, 2**62], pa.timestamp("s")), 1, "range"),
        (pa.array([0, -(2**62)], pa.timestamp("s")), 1, "range"),
        (pa.array([0, 2**63], pa.uint64()), 1, "range"),
    ],
)
def test_the_first_bad_row_is_returned(column: pa.Array, index: int, reason: str) -> None:
    fault = parse_times(column)
    assert isinstance(fault, Fault)
    assert fault.index == index
    assert reason in fault.reason


@given(
    st.lists(
        st.datetimes(datetime(1800, 1, 1), datetime(2200, 1, 1)),  # noqa: DTZ001 (zone comes next)
        min_size=1,
        max_size=20,
    ),
    st.integers(-14 * 4, 14 * 4),
)
def test_iso_strings_equal_datetime(moments: list[datetime], quarter_hours: int) -> None:
    zone = timezone(timedelta(minutes=15 * quarter_hours))
    aware = [m.replace(tzinfo=zone) for m in moments]
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    expected = [(m - epoch) // timedelta(microseconds=1) for m in aware]
    assert parse_times(pa.array([m.isoformat() for m in aware])).tolist() == expected  # type: ignore[union-attr]


@given(st.integers(1, 200), st.data())
def test_bisection_finds_the_first_failure(n: int, data: st.DataObject) -> None:
    bad = data.draw(st.sets(st.integers(0, n - 1), min_size=1))
    assert first_failure(n, lambda lo, hi: any(lo <= b < hi for b in bad)) == min(bad)


def test_types_that_cannot_be_times() -> None:
    assert not is_time_type(pa.float64())
    assert not is_time_type(pa.bool_())


ISO = {
    "20260101T000000Z": "2026-01-01T00:00:00Z",
    "20260101T120000.25": "2026-01-01T12:00:00.25",
    "20260101T1200": "2026-01-01T12:00:00",
    "20260101T120000+0130": "2026-01-01T12:00:00+01:30",
    "2026-W01-3": "2025-12-31",
    "2026W013": "2025-12-31",
    "2026-W01": "2025-12-29",
    "2026-W01-3T10:00:00Z": "2025-12-31T10:00:00Z",
}


@pytest.mark.parametrize("written", ISO)
def test_other_forms_of_iso_8601(tmp_path: Path, written: str) -> None:
    """More forms of ISO 8601 are accepted, with a declared type and among other times."""
    told = parse_times(pa.array([ISO[written]]))
    assert not isinstance(told, Fault)
    others = ["2026-03-01T00:00:00Z", "2026-03-01 00:00:00"]
    found = parse_times(pa.array([*others, written]))
    assert not isinstance(found, Fault)
    assert found[2] == told[0]
    (tmp_path / "x.csv").write_text("\n".join(["t", *others, written]))
    kinds: list[dict[str, Any]] = [{}, {"schema": {"t": "timestamp"}}]
    for kind in kinds:
        rows = Stream.from_csv(tmp_path, vs="t", **kind)
        assert told[0] in jobmanager.collect(rows, executor="local")["_vs"].to_pylist()


@pytest.mark.parametrize("text", ["20261301T000000Z", "2026-W60-1", "20260101", "20260101T9"])
def test_texts_that_only_resemble_iso_8601(text: str) -> None:
    assert parse_times(pa.array(["2026-01-01", text])) == Fault(1, "not an ISO-8601 time")
