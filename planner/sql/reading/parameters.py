"""Binds values to ``:name`` and ``?``, so that no query is built by formatting texts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from planner.errors import InvalidPlanError
from planner.sql.reading.forms.queries.engines.places import nodes_of

if TYPE_CHECKING:
    from planner.sql.reading.parsing import SqlText

#: Values by name for ``:name``, or in order for ``?``.
Parameters = Mapping[str, Any] | Sequence[Any]
_KINDS = "a number, text, truth value, None, date, datetime, timedelta, or in IN a list of them"
_MICROSECOND = timedelta(microseconds=1)


def bound(statements: list[exp.Expr], given: Parameters, text: SqlText) -> list[exp.Expr]:
    """Return the statements with literals in place of their parameters.

    Raises:
        SqlError: a parameter without a value, or a value that SQL cannot have.
        InvalidPlanError: a value without a parameter.
    """
    if isinstance(given, str | bytes) or not isinstance(given, Mapping | Sequence):
        raise InvalidPlanError(f"params={given!r}: must be a dict for :name, or a list for ?")
    values: dict[Any, Any] = dict(given if isinstance(given, Mapping) else enumerate(given))
    wholes = [exp.Paren(this=statement) for statement in statements]
    nodes = [node for whole in wholes for node in nodes_of(whole, exp.Placeholder)]
    unnamed = itertools.count()
    used: set[object] = set()
    for node in sorted(nodes, key=lambda node: node.meta["start"]):  # in order of the text
        key = node.this or next(unnamed)
        if key not in values:
            raise text.error(node, _missing(node, values))
        used.add(key)
        _bind(node, values[key], text)
    unused = [str(key) for key in values if key not in used]
    if unused:
        raise InvalidPlanError(f"params: the text has no parameter for {', '.join(unused)}")
    parsed = [whole.this for whole in wholes]
    for statement in parsed:
        statement.parent = None
    return parsed


def _missing(node: exp.Expr, values: Mapping[Any, Any]) -> str:
    if node.this:
        known = ", ".join(map(str, values)) or "none"
        return f"the parameter :{node.name} has no value; params has: {known}"
    return f"there are more ? than the {len(values)} values of params"


def _bind(node: exp.Expr, value: Any, text: SqlText) -> None:
    if isinstance(value, list | tuple | set | frozenset) and isinstance(node.parent, exp.In):
        members = sorted(value) if isinstance(value, set | frozenset) else value
        made = [_at(node, _literal(member, node, text)) for member in members]
        listed = [part for part in node.parent.expressions if part is not node]
        node.parent.set("expressions", [*listed, *made])
        return
    node.replace(_at(node, _literal(value, node, text)))


def _at(node: exp.Expr, made: exp.Expr) -> exp.Expr:
    for part in made.walk():
        part.meta.update(node.meta)
    return made


def _literal(value: Any, node: exp.Expr, text: SqlText) -> exp.Expr:
    """Return the literal of a value in SQL."""
    match value:
        case None:
            return exp.Null()
        case bool():
            return exp.Boolean(this=value)
        case str():
            return exp.Literal.string(value)
        case int():
            number: exp.Expr = exp.Literal.number(abs(value))
            return exp.Neg(this=number) if value < 0 else number
        case float() if math.isfinite(value):
            return _cast(repr(value), "DOUBLE")
        case float():
            return _cast(str(value), "DOUBLE")
        case Decimal() if value.is_finite():
            return _cast(f"{value:f}", _decimal(value))
        case datetime():
            return _cast(value.isoformat(sep=" "), "TIMESTAMP")
        case date():
            return _cast(value.isoformat(), "DATE")
        case timedelta():
            us = exp.Literal.string(str(value // _MICROSECOND))
            return exp.Interval(this=us, unit=exp.var("MICROSECOND"))
    raise text.error(node, f"a parameter must be {_KINDS}, not {type(value).__name__}")


def _cast(value: str, kind: str) -> exp.Expr:
    return exp.Cast(this=exp.Literal.string(value), to=exp.DataType.build(kind))


def _decimal(value: Decimal) -> str:
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), value
    scale = max(-exponent, 0)
    return f"DECIMAL({max(len(digits) + max(exponent, 0), scale, 1)}, {scale})"
