"""The definition of the lifetime operators and outer joins, row by row over the lifetime table.

Rows are dictionaries with ``_vs`` and ``_ve``, in sequence order; results are in output order, with
the time at which each is due if an operator buffers rows. Deliberately slow and obvious.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from planner.logical import nodes as plans
from rstream.types import INF_TIME
from rvertex.operators.lifetimes.chop import Chop
from rvertex.operators.lifetimes.extend import Extend
from rvertex.operators.lifetimes.extend_by import ExtendBy
from rvertex.operators.lifetimes.point_at_end import PointAtEnd
from rvertex.operators.lifetimes.set_duration import SetDuration
from rvertex.operators.lifetimes.shift import Shift

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Row = dict[str, Any]
#: A row and the least CTI at which its end is certain.
Due = tuple[Row, int]


def chop(rows: Iterable[Row], period: int, offset: int) -> list[Row]:
    """Split row by row: a new piece starts at each cut."""
    out = []
    for row in rows:
        start = row["_vs"]
        for t in range(row["_vs"] + 1, row["_ve"] + 1):
            if t == row["_ve"] or (t - offset) % period == 0:
                out.append({**row, "_vs": start, "_ve": t})
                start = t
    return sorted(out, key=lambda r: r["_vs"])


def points_at_end(rows: Iterable[Row]) -> list[Row]:
    """Return a point per event that ends."""
    ended = [{**r, "_vs": r["_ve"], "_ve": r["_ve"] + 1} for r in rows if r["_ve"] < INF_TIME]
    return sorted(ended, key=lambda r: r["_vs"])


def stitch(rows: Sequence[Row], on: Sequence[str]) -> list[Due]:
    """Merge touching lifetimes, adding one event at a time."""
    islands: list[Row] = []
    for row in rows:
        for island in reversed(islands):
            same = all(island[name] == row[name] for name in on)
            if same and island["_ve"] >= row["_vs"]:
                island["_ve"] = max(island["_ve"], row["_ve"])
                break
        else:
            islands.append(dict(row))
    return [(i, min(i["_ve"] + 1, INF_TIME)) for i in islands]


def clip(
    lefts: Iterable[Row], rights: Sequence[Row], left_on: Sequence[str], right_on: Sequence[str]
) -> list[Due]:
    """Return each left event, ended by its first later match."""
    out = []
    for row in lefts:
        matches = [r["_vs"] for r in rights if _match(row, r, left_on, right_on)]
        later = [m for m in matches if row["_vs"] < m < row["_ve"]]
        end = min(later, default=row["_ve"])
        out.append(({**row, "_ve": end}, end + 1 if later else end))
    return out


def pieces_alone(
    lefts: Sequence[Row],
    rights: Sequence[Row],
    left_on: Sequence[str],
    right_on: Sequence[str],
    where: Callable[[Row, Row], bool] = lambda _left, _right: True,
) -> list[Due]:
    """Return each left event without the lifetimes of its matches, by (start, left order)."""
    out: list[Due] = []
    for row in lefts:
        matches = [r for r in rights if _match(row, r, left_on, right_on) and where(row, r)]
        edges = {row["_vs"], row["_ve"]}
        for r in matches:
            edges |= {t for t in (r["_vs"], r["_ve"]) if row["_vs"] < t < row["_ve"]}
        times = sorted(edges)
        free = [
            (a, b)
            for a, b in itertools.pairwise(times)
            if not any(r["_vs"] <= a < r["_ve"] for r in matches)
        ]
        # Free parts never touch: at each edge a match starts or ends, so one side of it is not
        # free.
        out += [
            ({**row, "_vs": a, "_ve": b}, b + 1 if b < row["_ve"] else b) for a, b in _merged(free)
        ]
    return sorted(out, key=lambda due: due[0]["_vs"])


def held_ctis(ctis: Iterable[int], rows: Sequence[Due]) -> list[int]:
    """Return the increasing CTIs, each at most at the start of the first row not yet due."""
    out: list[int] = []
    for time in ctis:
        held = [r["_vs"] for r, due in rows if r["_vs"] < time and due > time]
        at = min([int(time), *held])
        if not out or at > out[-1]:
            out.append(at)
    return out


def leaving(rows: Sequence[Due], seen: int) -> list[Row]:
    """Return the rows that start before each row that is still buffered at that moment."""
    blocked = min((r["_vs"] for r, due in rows if due > seen), default=INF_TIME)
    return [r for r, _ in rows if r["_vs"] < blocked]


def alive_at(time: int, rows: Iterable[Row]) -> list[Row]:
    """The payloads valid at an instant."""
    return [
        {k: v for k, v in r.items() if k not in ("_vs", "_ve")}
        for r in rows
        if r["_vs"] <= time < r["_ve"]
    ]


def naive_lifetime_rows(
    node: plans.Lifetime | plans.Stitch | plans.Clip, inputs: Sequence[list[Row]]
) -> list[Row]:
    """The rows of a plan's node over the rows of its inputs."""
    rows = sorted(inputs[0], key=lambda r: r["_vs"])
    match node:
        case plans.Stitch(on=on):
            return [row for row, _ in stitch(rows, on)]
        case plans.Clip(left_on=left_on, right_on=right_on):
            return [row for row, _ in clip(rows, inputs[1], left_on, right_on)]
        case plans.Lifetime(change=Chop(period_us=period, offset_us=offset)):
            return chop(rows, period, offset)
        case plans.Lifetime(change=PointAtEnd()):
            return points_at_end(rows)
        case plans.Lifetime(change=Shift(duration_us=d)):
            return [{**r, "_vs": r["_vs"] + d, "_ve": r["_ve"] + d} for r in rows]
        case plans.Lifetime(change=SetDuration(duration_us=d)):
            return [{**r, "_ve": r["_vs"] + d} for r in rows]
        case plans.Lifetime(change=ExtendBy(column=c)):
            return [{**r, "_ve": min(int(INF_TIME), r["_ve"] - 1 + r[c])} for r in rows]
        case plans.Lifetime(change=Extend(duration_us=d)) if d == INF_TIME:
            return [{**r, "_ve": int(INF_TIME)} for r in rows]
        case plans.Lifetime(change=Extend(duration_us=d)):
            return [{**r, "_ve": r["_ve"] + d} for r in rows if r["_ve"] + d > r["_vs"]]
    raise AssertionError(node)


def firsts(node: plans.Distinct, rows: Iterable[Row]) -> list[Row]:
    """Return the first row of each key, and again the first row after the time limit."""
    free: dict[str, int] = {}
    found = []
    for row in sorted(rows, key=lambda row: row["_vs"]):
        key = repr([row[name] for name in node.on])
        if key not in free or row["_vs"] >= free[key]:
            free[key] = row["_vs"] + node.within_us
            found.append(row)
    return found


def as_of(node: plans.AsOf, lefts: Iterable[Row], rights: Sequence[Row]) -> list[Row]:
    """The rows of an as-of join."""
    out = []
    on = (node.left_on, node.right_on)
    for left in sorted(lefts, key=lambda row: row["_vs"]):
        found = nearest_match(left, rights, *on, node.strategy, node.tolerance_us)
        if found is None and node.how == "inner":
            continue
        sides = {"left": left, "right": found}
        picked = {n: (sides[side] or {}).get(column) for side, column, n in node.columns}
        out.append({"_vs": left["_vs"], "_ve": left["_ve"], **picked})
    return out


def nearest_match(
    left: Row,
    rights: Iterable[Row],
    left_on: Sequence[str],
    right_on: Sequence[str],
    strategy: str,
    tolerance: int | None,
) -> Row | None:
    """The right row that an as-of join selects; ``rights`` in stream order."""
    found, least = None, None
    for row in sorted(rights, key=lambda row: row["_vs"]):
        apart = row["_vs"] - left["_vs"]
        is_way = apart == 0 or strategy == "nearest" or (apart > 0) == (strategy == "forward")
        is_near = tolerance is None or abs(apart) <= tolerance
        if not (is_way and is_near and _match(left, row, left_on, right_on)):
            continue
        is_nearer = least is None or abs(apart) < least
        if is_nearer or (abs(apart) == least and strategy != "forward"):
            found, least = row, abs(apart)
    return found


def _match(left: Row, right: Row, left_on: Sequence[str], right_on: Sequence[str]) -> bool:
    pairs = [(left[a], right[b]) for a, b in zip(left_on, right_on, strict=True)]
    return all(a is not None and a == b for a, b in pairs)


def _merged(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for a, b in spans:
        if out and out[-1][1] == a:
            out[-1] = (out[-1][0], b)
        else:
            out.append((a, b))
    return out
