"""Checks the arguments of lookups and of calls that are made once, when the query is built."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from planner.api import names as naming
from planner.durations import positive_duration_us
from planner.errors import InvalidPlanError
from planner.expressions.nodes import checked_name
from planner.expressions.types import schema_of
from planner.user_code import name_of, user_code
from rstream.items.dictionaries import plain_type
from rvertex.operators.user.call_once import CallOnce
from rvertex.operators.user.lookup import Lookup
from rvertex.user_code.context import CallPolicy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.api.sources import SchemaLike
    from planner.durations import Duration
    from planner.logical.nodes import LogicalNode
    from rvertex.operators.user.call_once import OnFailed, OnUnknown
    from rvertex.operators.user.lookup import OnFailure
    from rvertex.user_code.code import UserCode

#: The limit of ``concurrency``, ``batch`` and ``retries``.
_CALLS_MAX = 10_000


def lookup_spec(
    function: Any,
    schema: SchemaLike,
    on: str | Sequence[str] | None,
    policy: CallPolicy,
    cache: Duration | None,
    on_error: str,
) -> Lookup:
    code, made = _called(function, schema, "lookup")
    columns = _columns(on, "lookup: on")
    _require_arguments(function, "lookup", 1 if policy.batch is not None else len(columns) or 1)
    _require_one_of("on_error", on_error, ("fail", "null", "skip", "dead_letter"))
    ttl_us = None if cache is None else positive_duration_us(cache, what="cache")
    return Lookup(code, columns, made, policy, ttl_us, cast("OnFailure", on_error))


def call_once_spec(
    function: Any,
    schema: SchemaLike,
    key: str | Sequence[str],
    on: str | Sequence[str] | None,
    policy: CallPolicy,
    unknown: str,
    on_error: str,
) -> CallOnce:
    code, made = _called(function, schema, "call_once")
    _require_one_of("unknown", unknown, ("fail", "skip", "retry"))
    _require_one_of("on_error", on_error, ("null", "skip", "dead_letter"))
    keys = _columns(key, "call_once: key")
    if not keys:
        raise InvalidPlanError("call_once() needs a key that identifies a call: key='order_id'")
    _require_arguments(function, "call_once", len(_columns(on, "call_once: on")) or 1)
    how = cast("OnUnknown", unknown), cast("OnFailed", on_error)
    return CallOnce(code, keys, _columns(on, "call_once: on"), made, policy, *how)


def _called(function: Any, schema: SchemaLike, what: str) -> tuple[UserCode, pa.Schema]:
    """Check a function that may have outside effects; return it and its result columns."""
    if not callable(function):
        raise InvalidPlanError(f"{what}() takes a function, not {function!r}")
    name = name_of(function)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidPlanError(
            f"{what}({name}): it is a generator; write a function that returns one result"
        )
    code = replace(user_code(function, what, True), draws_values=True)
    made = declared_schema(schema, f"{what}({name})")
    return code, pa.schema([pa.field(f.name, plain_type(f.type)) for f in made])


def _require_arguments(function: Any, what: str, count: int) -> None:
    """Raise if a function cannot be called with ``count`` arguments."""
    called = function.__call__ if isinstance(function, type) else function
    given = [None] * (count + isinstance(function, type))
    try:
        inspect.signature(called).bind(*given)
    except ValueError:  # a function in C without a signature: it cannot be checked
        pass
    except TypeError:
        values = "1 value" if count == 1 else f"{count} values"
        raise InvalidPlanError(
            f"{what}({name_of(function)}): it cannot be called with {values}: it gets the values "
            "of on=, or the row as a dict without on=, or a list of those with batch="
        ) from None


def _columns(names: str | Sequence[str] | None, what: str) -> tuple[str, ...]:
    columns = (names,) if isinstance(names, str) else names or ()
    if not isinstance(columns, list | tuple) or not all(isinstance(n, str) for n in columns):
        raise InvalidPlanError(f"{what}= takes names of columns, not {names!r:.80}")
    naming.require_distinct(columns, what)
    return tuple(columns)


def require_new(plan: LogicalNode, schema: pa.Schema, what: str) -> None:
    for name in schema.names:
        if name in plan.schema.names:
            raise InvalidPlanError(f"{what}(): the stream has a column {name!r} already")


def _require_one_of(what: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InvalidPlanError(f"{what}={value!r}: choose one of {', '.join(known)}")


def call_policy(concurrency: int, batch: int | None, timeout: Duration, retries: int) -> CallPolicy:
    for what, value, least in (("concurrency", concurrency, 1), ("retries", retries, 0)):
        _require_whole(what, value, least)
    if batch is not None:
        _require_whole("batch", batch, 1)
    return CallPolicy(concurrency, batch, positive_duration_us(timeout, what="timeout"), retries)


def _require_whole(what: str, value: Any, least: int) -> None:
    if type(value) is not int or not least <= value <= _CALLS_MAX:
        limits = f"a whole number from {least} to {_CALLS_MAX}"
        raise InvalidPlanError(f"{what}={value!r}: must be {limits}")


def declared_schema(like: SchemaLike, what: str, *, may_be_empty: bool = False) -> pa.Schema:
    if not isinstance(like, dict | pa.Schema):
        raise InvalidPlanError(f"{what}: a schema must be a dict from column to type, not {like!r}")
    schema = schema_of(like)
    if not schema.names and not may_be_empty:
        raise InvalidPlanError(f"{what}: its schema has no columns")
    for name in schema.names:
        checked_name(name)
    naming.require_distinct(schema.names, what)
    return schema
