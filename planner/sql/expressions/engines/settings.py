"""Arguments of functions that must be literals: patterns, digits, units, formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.errors import InvalidPlanError
from planner.expressions.nodes import Call, Literal

if TYPE_CHECKING:
    from planner.api.expressions import Expr


def json_value(value: Expr) -> Expr:
    """Return a value inside of a JSON text; if the JSON is built in the query, the value itself."""
    node = value.node
    is_built = isinstance(node, Call) and node.function == "to_json"
    return type(value)(node.args[0]) if is_built and isinstance(node, Call) else value


def literal(value: Expr, kind: type[Any] | tuple[type[Any], ...], what: str) -> Any:
    """Return the value of a literal of some type.

    Raises:
        InvalidPlanError: the node is not such a literal.
    """
    node = value.node
    if isinstance(node, Literal) and isinstance(node.literal, kind):
        return node.literal
    raise InvalidPlanError(f"{value} cannot be {what}: write a literal")


def words(value: Expr, what: str = "a pattern") -> str:
    """Return the value of a literal string."""
    return str(literal(value, str, what))


def whole(value: Expr, what: str = "a number of characters") -> int:
    """Return the value of a literal integer."""
    return int(literal(value, int, what))
