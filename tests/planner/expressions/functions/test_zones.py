"""``AT TIME ZONE`` against DuckDB: both ways, around every change of 20 zones in 30 years.

Not covered: errors that this machine's zone data and DuckDB's share.
"""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime, timedelta
from random import Random

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from planner import SqlError, Stream, col, event, sql
from planner.expressions.functions.zones import offsets

ZONES = [
    "Europe/Berlin", "Europe/London", "America/New_York", "America/Sao_Paulo", "Asia/Tokyo",
    "Asia/Kolkata", "Asia/Kathmandu", "Australia/Lord_Howe", "Australia/Sydney",
    "Pacific/Chatham", "Africa/Cairo", "America/St_Johns", "Asia/Tehran", "Pacific/Apia",
    "America/Los_Angeles", "Europe/Moscow", "Asia/Shanghai", "America/Santiago", "Africa/Lagos",
    "UTC",
]  # fmt: skip
FIRST, LAST = datetime(1995, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)


def instants(zone: str) -> list[int]:
    """Random instants, and those around each change of the zone."""
    rng, key = Random(zone), zoneinfo.ZoneInfo(zone)
    low, high = (int(t.timestamp()) for t in (FIRST, LAST))
    found = [rng.randrange(low, high) for _ in range(300)]
    at = FIRST
    while at < LAST:  # ends: each turn is a day later
        after = at + timedelta(days=1)
        if at.astimezone(key).utcoffset() != after.astimezone(key).utcoffset():
            found += [int(at.timestamp()) + 900 * quarter for quarter in range(4 * 27)]
        at = after
    return [second * 1_000_000 + rng.randrange(1_000_000) for second in found]


@pytest.mark.slow
@pytest.mark.parametrize("zone", ZONES)
def test_conversions_in_both_directions_equal_duckdb(zone: str) -> None:
    us = pa.array(instants(zone))
    rows = pa.record_batch(
        {"i": us.cast(pa.timestamp("us", "UTC")), "w": us.cast(pa.timestamp("us"))}
    )
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("t", pa.Table.from_batches([rows]))
    query = f"SELECT i AT TIME ZONE '{zone}' AS a, w AT TIME ZONE '{zone}' AS b FROM t"
    theirs = connection.sql(query).to_arrow_table()
    for name, given in (("a", "i"), ("b", "w")):
        ours = col(given).dt.at_zone(zone).evaluate(rows).cast(pa.int64())
        wanted = theirs[name].combine_chunks().cast(pa.int64())
        wrong = [(a, b, c) for a, b, c in zip(us, ours, wanted, strict=True) if b != c]
        assert not wrong, wrong[:3]


def test_sql_and_nulls() -> None:
    stream = Stream.from_items(
        {"m": "timestamp"},
        [event(1, m=datetime(2024, 3, 31, 2, 30, tzinfo=UTC)), event(2, m=None)],
    )
    text = (
        "SELECT FROM_UTC_TIMESTAMP(m, 'Asia/Tokyo') AS v, m AT TIME ZONE 'Asia/Tokyo' AS w FROM t"
    )
    made = sql(text, {"t": stream})
    assert isinstance(made, Stream)
    assert made.schema.field("v").type == pa.timestamp("us")
    with pytest.raises(SqlError, match="no time zone 'Mars'"):
        sql("SELECT m AT TIME ZONE 'Mars' AS v FROM t", {"t": stream})


def test_years_outside_of_pythons_range_have_an_offset() -> None:
    far = np.array([-(2**62), 2**62], np.int64)
    assert offsets("Asia/Tokyo", far).tolist()[1] == 9 * 3_600_000_000
