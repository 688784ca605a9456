"""Which types each function takes, which type it gives, and what it makes of three rows.

The table is ``tests/golden/planner/signatures.txt``; ``--rewrite`` writes it anew, to be read as a
diff: a function that takes another type, or gives another one, is a change for users.
Cannot catch: values of other rows (``test_catalogue.py`` compares these with DuckDB).
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from planner.errors import EvaluationError, InvalidPlanError
from planner.expressions.nodes import evaluate_all, resolve
from tests.rooms import ROOT
from tests.support.signatures import ROWS, calls

if TYPE_CHECKING:
    from planner.expressions.nodes import Node

GOLDEN = ROOT / "tests" / "golden" / "planner" / "signatures.txt"
#: It takes other types; or another number of columns, or options.
OTHER = (InvalidPlanError, AssertionError, KeyError, ValueError, TypeError)


def signatures() -> list[str]:
    """Each call that there is, its type and its values."""
    lines = []
    for name, call in calls():
        with contextlib.suppress(*OTHER):
            lines.append(f"{name}: {answer(call)}")
    return lines


def answer(call: Node) -> str:
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
