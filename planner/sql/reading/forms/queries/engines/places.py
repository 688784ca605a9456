"""Places in the text of nodes that the text does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp


def place(made: exp.Expr, at: exp.Expr) -> None:
    """Show a new tree in messages where a node of the text is."""
    found = next((node.meta for node in at.walk() if "start" in node.meta), None)
    if found is None:
        return
    for part in made.walk():
        for key in ("start", "end"):
            part.meta.setdefault(key, found[key])


def replaced(node: exp.Expr, made: exp.Expr) -> None:
    """Replace a node of the text by a new tree at its place."""
    place(made, node)
    node.replace(made)
