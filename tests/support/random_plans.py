"""Random queries of up to eight operators of all kinds, over small tables of events.

A query has the columns ``k``, ``x`` (integers) and ``s`` (text) after each step, so that any step
may follow any other. There are two families. Rows of the first do not depend on the order of ties,
so the naive evaluator and every parallelism agree. Rows of ``ordered`` queries (count windows,
first and last, stitches that keep the first payload) are repeated only by the same physical plan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import strategies as st

from planner import (
    Stream,
    agg,
    asc,
    col,
    count_window,
    cti,
    desc,
    event,
    hopping,
    lit,
    session,
    snapshot,
    tumbling,
    when,
)
from planner.logical import nodes as plans
from planner.logical.windows import RunningSession
from rstream.types import INF_TIME
from tests.support.random_user_code import Greatest, user_steps

if TYPE_CHECKING:
    from planner.api.inputs.items import Cti, Event
    from planner.logical.nodes import LogicalNode
    from planner.logical.windows import AnyWindow

JOINS_MAX = 3
ROWS = 12
Draw = Callable[[st.SearchStrategy[Any]], Any]


class Spread:
    """An order-independent user aggregate: maximum minus minimum."""

    type = pa.int64()

    def init(self) -> list[int]:
        return []

    def add(self, state: list[int], values: pa.Array) -> list[int]:
        return state + values.drop_null().to_pylist()  # type: ignore[no-any-return]

    def result(self, state: list[int]) -> int | None:
        return max(state) - min(state) if state else None


def _base(name: str, lengths: str, partitions: int, seed: int) -> Stream:
    """Events with nulls, ties and CTIs, out of order between CTIs."""
    random = Random(seed)
    items: list[Event | Cti] = []
    time = -5
    for _ in range(ROWS):
        vs = time + random.randint(0, 6)
        life = {"points": 1, "spans": random.randint(1, 11), "states": random.choice([4, 30, 0])}
        items.append(
            event(
                vs,
                vs + life[lengths] if life[lengths] else int(INF_TIME),
                k=random.randint(0, 3) if random.random() < 0.85 else None,
                x=random.randint(-3, 8) if random.random() < 0.8 else None,
                s=" ".join(random.choice("ab") for _ in range(random.randint(0, 2))),
            )
        )
        if random.random() < 0.4:
            time += random.randint(0, 7)
            items.append(cti(time))
    schema = {"k": "int32" if seed % 2 else "int64", "x": "int64", "s": "string"}
    stream = Stream.from_items(schema, items, partitions=partitions).name(name)
    # The planner assumes that some are large, so the costs in its rules matter.
    return (
        stream.hint(rate=1e6 * (seed + 1), keys={"k": 100 * seed, "s": 1_000}) if seed else stream
    )


BASES = {
    f"{lengths}{seed}": _base(f"{lengths}{seed}", lengths, seed % 3 + 1, seed)
    for seed in range(4)
    for lengths in ("points", "spans", "states")
}


@dataclass(frozen=True)
class Made:
    """A partial query. ``endless``: it may have events that never end."""

    stream: Stream
    endless: bool

    def then(self, stream: Stream) -> Made:
        return Made(stream, self.endless)


@st.composite
def streams(
    draw: st.DrawFn, steps: int = 8, ordered: bool = False, temporal: bool = True
) -> Stream:
    """A random query; ``temporal``: also changes of lifetimes, outer joins, and all windows."""
    made = draw(_made(steps, ordered, temporal))
    assert isinstance(made, Made)
    return made.stream


@st.composite
def _made(draw: st.DrawFn, steps: int, ordered: bool, temporal: bool) -> Made:
    name = draw(st.sampled_from(sorted(n for n in BASES if temporal or "states" not in n)))
    made = Made(BASES[name], name.startswith("states"))
    for _ in range(draw(st.integers(0, steps))):
        choices = [*PLAIN, *(TEMPORAL if temporal else ())]
        kind = draw(st.sampled_from(choices))
        if kind == "chain":
            made = made.then(draw(_chain(made.stream)))
        elif kind in ("join", "clip", "as of", "union"):
            made = draw(_both(made, kind, ordered, temporal))
        elif kind == "window":
            windows = [] if made.endless else CLOCK
            windows = [*windows, *(DATA if temporal else ()), *(COUNTS if ordered else ())]
            made = made.then(draw(_grouped(made.stream, windows, ordered)))
        elif kind == "extreme" and not made.endless:
            made = made.then(draw(_extreme(made.stream)))
        elif kind == "regroup" and not made.endless:
            made = made.then(draw(_regrouped(made.stream)))
        elif kind == "lifetime":
            made = draw(_lifetime(made, ordered))
        elif kind == "running":
            made = Made(draw(_running(made.stream, ordered)), True)
        elif kind == "versions":
            made = draw(_versions(made, ordered))
        elif kind == "user":
            made = made.then(draw(user_steps(made.stream, ordered)))
        elif kind in STATELESS:
            made = made.then(draw(STATELESS[kind](made.stream)))
    return made


PLAIN = [
    "filter",
    "change",
    "words",
    "union",
    "join",
    "chain",
    "window",
    "extreme",
    "user",
    "regroup",
]
TEMPORAL = ["lifetime", "lifetime", "clip", "as of", "join", "running", "versions"]


@st.composite
def _both(draw: st.DrawFn, made: Made, kind: str, ordered: bool, temporal: bool) -> Made:
    """Another query, or the same one, joined to it in some way."""
    stream = made.stream
    if kind != "union" and _joins(stream.plan) >= JOINS_MAX:
        return made
    filtered = made.then(stream.filter(draw(predicates())))
    small = _made(1, ordered, temporal)
    other = draw(st.one_of(st.just(made), st.just(filtered), small))
    if kind == "union":
        both = stream.union(other.stream.select("s", "x", k=col("k").cast(int)))
        return Made(both, made.endless or other.endless)
    on = draw(st.sampled_from([["k"], ["k", "s"]]))
    if kind == "clip":
        return made.then(stream.clip(other.stream, on=on).select("k", "x", "s"))
    if kind == "as of":
        return made.then(draw(_as_of(stream, other.stream, ordered)))
    are_points = stream.plan.is_point and other.stream.plan.is_point
    if are_points or (temporal and draw(st.booleans())):
        return Made(draw(_by_interval(stream, other.stream, on)), False)
    how = draw(st.sampled_from(["inner", "left", "anti"] if temporal else ["inner"]))
    where = draw(st.sampled_from(CONDITIONS)) if draw(st.booleans()) else None
    joined = stream.join(other.stream, on=on, how=how, where=where)
    x = draw(st.sampled_from(["x"] if how == "anti" else ["x", "x_right"]))
    s = col("s") if draw(st.booleans()) else lit("b")
    endless = made.endless and (other.endless or how != "inner")
    return Made(joined.select("k", x=col(x), s=s), endless)


@st.composite
def _by_interval(draw: st.DrawFn, stream: Stream, other: Stream, on: list[str]) -> Stream:
    """A join of rows that start close together."""
    within = draw(st.sampled_from([(0, 0), (0, 6), (-5, 0), (-3, 4), (2, 7), (-8, -1)]))
    how = draw(st.sampled_from(["inner", "left", "right", "full", "semi", "anti"]))
    where = draw(st.sampled_from(CONDITIONS)) if draw(st.booleans()) else None
    joined = stream.join(other, on=on, within=within, how=how, where=where)
    x = draw(st.sampled_from(["x"] if how in ("semi", "anti") else ["x", "x_right"]))
    s = col("s") if draw(st.booleans()) else lit("b")
    return joined.select("k", x=col(x), s=s)


@st.composite
def _as_of(draw: st.DrawFn, stream: Stream, other: Stream, ordered: bool) -> Stream:
    """An as-of join; if different rows have the same start, the plan may choose any of them."""
    by = draw(st.sampled_from([["k"], ["k", "s"]])) if ordered else ["k", "x", "s"]
    strategy = draw(st.sampled_from(["backward", "forward", "nearest"]))
    tolerances = [0, 3, 9] if strategy != "backward" else [None, 0, 4]
    tolerance = draw(st.sampled_from(tolerances))
    how = draw(st.sampled_from(["left", "inner"]))
    found = stream.join_asof(other, by=by, strategy=strategy, tolerance=tolerance, how=how)
    x = draw(st.sampled_from(["x", "x_right"] if ordered else ["x"]))
    return found.select("k", "s", x=col(x))


@st.composite
def _chain(draw: st.DrawFn, stream: Stream) -> Stream:
    """Two inner joins in a row, which the planner may reorder."""
    if _joins(stream.plan) >= JOINS_MAX - 1:
        return stream
    names = st.sampled_from(sorted(BASES))
    one, other = (BASES[draw(names)].select("k", "x") for _ in range(2))
    on = {"left_on": "x", "right_on": "k"} if draw(st.booleans()) else {"on": "k"}
    one, other = (side.set_duration(4) if side.plan.is_point else side for side in (one, other))
    joined = stream.join(one.rename({"x": "y"}), on="k").join(other.rename({"x": "z"}), **on)
    return joined.select("k", "s", x=draw(st.sampled_from([col("x"), col("y"), col("z")])))


@st.composite
def _extreme(draw: st.DrawFn, stream: Stream) -> Stream:
    """Results of windows joined with the greatest or least of them."""
    if _joins(stream.plan) >= JOINS_MAX:
        return stream
    windows = stream.group_by("k", "s").window(draw(st.sampled_from([tumbling(10), hopping(8, 4)])))
    found = windows.agg(x=agg.sum("x"), n=agg.count())
    found = found.set_duration(4) if draw(st.booleans()) else found
    found = found.filter(draw(predicates())) if draw(st.booleans()) else found
    on = draw(st.sampled_from(["x", "n"]))
    pick = draw(st.sampled_from([agg.max, agg.min]))
    best = found.window(draw(st.sampled_from([tumbling(4), tumbling(10), hopping(5, 3)])))
    beside = draw(st.sampled_from([{}, {}, {"rows": agg.count()}, {"low": agg.min("x")}]))
    joined = found.join(best.agg(best=pick(on), **beside), left_on=on, right_on="best")
    return joined.select("k", "x", "s")


@st.composite
def _regrouped(draw: st.DrawFn, stream: Stream) -> Stream:
    """A union of groups with a stream without partitioning, grouped by the same key again."""
    window = draw(st.sampled_from([tumbling(10), hopping(8, 4)]))
    groups = stream.group_by("k").window(window).agg(x=agg.count(), s=agg.max("s"))
    groups = groups.select("s", "x", k=col("k").cast(int))
    names = st.sampled_from(sorted(n for n in BASES if "states" not in n))
    other = BASES[draw(names)].select("s", "x", k=col("k").cast(int))
    both = groups.union(other) if draw(st.booleans()) else other.union(groups)
    found = both.group_by("k").window(draw(st.sampled_from([tumbling(10), session(6)])))
    return found.agg(x=agg.sum("x"), s=agg.min("s")).select("k", "x", "s")


CONDITIONS = [
    col("x") > col("x_right"),
    (col("x") + col("x_right")) % 2 == 0,
    col("x") > 2,
    col("x_right").is_null() | (col("x_right") < 4),
    (col("x") != col("x_right")) & (col("k") != 1),
]


@st.composite
def _lifetime(draw: st.DrawFn, made: Made, ordered: bool) -> Made:
    stream = made.stream
    if made.endless:
        bounded = [stream.set_duration(6), stream.set_duration(1), stream.point_at_end()]
        return Made(draw(st.sampled_from(bounded)), False)
    changes = [
        stream.shift(7),
        stream.shift(-4),
        stream.set_duration(6),
        stream.set_duration(1),
        stream.extend(3),
        stream.extend(-2),
        stream.point_at_end(),
        stream.chop(5, 2),
        # Over all columns, because the payload of the first event of a merged interval depends on
        # ties.
        stream.stitch(),
        stream.stitch("k") if ordered else stream.select("k", x=lit(1), s=lit("a")).stitch("k"),
    ]
    return made.then(draw(st.sampled_from(changes)))


@st.composite
def _running(draw: st.DrawFn, stream: Stream, ordered: bool) -> Stream:
    """Running aggregates, or first rows; rows with equal times are equal."""
    stream = stream.for_ever() if draw(st.booleans()) else stream
    if draw(st.booleans()):
        return draw(_grouped(stream, [], ordered))
    keys = draw(st.sampled_from([["k"], ["s"], []]))
    orders = [[desc("x"), "s", "k"], [asc("s", nulls_first=True), "k", "x"], ["k", asc("x"), "s"]]
    by = draw(st.sampled_from(orders))
    rank = draw(st.sampled_from(["row_number", "rank", "dense_rank"]))
    place = draw(st.sampled_from([None, "place"]))
    found = stream.group_by(*keys).top(draw(st.integers(1, 3)), by, rank=rank, place=place)
    return found if place is None else found.select("k", "s", x=col("place"))


@st.composite
def _versions(draw: st.DrawFn, made: Made, ordered: bool) -> Made:
    """Updated or ordered rows; if rows differ at one time, the plan chooses which comes first."""
    on = draw(st.sampled_from([["k"], ["k", "s"]])) if ordered else ["k", "x", "s"]
    if draw(st.booleans()):
        return made.then(made.stream.sort(draw(st.sampled_from(["x", desc("s")])), "k"))
    if draw(st.booleans()):
        alike = made if ordered else Made(made.stream.set_duration(5), False)
        within = draw(st.sampled_from([None, 1, 6]))
        return alike.then(alike.stream.deduplicate(on, within=within))
    deleted = draw(st.sampled_from([None, col("x") > 3]))
    return Made(made.stream.upserts(on, deleted=deleted), True)


def _joins(node: LogicalNode) -> int:
    """The number of joins in a plan, which multiply its rows."""
    here = isinstance(node, plans.TwoSided)
    return here + sum(_joins(child) for child in node.inputs)


def predicates() -> st.SearchStrategy[Any]:
    return st.sampled_from(
        [
            col("x") > 0,
            lit(2) < col("x"),
            lit(3) >= col("k"),
            col("k") < 3,
            (col("k") != 2) & (col("x") < 6),
            (col("x") > 4) | col("s").is_not_null(),
            col("s").str.contains("a"),
            col("_vs") % 2 == 0,
            col("_ve") - 1 > col("_vs"),
            col("k").is_null() | (col("s") == "b"),
            lit(True),
        ]
    )


@st.composite
def _filter(draw: st.DrawFn, stream: Stream) -> Stream:
    return stream.filter(draw(predicates()))


@st.composite
def _change(draw: st.DrawFn, stream: Stream) -> Stream:
    k = draw(st.sampled_from([col("k"), col("x"), col("k") % 2, lit(1)]))
    x = draw(st.sampled_from([col("x"), col("k"), col("x") % 50 * 2 + col("k"), col("_vs") % 9]))
    text = when(col("x") > 0).then("a").otherwise(None)
    s = draw(st.sampled_from([col("s"), col("s").str.upper(), text]))
    return stream.select(k=k, x=x, s=s)


def _words(stream: Stream) -> st.SearchStrategy[Stream]:
    words = stream.with_columns(s=col("s").str.split())
    placed = words.explode("s", position="at").select("k", "s", x=col("x") + col("at"))
    kept = words.explode("s", outer=True, position="at")
    ends = words.select("k", "x", s=col("s").item(-1))
    return st.sampled_from(
        [
            words.explode("s"),
            words.explode("s", outer=True),
            placed.select("k", "x", "s"),
            kept.select("k", "s", x=col("x") + col("at").fill_null(7)).select("k", "x", "s"),
            ends,
        ]
    )


STATELESS = {"filter": _filter, "change": _change, "words": _words}

CLOCK: list[AnyWindow] = [
    tumbling(10),
    tumbling(9, offset=4),
    hopping(10, 5),
    hopping(4, 6),
    hopping(7, 3, offset=-1),
]
DATA: list[AnyWindow] = [
    snapshot(),
    session(6),
    session(3, max=8),
    session(30),
    session(6, running=True),
    session(4, max=9, running=True),
]
#: Functions that need all rows at once.
WHOLE = ("middle", "user", "great")
COUNTS: list[AnyWindow] = [count_window(1), count_window(3)]


def _near(value: Any, by: float) -> Any:
    """Round a double to an integer, so that it does not depend on the order of additions."""
    return (value * by).round().cast(int)


@st.composite
def _grouped(draw: st.DrawFn, stream: Stream, windows: list[AnyWindow], ordered: bool) -> Stream:
    keys = draw(st.sampled_from([["k"], ["s"], ["k", "s"], ["s", "k"], []]))
    small = col("x") % 7
    # Its powers are exact: other products of many rows have last bits that depend on the order.
    factor = col("x") * 0 + when(col("x") % 3 == 0).then(-2).otherwise(1)
    functions = {
        "n": agg.count(),
        "some": agg.count("x"),
        "total": agg.sum("x"),
        "low": agg.min("x"),
        "word": agg.max("s"),
        "mean": agg.mean(col("x") + 1),
        "product": agg.product(factor),
        "kinds": agg.count_distinct("x"),
        "top": agg.top_k("x", 2),
        "middle": agg.quantile("x", 0.25),
        "spread": agg.variance("x"),
        "deviation": agg.stddev(small, ddof=0),
        "user": agg.user(Spread(), "x"),
        "great": agg.user(Greatest(), col("x").cast(int)),
        "best": agg.max_by("s", "x"),
        "first": agg.first("x"),
        "last": agg.last("x"),
    }
    made = {
        "mean": _near(col("mean"), 997.3),
        "product": _near(col("product") % 1000, 1.0),
        "middle": _near(col("middle"), 8.0),
        "spread": _near(col("spread"), 997.3),
        "deviation": _near(col("deviation"), 997.3),
    }
    window = draw(st.sampled_from(windows)) if windows else None
    refused = () if ordered else ("best", "first", "last")
    refused += WHOLE if isinstance(window, RunningSession) else ()
    known = sorted(f for f in functions if f not in refused)
    picked = draw(st.lists(st.sampled_from(known), min_size=1, max_size=3, unique=True))
    used = {name: functions[name] for name in dict.fromkeys(["n", "word", *picked])}
    grouped = stream.group_by(*keys)
    found = (grouped if window is None else grouped.window(window)).agg(**used)
    k = col("k") if "k" in keys else col("n")
    s = col("s") if "s" in keys else col("word")
    x = draw(st.sampled_from([p for p in picked if p not in ("word", "best")] or ["n"]))
    s = col("best") if "best" in picked else s
    selected = found.select(k=k, x=made.get(x, col(x)), s=s)
    return selected.explode("x") if x == "top" else selected
