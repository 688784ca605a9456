"""``when(c).then(x).when(d).then(y).otherwise(z)``: the value of the first true condition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.api.expressions import Expr, as_node
from planner.expressions.nodes import Call, Node

if TYPE_CHECKING:
    from planner.api.expressions import ExprLike


@dataclass(frozen=True, slots=True)
class When:
    """``when(condition)``, which needs a ``then``."""

    before: tuple[Node, ...]
    condition: Node

    def then(self, value: ExprLike) -> Then:
        """Set the value for rows where the condition is true."""
        return Then((*self.before, self.condition, as_node(value)))


@dataclass(frozen=True, slots=True)
class Then:
    """Pairs of condition and value; ``otherwise`` makes them an expression."""

    pairs: tuple[Node, ...]

    def when(self, condition: ExprLike) -> When:
        """Add a condition for rows where no earlier condition is true."""
        return When(self.pairs, as_node(condition))

    def otherwise(self, value: ExprLike) -> Expr:
        """Set the value for rows where no condition is true (``None``: null)."""
        return Expr(Call("when", (*self.pairs, as_node(value))))


def when(condition: ExprLike) -> When:
    """Begin a choice: ``when(c).then(x).when(d).then(y).otherwise(z)``."""
    return When((), as_node(condition))
