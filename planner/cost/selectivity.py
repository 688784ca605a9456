"""The share of rows that pass a predicate, between 0 and 1, from statistics of its columns.

Without statistics the shares are the usual guesses of databases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.expressions.nodes import Call, Column, Literal, Node

if TYPE_CHECKING:
    from collections.abc import Mapping

_EQUAL, _RANGE, _TEXT, _UNKNOWN = 0.1, 1 / 3, 0.2, 0.5
_RANGES = ("less", "less_equal", "greater", "greater_equal")


def selectivity(predicate: Node, distinct: Mapping[str, float]) -> float:
    """Return the share of rows that pass; ``distinct``: the number of values by column."""
    if isinstance(predicate, Literal):
        return 1.0 if predicate.literal is True else 0.0
    if not isinstance(predicate, Call):
        return _UNKNOWN
    match predicate.function:
        case "and":
            left, right = (selectivity(arg, distinct) for arg in predicate.args)
            return left * right
        case "or":
            left, right = (selectivity(arg, distinct) for arg in predicate.args)
            return left + right - left * right
        case "not":
            return 1.0 - selectivity(predicate.args[0], distinct)
        case "equal":
            return _equal(predicate, distinct)
        case "not_equal":
            return 1.0 - _equal(predicate, distinct)
        case "is_in":
            return min(1.0, len(predicate.option("values")) * _equal(predicate, distinct))
        case "between":
            return _RANGE / 2
        case "is_null":
            return _EQUAL
        case "is_not_null":
            return 1.0 - _EQUAL
        case "contains" | "starts_with" | "ends_with":
            return _TEXT
        case function:
            return _RANGE if function in _RANGES else _UNKNOWN


def _equal(predicate: Call, distinct: Mapping[str, float]) -> float:
    known = [
        distinct[arg.name]
        for arg in predicate.args
        if isinstance(arg, Column)
        if arg.name in distinct
    ]
    return 1.0 / max(1.0, *known) if known else _EQUAL
