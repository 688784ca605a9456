"""What has to be a literal among the arguments of a function: patterns, digits, units, formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.errors import InvalidPlanError
from planner.expressions.nodes import Literal

if TYPE_CHECKING:
    from planner.api.expressions import Expr


def literal(value: Expr, kind: type[Any] | tuple[type[Any], ...], what: str) -> Any:
    """The value of a literal of some type.

    Raises:
        InvalidPlanError: it is something else.
    """
    node = value.node
    if isinstance(node, Literal) and isinstance(node.literal, kind):
        return node.literal
    raise InvalidPlanError(f"{value} cannot be {what}: that is a literal")


def words(value: Expr, what: str = "a pattern") -> str:
    """A literal text."""
    return str(literal(value, str, what))


def whole(value: Expr, what: str = "a number of characters") -> int:
    """A literal whole number."""
    return int(literal(value, int, what))
