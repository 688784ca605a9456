"""Recognises windows among the keys of GROUP BY."""

from __future__ import annotations

from sqlglot import exp

#: Window function among the keys -> the one in FROM, and whether its slide is first there.
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
