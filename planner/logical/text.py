"""A logical plan as text: one line per node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.logical.traversal import NodeMap, readers

if TYPE_CHECKING:
    from planner.logical.nodes import LogicalNode


class Descriptions:
    """Describes each node once: the plan before a rule and the plan after it share most nodes."""

    def __init__(self) -> None:
        self._known: NodeMap[str] = NodeMap()

    def __call__(self, node: LogicalNode) -> str:
        """Return the line of a node."""
        if node not in self._known:
            self._known[node] = node.describe()
        return self._known[node]


def logical_text(root: LogicalNode, describe: Descriptions | None = None) -> str:
    """Return the plan as an indented tree; a shared subplan is written once, then referred to."""
    describe = describe or Descriptions()
    lines: list[str] = []
    names: NodeMap[int] = NodeMap()
    counts = readers(root)

    def write(node: LogicalNode, depth: int) -> None:
        pad = "  " * depth
        if node in names:
            lines.append(f"{pad}see #{names[node]}")
            return
        mark = ""
        if counts[node] > 1:
            names[node] = len(names) + 1
            mark = f"#{names[node]} "
        lines.append(f"{pad}{mark}{describe(node)}")
        for child in node.inputs:
            write(child, depth + 1)

    write(root, 0)
    return "\n".join(lines) + "\n"
