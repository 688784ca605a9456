"""Which types each function takes, which type it gives, and what it makes of three rows.

The table is ``tests/golden/planner/signatures.txt``; ``--rewrite`` writes it anew, to be read as a
diff: a function that takes another type, or gives another one, is a change for users.
Cannot catch: options other than those here; values of other rows (``test_catalogue.py`` compares
these with DuckDB).
"""

from __future__ import annotations

import contextlib
import itertools
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from planner.errors import EvaluationError, InvalidPlanError
from planner.expressions.functions import FUNCTIONS
from planner.expressions.nodes import Call, Column, evaluate_all, resolve
from tests.rooms import ROOT

GOLDEN = ROOT / "tests" / "golden" / "planner" / "signatures.txt"
#: Columns of each kind; the last row is null.
COLUMNS: dict[str, pa.Array] = {
    "int": pa.array([7, -3, None], pa.int64()),
    "double": pa.array([2.5, -0.5, None]),
    "decimal": pa.array([Decimal("1.25"), Decimal("-9.50"), None], pa.decimal128(10, 2)),
    "text": pa.array(["b7", "", None]),
    "bool": pa.array([True, False, None]),
    "time": pa.array(
        [datetime(2024, 2, 29, 23, 59, tzinfo=UTC), datetime(1969, 1, 1, tzinfo=UTC), None],
        pa.timestamp("us"),
    ),
    "list": pa.array([[2, 7], [], None], pa.list_(pa.int64())),
    "null": pa.nulls(3),
}
ROWS = pa.table(COLUMNS).to_batches()[0]
#: Of functions that have some.
OPTIONS: dict[str, tuple[tuple[str, Any], ...]] = {
    "round": (("digits", 1),),
    "trunc": (("digits", 0),),
    "slice": (("start", 1), ("stop", None)),
    "repeat": (("times", 2),),
    "width_bucket": (("low", -1.0), ("high", 3.0), ("buckets", 1)),
    "add_months": (("months", 1),),
}
#: It takes other types; or another number of columns, or options.
OTHER = (InvalidPlanError, AssertionError, KeyError, ValueError, TypeError)


def signatures() -> list[str]:
    """Each call that there is of one or two columns, its type and its values."""
    lines = []
    for name in FUNCTIONS:
        for count in (1, 2):
            for columns in itertools.product(COLUMNS, repeat=count):
                call = Call(name, tuple(map(Column, columns)), OPTIONS.get(name, ()))
                with contextlib.suppress(*OTHER):
                    lines.append(f"{name}({', '.join(columns)}): {answer(call)}")
    return lines


def answer(call: Call) -> str:
    """Its type and values; or why it refuses the rows."""
    node = resolve(call, ROWS.schema)
    try:
        found = evaluate_all([node], ROWS)[0]
    except EvaluationError as error:
        return f"{node.type}, {error.args[1].partition(';')[0]}"
    was = "" if found.type == node.type else f" is in truth {found.type}"
    return f"{node.type}{was} {list(map(shown, found.to_pylist()))}"


def shown(value: Any) -> Any:
    """The same on every machine, of which some have other sines."""
    return float(f"{value:.12g}") if isinstance(value, float) else value


def test_signatures(rewrite: bool) -> None:
    found = "\n".join(signatures()) + "\n"
    if rewrite:
        GOLDEN.write_text(found)
    assert found == GOLDEN.read_text()
