"""Functions and operators of DuckDB and PostgreSQL that are written as others, one by one.

DuckDB computes its own column. Not covered: misreadings of PostgreSQL's documentation.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from planner import Stream, sql
from planner.physical.lower import lower
from planner.sql.reading.forms.templates import NAMED, OF_ENGINE
from rstream.items.batch import VE, VS
from tests.planner.sql.pasted.test_pasted import _plain
from tests.support.budget import one_in
from tests.support.ducks import duck
from tests.support.plan_runner import answer

OF_DUCKDB = """
list_aggregate([3, 1, 2], 'sum'); list_aggr([3, 1, 2], 'median'); list_select([3, 1, 2], [3, 1, 9])
list_where([3, 1, 2], [true, false, true]); list_resize([1, 2], 4, 0); list_resize([1, 2], 4)
list_resize([1, 2, 3], 1, 0); list_any_value([NULL, 2]); list_reverse_sort([1, NULL, 3, 2])
array_has_any(['a', 'b'], ['b']); list_count([1, NULL]); list_median([1, 5, 2, 3])
list_string_agg(['a', 'b']); list_product([2, 3]); list_bool_and([true, false])
list_bit_or([1, 2]); list_first([4, 5]); list_last([4, 5]); array_push_front([1], 0)
array_pop_front([1, 2]); array_pop_back([1, 2]); list_stddev_pop([1, 2, 3]); list_has([1, 2], 2)
list_extract([7, 8], 2); array_extract('duck', 2); hamming('duck', 'luck'); jaccard('duck', 'luck')
unicode('ü'); ord(''); suffix('abc', 'bc'); prefix('abc', 'ab'); strlen('ü'); even(2.9); even(-2.1)
regexp_full_match('abc', 'a.c'); regexp_full_match('abcd', 'a.c'); parse_filename('a/b/c.csv')
fdiv(5, 2); fmod(5.1, 2); round_even(24.5, 0); round_even(25.35, 1); signbit(-1.0); signbit(1.0)
isinf('Infinity'::DOUBLE); isinf(1.0); make_timestamp(1667810584123456); era(DATE '1992-01-01')
julian(DATE '1992-01-01'); millennium(DATE '1992-01-01'); gcd(42, 57); gcd(-12, 18); lcm(42, 57)
microsecond(TIMESTAMP '1992-01-01 12:00:01.5'); asinh(0.5); asinh(-2); acosh(1.5); atanh(0.5)
'abcd'[1]; 'abcd'[-1]; 'abcd'[2:3]; 'abcd'[:2]; 'abcd'[-2:]; 'abcd'[:-2]; 'abcd'[0]; 'abcd'[9]
'abcd'[0:2]; {'a': 1}['a']; [1, 2] = [1, 2]; [1, NULL] = [1, NULL]; [1, 2] <> [1]; @ -5; @ (2 - 5)
url_encode('a b+'); url_decode('a+b%20'); to_base64('a'::BLOB); list_grade_up([3, 1, NULL, 1])
concat_ws(',', 'a', NULL, 2); map_from_entries([('k', 5)])['k']; MAP {'k': 5}.k
(1, 2) < (1, 3); (1, 2) <= (1, 2); (2, 1) > (1, 3); (1, 2) = (1, 2); (1, 2) <> (1, 2)
(1, NULL) IN ((1, NULL)); (1, NULL) NOT IN ((1, 2)); (1, 2) < (1, NULL); (1, NULL) < (1, 2)
(1, NULL, 3) < (1, NULL, 4); (1, NULL) <= (1, NULL); (NULL, 1) > (2, 1); (NULL, 1) >= (NULL, 2)
(1, NULL) = (1, NULL); (1, NULL) <> (1, 2); json_value('{"a.b": 1}', 'a.b')
json_exists('{"a.b": 1}', 'a.b'); json_exists('{"a": {"b": 1}}', 'a.b')
"""
#: From PostgreSQL's documentation; ``None`` is NULL.
OF_POSTGRES: list[tuple[str, Any]] = [
    ("ARRAY[1, 2] && ARRAY[2]", True),
    ("ARRAY[1] <@ ARRAY[1, 2]", True),
    ("ARRAY[1, 2] || 3", [1, 2, 3]),
    ("0 || ARRAY[1]", [0, 1]),
    ("array_fill(7, ARRAY[2])", [7, 7]),
    ("4 <> ALL (ARRAY[1, 2])", True),
    ("1 < ANY (ARRAY[1, 2])", True),
    ("1 > ALL (ARRAY[0, NULL])", None),
    ("1 > ALL (ARRAY[2, NULL])", False),
    ("ROW(1, 2, 3) < ROW(1, 3, 0)", True),
    ("@ -5.5", 5.5),
    ("div(-7, 2)", -3),
    ("""'{"a": 1}'::jsonb ?| ARRAY['a', 'z']""", True),
    ("""'{"a": 1}'::jsonb ?& ARRAY['a', 'z']""", False),
    ("""'{"a": 1, "b": 2}'::jsonb || '{"b": 3}'""", '{"a":1,"b":3}'),
    ("""'[1, 2]'::jsonb || '3'::jsonb""", "[1,2,3]"),
    ("""'{"a": 1, "b": 2}'::jsonb - 'a'""", '{"b":2}'),
    ("""'{"a": 1, "b": 2}'::jsonb - ARRAY['a', 'b']""", "{}"),
    ("""'["a", "b"]'::jsonb - 1""", '["a"]'),
    ("""'["a", {"b": 1}]'::jsonb #- '{1,b}'""", '["a",{}]'),
    ("""jsonb_set('[{"f": 1, "g": null}, 2]', '{0,f}', '[2,3]')""", '[{"f":[2,3],"g":null},2]'),
    ("""jsonb_set('{"a": 1}', ARRAY['b'], '2', false)""", '{"a":1}'),
    ("""jsonb_insert('{"a": [0, 1]}', '{a, 1}', '"n"')""", '{"a":[0,"n",1]}'),
    ("""jsonb_insert('{"a": [0, 1]}', '{a, 1}', '"n"', true)""", '{"a":[0,1,"n"]}'),
    ("""jsonb_strip_nulls('{"a": null, "b": [null, {"c": null}]}')""", '{"b":[null,{}]}'),
    ("""jsonb_path_query_array('{"t": [1, 2]}', '$.t[*]')""", "[1,2]"),
    ("""('{"a": {"b": "x"}}'::jsonb)['a']['b']""", '"x"'),
    ("(1, NULL) = (1, NULL)", None),
    ("to_char(TIMESTAMP '2026-05-07 09:05:03', 'Day, DD Mon YYYY')", "Thursday , 07 May 2026"),
    ("to_char(TIMESTAMP '2026-05-07 09:05:03', 'FMDay, FMDD FMMonth')", "Thursday, 7 May"),
    ("to_char(TIMESTAMP '2026-05-07 09:05:03', 'MONTH|mon|DY')", "MAY      |may|THU"),
    ("""to_char(TIMESTAMP '2026-05-07 09:05:03', '"Day" DDD FMHH12:MI pm')""", "Day 127 9:05 am"),
    ("extract(hour FROM INTERVAL '3 hours')", 3),
    ("extract(epoch FROM INTERVAL '27 hours')", 97200.0),
    *(
        (f"(DATE '2001-02-16', {end}) OVERLAPS (DATE '2001-02-25', DATE '2002-01-30')", wanted)
        for end, wanted in (
            ("DATE '2001-02-26'", True),
            ("DATE '2001-02-25'", False),
            ("DATE '2001-01-01'", False),
            ("INTERVAL '9 days'", False),
            ("NULL", None),
        )
    ),
    ("(DATE '2001-03-16', NULL) OVERLAPS (DATE '2001-02-25', DATE '2002-01-30')", True),
    ("(NULL, DATE '2001-03-16') OVERLAPS (DATE '2001-02-25', DATE '2002-01-30')", True),
    (
        "(DATE '2001-03-16', DATE '2001-01-01') OVERLAPS (DATE '2001-02-01', DATE '2001-02-02')",
        True,
    ),
]


def values(texts: list[str], dialect: str) -> list[Any]:
    listed = ", ".join(f"{text} AS v{at}" for at, text in enumerate(texts))
    made = sql(f"SELECT {listed}", dialect=dialect)
    assert isinstance(made, Stream)
    plan = lower(made.to_parquet(), root="memory://functions", parallelism=1)
    (row,) = answer(plan).to_pylist()
    return [value for name, value in row.items() if name not in (VS, VE)]


@pytest.mark.parametrize("line", one_in(8, [line for line in OF_DUCKDB.split("\n") if line]))
def test_functions_have_the_values_of_duckdb(line: str) -> None:
    texts = line.split("; ")
    (wanted,) = duck().execute(f"SELECT {', '.join(texts)}").fetchall()
    for text, mine, theirs in zip(texts, values(texts, "duckdb"), wanted, strict=True):
        assert _plain([mine]) == _plain([theirs]), text


def test_functions_have_the_values_of_postgres() -> None:
    found = values([text for text, _ in OF_POSTGRES], "postgres")
    for (text, wanted), value in zip(OF_POSTGRES, found, strict=True):
        assert value == wanted, text


def test_no_template_calls_itself() -> None:
    for call, template in (*NAMED.items(), *OF_ENGINE.items()):
        *_, name, count = call
        for inner in re.findall(rf"(?<![@_A-Z0-9]){name}\(([^()]*)\)", template):
            assert len(inner.split(",")) != count, (call, template)
