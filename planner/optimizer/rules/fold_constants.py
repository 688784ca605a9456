"""Compute constant expressions once, when the query is planned.

A call on literals becomes a literal. True and false disappear from conditions. A filter that is
true for all rows disappears. An expression that may fail on some row is not removed, and a call
that fails on its literals is left unchanged, so a wrong query fails in the same way. A filter that
is false stays: the CTIs (watermarks) of its input are part of the result.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from planner.errors import EvaluationError
from planner.expressions.nodes import ONE_ROW, Call, Literal, Node
from planner.expressions.predicates import FALSE, TRUE, is_built_in, may_fail
from planner.logical.nodes import Filter, LogicalNode, Project
from planner.logical.traversal import Shared, transform

if TYPE_CHECKING:
    from planner.cost.options import PlanOptions


def fold_constants(root: LogicalNode, _options: PlanOptions) -> LogicalNode:
    """Fold the expressions of filters and projections."""

    def change(node: LogicalNode, _shared: Shared) -> LogicalNode:
        match node:
            case Filter(input=below, predicate=predicate):
                kept = folded(predicate)
                if kept == TRUE and not node.label:
                    return below
                return node if kept == predicate else replace(node, predicate=kept)
            case Project(columns=columns):
                made = tuple((name, folded(expr)) for name, expr in columns)
                return node if made == columns else replace(node, columns=made)
            case _:
                return node

    return transform(root, change)


def folded(node: Node) -> Node:
    """Return an expression with the same values and less work; ``node`` itself if there is none."""
    if not isinstance(node, Call) or not is_built_in(node):
        return node
    args = tuple(folded(arg) for arg in node.args)
    node = node if args == node.args else replace(node, args=args)
    match node.function:
        case "and":
            return _absorbed(node, unit=TRUE, zero=FALSE)
        case "or":
            return _absorbed(node, unit=FALSE, zero=TRUE)
        case "not" if isinstance(args[0], Call) and args[0].function == "not":
            return args[0].args[0]
        case "when":
            return _chosen(node)
        case _:
            return _computed(node)


def _absorbed(node: Call, *, unit: Node, zero: Node) -> Node:
    """Simplify ``and`` or ``or``: drop ``unit`` literals; a ``zero`` literal is the result."""
    left, right = node.args
    for literal, other in ((left, right), (right, left)):
        if literal == unit:
            return other
        if literal == zero and not may_fail(other):
            return zero
    return _computed(node)


def _chosen(node: Call) -> Node:
    """Drop conditions that are never true, and all after the first that is always true."""
    args = list(node.args)
    at = 0
    while at < len(args) - 1:  # terminates: ``at`` grows or ``args`` shrinks
        condition, value, rest = args[at], args[at + 1], args[at + 2 :]
        if isinstance(condition, Literal) and condition != TRUE and not may_fail(value):
            args[at : at + 2] = []
        elif condition == TRUE and not any(may_fail(arg) for arg in rest):
            args[at:] = [value]
        else:
            at += 2
    if len(args) == 1:
        return args[0]
    return _computed(node if len(args) == len(node.args) else replace(node, args=tuple(args)))


def _computed(node: Call) -> Node:
    """Return the literal result of a call on literals, if a literal can hold it exactly."""
    if not node.args or not all(isinstance(arg, Literal) for arg in node.args):
        return node
    try:
        value = node.evaluate(ONE_ROW)[0]
        literal = Literal(value.as_py(), node.type) if _is_exact(node.type) else None
    except (EvaluationError, OverflowError):  # Python's datetime covers the years 1 to 9999 only
        return node
    return literal if literal is not None and literal.value(ONE_ROW).equals(value) else node


def _is_exact(kind: pa.DataType) -> bool:
    """Return whether a value of this type is unchanged after a conversion to Python and back."""
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return bool(kind.unit == "us")
    return bool(
        pa.types.is_boolean(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_float64(kind)
        or pa.types.is_string(kind)
        or pa.types.is_date32(kind)
    )
