"""Splits and joins predicates, and checks whether an expression may fail."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa

from planner.expressions.bounds import may_overflow
from planner.expressions.functions import FUNCTIONS
from planner.expressions.nodes import Call, Column, Literal, Node, parts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

TRUE = Literal(True, pa.bool_())
#: Functions that fail for some arguments, such as too large numbers or results out of range.
_FAILING = ("factorial", "add_months")
FALSE = Literal(False, pa.bool_())
#: Functions with equal results for equal arguments, such as 0.0 and -0.0.
_ALIKE = (
    *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
    *("is_distinct_from", "between", "is_in", "is_null", "is_not_null", "is_nan"),
)


def conjuncts(predicate: Node) -> list[Node]:
    """Split a predicate into its parts between ANDs."""
    if isinstance(predicate, Call) and predicate.function == "and":
        return [part for arg in predicate.args for part in conjuncts(arg)]
    return [predicate]


def conjunction(predicates: Sequence[Node]) -> Node:
    """Join predicates with AND."""
    return reduce(lambda a, b: Call("and", (a, b), (), pa.bool_()), predicates)


def may_fail(node: Node) -> bool:
    """Return whether evaluation may raise: an explicit cast, an overflow, or user code."""
    if isinstance(node, Column | Literal):
        return False
    if not is_built_in(node):
        return True
    assert isinstance(node, Call)
    explicit = node.function == "cast" and not dict(node.options).get("implicit")
    return (
        explicit
        or node.function in _FAILING
        or FUNCTIONS[node.function].may_fail
        or may_overflow(node)
        or any(map(may_fail, parts_of(node)))
    )


def is_alike_of_equals(node: Node) -> bool:
    """Return whether the node is equal for equal keys; the texts of 0.0 and -0.0 differ.

    This is known only for float columns that are compared directly, not for results of other
    functions.
    """
    if isinstance(node, Column):
        return not (pa.types.is_floating(node.type) or pa.types.is_nested(node.type))
    if not isinstance(node, Call):
        return True
    args = node.args
    if node.function in _ALIKE:
        args = tuple(arg for arg in args if not _is_column(arg))
    return all(map(is_alike_of_equals, args))


def _is_column(node: Node) -> bool:
    while isinstance(node, Call) and node.function == "cast":  # terminates: trees are finite
        if not dict(node.options).get("implicit"):
            return False
        (node,) = node.args
    return isinstance(node, Column)


def is_built_in(node: Node) -> bool:
    """Return whether the outermost function is built in, and so deterministic."""
    return isinstance(node, Call) and node.function in FUNCTIONS
