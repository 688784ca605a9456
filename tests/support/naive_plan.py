"""The definition of a logical plan: rows in a list, nested loops, no time order.

It shares only the expressions with the real planner. Random plans for it come from
:mod:`tests.support.random_plans`.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from planner.logical import nodes as plans
from planner.logical.windows import CountWindow, RunningSession, SessionWindow
from rstream.items.batch import EVENT, KIND, VE, VS, event_schema
from tests.support import naive, naive_lifetimes, naive_windows
from tests.support.naive_lifetimes import naive_lifetime_rows
from tests.support.random_user_code import naive_user_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.expressions.nodes import Node
    from planner.logical.nodes import (
        Aggregate,
        DataWindowAgg,
        IntervalJoin,
        Join,
        LogicalNode,
        WindowAgg,
    )

Row = dict[str, Any]


def naive_rows(node: LogicalNode) -> list[Row]:
    """The events of a plan without exchanges, unordered."""
    match node:
        case plans.Source():
            assert node.spec.items is not None
            rows = [r for r in node.spec.items.to_pylist() if r[KIND] == EVENT]
            return [{name: v for name, v in r.items() if name != KIND} for r in rows]
        case plans.Filter(input=below, predicate=predicate):
            rows = naive_rows(below)
            return [
                r for r, kept in zip(rows, _values(below, rows, predicate), strict=True) if kept
            ]
        case plans.Project(input=below, columns=columns):
            rows = naive_rows(below)
            values = [_values(below, rows, expr) for _, expr in columns]
            names = [name for name, _ in columns]
            return [
                {VS: r[VS], VE: r[VE], **dict(zip(names, new, strict=True))}
                for r, *new in zip(rows, *values, strict=True)
            ]
        case plans.Explode(input=below, column=column):
            return [{**r, column: v} for r in naive_rows(below) for v in r[column] or ()]
        case plans.Union(branches=branches):
            names = node.schema.names
            rows = [r for branch in branches for r in naive_rows(branch)]
            return [{VS: r[VS], VE: r[VE], **{n: r[n] for n in names}} for r in rows]
        case plans.Join():
            return _join(node)
        case plans.IntervalJoin():
            return _by_interval(node)
        case plans.AsOf():
            return naive_lifetimes.as_of(node, *(naive_rows(child) for child in node.inputs))
        case plans.Lifetime() | plans.Stitch() | plans.Clip():
            return naive_lifetime_rows(node, [naive_rows(child) for child in node.inputs])
        case plans.WindowAgg():
            return _aggregate(node)
        case plans.DataWindowAgg():
            return _of_data_windows(node)
        case plans.UserStep():
            return naive_user_rows(node, naive_rows(node.input))
        case plans.Distinct(input=below):
            return naive_lifetimes.firsts(node, naive_rows(below))
        case plans.Limited(input=below, rows=rows):
            return sorted(naive_rows(below), key=lambda row: row[VS])[:rows]
        case plans.Recover(input=below) | plans.Sink(input=below) | plans.Sorted(input=below):
            return naive_rows(below)
    raise AssertionError(node)


def _values(below: LogicalNode, rows: list[Row], expr: Node) -> list[Any]:
    batch = pa.RecordBatch.from_pylist(rows, schema=event_schema(below.schema))
    return expr.evaluate(batch).to_pylist()  # type: ignore[no-any-return]


def _join(node: Join) -> list[Row]:
    out: list[Row] = []
    lefts, rights = naive_rows(node.left), naive_rows(node.right)
    pairs = [(a, b) for a in lefts for b in rights if _meet(node, a, b)]
    matches = [pair for pair, kept in zip(pairs, _conditions(node, pairs), strict=True) if kept]
    if node.how != "inner":
        known = {(id(a), id(b)) for a, b in matches}
        alone = naive_lifetimes.pieces_alone(
            lefts, rights, node.left_on, node.right_on, lambda a, b: (id(a), id(b)) in known
        )
        for row, _ in alone:
            picked = {n: row[c] if side == "left" else None for side, c, n in node.columns}
            out.append({VS: row[VS], VE: row[VE], **picked})
    for a, b in matches if node.how != "anti" else ():
        picked = {n: (a if side == "left" else b)[column] for side, column, n in node.columns}
        out.append({VS: max(a[VS], b[VS]), VE: min(a[VE], b[VE]), **picked})
    return out


def _by_interval(node: IntervalJoin) -> list[Row]:
    lefts, rights = naive_rows(node.left), naive_rows(node.right)
    near = [(a, b) for a in lefts for b in rights if node.lo_us <= b[VS] - a[VS] <= node.hi_us]
    pairs = [pair for pair in near if _alike(node, *pair)]
    pairs = [pair for pair, kept in zip(pairs, _conditions(node, pairs), strict=True) if kept]
    out: list[Row] = []

    def put(time: int, a: Row | None, b: Row | None) -> None:
        sides = {"left": a or {}, "right": b or {}}
        out.append({VS: time, VE: time + 1, **{n: sides[s].get(c) for s, c, n in node.columns}})

    if node.how == "semi":
        for a in lefts:
            firsts = [max(a[VS], b[VS]) for one, b in pairs if one is a]
            put(min(firsts), a, None) if firsts else None
    elif node.how != "anti":
        for a, b in pairs:
            put(max(a[VS], b[VS]), a, b)
    met = {id(row) for pair in pairs for row in pair}
    for a in lefts if node.how in ("left", "full", "anti") else ():
        put(a[VS] + max(node.hi_us, 0), a, None) if id(a) not in met else None
    for b in rights if node.how in ("right", "full") else ():
        put(b[VS] + max(-node.lo_us, 0), None, b) if id(b) not in met else None
    return out


def _meet(node: Join, a: Row, b: Row) -> bool:
    """Return whether keys are equal and lifetimes overlap."""
    return _alike(node, a, b) and max(a[VS], b[VS]) < min(a[VE], b[VE])


def _alike(node: Join | IntervalJoin, a: Row, b: Row) -> bool:
    """Whether keys are equal."""
    keys = [(a[m], b[n]) for m, n in zip(node.left_on, node.right_on, strict=True)]
    return all(v is not None and v == w for v, w in keys)


def _conditions(node: Join | IntervalJoin, pairs: Sequence[tuple[Row, Row]]) -> list[bool]:
    """Return for each pair whether the condition of a join is true."""
    if node.where is None or not pairs:
        return [True] * len(pairs)
    of = {"left": node.left.schema, "right": node.right.schema}
    schema = pa.schema([(n, of[side].field(c).type) for side, c, n in node.reads])
    rows = [
        {VS: 0, VE: 1, **{n: (a if side == "left" else b)[c] for side, c, n in node.reads}}
        for a, b in pairs
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=event_schema(schema))
    return [value is True for value in node.where.evaluate(batch).to_pylist()]


def _aggregate(node: WindowAgg) -> list[Row]:
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in naive_rows(node.input):
        # The first window that ends after vs; windows begin at multiples of every.
        k = (row[VS] - node.size_us) // node.every_us + 1
        while k * node.every_us < row[VE]:
            groups[(k, *(row[key] for key in node.keys))].append(row)
            k += 1
    return [
        {
            VS: k * node.every_us,
            VE: k * node.every_us + node.size_us,
            **dict(zip(node.keys, keys, strict=True)),
            **{a.output: _result(a, rows) for a in node.aggregates},
        }
        for (k, *keys), rows in groups.items()
    ]


def _of_data_windows(node: DataWindowAgg) -> list[Row]:
    """Sort rows by start. Rows with equal starts must be equal, or their order would matter."""
    rows = sorted(naive_rows(node.input), key=lambda row: row[VS])
    windows: Callable[[Sequence[Row]], list[naive_windows.Seen]]
    match node.window:
        case SessionWindow(gap_us, max_us):
            windows = partial(naive_windows.sessions, gap=gap_us, longest=max_us)
        case RunningSession(gap_us, max_us):
            windows = partial(naive_windows.running_sessions, gap=gap_us, longest=max_us)
        case CountWindow(count):
            windows = partial(naive_windows.counts, n=count)
        case _:
            windows = naive_windows.snapshots
    specs = [a.spec for a in node.aggregates]
    return naive_windows.results(rows, node.keys, specs, windows)


def _result(aggregate: Aggregate, rows: list[Row]) -> Any:
    spec = aggregate.spec
    return naive.aggregate(spec.function, spec.column, rows, argument=spec.argument)
