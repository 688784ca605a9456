"""Functions of lists and maps in SQL, where places count from 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from planner.api.choices import when
from planner.api.expressions import Expr, lit
from planner.expressions.nodes import Literal

if TYPE_CHECKING:
    from collections.abc import Callable


def nth(values: Expr, place: Expr) -> Expr:
    """The element at a place from 1 on, or from the end, where the last is -1."""
    if isinstance(place.node, Literal) and isinstance(place.node.literal, int):
        at = place.node.literal
        return values.item(lit(None).cast("int64") if at == 0 else at - 1 if at > 0 else at)
    return values.item(when(place > 0).then(place - 1).when(place < 0).then(place).otherwise(None))


CALLS: dict[type[exp.Expr], tuple[tuple[str, ...], Callable[..., Expr]]] = {
    exp.ArrayContains: (("this", "expression"), lambda items, x: items.list.contains(x)),
    exp.ArraySize: (("this",), lambda items: items.list.length()),
    exp.MapKeys: (("this",), lambda m: m.map.keys()),
    exp.MapContainsKey: (("this", "key"), lambda m, k: m.map.contains_key(k)),
}

NAMED: dict[str, Callable[..., Expr]] = {
    "cardinality": lambda held: held.list.length(),
    "size": lambda held: held.list.length(),
    "map_values": lambda m: m.map.values(),
    "map_contains": lambda m, k: m.map.contains_key(k),
    "map_entries": lambda m: m.map.entries(),
    "list_contains": lambda items, x: items.list.contains(x),
}
