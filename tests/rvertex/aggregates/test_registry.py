"""The registry of aggregate functions: each is known by its own name, to operators and to users.

Not covered: a function whose merged lanes differ from one pass; the tests of the functions do.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from planner.api import agg
from planner.batch.spark_sql.aggregates import WRITERS
from rvertex.aggregates.function import Lane
from rvertex.aggregates.registry import FUNCTIONS
from rvertex.aggregates.spec import AggregateSpec, is_order_free, lanes_of, result_fields
from rvertex.errors import OperatorTypeError
from tests.rooms import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

GOLDEN = ROOT / "tests" / "golden" / "rvertex" / "aggregates.txt"


def test_each_function_is_registered_by_its_own_name() -> None:
    assert [function.name for function in FUNCTIONS.values()] == list(FUNCTIONS)


def test_the_api_and_the_batch_have_all_functions() -> None:
    functions = inspect.getmembers(agg, inspect.isfunction)
    public = {name for name, f in functions if f.__module__ == agg.__name__ and name[0] != "_"}
    made_of_others = {"any_value", "bool_and", "bool_or", "count_if"}
    of_rows = {"asc", "desc", "lag"}
    behind_options = {"listed", "top_value"}  # of array_agg, string_agg, first and last
    assert public | behind_options == {*FUNCTIONS, *made_of_others, *of_rows}
    assert set(WRITERS) == set(FUNCTIONS)


def test_lanes_with_one_name_have_one_kind() -> None:
    kinds = {kind for function in FUNCTIONS.values() for kind in function.lanes}
    names = [kind.name for kind in kinds]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_only_count_works_without_a_column(name: str) -> None:
    if FUNCTIONS[name].takes_rows:
        assert AggregateSpec(name, None, "out").definition is FUNCTIONS["count"]
        return
    with pytest.raises(OperatorTypeError, match="needs a column"):
        AggregateSpec(name, None, "out")


def test_a_sum_of_integers_has_a_carry_column() -> None:
    (kind,) = FUNCTIONS["sum"].lanes
    fields = Lane(kind, "x", pa.int64()).fields
    assert [field.name for field in fields] == ["@sum(x)", "@sum(x).carry"]
    assert [field.name for field in Lane(kind, "x", pa.float64()).fields] == ["@sum(x)"]


KINDS = {
    "int": pa.int64(),
    "double": pa.float64(),
    "decimal": pa.decimal128(10, 2),
    "text": pa.string(),
    "bool": pa.bool_(),
    "time": pa.timestamp("us"),
    "list": pa.list_(pa.int64()),
}


def said_of(name: str) -> Iterator[str]:
    """Return the properties of a function, and its result type for each type."""
    function = FUNCTIONS[name]
    flags = [
        flag
        for flag in ("takes_rows", "takes_ranks", "adds_booleans", "needs_sequence")
        if getattr(function, flag)
    ]
    yield f"{name}: needs {function.needs}{''.join(f', {flag}' for flag in flags)}"
    for called, kind in KINDS.items():
        spec = AggregateSpec(name, "x", "out")
        payload = pa.schema([("x", kind)])
        if not function.takes(kind):
            continue
        try:
            lanes = lanes_of([spec], payload)
            (field,) = result_fields([spec], lanes)
        except (AssertionError, TypeError):
            yield f"  {called}, with an argument"
            continue
        facts = {
            "holistic": spec.is_holistic,
            "order free": is_order_free([spec], payload),
            "runs": spec.can_run,
        }
        shown = "".join(f", {fact}" for fact, holds in facts.items() if holds)
        parts = " ".join(f.name for lane in lanes for f in lane.fields)
        yield f"  {called} -> {field.type}{shown}: {parts}"


def test_declared_properties_of_functions(rewrite: bool) -> None:
    """Compare the functions' properties with the golden table. Review each difference."""
    found = "\n".join(line for name in FUNCTIONS for line in said_of(name)) + "\n"
    if rewrite:
        GOLDEN.write_text(found)
    assert found == GOLDEN.read_text()
