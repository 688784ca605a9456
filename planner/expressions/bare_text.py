"""Expressions as text, without the parentheses around the whole expression."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.expressions.nodes import Call

if TYPE_CHECKING:
    from planner.expressions.nodes import Node


def bare(node: Node) -> str:
    """Return the node as text, without parentheses around the whole."""
    text = str(node)
    infix = isinstance(node, Call) and len(node.args) == 2 and text.startswith("(")
    if isinstance(node, Call) and node.function == "cast" and len(node.args) == 1:
        return bare(node.args[0]) if text == str(node.args[0]) else text
    return text[1:-1] if infix and text.endswith(")") and _closes_last(text) else text


def _closes_last(text: str) -> bool:
    """Return whether the first parenthesis is closed by the last character."""
    depth = 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return at == len(text) - 1
    return False
