"""The changes of a rule to a plan, as lines that ``explain`` prints."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.logical.traversal import topological

if TYPE_CHECKING:
    from planner.logical.nodes import LogicalNode


def step_of(rule: str, why: str, before: LogicalNode, after: LogicalNode) -> RuleStep:
    """Return the difference between two plans, whose texts differ."""
    old, new = _lines(before), _lines(after)
    removed, added = tuple((old - new).elements()), tuple((new - old).elements())
    if not removed and not added:
        removed, added = (), _moved(before, after)
    return RuleStep(rule, why, removed, added)


def _lines(root: LogicalNode) -> Counter[str]:
    return Counter(node.describe() for node in topological(root))


def _moved(before: LogicalNode, after: LogicalNode) -> tuple[str, ...]:
    """Return the nodes that a rule has moved without changing them."""
    places = [Counter(_places(root)) for root in (before, after)]
    return tuple((places[1] - places[0]).elements())


def _places(root: LogicalNode) -> list[str]:
    return [
        f"{node.describe()}, now above {child.describe()}"
        for node in topological(root)
        for child in node.inputs
    ]


@dataclass(frozen=True, slots=True)
class RuleStep:
    """A rule of the optimizer that changed the plan."""

    rule: str
    #: The purpose of the rule.
    why: str
    #: Lines that the rule removed from the plan, and lines that it added, without indentation.
    removed: tuple[str, ...]
    added: tuple[str, ...]
