"""Windows of months, and of days in the time zone of a session, in SQL.

Not covered: errors in the rules of zones, which ``tests/rvertex`` compares with Python's zoneinfo.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from planner import SqlError, Stream, sql
from planner.physical.lower import lower
from tests.support.plan_runner import answer

if TYPE_CHECKING:
    from pathlib import Path

ROWS = """meter,kwh,at
m1,4.0,2026-01-15T10:00:00
m2,1.5,2026-01-31T23:30:00
m1,2.0,2026-02-01T00:10:00
m1,3.5,2026-02-28T22:59:00
m2,6.0,2026-03-28T23:30:00
m1,1.0,2026-03-29T21:30:00
m2,2.5,2026-03-29T22:30:00
m1,5.0,2026-10-25T22:30:00
"""
ZONE = "SET 'table.local-time-zone' = 'Europe/Berlin'; "


def tumble(length: str) -> str:
    window = f"TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL {length})"
    return f"FROM TABLE({window}) GROUP BY window_start, window_end"


DAYS, MONTHS, SIX = tumble("'1' DAY"), tumble("'1' MONTH"), tumble("'6' HOUR")


def rows(tmp_path: Path, text: str, dialect: str | None, kind: str = "TIMESTAMP_LTZ(3)") -> Any:
    file = tmp_path / "meters.csv"
    file.write_text(ROWS)
    declared = (
        f"CREATE TABLE t (meter VARCHAR, kwh DOUBLE, at {kind}, WATERMARK FOR at AS at) "
        f"WITH (path = '{file}'); "
    )
    stream = sql(declared + text, dialect=dialect)
    assert isinstance(stream, Stream)
    found = answer(lower(stream.to_parquet(), root="memory://calendar", parallelism=1), rows_max=2)
    return [tuple(row.values())[2:] for row in found.to_pylist()]


def day(month: int, number: int, year: int = 2026, hour: int = 0) -> datetime:
    return datetime(year, month, number, hour, tzinfo=UTC).replace(tzinfo=None)


def plain(found: Any) -> Any:
    return [tuple(v.replace(tzinfo=None) if hasattr(v, "tzinfo") else v for v in r) for r in found]


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        ("flink", f"SELECT window_start, window_end, SUM(kwh) AS n {MONTHS}"),
        (
            "postgres",
            "SELECT window_start, window_end, SUM(kwh) AS n FROM TUMBLE(t, at, INTERVAL '1 month') "
            "GROUP BY window_start, window_end",
        ),
        (
            None,
            "SELECT window_start, window_end, SUM(kwh) AS n FROM t GROUP BY TUMBLE('1 month')",
        ),
    ],
)
def test_months_of_utc(tmp_path: Path, dialect: str | None, text: str) -> None:
    assert plain(rows(tmp_path, text, dialect)) == [
        (day(1, 1), day(2, 1), 5.5),
        (day(2, 1), day(3, 1), 5.5),
        (day(3, 1), day(4, 1), 9.5),
        (day(10, 1), day(11, 1), 5.0),
    ]


@pytest.mark.parametrize("order", [ZONE, ""])
def test_days_in_the_time_zone_of_the_session(tmp_path: Path, order: str) -> None:
    """29 March has 23 hours in Berlin; bounds are wall clocks there."""
    text = f"SELECT window_start, window_end, SUM(kwh) AS n {DAYS}"
    found = plain(rows(tmp_path, order + text, "flink"))[-3:]
    summer = [(day(3, 29), day(3, 30), 7.0), (day(3, 30), day(3, 31), 2.5)]
    of_utc = [(day(3, 28), day(3, 29), 6.0), (day(3, 29), day(3, 30), 3.5)]
    late = (day(10, 25), day(10, 26), 5.0)
    assert found == ([*summer, late] if order else [*of_utc, late])


def test_a_time_without_a_zone_ignores_the_zone_of_the_session(tmp_path: Path) -> None:
    text = f"SELECT window_start, SUM(kwh) AS n {DAYS}"
    found = plain(rows(tmp_path, ZONE + text, "flink", "TIMESTAMP(3)"))
    assert (day(3, 28), 6.0) in found


def test_hops_of_quarters_with_an_offset(tmp_path: Path) -> None:
    hop = "HOP(TABLE t, DESCRIPTOR(at), INTERVAL '3' MONTH, INTERVAL '6' MONTH, INTERVAL '1' DAY)"
    text = f"SELECT window_start, COUNT(*) AS n FROM TABLE({hop}) GROUP BY window_start, window_end"
    found = plain(rows(tmp_path, text, "flink"))
    assert found == [(day(10, 2, 2025), 7), (day(1, 2), 7), (day(7, 2), 1), (day(10, 2), 1)]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (f"SELECT COUNT(*) AS n {SIX}", "do not fit the wall clock"),
        ("SELECT CAST(at AS DATE) AS d FROM t", "the session's time zone is UTC here"),
        ("SELECT EXTRACT(HOUR FROM at) AS d FROM t", "the session's time zone is UTC here"),
        ("SELECT kwh FROM t WHERE at > TIMESTAMP '2026-01-01 00:00:00'", "time zone is UTC here"),
        ("SELECT kwh FROM t WHERE at > '2026-01-01'", "the session's time zone is UTC here"),
        (
            "SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '1' DAY))",
            "windows by a calendar need GROUP BY",
        ),
        (
            "SELECT COUNT(*) AS n FROM TABLE(HOP(TABLE t, DESCRIPTOR(at), INTERVAL '1' DAY, "
            "INTERVAL '1' MONTH)) GROUP BY window_start, window_end",
            "write both lengths in months",
        ),
    ],
)
def test_invalid_calendar_windows_are_rejected_with_a_hint(
    tmp_path: Path, text: str, hint: str
) -> None:
    with pytest.raises(SqlError, match=hint):
        rows(tmp_path, ZONE + text, "flink")


def test_an_unknown_time_zone(tmp_path: Path) -> None:
    with pytest.raises(SqlError, match="no time zone 'Europe/Berlinn'"):
        rows(tmp_path, "SET 'table.local-time-zone' = 'Europe/Berlinn'; SELECT 1 AS x FROM t", None)
