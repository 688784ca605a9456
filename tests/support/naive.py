"""Naive evaluators: the definition of a query, row by row over the lifetime table, in Python.

Deliberately slow and obvious. Floats are added in sequence order per unit and per window, so
results are compared bit by bit.
"""

from __future__ import annotations

import collections
import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rstream.types import INF_TIME, MIN_TIME
from rvertex.aggregates.ranked.top_rows import TopOrder

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
                key = tuple(plain(row[k]) for k in keys)
                groups.setdefault((start, *key), []).append(row)
    out = []
    for (start, *_), members in sorted(groups.items(), key=lambda item: order_of_group(item[0])):
        result: Row = {"_vs": start, "_ve": start + size}
        result |= {k: plain(members[0][k]) for k in keys}
        for function, column, output in aggregates:
            result[output] = aggregate(function, column, members, pane)
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


def aggregate(
    function: str,
    column: str | None,
    rows: Sequence[Row],
    pane: int | None = None,
    argument: Any = None,
) -> Any:
    """Compute an aggregate over the rows of one window, in sequence order."""
    if column is None:
        return len(rows)
    values = [row[column] for row in rows]
    if function == "user":
        target = argument.target
        return target.result(target.add(target.init(), pa.array(values)))
    if function == "first":
        return values[0]
    if function == "last":
        return values[-1]
    rows = [row for row in rows if row[column] is not None]
    values = [row[column] for row in rows]
    if function == "count":
        return len(values)
    if function == "count_distinct":
        return len({plain(value) for value in values})
    if not values:
        return None
    if function == "top_rows":
        return _top_rows(values, TopOrder.read(argument))
    if function == "mode":
        return _mode(values)
    if function == "quantile_disc":
        q, way = argument.split(" ")
        ordered = sorted(values, key=_order_of, reverse=way == "desc")
        return ordered[max(math.ceil(Fraction(q) * len(ordered)), 1) - 1]
    if function in ("skewness", "kurtosis"):
        return _shape([float(value) for value in values], 3 if function == "skewness" else 4)
    if function in ("variance", "stddev", "top_k", "quantile", "product"):
        return _of_all(function, values, argument)
    if function == "min":
        return min(values, key=_order_of)
    if function == "max":
        return max(values, key=_order_of)
    total = _sum([(row["_vs"], row[column]) for row in rows], pane)
    return total if function == "sum" else total / len(values)


def _of_all(function: str, values: Sequence[Any], argument: Any) -> Any:
    n = len(values)
    if function == "top_k":
        return sorted(values, key=_order_of, reverse=True)[:argument]
    numbers = [float(value) for value in values]
    if function == "product":
        return math.prod(numbers)
    if function == "quantile":
        ordered = sorted(numbers, key=_order_of)
        place = argument * (n - 1)
        low, share = math.floor(place), place - math.floor(place)
        if share == 0 or ordered[low] == ordered[low + 1]:
            return ordered[low]
        return ordered[low] * (1.0 - share) + ordered[low + 1] * share
    if n <= argument:
        return None
    mean = numbers[0] + _fold([value - numbers[0] for value in numbers]) / n
    deviations = [value - mean for value in numbers]
    square, drift = _fold([d * d for d in deviations]), _fold(deviations)
    spread = square if math.isinf(square) else square - drift * (drift / n)
    variance = (spread if spread > 0 or math.isnan(spread) else 0.0) / (n - argument)
    return variance if function == "variance" else math.sqrt(variance)


def _mode(values: Sequence[Any]) -> Any:
    times = collections.Counter(plain(value) for value in values)
    return min(values, key=lambda value: (-times[plain(value)], _order_of(value)))


def _shape(values: Sequence[float], power: int) -> float | None:
    n = len(values)
    if all(value == values[0] for value in values):
        return None
    apart = [value - values[0] for value in values]
    mean = _fold(apart) / n
    spread = _fold([(value - mean) ** 2 for value in apart]) / n
    shape = _fold([(value - mean) ** power for value in apart]) / n
    return shape / spread ** (power / 2) - (3 if power == 4 else 0)


def _top_rows(values: Sequence[Row], order: TopOrder) -> list[Row]:
    ordered = list(values)
    ordered.sort(key=lambda value: value["vs"])
    for i, (down, first) in reversed([*enumerate(order.ways)]):
        none = [v for v in ordered if v[f"by{i}"] is None]
        some = [v for v in ordered if v[f"by{i}"] is not None]
        some.sort(key=lambda value: _order_of(value[f"by{i}"]), reverse=down)
        ordered = [*none, *some] if first else [*some, *none]
    by = [[value[f"by{i}"] for i in range(len(order.ways))] for value in ordered]
    found = []
    for at, value in enumerate(ordered):
        before = [key for key in by[:at] if key != by[at]]
        distinct = len([key for i, key in enumerate(before) if key not in before[:i]])
        places = {"row_number": at, "rank": len(before), "dense_rank": distinct}
        place = places[order.kind] + 1
        if place <= order.rows:
            copies = [one["row"] == value["row"] for one in ordered[: at + 1]].count(True)
            numbers = (place, at + 1, copies)
            names = order.place_names([*value["row"]])
            found.append({**dict(zip(names, numbers, strict=False)), **value["row"]})
    return found


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
    """Sort key: NaN after numbers, null last."""
    if value is None:
        return (2,)
    if isinstance(value, float) and math.isnan(value):
        return (1,)
    return (0, value)


def order_of_group(group: Sequence[Any]) -> tuple[Any, ...]:
    """Sort key of groups: NaN after numbers, null last."""
    return tuple(_order_of(v) for v in group)


class _NaN(float):
    """A NaN that equals itself, for use as a key."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, float) and math.isnan(other)

    def __hash__(self) -> int:
        return 0


def plain(value: Any) -> Any:
    """The value as a key: NaN equals NaN, -0.0 is 0.0."""
    if isinstance(value, float):
        return _NaN("nan") if math.isnan(value) else value + 0.0
    return value
