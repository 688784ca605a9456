"""Expressions against a plain Python evaluation of the same tree, row by row.

Not covered: a rule that both sides get wrong; the tables in test_functions.py cover these.
"""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from planner import EvaluationError, InvalidPlanError, col, lit, when
from planner.expressions.nodes import resolve
from planner.fingerprint import canonical
from tests.support.budget import examples
from tests.support.expressions import SCHEMA, Row, Twin, rows, twins

if TYPE_CHECKING:
    from planner import Expr

ANY = st.sampled_from(["int", "float", "bool", "str"]).flatmap(twins)


def same(got: Any, expected: Any) -> bool:
    if isinstance(got, float) and isinstance(expected, float):
        return got == expected or (math.isnan(got) and math.isnan(expected))
    return type(got) is type(expected) and bool(got == expected)


def evaluated(twin: Twin, batch: pa.RecordBatch) -> list[Any] | str:
    """The values, or the error of one of them."""
    try:
        got = twin.expr.evaluate(batch)
    except EvaluationError as error:
        return str(error)
    assert isinstance(got, pa.Array)
    assert got.type == twin.expr.output_type(SCHEMA)
    return got.to_pylist()


def is_overflow(found: list[Any] | str) -> bool:
    return isinstance(found, str) and "does not fit into int64" in found


@examples(75)
@given(ANY, rows())
def test_expressions_equal_python(twin: Twin, table: list[Row]) -> None:
    """An overflow is an error, also if its value may not be needed."""
    batch = pa.RecordBatch.from_pylist(table, schema=SCHEMA)
    alone = [evaluated(twin, batch.slice(i, 1)) for i in range(len(table))]
    for row, got in zip(table, alone, strict=True):
        try:
            wanted = twin.python(row)
        except OverflowError:
            assert is_overflow(got), (row, got)
            continue
        assert is_overflow(got) or same(got[0], wanted), (row, got, wanted)
    whole = evaluated(twin, batch)
    assert isinstance(whole, str) == any(isinstance(got, str) for got in alone)
    if not isinstance(whole, str):
        assert repr(whole) == repr([got[0] for got in alone])


@examples(100)
@given(ANY, rows(), st.integers(0, 6))
def test_batch_boundaries_do_not_matter(twin: Twin, table: list[Row], at: int) -> None:
    batch = pa.RecordBatch.from_pylist(table, schema=SCHEMA)
    whole, first, rest = (evaluated(twin, b) for b in (batch, batch.slice(0, at), batch.slice(at)))
    if isinstance(whole, str):
        assert isinstance(first, str) or isinstance(rest, str)
    else:
        assert isinstance(first, list)
        assert isinstance(rest, list)
        assert repr(whole) == repr(first + rest)


@examples(100)
@given(ANY)
def test_trees_survive_pickling_and_have_a_stable_name(twin: Twin) -> None:
    node = resolve(twin.expr.node, SCHEMA)
    again = pickle.loads(pickle.dumps(node))
    assert again == node
    assert hash(again) == hash(node)
    assert canonical(again) == canonical(node)
    assert str(again) == str(twin.expr)
    assert resolve(node, SCHEMA) == node, "resolving twice changes nothing"


@examples(100)
@given(ANY)
def test_an_expression_lists_the_columns_it_reads(twin: Twin) -> None:
    needed = twin.expr.columns()
    small = pa.schema([SCHEMA.field(name) for name in needed])
    assert twin.expr.output_type(small) == twin.expr.output_type(SCHEMA)
    assert len(set(needed)) == len(needed)


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (col("a") + 1, "(a + 1)"),
        (1 - col("a") * 2, "(1 - (a * 2))"),
        ((col("a") > 1) & ~col("p"), "((a > 1) & ~p)"),
        (col("s").str.replace("a", "b"), 's.str.replace("a", "b")'),
        (col("s").str.slice(1), "s.str.slice(1)"),
        (when(col("p")).then("x").otherwise(None), 'when(p).then("x").otherwise(null)'),
        (col("a").between(1, 5), "a.between(1, 5)"),
        (col("a").is_in([1, 2]), "a.is_in([1, 2])"),
        (col("a").cast("float64"), "a.cast(double)"),
        (col("_vs").dt.truncate("1h30m"), '_vs.dt.truncate("1h30m")'),
        (col("x").round(2).alias("r"), "x.round(2) as r"),
    ],
)
def test_an_expression_is_shown_as_its_python_text(expr: Expr, text: str) -> None:
    assert str(expr) == text
    assert text in repr(expr)


def test_the_operators_and_or_not_of_python_are_rejected() -> None:
    with pytest.raises(InvalidPlanError, match="write & for and"):
        _ = col("a") > 1 and col("b") > 1
    with pytest.raises(InvalidPlanError, match="write & for and"):
        _ = 1 < col("a") < 5


def test_functions_cannot_be_used_as_values() -> None:
    with pytest.raises(InvalidPlanError, match="when"):
        _ = col("a") + (lambda x: x)  # type: ignore[operator]
    with pytest.raises(InvalidPlanError, match="cannot be part of an expression"):
        lit([1, 2])  # type: ignore[arg-type]
    with pytest.raises(InvalidPlanError, match="does not fit into int64"):
        lit(2**63)


def test_importing_planner_alone_is_enough() -> None:
    """Hosts that unpickle a plan import only the planner."""
    code = "from planner import col; print(col('a') + 1)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "(a + 1)\n"
