"""Checks the object of ``agg.user``."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING

import pyarrow as pa

from planner.errors import InvalidPlanError
from planner.user_code import user_code
from rvertex.aggregates.user_defined import Custom

if TYPE_CHECKING:
    from rvertex.aggregates.user_defined import UserAggregate


def custom_aggregate(aggregate: UserAggregate, deterministic: bool | None) -> Custom:
    """Check the object of ``agg.user`` and return the aggregate's argument."""
    given: object = aggregate
    if isinstance(given, type):
        reason = f"it is a class; give an object of it, {given.__qualname__}()"
        raise InvalidPlanError(f"agg.user({given.__qualname__}): {reason}")
    if isinstance(given, FunctionType):
        reason = "it is a function; give an object with the methods init, add and result"
        raise InvalidPlanError(f"agg.user({given.__qualname__}): {reason}")
    name = f"{type(aggregate).__module__}.{type(aggregate).__qualname__}"
    for method in ("init", "add", "result"):
        if not callable(getattr(aggregate, method, None)):
            raise InvalidPlanError(f"agg.user({name}): it has no method {method!r}")
    if not isinstance(getattr(aggregate, "type", None), pa.DataType):
        raise InvalidPlanError(f"agg.user({name}): its 'type' is not an Arrow type")
    if hasattr(aggregate, "merge") and not isinstance(
        getattr(aggregate, "state_type", None), pa.DataType
    ):
        raise InvalidPlanError(
            f"agg.user({name}): it has 'merge', so it needs 'state_type', the Arrow type of its "
            "states"
        )
    code = user_code(aggregate, "agg.user", deterministic)
    identity = f"{name}#{code.identity.partition('#')[2]}"
    return Custom(identity, aggregate, code.is_deterministic)
