"""The registry of aggregate functions: each is known by its own name, to operators and to users.

Cannot catch: a function whose lanes do not merge to what one pass gives; the tests of the
functions do.
"""

from __future__ import annotations

import inspect

import pyarrow as pa
import pytest

from planner.api import agg
from planner.batch.spark_sql.aggregates import WRITERS
from rvertex.aggregates.function import Lane
from rvertex.aggregates.registry import FUNCTIONS
from rvertex.aggregates.spec import AggregateSpec
from rvertex.errors import OperatorTypeError


def test_each_function_is_known_by_its_own_name() -> None:
    assert [function.name for function in FUNCTIONS.values()] == list(FUNCTIONS)


def test_the_api_and_the_batch_twin_have_all_of_them() -> None:
    functions = inspect.getmembers(agg, inspect.isfunction)
    public = {name for name, f in functions if f.__module__ == agg.__name__ and name[0] != "_"}
    made_of_others = {"any_value", "bool_and", "bool_or", "count_if"}
    of_rows = {"asc", "desc", "lag"}
    assert public == {*FUNCTIONS, *made_of_others, *of_rows}
    assert set(WRITERS) == set(FUNCTIONS)


def test_lanes_of_one_name_are_of_one_kind() -> None:
    kinds = {kind for function in FUNCTIONS.values() for kind in function.lanes}
    names = [kind.name for kind in kinds]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_only_count_goes_without_a_column(name: str) -> None:
    if FUNCTIONS[name].takes_rows:
        assert AggregateSpec(name, None, "out").definition is FUNCTIONS["count"]
        return
    with pytest.raises(OperatorTypeError, match="needs a column"):
        AggregateSpec(name, None, "out")


def test_a_sum_of_integers_travels_with_its_carry() -> None:
    (kind,) = FUNCTIONS["sum"].lanes
    fields = Lane(kind, "x", pa.int64()).fields
    assert [field.name for field in fields] == ["@sum(x)", "@sum(x).carry"]
    assert [field.name for field in Lane(kind, "x", pa.float64()).fields] == ["@sum(x)"]
