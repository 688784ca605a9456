"""Naive evaluators: what a query means, row by row over the lifetime table, in plain Python.

Deliberately slow and obvious. Floats are added in sequence order per unit and per window as
DESIGN.md says, so results are compared bit for bit.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rstream.types import INF_TIME, MIN_TIME

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Row = dict[str, Any]


def windows_of(vs: int, ve: int, *, size: int, every: int) -> list[int]:
    """Starts of the windows ``[kH, kH + S)`` within the time axis that ``[vs, ve)`` overlaps."""
    found = []
    k = (vs - size) // every - 1
    while k * every < ve:
        start = k * every
        if start < ve and vs < start + size and start >= MIN_TIME and start + size <= INF_TIME:
            found.append(start)
        k += 1
    return found


def window_aggregate(
    rows: Sequence[Row],
    *,
    keys: Sequence[str],
    size: int,
    every: int,
    aggregates: Sequence[tuple[str, str | None, str]],
    until: int,
    pane: int | None = None,
) -> list[Row]:
    """Result rows of the windows that end at or before ``until``, in output order.

    ``rows`` are in sequence order; ``aggregates`` are (function, column, output). Floats are added
    per ``pane`` first, if there is one.
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        for start in windows_of(row["_vs"], row["_ve"], size=size, every=every):
            if start + size <= until:
                key = tuple(_plain(row[k]) for k in keys)
                groups.setdefault((start, *key), []).append(row)
    out = []
    for (start, *_), members in sorted(groups.items(), key=lambda item: _order(item[0])):
        result: Row = {"_vs": start, "_ve": start + size}
        result |= {k: _plain(members[0][k]) for k in keys}
        for function, column, output in aggregates:
            result[output] = _aggregate(function, column, members, pane)
        out.append(result)
    return out


def output_ctis(ctis: Iterable[int], *, size: int, every: int) -> list[int]:
    """The start of the earliest window still open at each CTI, when it grows."""
    out: list[int] = []
    for time in ctis:
        start = int(INF_TIME)
        if time != INF_TIME:
            start = ((time - size) // every + 1) * every
            lowest, highest = -(-MIN_TIME // every) * every, (INF_TIME - size) // every * every
            start = min(highest + every, INF_TIME - 1) if start > highest else max(start, lowest)
        if not out or start > out[-1]:
            out.append(start)
    return out


def _aggregate(function: str, column: str | None, rows: Sequence[Row], pane: int | None) -> Any:
    if column is None:
        return len(rows)
    values = [row[column] for row in rows]
    if function == "first":
        return values[0]
    if function == "last":
        return values[-1]
    rows = [row for row in rows if row[column] is not None]
    values = [row[column] for row in rows]
    if function == "count":
        return len(values)
    if not values:
        return None
    if function == "min":
        return min(values, key=_order_of)
    if function == "max":
        return max(values, key=_order_of)
    total = _sum([(row["_vs"], row[column]) for row in rows], pane)
    return total if function == "sum" else total / len(values)


def _sum(values: Sequence[tuple[int, Any]], pane: int | None) -> Any:
    """The sum in sequence order: of all values, or of the sums of each pane."""
    if pane is None:
        return _fold([value for _, value in values])
    panes: dict[int, list[Any]] = {}
    for vs, value in values:
        panes.setdefault(vs // pane, []).append(value)
    return _fold([_fold(members) for members in panes.values()])


def _fold(values: Sequence[Any]) -> Any:
    total = 0.0 if isinstance(values[0], float) else 0
    for value in values:
        total += value
    return total


def _order_of(value: Any) -> tuple[Any, ...]:
    """NaN after numbers, null last."""
    if value is None:
        return (2,)
    if isinstance(value, float) and math.isnan(value):
        return (1,)
    return (0, value)


def _order(group: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(_order_of(v) for v in group)


class _NaN(float):
    """A NaN that equals itself, so that it can be a key."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, float) and math.isnan(other)

    def __hash__(self) -> int:
        return 0


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return _NaN("nan") if math.isnan(value) else value + 0.0
    return value
