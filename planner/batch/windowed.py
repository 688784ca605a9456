"""Aggregates by key and window as Spark's groups, and the times in which a key is active."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.functions import expr

from planner.batch.spark_sql.aggregates import register, take_of
from planner.batch.spark_sql.frame import Frame
from planner.batch.temporal import clock_windows, data_windows
from planner.batch.temporal.lifetimes import moved
from planner.logical import nodes as logical
from rstream.items.batch import VE, VS
from rstream.types import INF_TIME

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from planner.logical.windows import RunningSession, SessionWindow


def of_clock(node: logical.WindowAgg, below: Frame) -> Frame:
    """Copy each event to every window that its lifetime overlaps, then group."""
    bounded = below.df.selectExpr("*", *clock_windows.bounds(node))
    rows = bounded.selectExpr("*", clock_windows.spread(node))
    return grouped(node, below, rows, ["_window"], clock_windows.lifetime(node), node.size_us)


def grouped(
    node: logical.WindowAgg | logical.DataWindowAgg,
    below: Frame,
    rows: DataFrame,
    by: Sequence[str],
    times: tuple[str, str],
    lifetime_us: int,
    more: Mapping[str, str] | None = None,
    kept: str = "true",
) -> Frame:
    """Aggregate ``rows`` per key and ``by``.

    ``times``: SQL for start and end of a result. ``kept``: the condition for a result. Both may
    read keys, ``by`` and the further aggregates ``more``.
    """
    keys = [below.columns[key] for key in node.keys]
    takes = [take_of(a, i, below) for i, a in enumerate(node.aggregates)]
    for i, aggregate in enumerate(node.aggregates):
        if aggregate.function == "user":
            register(rows.sparkSession, i, aggregate, below.schema)
    partial = {name: sql for take in takes for name, sql in take.partial.items()} | dict(more or {})
    grouped = rows.groupBy(*by, *keys).agg(
        *(expr(f"{sql} as {name}") for name, sql in {"_rows": "count(1)", **partial}.items())
    )
    made = [*keys, *(take.result for take in takes)]
    df = grouped.where(kept).selectExpr(
        f"{times[0]} as `{VS}`",
        f"{times[1]} as `{VE}`",
        *(f"{sql} as c{i}" for i, sql in enumerate(made)),
    )
    return Frame(df, node.schema, lifetime_us)


def sessions(node: logical.DataWindowAgg, window: SessionWindow, below: Frame) -> Frame:
    """Add the start of its session to each event, then group."""
    rows = _in_sessions(node, window, below)
    more = {"_end": data_windows.session_end(window.max_us)}
    lifetime_us = min(INF_TIME, below.lifetime_us + window.gap_us)
    return grouped(node, below, rows, ["_start"], ("_start", "_end"), lifetime_us, more)


def running_sessions(node: logical.DataWindowAgg, window: RunningSession, below: Frame) -> Frame:
    """Copy each event to its own start and all later starts of its session, then group by start."""
    keys = [below.columns[key] for key in node.keys]
    rows = _in_sessions(node, window, below)
    steps = rows.groupBy(*keys, "_start", VS).agg(expr("max(_running) as _until"))
    steps = steps.selectExpr(
        *(f"{key} as s{key}" for key in keys),
        "_start as _of",
        f"{VS} as _from",
        f"{data_windows.step_end(keys, window.max_us)} as _to",
    )
    on = [*(f"{key} <=> s{key}" for key in keys), "_start = _of", f"{VS} <= _from"]
    joined = rows.join(steps, on=expr(" and ".join(on)), how="inner")
    lifetime_us = min(INF_TIME, below.lifetime_us + window.gap_us)
    return grouped(node, below, joined, ["_from", "_to"], ("_from", "_to"), lifetime_us)


def _in_sessions(
    node: logical.DataWindowAgg, window: SessionWindow | RunningSession, below: Frame
) -> DataFrame:
    """Add to each event the start of its session and the end of the key's activity so far."""
    keys = [below.columns[key] for key in node.keys]
    rows = _with_islands(below.df, keys, moved(f"({VE} - 1L)", window.gap_us), touch=False)
    if window.max_us is None:
        return rows.selectExpr("*", "_island as _start")
    found = expr(f"{data_windows.cuts(window.max_us)} as _cuts")
    cuts = rows.groupBy(*keys, "_island").agg(found)
    cuts = cuts.selectExpr(*(f"{key} as s{key}" for key in keys), "explode(_cuts) as _cut")
    on = expr(" and ".join([*(f"{key} <=> s{key}" for key in keys), f"{VS} = _cut"]))
    rows = rows.join(cuts, on=on, how="left").drop(*(f"s{key}" for key in keys))
    return rows.selectExpr("*", f"{data_windows.session_start(keys)} as _start")


def _with_islands(df: DataFrame, keys: Sequence[str], until: str, *, touch: bool) -> DataFrame:
    """Add ``_island``: the time since which the key has always had an active event."""
    for step in data_windows.islands(keys, until, touch=touch):
        df = df.selectExpr("*", *step)
    return df


def stitched(node: logical.Stitch, below: Frame) -> Frame:
    """Merge events of a key that touch or overlap; keep the payload of the first."""
    keys = [below.columns[name] for name in node.on]
    takes = [
        take_of(logical.Aggregate("first", name, name), i, below)
        for i, name in enumerate(below.schema.names)
    ]
    partial = {name: sql for take in takes for name, sql in take.partial.items()}
    made = [expr(f"{sql} as {name}") for name, sql in partial.items()]
    grouped = _with_islands(below.df, keys, VE, touch=True).groupBy("_island", *keys)
    df = grouped.agg(expr(f"max({VE}) as _end"), *made).selectExpr(
        f"_island as `{VS}`",
        f"_end as `{VE}`",
        *(f"{t.result} as c{i}" for i, t in enumerate(takes)),
    )
    return Frame(df, node.schema, below.lifetime_us)


def counted(node: logical.DataWindowAgg, count: int, below: Frame) -> Frame:
    """Add the number of its window to each event, then group; only full windows remain."""
    keys = [below.columns[key] for key in node.keys]
    payload = list(below.columns.values())[2:]
    number = data_windows.number(keys, count, below.order)
    checked = (
        "_number"
        if below.has_place
        else data_windows.checked_number(keys, payload, "count_window: events of a key")
    )
    rows = below.df.selectExpr("*", f"{number} as _number")
    rows = rows.selectExpr("*", f"{checked} as _window")
    more = {"_from": f"min({VS})", "_to": data_windows.after_last()}
    kept = f"_rows = {count}"
    lifetime_us = below.lifetime_us * min(count, 1_000)
    return grouped(node, below, rows, ["_window"], ("_from", "_to"), lifetime_us, more, kept)
