"""List functions with a lambda, against Python on random lists, in parts and as a whole.

Not covered: a body that Spark evaluates differently; ``tests/spark`` runs some.
"""

from __future__ import annotations

from functools import reduce
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import streamscope as ss
from planner import InvalidPlanError, Stream, col, event, lit, sql
from planner.batch.spark_sql.expressions import to_sql
from planner.errors import ExpressionTypeError
from planner.expressions.nodes import resolve
from planner.expressions.predicates import may_fail
from planner.logical.text import logical_text
from planner.physical.lower import lower
from tests.support.plan_runner import Schedule, answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.api.expressions import Expr

SCHEMA = pa.schema(
    [
        ("l", pa.list_(pa.int64())),
        ("w", pa.list_(pa.string())),
        ("ll", pa.list_(pa.list_(pa.int64()))),
        ("x", pa.int64()),
        ("s", pa.string()),
    ]
)


def rows_of(seed: int, count: int = 50) -> list[dict[str, Any]]:
    rng = Random(seed)

    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.2 else value

    def number() -> Any:
        return maybe(rng.randrange(-9, 9))

    return [
        {
            "l": maybe([number() for _ in range(rng.randrange(4))]),
            "w": maybe([maybe(rng.choice("abc")) for _ in range(rng.randrange(3))]),
            "ll": maybe([maybe([number()] * rng.randrange(3)) for _ in range(rng.randrange(3))]),
            "x": number(),
            "s": maybe(rng.choice("xyz")),
        }
        for _ in range(count)
    ]


def null(function: Callable[..., Any], *values: Any) -> Any:
    return None if any(value is None for value in values) else function(*values)


def added(*values: Any) -> Any:
    return null(lambda *known: sum(known), *values)


CASES: list[tuple[Expr, Callable[[dict[str, Any]], Any]]] = [
    (
        col("l").list.transform(lambda e: e + col("x")),
        lambda r: null(lambda items: [added(e, r["x"]) for e in items], r["l"]),
    ),
    (
        col("l").list.transform(lambda e, at: e + at, with_place=True),
        lambda r: null(lambda items: [added(e, i) for i, e in enumerate(items)], r["l"]),
    ),
    (
        col("l").list.transform(lambda e: lit(1)),
        lambda r: null(lambda items: [1 for _ in items], r["l"]),
    ),
    (
        col("l").list.filter(lambda e: (e > col("x")) | e.is_null()),
        lambda r: null(
            lambda items: [e for e in items if e is None or (r["x"] is not None and e > r["x"])],
            r["l"],
        ),
    ),
    (
        col("w").list.transform(lambda e: e + col("s")).list.filter(lambda e: e.is_not_null()),
        lambda r: null(
            lambda w: [e + r["s"] for e in w if e is not None and r["s"] is not None], r["w"]
        ),
    ),
    (
        col("l").list.reduce(0, lambda so_far, e: so_far * 2 + e.fill_null(col("x"))),
        lambda r: null(
            lambda items: reduce(
                lambda a, e: null(lambda a, e: a * 2 + e, a, r["x"] if e is None else e), items, 0
            ),
            r["l"],
        ),
    ),
    (
        col("w").list.reduce(col("s"), lambda so_far, e: e + so_far),
        lambda r: null(
            lambda w: reduce(lambda a, e: null(lambda a, e: e + a, a, e), w, r["s"]), r["w"]
        ),
    ),
    (
        col("ll").list.transform(
            lambda items: items.list.transform(lambda e: e * items.list.length() + col("x"))
        ),
        lambda r: null(
            lambda ll: [
                null(
                    lambda items: [null(lambda e, x: e * len(items) + x, e, r["x"]) for e in items],
                    items,
                )
                for items in ll
            ],
            r["ll"],
        ),
    ),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_a_lambda_returns_what_python_returns(case: int) -> None:
    expr, of = CASES[case]
    rows = rows_of(case)
    batch = pa.RecordBatch.from_pylist(rows, SCHEMA)
    node = resolve(expr.node, SCHEMA)
    assert resolve(node, SCHEMA) == node
    found = node.evaluate(batch)
    assert found.type == node.type
    assert found.to_pylist() == [of(row) for row in rows]
    for part in (batch.slice(0, 0), batch.slice(7, 20), batch.slice(49, 1)):
        assert node.evaluate(part).to_pylist() == [of(row) for row in part.to_pylist()]


def test_the_optimizer_moves_lambdas_with_their_columns() -> None:
    """Projections are merged, filters pushed down, and columns that only a body reads are kept."""
    rows = rows_of(3)
    stream = Stream.from_items(SCHEMA, [event(n, **row) for n, row in enumerate(rows)])
    made = (
        stream.select("l", y=col("x") * 2, z=col("s"))
        .with_columns(m=col("l").list.transform(lambda e: e + col("y")))
        .filter(col("m").list.reduce(0, lambda a, e: a + e) > 3)
        .select("m")
    )
    wanted = []
    for row in rows:
        listed = null(lambda items, x: [added(e, x * 2) for e in items], row["l"], row["x"])
        total = None if listed is None else added(0, *listed)
        if total is not None and total > 3:
            wanted.append(listed)
    for width, schedule in (
        (1, Schedule((0,))),
        (2, Schedule((1, 0, 2), rows_max=3, restores=True)),
    ):
        plan = lower(made.to_parquet(), root="memory://o", parallelism=width)
        assert answer(plan, schedule=schedule)["m"].to_pylist() == wanted
    assert "l.list.transform(element1 -> (element1 + y))" in logical_text(made.plan)


def test_the_type_of_a_lambda_follows_from_its_body() -> None:
    def kind(expr: Expr) -> pa.DataType:
        return expr.output_type(SCHEMA)

    assert kind(col("l").list.transform(lambda e: e / 2)) == pa.list_(pa.float64())
    assert kind(col("l").list.reduce(0, lambda a, e: a + e / 2)) == pa.float64()
    assert kind(col("w").list.filter(lambda e: e > "a")) == pa.list_(pa.string())
    for wrong in (
        col("x").list.transform(lambda e: e),
        col("l").list.reduce("a", lambda a, e: e),
        col("l").list.transform(lambda e: lit(None)),
    ):
        with pytest.raises(ExpressionTypeError):
            kind(wrong)
    with pytest.raises(InvalidPlanError, match="is int64, not bool"):
        kind(col("l").list.filter(lambda e: e + 1))


def test_lambdas_cannot_call_python_code() -> None:
    @ss.udf(returns="int64")
    def twice(values: pa.Array) -> pa.Array:
        return values

    with pytest.raises(InvalidPlanError, match="cannot call Python code"):
        col("l").list.transform(lambda e: twice(e))


def test_a_lambda_that_may_fail_makes_the_call_fallible() -> None:
    safe, cast = (
        resolve(col("w").list.transform(made).node, SCHEMA)
        for made in (lambda e: e + "x", lambda e: e.cast("int64"))
    )
    assert not may_fail(safe)
    assert may_fail(cast)


def test_translations_to_spark() -> None:
    """Nested lambdas have different parameter names, since Spark sees the outer ones, too."""
    expr = CASES[-1][0]
    columns = {"ll": "c0", "x": "c1"}
    found = to_sql(resolve(expr.node, SCHEMA), columns)
    assert found.startswith("transform(c0, element1 -> transform(element1, element2 -> ")
    place = to_sql(resolve(CASES[1][0].node, SCHEMA), {"l": "c0"})
    assert "(element1, place1)" in place
    assert "cast(place1 as bigint)" in place


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("TRANSFORM(x, e -> e)", "a list is needed here, not BIGINT"),
        ("TRANSFORM(l, e -> nope)", "no column 'nope'"),
        ("TRANSFORM(l, (a, b, c) -> a)", "write TRANSFORM"),
        ("FILTER(l, e -> e + 1)", "not bool"),
        ("FILTER(l, (e, at) -> TRUE)", "write FILTER"),
        ("LIST_REDUCE(l, (a, e) -> a + e)", "result [+] x, 0"),
        ("TRANSFORM(l, 1)", "write TRANSFORM"),
    ],
)
def test_a_wrong_lambda_is_an_error_that_names_the_mistake(text: str, words: str) -> None:
    stream = Stream.from_items(SCHEMA, [])
    with pytest.raises(ss.SqlError, match=words):
        sql(f"SELECT {text} AS v FROM t", {"t": stream})


def test_positions_count_as_in_the_dialect() -> None:
    rows = [event(0, l=[5, 6], w=[], ll=[], x=0, s="")]
    stream = Stream.from_items(SCHEMA, rows)
    for dialect, wanted in ((None, [6, 8]), ("duckdb", [6, 8]), ("spark", [5, 7])):
        text = "SELECT TRANSFORM(l, (e, i) -> e + i) AS v FROM t"
        made = sql(text, {"t": stream}, dialect=dialect)
        assert isinstance(made, Stream)
        assert answer(lower(made.to_parquet(), root="memory://o"))["v"].to_pylist() == [wanted]
