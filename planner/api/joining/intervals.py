"""Builds interval joins: the keys and columns of joins, and bounds on the time between rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.api.joining.pairs import (
    INTERVAL_KINDS,
    Keys,
    OutputColumns,
    pair_columns,
    paired_keys,
    read_columns,
    with_common_keys,
    with_one_key,
)
from planner.api.names import resolved_predicate
from planner.durations import duration_us
from planner.errors import InvalidPlanError
from planner.expressions.nodes import Call, Column, Node, resolve
from planner.logical.nodes import Filter, IntervalJoin, LogicalNode, Project
from rstream.types import INF_TIME

if TYPE_CHECKING:
    from planner.api.expressions import ExprLike
    from planner.durations import Duration

Within = tuple["Duration", "Duration"]


def interval_nodes(
    left: LogicalNode,
    right: LogicalNode,
    by: tuple[Keys, Keys, Keys],
    how: str,
    where: ExprLike | None,
    within: Within,
) -> LogicalNode:
    """Return the interval join of two plans; see :meth:`planner.Stream.join`."""
    kind = next((k for k in INTERVAL_KINDS if k == how), None)
    if kind is None:
        known = ", ".join(f'"{k}"' for k in INTERVAL_KINDS)
        raise InvalidPlanError(f"join(how={how!r}, within=...): choose one of {known}")
    bounds = _bounds(within)
    merged: dict[str, str] = {}
    if all(keys is None for keys in by):
        columns = pair_columns(left, right, ())
        sides_and_keys = with_one_key(left, right)
    else:
        keys = paired_keys(*by)
        is_shared = by[0] is not None
        columns = pair_columns(left, right, keys[1] if is_shared else ())
        sides_and_keys = with_common_keys(left, right, *keys)
        if is_shared and kind == "right":
            columns = tuple(("right", c, n) if n in keys[0] else (s, c, n) for s, c, n in columns)
        if is_shared and kind == "full":
            columns, merged = _with_right_keys(columns, keys[1])
    pairs = IntervalJoin(*sides_and_keys, columns, *bounds)
    kept = columns
    if kind in ("semi", "anti"):
        kept = tuple(column for column in columns if column[0] == "left")
    joined: LogicalNode = replace(pairs, columns=kept, how=kind)
    if where is not None:
        condition = resolved_predicate(where, pairs.schema)
        reads = read_columns(condition, columns)
        if kind == "inner":
            return Filter(pairs, condition)
        joined = replace(pairs, columns=kept, how=kind, where=condition, reads=reads)
    return _with_merged(joined, merged) if merged else joined


def _bounds(within: Within) -> tuple[int, int]:
    """Return the bounds in microseconds."""
    if not isinstance(within, tuple | list) or len(within) != 2:
        raise InvalidPlanError(
            f'join(within={within!r}): set two durations, such as within=("-4h", "0s"): '
            "the least and the most by which the other row may be later than this "
            "stream's row"
        )
    lo, hi = (duration_us(part, what="within") for part in within)
    if lo > hi:
        raise InvalidPlanError(
            f"join(within={within!r}): the first bound must not exceed the second"
        )
    return max(lo, -INF_TIME), min(hi, INF_TIME)


def _with_right_keys(
    columns: OutputColumns, keys: tuple[str, ...]
) -> tuple[OutputColumns, dict[str, str]]:
    """Append the right keys to the columns; return the columns and the names of the right keys."""
    taken = {name for _, _, name in columns}
    merged: dict[str, str] = {}
    for key in dict.fromkeys(keys):
        name = f"{key} of the other side"
        while name in taken:  # terminates: ``taken`` is finite
            name += "'"
        taken.add(name)
        merged[key] = name
        columns = (*columns, ("right", key, name))
    return columns, merged


def _with_merged(joined: LogicalNode, merged: dict[str, str]) -> LogicalNode:
    """Merge left and right keys into one column each: the key of the side that has a row."""
    hidden = set(merged.values())
    made: list[tuple[str, Node]] = []
    for field in joined.schema:
        if field.name in merged:
            either = Call("coalesce", (Column(field.name), Column(merged[field.name])))
            made.append((field.name, resolve(either, joined.schema)))
        elif field.name not in hidden:
            made.append((field.name, Column(field.name, field.type)))
    return Project(joined, tuple(made))
