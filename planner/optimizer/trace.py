"""Compares a plan before and after a rule, for the lines that ``explain`` prints."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.logical.traversal import topological

if TYPE_CHECKING:
    from planner.logical.nodes import LogicalNode
    from planner.logical.text import Descriptions


def step_of(
    rule: str, why: str, before: LogicalNode, after: LogicalNode, describe: Descriptions
) -> RuleStep:
    """Return the difference between two plans, whose texts differ."""
    old, new = (list(map(describe, topological(root))) for root in (before, after))
    removed, added = _without(old, new), _without(new, old)
    if not removed and not added:  # the nodes are the same, so the rule has only moved them
        added = _without(_places(after, describe), _places(before, describe))
    return RuleStep(rule, why, removed, added)


def _without(lines: list[str], others: list[str]) -> tuple[str, ...]:
    return tuple((Counter(lines) - Counter(others)).elements())


def _places(root: LogicalNode, describe: Descriptions) -> list[str]:
    return [
        f"{describe(node)}, now above {describe(child)}"
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
