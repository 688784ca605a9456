"""``when(c).then(x).when(d).then(y).otherwise(z)``: a value by the first condition that holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.api.expressions import Expr, as_node
from planner.expressions.nodes import Call, Node

if TYPE_CHECKING:
    from planner.api.expressions import ExprLike


@dataclass(frozen=True, slots=True)
class When:
    """``when(condition)``, waiting for its ``then``."""

    before: tuple[Node, ...]
    condition: Node

    def then(self, value: ExprLike) -> Then:
        """The value where the condition holds."""
        return Then((*self.before, self.condition, as_node(value)))


@dataclass(frozen=True, slots=True)
class Then:
    """Pairs of condition and value; ``otherwise`` makes them an expression."""

    pairs: tuple[Node, ...]

    def when(self, condition: ExprLike) -> When:
        """Another condition, asked where none before it holds."""
        return When(self.pairs, as_node(condition))

    def otherwise(self, value: ExprLike) -> Expr:
        """The value where no condition holds (``None``: null)."""
        return Expr(Call("when", (*self.pairs, as_node(value))))


def when(condition: ExprLike) -> When:
    """``when(c).then(x).when(d).then(y).otherwise(z)``."""
    return When((), as_node(condition))
