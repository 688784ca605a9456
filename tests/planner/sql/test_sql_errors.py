"""Each mistake in SQL gives one message with line, column and a mark under the mistake.

The statements and their messages are in ``tests/golden/planner/sql_errors.txt``; ``--rewrite``
writes the messages again. Not covered: a mistake that compiles to a wrong plan.
"""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from jobmanager import JobFailedError, collect
from planner import SqlError, Stream, event, sql
from planner.sql.reading.errors import sql_type
from planner.sql.reading.literals import _TYPES as TYPES
from tests.planner.sql.test_sql import STREAMS
from tests.rooms import ROOT

GOLDEN = ROOT / "tests" / "golden" / "planner" / "sql_errors.txt"
CASES = [case.split("\n---\n") for case in GOLDEN.read_text().split("\n===\n")]


def message(statement: str) -> str:
    with pytest.raises(SqlError) as raised:
        sql(statement, STREAMS)
    error = raised.value
    assert statement.split("\n")[error.line - 1] == error.code
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    return str(error)


@pytest.mark.parametrize(("statement", "expected"), CASES, ids=[c[0][:60] for c in CASES])
def test_the_error_of_a_wrong_statement_is_as_recorded(
    statement: str, expected: str, rewrite: bool
) -> None:
    found = message(statement)
    assert rewrite or found == expected.rstrip("\n")


def test_advice_of_error_messages(rewrite: bool) -> None:
    if rewrite:
        cases = [f"{statement}\n---\n{message(statement)}" for statement, _ in CASES]
        GOLDEN.write_text("\n===\n".join(cases) + "\n")


def test_a_shift_is_at_most_the_width_of_the_number() -> None:
    for bits in (0, 62):
        sql(f"SELECT x << {bits} AS v FROM s", STREAMS)
    assert "a shift is by 0 to 62 bits, not 63" in message("SELECT x << 63 AS v FROM s")


@pytest.mark.parametrize(
    "statement", ["SELECT k STOP STOP FROM s", "SELECT k FROM s -- not SELECT TOP 3 k\nWHERE ("]
)
def test_top_is_suggested_only_where_it_applies(statement: str) -> None:
    assert "LIMIT" not in message(statement)


def test_a_text_without_statements() -> None:
    for text in ("", "  ", "-- nothing\n", ";"):
        with pytest.raises(SqlError, match="ends without a SELECT"):
            sql(text)


@pytest.mark.parametrize("kind", sorted({*TYPES.values(), pa.decimal128(9, 2)}, key=str), ids=str)
def test_type_names_in_messages_are_valid_sql(kind: pa.DataType) -> None:
    name = sql_type(str(kind))
    assert name in (*TYPES, "DECIMAL(9, 2)")
    stream = sql(f"SELECT CAST(NULL AS {name}) AS v FROM s", STREAMS)
    assert isinstance(stream, Stream)
    assert stream.schema.field("v").type == kind


def test_deep_nesting_is_an_error_and_not_a_crash() -> None:
    stream = sql(f"SELECT {'(' * 20}x{')' * 20} AS v FROM s", STREAMS)
    assert stream == sql("SELECT x AS v FROM s", STREAMS)
    with pytest.raises(SqlError, match="nested too deeply"):
        sql(f"SELECT {'(' * 5_000}x{')' * 5_000} AS v FROM s", STREAMS)
    with pytest.raises(SqlError, match="nested too deeply"):
        sql(f"SELECT x {'+ 1 ' * 2_000} AS v FROM s", STREAMS)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("SELECT SUM(x + 1) AS v FROM s GROUP BY TUMBLE('1m')", ": v: the sum does not fit into"),
        ("SELECT SUM(x) AS v FROM s GROUP BY TUMBLE('1m')", ": v: the sum of column 'x' does not"),
        ("SELECT SUM(x) OVER (ORDER BY vs()) AS v FROM s", ": the sum of column 'x' does not fit"),
    ],
)
def test_a_sum_overflow_is_reported_with_the_names_of_the_user(text: str, told: str) -> None:
    rows = Stream.from_items({"x": "int64"}, [event(n, x=2**62) for n in range(3)])
    stream = sql(text, {"s": rows})
    assert isinstance(stream, Stream)
    with pytest.raises(JobFailedError) as raised:
        collect(stream, executor="local")
    assert told in str(raised.value)
    assert "input" not in str(raised.value)
