"""Rejected calls of other engines, and the alternatives that their messages suggest.

Not covered: an alternative with another value.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from planner import SqlError, sql

REFUSED = {
    ("flink", "TYPEOF(1)"): "write DESCRIBE t",
    ("flink", "UUID()"): "write a column of the input",
    ("flink", "UPPER(TIMESTAMP '2025-01-01 00:00:00')"): "write DATE_FORMAT",
    ("flink", "UPPER(ARRAY['a'])"): "take an element",
    ("flink", "JSON_QUERY('{}', '$.a' NULL ON FOO)"): "NULL ON EMPTY",
    ("spark", "SCHEMA_OF_JSON('{}')"): "write the type",
    ("postgres", "JSONB_PRETTY('{}'::jsonb)"): "write JSON_EXTRACT",
    ("postgres", "TIMESTAMP '2025-01-01 00:00:00'::time"): "write DATE_FORMAT",
    ("duckdb", "LIST_APPEND(NULL, 3)"): "write CAST\\(NULL AS ARRAY<BIGINT>\\)",
    ("flink", "CAST(ROW('x', 'y') AS ROW<a INT>)"): "name a type with as many fields",
    ("spark", "HEX(X'1F')"): r"write UNHEX\('1F'\)",
    ("flink", "x'1f'"): r"write UNHEX\('1f'\)",
    ("postgres", "B'101'"): "write the number",
    ("postgres", "E'a\\n'"): "write the characters",
    ("postgres", "'\\x1F'::bytea"): r"write UNHEX\('1F'\)",
    ("spark", "FROM_CSV('1', 'a INT')"): "write SPLIT",
    ("spark", "ARRAY_SORT(ARRAY(1), (l, r) -> l - r)"): "write ARRAY_AGG",
    ("spark", "SHIFTRIGHTUNSIGNED(-1, 28)"): "write SHIFTRIGHT",
    ("spark", "TO_JSON(STRUCT(TIMESTAMP '2025-01-01 00:00:00' AS t))"): "DATE_FORMAT",
    ("spark", "TO_JSON(STRUCT(MAP('a', 1) AS m))"): "call TO_JSON for each",
    ("postgres", "EXTRACT(HOUR FROM INTERVAL '27 hours')"): "write EXTRACT\\(EPOCH FROM d\\)",
    ("duckdb", "EXTRACT(HOUR FROM -INTERVAL '30 hours')"): "only INTERVALs shorter than a day",
    ("duckdb", "EXTRACT(HOUR FROM INTERVAL '20 hours' * 2)"): "only INTERVALs shorter than a day",
    ("spark", "VARIANT_GET('{}', '$.a', 'foo')"): "no type foo",
    ("postgres", "UNISTR('a')"): "write CHR",
    ("postgres", "ARRAY_FILL(7, ARRAY[2, 3])"): "write ARRAY_FILL\\(x, ARRAY\\[n\\]\\)",
    ("postgres", "'{}'::jsonb #>> '{a,-1}'"): "write j -> -1",
    ("postgres", "'{}'::jsonb #>> '{a'"): "write a path as",
    ("duckdb", "'{}'::JSON ->> '/a/b'"): "write a path such as",
    ("ksqldb", "ENCODE('6162', 'hex', 'ascii')"): "takes at most 2 arguments",
}


@pytest.mark.parametrize(("dialect", "call"), list(REFUSED))
def test_a_rejected_call_names_an_alternative(dialect: str, call: str) -> None:
    with pytest.raises(SqlError, match=REFUSED[dialect, call]):
        sql(f"SELECT {call} AS x", dialect=dialect)


def test_match_condition_accepts_the_left_table_on_either_side() -> None:
    path = Path(__file__).parent / "fifth" / "data" / "quotes.csv"
    tables = f"CREATE STREAM q WITH (path = '{path}', vs = quote_time); "
    text = tables + "SELECT a.bid FROM q AS a {} q AS b "
    text += "MATCH_CONDITION (a.quote_time >= b.quote_time) {}"
    plans = [
        str(sql(text.format(join, "ON a.symbol = b.symbol")).plan)
        for join in ("ASOF JOIN", "ASOF LEFT JOIN", "LEFT ASOF JOIN")
    ]
    assert len(set(plans)) == 1
    with pytest.raises(SqlError, match=r"write ON a\.k = b\.k"):
        sql(text.format("ASOF JOIN", "USING (symbol)"))
