"""The accepted types of each function, its result type, and its results on three rows.

The table is ``tests/golden/planner/signatures.txt``; ``--rewrite`` writes it again. Review the
diff: another accepted type or result type is a change for users. Not covered: values of other rows
(``test_catalogue.py`` compares these with DuckDB).
"""

from __future__ import annotations

import contextlib
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from planner import col
from planner.errors import EvaluationError, InvalidPlanError
from planner.expressions.nodes import evaluate_all, resolve
from tests.rooms import ROOT
from tests.support.signatures import ROWS, calls

if TYPE_CHECKING:
    from planner.expressions.nodes import Node

GOLDEN = ROOT / "tests" / "golden" / "planner" / "signatures.txt"
#: The function needs other types, another number of columns, or options.
OTHER = (InvalidPlanError, AssertionError, KeyError, ValueError, TypeError)


def signatures() -> list[str]:
    """Each call, with its type and its values."""
    lines = []
    for name, call in calls():
        with contextlib.suppress(*OTHER):
            lines.append(f"{name}: {answer(call)}")
    return lines


def answer(call: Node) -> str:
    """The type and values of a call, or its error."""
    node = resolve(call, ROWS.schema)
    try:
        found = evaluate_all([node], ROWS)[0]
    except EvaluationError as error:
        return f"{node.type}, {error.args[1].partition(';')[0]}"
    was = "" if found.type == node.type else f" is in truth {found.type}"
    return f"{node.type}{was} {list(map(shown, found.to_pylist()))}"


def shown(value: Any) -> Any:
    """The value as it is on every machine: some compute other last digits of sines."""
    return float(f"{value:.12g}") if isinstance(value, float) else value


def test_the_signatures_of_all_functions_are_as_recorded(rewrite: bool) -> None:
    found = "\n".join(signatures()) + "\n"
    if rewrite:
        GOLDEN.write_text(found)
    assert found == GOLDEN.read_text()


def test_a_subset_of_rows_gets_the_same_results() -> None:
    """The columns are slices whose null masks do not start at a whole byte."""
    whole = pa.table([pa.concat_arrays([column] * 4) for column in ROWS.columns], ROWS.schema.names)
    (rows,) = whole.combine_chunks().to_batches()
    asked = 0
    for name, call in calls():
        try:
            node = resolve(call, ROWS.schema)
            wanted = evaluate_all([node], ROWS)[0].to_pylist() * 4
        except (*OTHER, EvaluationError):
            continue
        asked += 1
        for first, count in ((1, 2), (4, 7), (11, 1), (12, 0)):
            found = evaluate_all([node], rows.slice(first, count))[0].to_pylist()
            assert repr(found) == repr(wanted[first : first + count]), (name, first, count)
    assert asked > 500


@pytest.mark.parametrize("precision", [4, 14, 15, 18, 38])
@pytest.mark.parametrize("scale", [0, 2, 3])
def test_parts_of_decimals_of_all_sizes(precision: int, scale: int) -> None:
    """The number of digits decides which code path computes them."""
    kind = pa.decimal128(precision, scale)
    numbers = [None if k % 5 == 4 else Decimal(3 * k + 1).scaleb(-scale) for k in range(20)]
    column = pa.array(numbers, kind)
    batch = pa.record_batch({"a": column, "b": column.take(pa.array(range(19, -1, -1)))})
    a, b = col("a"), col("b")
    more = () if precision == 38 else (a * b,)
    for made in (*more, a / b, a // b, a % b, a + b, a - b, a == b, a < b, -a, a.abs(), a.floor()):
        node = resolve(made.node, batch.schema)
        whole = evaluate_all([node], batch)[0].to_pylist()
        for first, count in ((1, 3), (7, 9), (13, 7)):
            found = evaluate_all([node], batch.slice(first, count))[0].to_pylist()
            assert repr(found) == repr(whole[first : first + count]), (str(node), first)
    assert evaluate_all([resolve((a / b).node, batch.schema)], batch)[0].null_count < len(batch)
