"""Intervals, formats and aggregates of which only a part was computed, against DuckDB or documents.

Not covered: the values that DuckDB does not compute, which are from the engines' documents.
"""

from __future__ import annotations

from datetime import UTC, datetime

import duckdb
import pytest

from planner import SqlError, Stream, event, sql
from planner.physical.lower import lower
from tests.planner.sql.test_values_of_engines import ENGINES, MOMENT, ducks, value
from tests.support.plan_runner import answer

#: By text: the seconds of the interval, and whether DuckDB reads it.
LENGTHS = {
    "1 day 02:03:04": (93784, True),
    "2 days 12:00": (216000, True),
    "1 day ago": (-86400, True),
    "1 day 2 hours ago": (-93600, True),
    "-1 day 02:03:00": (-79020, True),
    "-1 day +02:03:00": (-79020, False),
    "1 day -02:03": (79020, True),
    "-1 day 2 hours": (-79200, True),
    "-02:03:04.5": (-7384.5, True),
    "1 02:03:04": (93784, False),
    "@ 1 day": (86400, True),
    "1.5 hours": (5400, False),
}
REFUSED = ("1 day!", "- 1 day", "x 1 day", "1 day 25", "P1D", "1 day 2:3:4:5")


@pytest.mark.parametrize("text", LENGTHS)
def test_an_interval_includes_all_parts_of_its_text(text: str) -> None:
    seconds, is_duckdb = LENGTHS[text]
    for engine in ENGINES:
        for written in (f"INTERVAL '{text}'", f"'{text}'::INTERVAL"):
            found = value(f"m + {written}", engine)
            assert (found - MOMENT).total_seconds() == seconds, (engine, written)
    if is_duckdb:
        assert (ducks(f"m + INTERVAL '{text}'") - MOMENT).total_seconds() == seconds


def test_months_of_an_interval_are_added_first() -> None:
    for engine in ("postgres", "spark", "duckdb"):
        wanted = datetime(2024, 2, 7, 3, 5, 7, 500_000, UTC)
        assert value("m + INTERVAL '1 month 02:03:04'", engine) == wanted
        assert value("m - INTERVAL '-1 month -02:03:04'", engine) == wanted


@pytest.mark.parametrize("text", REFUSED)
def test_an_interval_with_an_unknown_part_is_rejected(text: str) -> None:
    for engine in ENGINES:
        with pytest.raises(SqlError, match="is not a duration; write it like"):
            value(f"m + INTERVAL '{text}'", engine)


def test_in_a_dialect_a_text_is_not_a_duration() -> None:
    for text in ("INTERVAL '1 hour'::TEXT", "CAST(m - m AS VARCHAR)", "PRINTF('%s', m - m)"):
        for engine in ENGINES:
            with pytest.raises(SqlError, match="write CAST\\(EPOCH_US\\(d\\) AS VARCHAR\\)"):
                value(text, engine)


#: A format with a null, by engine.
NULLS = {"postgres": "a|   ", "spark": "a|null", "flink": "a|null"}


def test_null_and_partial_formats_return_null() -> None:
    for engine, wanted in NULLS.items():
        assert value("PRINTF('%s|%03d', 'a', NULLIF(i, 5))", engine) == wanted
        for text in ("%s %1$s", "%s %-5s", "%s 5%"):
            with pytest.raises(SqlError, match="write a format with %s"):
                value(f"PRINTF('{text}', 'a')", engine)
    assert value("PRINTF('%s|%s', 'a', NULLIF(s, s))", "duckdb") is None


def test_flink_finds_a_null_in_a_list() -> None:
    for text, wanted in (("l, NULL", True), ("l, NULLIF(i, 5)", True), ("ARRAY[1], NULL", False)):
        assert value(f"ARRAY_CONTAINS({text})", "flink") is wanted


#: Rows of x and y, an aggregate, and whether a null x counts in DuckDB.
ROWS = ((None, 1), (5, 2), (1, 4), (None, 9))
AGGREGATES = (
    *("arg_min(x, y)", "min_by(x, y)", "arg_max(x, y)", "max_by(x, y)"),
    *("arg_min_null(x, y)", "arg_max_null(x, y)", "weighted_avg(x, y)", "wavg(x, y)"),
)


def test_aggregates_of_two_columns_skip_nulls_like_duckdb() -> None:
    rows = Stream.from_items({"x": "int64", "y": "int64"}, [event(0, x=x, y=y) for x, y in ROWS])
    listed = ", ".join(f"{text} AS c{at}" for at, text in enumerate(AGGREGATES))
    made = sql(f"SELECT {listed} FROM t", {"t": rows}, dialect="duckdb")
    assert isinstance(made, Stream)
    plan = lower(made.to_parquet(), root="memory://intervals", parallelism=1)
    (found,) = answer(plan).to_pylist()
    values = "(NULL, 1), (5, 2), (1, 4), (NULL, 9)"
    wanted = duckdb.connect().execute(f"SELECT {listed} FROM (VALUES {values}) t(x, y)").fetchone()
    assert tuple(found[f"c{at}"] for at in range(len(AGGREGATES))) == wanted


def test_a_pivot_column_for_two_keys_needs_a_name() -> None:
    rows = Stream.from_items({"k": "string", "g": "int64", "v": "int64"}, [])
    for more in ("", ", ('b', 1) AS bb"):
        text = f"SELECT * FROM t PIVOT (SUM(v) FOR (k, g) IN (('a', 1){more}))"
        with pytest.raises(SqlError, match="needs a name: write IN"):
            sql(text, {"t": rows}, dialect="spark")
