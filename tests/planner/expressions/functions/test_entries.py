"""Entries of functions: examples, names in SQL and Python, and options that are columns.

Not covered: Spark's result of a template (``tests/spark``).
"""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from datetime import date
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from planner import Stream, col, event, lit, sql
from planner.errors import EvaluationError, InvalidPlanError
from planner.expressions.functions import FUNCTIONS
from planner.logical.nodes import Project
from planner.sql.expressions.engines.catalogue import NAMES
from tests.rooms import ROOT
from tests.support.ducks import duck

if TYPE_CHECKING:
    from planner import Expr

EXAMPLES = [(text, value) for f in FUNCTIONS.values() for text, value in f.examples]
PAGE = ROOT / "docs" / "FUNCTIONS.md"
#: Functions that DuckDB lacks.
OURS = ("SOUNDEX", "PARSE_URL", "JSON_QUERY")
WORDS = ["", "a", "ab", "b,a", "x,y,,z", "é,é", "AB", "aab%", "a_b", r"a\Eb", None]
ROWS = pa.record_batch(
    {
        "s": pa.array([Random(n).choice(WORDS) for n in range(400)], pa.string()),
        "p": pa.array([Random(n + 7_000).choice(["a", ",", "é", "b", None]) for n in range(400)]),
        "n": pa.array(
            [Random(n + 9_000).choice([-3, -1, 0, 1, 2, 3, 9, None]) for n in range(400)]
        ),
        "m": pa.array([Random(n + 5_000).choice([0, 1, 2, 5, None]) for n in range(400)]),
    }
)
#: Functions of text with options as columns; ours -> DuckDB's.
VARIED = {
    "CONTAINS(s, p)": "contains(s, p)",
    "STARTS_WITH(s, p)": "starts_with(s, p)",
    "ENDS_WITH(s, p)": "ends_with(s, p)",
    "STRPOS(s, p)": "strpos(s, p)",
    "REPLACE(s, p, '#')": "replace(s, p, '#')",
    "REPLACE(s, 'a', p)": "replace(s, 'a', p)",
    "LPAD(s, m, p)": "lpad(s, m::INT, p)",
    "RPAD(s, m)": "rpad(s, m::INT, ' ')",
    "SUBSTRING(s, n)": "substring(s, n)",
    "SUBSTRING(s, n, m)": "substring(s, n, m)",
    "SUBSTRING(s FROM n FOR 2)": "substring(s, n, 2)",
    "LEFT(s, m)": "left(s, m)",
    "RIGHT(s, m)": "right(s, m)",
    "s LIKE p": "s LIKE p",
    "s LIKE '%' || p || '_'": "s LIKE '%' || p || '_'",
    "s NOT ILIKE p": "s NOT ILIKE p",
    "s LIKE p ESCAPE '!'": "s LIKE p ESCAPE '!'",
    "TRIM(BOTH p FROM s)": "trim(s, p)",
    "TRIM(LEADING p FROM s)": "ltrim(s, p)",
    "CONCAT_WS(p, s, s)": "concat_ws(p, s, s)",
    "SPLIT_PART(s, p, m + 1)": "split_part(s, p, m + 1)",
    "SPLIT_PART(s, ',', -1 - m)": "split_part(s, ',', -1 - m)",
    "SPLIT_PART(s, ',', 2)": "split_part(s, ',', 2)",
    "REPEAT(s, n)": "repeat(s, n)",
    "LTRIM(s, p)": "ltrim(s, p)",
    "RTRIM(s, p)": "rtrim(s, p)",
    "BTRIM(s, p)": "trim(s, p)",
    "TRANSLATE(s, p, 'x')": "translate(s, p, 'x')",
    "SPLIT(s, p)": "CASE WHEN p IS NOT NULL THEN str_split(s, p) END",
    "REGEXP_LIKE(s, p)": "regexp_matches(s, p)",
    "REGEXP_REPLACE(s, p, '#')": "regexp_replace(s, p, '#', 'g')",
    "REGEXP_EXTRACT(s, p)": "regexp_extract(s, p)",
}


def ours(text: str) -> list[Any]:
    """Evaluate an expression over all of :data:`ROWS`, and over every fifth row by itself."""
    stream = Stream.from_items(
        {f.name: str(f.type) for f in ROWS.schema},
        [event(n, **row) for n, row in enumerate(ROWS.to_pylist())],
    )
    made = sql(f"SELECT {text} AS v FROM t", {"t": stream})
    assert isinstance(made, Stream)
    assert isinstance(made.plan, Project)
    node = dict(made.plan.columns)["v"]
    whole = node.evaluate(ROWS).to_pylist()
    alone = [node.evaluate(ROWS.slice(n, 1)).to_pylist()[0] for n in range(0, len(ROWS), 5)]
    assert alone == whole[::5]
    return whole


def ducks(text: str) -> list[Any]:
    connection = duck()
    connection.register("t", pa.Table.from_batches([ROWS]))
    return [value for (value,) in connection.execute(f"SELECT {text} FROM t").fetchall()]


@pytest.mark.parametrize(("text", "value"), EXAMPLES, ids=[text for text, _ in EXAMPLES])
def test_an_example_of_the_catalogue_has_the_value_of_duckdb(text: str, value: Any) -> None:
    assert ours(text)[0] == value
    if not text.startswith(OURS):
        assert ducks(text)[0] == value


@pytest.mark.parametrize(("text", "duck"), VARIED.items(), ids=list(VARIED))
def test_an_option_may_be_a_column(text: str, duck: str) -> None:
    assert ours(text) == ducks(duck)


JSON = [
    *('{"a": {"b": 7}, "l": [1, "z", {"b": null}], "s": "t"}', "[10, 20]", "42", '"x"', "null"),
    *('{"a": null}', '{"l": []}', '{"l": [[1], [2, 3]]}', None),
]


@pytest.mark.parametrize("path", ["$.a", "$.a.b", "$.l[1]", "$.l[2].b", "$[0]", "$.s", "$.none"])
def test_json_at_a_path_equals_duckdb(path: str) -> None:
    rows = pa.record_batch({"s": pa.array(JSON)})
    connection = duck()
    connection.register("t", pa.Table.from_batches([rows]))
    for made, theirs in (
        (col("s").str.json_extract(path), f"json_extract(s, '{path}')::VARCHAR"),
        (col("s").str.json_value(path), f"json_extract_string(s, '{path}')"),
        (col("s").str.json_exists(path), f"json_exists(s, '{path}')"),
    ):
        wanted = [value for (value,) in connection.execute(f"SELECT {theirs} FROM t").fetchall()]
        assert made.evaluate(rows).to_pylist() == wanted, theirs


@pytest.mark.parametrize("path", ["$.l[*]", "$.l[*].b", "$.a.*", "$.l[*][0]", "$[*]"])
def test_wildcards_return_the_values_of_duckdb(path: str) -> None:
    rows = pa.record_batch({"s": pa.array(JSON)})
    connection = duck()
    connection.register("t", pa.Table.from_batches([rows]))
    query = f"SELECT json_extract(s, '{path}')::VARCHAR[] FROM t"
    wanted = [value for (value,) in connection.execute(query).fetchall()]
    found = col("s").str.json_extract(path).evaluate(rows).to_pylist()
    assert [None if v is None else [json.dumps(e) for e in json.loads(v)] for v in found] == [
        None if v is None else [json.dumps(json.loads(e)) for e in v] for v in wanted
    ]
    with pytest.raises(InvalidPlanError, match="JSON_QUERY"):
        col("s").str.json_value(path).evaluate(rows)


def test_json_query_returns_objects_and_lists() -> None:
    rows = pa.record_batch({"s": pa.array(JSON)})
    assert col("s").str.json_query("$.a").evaluate(rows).to_pylist()[0] == '{"b":7}'
    assert col("s").str.json_query("$.s").evaluate(rows).to_pylist()[0] is None
    assert col("s").str.json_query("$.l[*]").evaluate(rows).to_pylist()[0] == '[1,"z",{"b":null}]'
    broken = pa.record_batch({"s": pa.array(["{"])})
    assert col("s").str.json_exists("$.a").evaluate(broken).to_pylist() == [False]
    assert col("s").str.json_query("$.a").evaluate(broken).to_pylist() == [None]


def test_a_length_from_a_column_has_the_bounds_of_a_literal() -> None:
    rows = pa.record_batch({"s": ["abc", "abc"], "n": [2, -1], "m": [2, 20_000]})
    for column in ("n", "m"):
        for made in (
            col("s").str.pad_left(col(column)),
            col("s").str.pad_right(col(column)),
            col("s").str.repeat(col(column)),
        ):
            made.evaluate(rows.slice(0, 1))
            with pytest.raises(EvaluationError, match="a whole number from 0 to 10000"):
                made.evaluate(rows)


def test_months_may_be_a_column() -> None:
    rows = pa.record_batch({"d": [date(2024, 1, 31), None] * 2, "n": [1, 1, -11, None]})
    assert col("d").dt.add_months(col("n")).cast("date").evaluate(rows).to_pylist() == [
        *(date(2024, 2, 29), None, date(2023, 2, 28), None)
    ]
    assert col("d").dt.add_months(col("n")).evaluate(rows.slice(0, 0)).to_pylist() == []
    with pytest.raises(EvaluationError, match="more than 120000 months"):
        col("d").dt.add_months(col("n") * 200_000).evaluate(rows)
    for wrong in (2.5, "2"):
        with pytest.raises(InvalidPlanError, match="it takes a whole number"):
            col("d").dt.add_months(wrong)  # type: ignore[arg-type]


def test_a_null_option_returns_null_and_an_invalid_one_names_its_row() -> None:
    rows = pa.record_batch({"s": ["a", "b"], "p": [None, "("]})
    found = col("s").str.contains(col("p"), regex=True)
    assert found.evaluate(rows.slice(0, 1)).to_pylist() == [None]
    with pytest.raises(EvaluationError, match="regular expression"):
        found.evaluate(rows)


def test_a_constant_expression_counts_as_a_literal() -> None:
    a: Expr = col("s").str.pad_left(lit(3), lit("x"))
    assert a.node == col("s").str.pad_left(3, "x").node


def entries() -> str:
    """Every entry that has a method, with its names."""
    lines = []
    for function in FUNCTIONS.values():
        if function.python is None:
            continue
        names = ", ".join(f"`{name}`" for s in function.sql for name in s.names.split())
        given = str(inspect.signature(function.python)).partition(" ->")[0]
        given = re.sub(
            r": '([^']*)'", r": \1", given.replace("(self, ", "(").replace("(self)", "()")
        )
        doc = " ".join((inspect.getdoc(function.python) or "").split("\n\n")[0].split()).replace(
            "``", "`"
        )
        shown = "".join(f" `{text}` is `{value!r}`." for text, value in function.examples)
        lines.append(f"- {names or '(Python)'}: `{function.symbol}{given}`. {doc}{shown}")
    made = [textwrap.fill(line, 98, subsequent_indent="  ") for line in sorted(lines)]
    return "\n".join(made) + "\n"


def test_functions_md_lists_every_entry(rewrite: bool) -> None:
    head, mark, _ = PAGE.read_text().partition("<!-- generated -->\n")
    assert mark, "docs/FUNCTIONS.md has lost its mark"
    made = f"{head}{mark}\n{entries()}"
    if rewrite:
        PAGE.write_text(made)
    assert PAGE.read_text() == made, f"run pytest {__name__} --rewrite"


def test_every_name_in_sql_has_a_method_in_python() -> None:
    for name, function in NAMES.items():
        assert function.python is not None or function.symbol == "str.to_timestamp", name
