"""What a logical plan means, computed the dumb way: rows in a list, nested loops, no time order.

It shares the expressions with the real thing, and nothing else. Random plans for it come from
:func:`streams`.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import strategies as st

from planner import Stream, agg, col, event, hopping, lit, session, snapshot, tumbling, when
from planner import logical as plans
from planner.windows import CountWindow, SessionWindow
from rstream.batch import EVENT, KIND, VE, VS, event_schema
from tests.support import naive_lifetimes, naive_windows
from tests.support.naive_lifetimes import naive_lifetime_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.logical import Aggregate, DataWindowAgg, Join, LogicalNode, WindowAgg
    from planner.nodes import Node
    from planner.windows import AnyWindow

Row = dict[str, Any]


def naive_rows(node: LogicalNode) -> list[Row]:
    """The events of a plan that holds no exchange, in any order."""
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
        case plans.Lifetime() | plans.Stitch() | plans.Clip():
            return naive_lifetime_rows(node, [naive_rows(child) for child in node.inputs])
        case plans.WindowAgg():
            return _aggregate(node)
        case plans.DataWindowAgg():
            return _of_data_windows(node)
        case plans.Sink(input=below):
            return naive_rows(below)
    raise AssertionError(node)


def _values(below: LogicalNode, rows: list[Row], expr: Node) -> list[Any]:
    batch = pa.RecordBatch.from_pylist(rows, schema=event_schema(below.schema))
    return expr.evaluate(batch).to_pylist()  # type: ignore[no-any-return]


def _join(node: Join) -> list[Row]:
    out: list[Row] = []
    lefts, rights = naive_rows(node.left), naive_rows(node.right)
    if node.how != "inner":
        sides = (lefts, rights, node.left_on, node.right_on)
        for row, _ in naive_lifetimes.pieces_alone(*sides, partial(_is_match, node)):
            alone = {n: row[c] if side == "left" else None for side, c, n in node.columns}
            out.append({VS: row[VS], VE: row[VE], **alone})
    if node.how == "anti":
        return out
    for a in lefts:
        for b in rights:
            start, end = max(a[VS], b[VS]), min(a[VE], b[VE])
            keys = [(a[m], b[n]) for m, n in zip(node.left_on, node.right_on, strict=True)]
            equal = all(v is not None and v == w for v, w in keys)
            if start < end and equal and _is_match(node, a, b):
                picked = {
                    name: (a if side == "left" else b)[column]
                    for side, column, name in node.columns
                }
                out.append({VS: start, VE: end, **picked})
    return out


def _is_match(node: Join, left: Row, right: Row) -> bool:
    """Whether the condition of a join is true of a pair."""
    if node.where is None:
        return True
    of = {"left": (left, node.left.schema), "right": (right, node.right.schema)}
    schema = pa.schema([(n, of[side][1].field(c).type) for side, c, n in node.reads])
    row = {VS: 0, VE: 1, **{name: of[side][0][column] for side, column, name in node.reads}}
    batch = pa.RecordBatch.from_pylist([row], schema=event_schema(schema))
    return node.where.evaluate(batch)[0].as_py() is True


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
    """Rows by start; those that start together must be alike or their order would matter."""
    rows = sorted(naive_rows(node.input), key=lambda row: row[VS])
    windows: Callable[[Sequence[Row]], list[naive_windows.Seen]]
    match node.window:
        case SessionWindow(gap_us, max_us):
            windows = partial(naive_windows.sessions, gap=gap_us, longest=max_us)
        case CountWindow(count):
            windows = partial(naive_windows.counts, n=count)
        case _:
            windows = naive_windows.snapshots
    specs = [a.spec for a in node.aggregates]
    return naive_windows.results(rows, node.keys, specs, windows)


def _result(aggregate: Aggregate, rows: list[Row]) -> Any:
    if aggregate.column is None:
        return len(rows)
    values = [r[aggregate.column] for r in rows if r[aggregate.column] is not None]
    if aggregate.function == "count":
        return len(values)
    if not values:
        return None
    if aggregate.function == "mean":
        return sum(values) / len(values)
    return {"sum": sum, "min": min, "max": max}[aggregate.function](values)  # type: ignore[operator]


def _base(name: str, spans: bool, partitions: int) -> Stream:
    """Twelve events with nulls; ``k`` has four values and is not of one type in all streams."""
    kinds = {"points": "int64", "spans": "int32", "more": "int64"}
    items = [
        event(
            i * 3,
            i * 3 + (1 + (i * 5) % 11 if spans else 1),
            k=i % 4 if i % 7 else None,
            x=(i * 37) % 11 - 3 if i % 5 else None,
            s=" ".join("ab"[(i + j) % 2] for j in range(i % 3)),
        )
        for i in range(12)
    ]
    schema = {"k": kinds[name], "x": "int64", "s": "string"}
    return Stream.from_items(schema, items, partitions=partitions).name(name)


_BASES = {
    "points": _base("points", spans=False, partitions=2),
    "spans": _base("spans", spans=True, partitions=3),
    "more": _base("more", spans=True, partitions=1),
}


@st.composite
def streams(draw: st.DrawFn, steps: int = 5, temporal: bool = False) -> Stream:
    """A random query over columns ``k``, ``x`` (integers) and ``s`` (text), which it always has.

    ``temporal``: also with changed lifetimes, clips, stitches, left and anti joins.
    """
    kinds = [*_STEPS, *(_TEMPORAL_STEPS if temporal else ())]
    hows = ["inner", "left", "anti"] if temporal else ["inner"]
    stream = _BASES[draw(st.sampled_from(sorted(_BASES)))]
    for _ in range(draw(st.integers(0, steps))):
        kind = draw(st.sampled_from(kinds))
        if kind == "filter":
            stream = stream.filter(draw(_predicates()))
        elif kind == "change":
            stream = stream.select(**draw(_changes()))
        elif kind == "words":
            stream = stream.with_columns(s=col("s").str.split()).explode("s")
        elif kind == "union":
            other = draw(
                st.one_of(st.just(stream.filter(draw(_predicates()))), streams(1, temporal))
            )
            stream = stream.union(other.select("s", "x", k=col("k").cast(int)))
        elif kind == "join" and _size(stream.plan) < 4:
            other = draw(st.one_of(st.just(stream), streams(1, temporal)))
            how = draw(st.sampled_from(hows))
            joined = stream.join(other, on=draw(st.sampled_from(["k", ["k", "s"]])), how=how)
            stream = joined.select("k", "x", s=col("s") if draw(st.booleans()) else lit("b"))
        elif kind == "lifetime":
            stream = draw(st.sampled_from(_LIFETIMES))(stream)
        elif kind == "clip":
            other = draw(st.one_of(st.just(stream), streams(1, temporal)))
            stream = stream.clip(other, on=draw(st.sampled_from(["k", ["k", "s"]])))
            stream = stream.select("k", "x", "s")
        elif kind == "group":
            stream = draw(_grouped(stream))
    return stream


_STEPS = ["filter", "change", "words", "union", "join", "group"]
_TEMPORAL_STEPS = ["lifetime", "clip", "join"]
_LIFETIMES: list[Callable[[Stream], Stream]] = [
    lambda stream: stream.shift(7),
    lambda stream: stream.shift(-4),
    lambda stream: stream.set_duration(6),
    lambda stream: stream.set_duration(1),
    lambda stream: stream.extend(3),
    lambda stream: stream.extend(-2),
    lambda stream: stream.point_at_end(),
    lambda stream: stream.chop(5, 2),
    # Over all columns, as the payload of an island's first event depends on the order of ties.
    lambda stream: stream.stitch(),
    lambda stream: stream.select("k", x=lit(1), s=lit("a")).stitch("k"),
]


def _size(node: LogicalNode) -> int:
    """Joins in a plan, which multiply its rows."""
    return isinstance(node, plans.Join) + sum(_size(child) for child in node.inputs)


def _predicates() -> st.SearchStrategy[Any]:
    return st.sampled_from(
        [
            col("x") > 0,
            col("k") < 3,
            (col("k") != 2) & (col("x") < 6),
            (col("x") > 4) | col("s").is_not_null(),
            col("s").str.contains("a"),
            col("_vs") % 2 == 0,
            col("_ve") - col("_vs") > 1,
            col("k").is_null() | (col("s") == "b"),
            lit(True),
        ]
    )


def _changes() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "k": st.sampled_from([col("k"), col("x"), col("k") % 2, lit(1)]),
            "x": st.sampled_from([col("x"), col("k"), col("x") * 2 + col("k"), col("_vs")]),
            "s": st.sampled_from(
                [col("s"), col("s").str.upper(), when(col("x") > 0).then("a").otherwise(None)]
            ),
        }
    )


@st.composite
def _grouped(draw: st.DrawFn, stream: Stream) -> Stream:
    keys = draw(st.sampled_from([["k"], ["s"], ["k", "s"], ["s", "k"], []]))
    clock: list[AnyWindow] = [tumbling(10), hopping(10, 5), hopping(4, 6), hopping(7, 3)]
    window = draw(st.sampled_from([*clock, snapshot(), session(6), session(3, max=8)]))
    made = stream.group_by(*keys).window(window).agg(
        n=agg.count(),
        total=agg.sum("x"),
        low=agg.min("x"),
        word=agg.max("s"),
        mean=agg.mean(col("x") + 1),
    )  # fmt: skip
    k = col("k") if "k" in keys else col("n")
    s = col("s") if "s" in keys else col("word")
    x = draw(st.sampled_from([col("n"), col("total"), col("low"), col("mean").round().cast(int)]))
    return made.select(k=k, x=x, s=s)
