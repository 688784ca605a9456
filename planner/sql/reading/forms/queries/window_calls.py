"""Recognises windows among the keys of GROUP BY."""

from __future__ import annotations

from sqlglot import exp

#: A window function in GROUP BY -> its name in FROM, and whether the slide is its first argument.
GROUPED = {
    "TUMBLE": "TUMBLE",
    "HOP": "HOP",
    "SESSION": "SESSION",
    "WINDOW": "WINDOW",
    "SESSION_WINDOW": "SESSION",
}


def is_window_call(node: exp.Expr) -> bool:
    """Return whether a node is a window among the keys of GROUP BY."""
    return isinstance(node, exp.Anonymous) and node.name.upper() in GROUPED
