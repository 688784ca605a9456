"""An operand that a row does not need cannot fail on that row; ``try_cast``.

Random trees of choices are compared with an evaluation in plain Python, row by row. Not covered:
an unneeded operand that is computed and does not fail (except user functions, whose calls are
counted).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from planner import EvaluationError, Query, Stream, cti, event, lit, sql, udf, when
from planner.api.expressions import Expr, as_node, coalesce, col
from planner.expressions.nodes import Call, Column, Literal, Node, evaluate_all, resolve
from planner.expressions.per_value import by_value
from planner.optimizer.optimizer import RULES
from planner.optimizer.rules import place_exchange
from planner.physical.lower import lower
from rstream.items.dictionaries import plain_array
from rstream.types import INF_TIME
from tests.support.calls import calls_of
from tests.support.plan_runner import answer

if TYPE_CHECKING:
    from typing import Any

SCHEMA = pa.schema([("s", pa.string()), ("g", pa.bool_()), ("n", pa.int64())])
ROW = st.tuples(
    st.sampled_from(["1", "22", "x", "", None]),
    st.sampled_from([True, False, None]),
    st.sampled_from([0, 1, 22, None]),
)
NUMBER: st.SearchStrategy[Expr] = st.sampled_from(
    [col("s").cast(int), col("n"), lit(1), col("s").cast(int) + col("n"), lit(None).cast(int)]
)
TRUTH: st.SearchStrategy[Expr] = st.sampled_from(
    [col("g"), col("s") == "x", col("s").is_null(), lit(True), lit(False), lit(None).cast(bool)]
)


def _numbers(below: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(lambda t, a, b: when(t).then(a).otherwise(b), _truths(below), below, below),
        st.builds(
            lambda t, a, u, b, c: when(t).then(a).when(u).then(b).otherwise(c),
            *(_truths(below), below, _truths(below), below, below),
        ),
        st.lists(below, min_size=2, max_size=3).map(lambda values: coalesce(*values)),
        st.builds(Expr.__add__, below, below),
    )


def _truths(numbers: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    compared = st.builds(Expr.__lt__, numbers, numbers)
    leaf = TRUTH | compared
    return leaf | st.one_of(
        st.builds(Expr.__and__, leaf, leaf),
        st.builds(Expr.__or__, leaf, leaf),
        st.builds(Expr.__invert__, leaf),
    )


TREES = st.recursive(NUMBER, _numbers, max_leaves=6)


class FailedError(Exception):
    """Raised when a cast fails on a row that needs it."""


def by_hand(node: Node, row: dict[str, Any]) -> Any:
    """The value on one row, following SQL's definition."""
    if isinstance(node, Column):
        return row[node.name]
    if isinstance(node, Literal):
        return node.literal
    assert isinstance(node, Call), node
    args = node.args
    match node.function:
        case "and" | "or" as word:
            decisive = word == "or"
            left = by_hand(args[0], row)
            right = None if left is decisive else by_hand(args[1], row)
            if decisive in (left, right):
                return decisive
            return None if left is None or right is None else not decisive
        case "coalesce":
            return next((v for v in (by_hand(a, row) for a in args) if v is not None), None)
        case "when":
            for condition, value in zip(args[:-1:2], args[1:-1:2], strict=True):
                if by_hand(condition, row) is True:
                    return by_hand(value, row)
            return by_hand(args[-1], row)
        case "is_null":
            return by_hand(args[0], row) is None
    values = [by_hand(a, row) for a in args]
    if None in values:
        return None
    match node.function:
        case "cast" if isinstance(values[0], str):
            if not values[0].isdigit():
                raise FailedError
            return int(values[0])
        case "cast":
            return values[0]
        case "not":
            return not values[0]
        case "equal":
            return values[0] == values[1]
        case "less":
            return values[0] < values[1]
        case "add":
            return values[0] + values[1]
    raise AssertionError(node.function)


def expected(tree: Node, rows: list[dict[str, Any]]) -> list[Any] | None:
    try:
        return [by_hand(tree, row) for row in rows]
    except FailedError:
        return None


def found(nodes: list[Node], batch: pa.RecordBatch) -> list[Any] | None:
    try:
        return [plain_array(a).to_pylist() for a in evaluate_all(nodes, batch)]
    except EvaluationError:
        return None


@given(st.lists(ROW, max_size=12), TREES, TREES, st.integers(0, 12))
def test_lazy_evaluation_equals_evaluation_row_by_row(
    rows: list[tuple[Any, ...]], first: Expr, second: Expr, cut: int
) -> None:
    """The value on one row, following SQL's definition."""
    values = [dict(zip(SCHEMA.names, row, strict=True)) for row in rows]
    batch = pa.RecordBatch.from_pylist(values, SCHEMA)
    trees = [resolve(as_node(e), SCHEMA) for e in (first, second, first + second)]
    wanted = [expected(tree, values) for tree in trees]
    for tree, want in zip(trees, wanted, strict=True):
        assert found([tree], batch) == (None if want is None else [want])
    assert found(trees, batch) == (None if None in wanted else wanted)
    parts = [found(trees, part) for part in (batch.slice(0, cut), batch.slice(cut))]
    if None not in wanted:
        assert [a + b for a, b in zip(*parts, strict=True)] == wanted  # type: ignore[arg-type]
    word = batch.column("s").dictionary_encode()
    carried = pa.record_batch([word, batch.column("g"), batch.column("n")], names=SCHEMA.names)
    by_values = [by_value(tree, {"s"}) for tree in trees]
    assert found(by_values, carried) == (None if None in wanted else wanted)


def test_user_functions_are_called_only_for_rows_that_need_them() -> None:
    seen: list[int] = []

    @udf(returns="int64", deterministic=True)
    def told(n: int) -> int:
        seen.append(n)
        return -n

    batch = pa.RecordBatch.from_pylist([{"n": n} for n in range(6)])
    value = when(col("n") > 3).then(told(col("n"))).otherwise(0)
    assert value.evaluate(batch).to_pylist() == [0, 0, 0, 0, -4, -5]
    assert seen == [4, 5]
    seen.clear()
    shared = when(told(col("n")) < -3).then(told(col("n"))).otherwise(None)
    assert shared.evaluate(batch).to_pylist() == [None] * 4 + [-4, -5]
    assert seen == list(range(6))


def stream(*texts: str | None) -> Stream:
    rows = [event(k, s=text, n=k) for k, text in enumerate(texts)]
    return Stream.from_items({"s": "string", "n": "int64"}, [*rows, cti(INF_TIME)])


def rows_of(query: Query, rules: Any = RULES) -> list[Any]:
    return answer(lower(query, root="memory://job", rules=rules, parallelism=1)).to_pylist()


NUMBERS = stream("1", "x", None, "22")
IS_NUMBER = col("s").str.contains("^[0-9]+$", regex=True)


@pytest.mark.parametrize(
    "query",
    [
        NUMBERS.filter(IS_NUMBER & (col("s").cast(int) > 1)),
        NUMBERS.filter(~IS_NUMBER | (col("s").cast(int) > 1)),
        NUMBERS.select("s", long=col("s").str.length() * 0 + 1, number=IS_NUMBER).filter(
            col("number") & (col("long") == 1) & (col("s").cast(int) > 1)
        ),
        NUMBERS.filter(IS_NUMBER).union(NUMBERS).filter(IS_NUMBER & (col("s").cast(int) > 1)),
        NUMBERS.join(NUMBERS, on="n", within=(0, 9)).filter(
            IS_NUMBER & (col("s_right").cast(int) > 1)
        ),
    ],
    ids=["and", "or", "behind a computed column", "union", "join"],
)
def test_no_rule_moves_a_cast_before_its_guard(query: Stream) -> None:
    found = rows_of(query.to_parquet())
    assert found
    assert found == rows_of(query.to_parquet(), rules=(place_exchange,))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT s FROM a WHERE s <> 'x' AND s::int > 1",
        "SELECT s FROM a WHERE s = 'x' OR s IS NULL OR CAST(s AS BIGINT) > 1",
        "SELECT COALESCE(n, s::int) AS v FROM a",
        "SELECT CASE WHEN s = 'x' THEN -1 ELSE s::int END AS v FROM a",
        "SELECT IF(s = 'x', 0, s::int) AS v FROM a",
        "SELECT CASE s WHEN 'x' THEN 0 WHEN '1' THEN 7 ELSE s::int END AS v FROM a",
        "SELECT sum(s::int) FILTER (WHERE s <> 'x') AS v FROM a GROUP BY TUMBLE('1s')",
        "SELECT TRY_CAST(s AS INT) AS v FROM a",
        "SELECT a.s FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.n = a.n) AND a.s::int > 1",
        "SELECT a.s FROM a JOIN b ON a.n = b.n AND a.s <> 'x' AND b.s::int > 1",
    ],
)
def test_sql_evaluates_from_left_to_right(text: str) -> None:
    lasting = NUMBERS.filter(IS_NUMBER | (col("n") > 1)).for_ever()
    made = sql(text, {"a": NUMBERS, "b": lasting})
    if "JOIN" in text:
        made = sql(text, {"a": NUMBERS, "b": NUMBERS.for_ever()})
    assert isinstance(made, Stream)
    assert rows_of(made.to_parquet()) == rows_of(made.to_parquet(), rules=(place_exchange,))


@pytest.mark.parametrize(
    ("expr", "wanted"),
    [
        (col("s").try_cast(int), [1, None, None, 22]),
        (col("s").try_cast("timestamp").is_null(), [True] * 4),
        ((col("n") * 100).try_cast("int8"), [0, 100, None, None]),
        (lit("abc").try_cast(int), [None] * 4),
        (col("n").try_cast("int64"), [0, 1, 2, 3]),
        (when(col("s") == "x").then(7).otherwise(col("s").try_cast(int)), [1, 7, None, 22]),
    ],
    ids=str,
)
def test_try_cast_returns_null_where_a_cast_fails(expr: Expr, wanted: list[Any]) -> None:
    assert [row["v"] for row in rows_of(NUMBERS.select(v=expr).to_parquet())] == wanted


@given(st.lists(st.sampled_from(["1", "x", "99999999999999999999", "7", "", None, "2x"])))
def test_try_cast_equals_cast_value_by_value(texts: list[str | None]) -> None:
    def alone(text: str | None) -> int | None:
        try:
            one = pa.record_batch({"s": pa.array([text], pa.string())})
            return col("s").cast(int).evaluate(one)[0].as_py()  # type: ignore[no-any-return]
        except EvaluationError:
            return None

    batch = pa.record_batch({"s": pa.array(texts, pa.string())})
    assert col("s").try_cast(int).evaluate(batch).to_pylist() == [alone(t) for t in texts]


@pytest.mark.parametrize(
    "target", [pa.int64(), pa.decimal128(9, 2), pa.date32(), pa.timestamp("us")], ids=str
)
def test_text_without_a_digit_is_not_converted_value_by_value(target: pa.DataType) -> None:
    letters = "abcdefghij"
    words = pa.array([a + b + c for a in letters for b in letters for c in letters])
    node = resolve(as_node(col("s").try_cast(target)), pa.schema([("s", pa.string())]))
    batch = pa.record_batch({"s": words})
    assert evaluate_all([node], batch)[0].null_count == len(words)
    assert calls_of(lambda: evaluate_all([node], batch)) < len(words)
