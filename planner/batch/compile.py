"""The batch twin: a logical plan as Spark SQL DataFrames, built from Spark's own operators.

Users validate a query with it, and tests compare the stream with it. So it shares only the source
readers and their grid with the stream: expressions are Spark SQL (:mod:`planner.batch.spark_sql`),
a temporal join is an equality join with a condition on the lifetimes, a window aggregate explodes
each event into its windows and groups. The plan is the query's, not optimised.

Differences from the stream: (1) The order of rows is known at the sources, and after steps that
work row by row and keep the order of starts. After any other step, events that start together have
no order. ``first``, ``last``, ``max_by``, count windows, the payload of a stitch, keyed processes
and user operators then raise an error if the result would depend on it, and a user's aggregate gets
its values sorted. (2) Floats are added in any order, so sums and means agree up to rounding. (3)
Expressions are evaluated only where they are needed. (4) All rows of the sources pass through the
driver. (5) RE2 and Java interpret some regular expressions differently.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

from planner.batch import windowed
from planner.batch.firsts import ordered
from planner.batch.intervals import by_interval
from planner.batch.nearest import nearest
from planner.batch.rows import source_events
from planner.batch.spark_sql import UnsupportedInBatchError, explained, physical, restored
from planner.batch.spark_sql.frame import PLACE, Frame
from planner.batch.temporal import data_windows, frames, pairs
from planner.batch.temporal.final_cti import reached
from planner.batch.temporal.lifetimes import gaps, keeps_order, with_change
from planner.batch.user_code.code import with_user_code
from planner.expressions.spark.types import type_name
from planner.logical import nodes as logical
from planner.logical.query import grid_us
from planner.logical.traversal import NodeMap, topological
from planner.logical.windows import CountWindow, RunningSession, SessionWindow
from rstream.items.batch import VE, VS, event_schema
from rstream.types import INF_TIME
from rvertex.host.spark import spark_context

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark import SparkContext


_LIFETIME = [f"`{VS}`", f"`{VE}`"]
_CONF = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.variable.substitute": "false",
}


def collect(
    plan: logical.LogicalNode,
    *,
    master: str | None,
    daemon_module: str,
    parallelism: int,
    cti_every_us: int | None = None,
) -> pa.Table:
    """Return the result of ``plan``: columns ``_vs, _ve, payload``, sorted by all of them.

    Nulls are first. ``cti_every_us``: the grid of the stream's CTIs, if the query sets it.

    Raises:
        UnsupportedInBatchError: the plan has no exact counterpart in Spark SQL.
        BatchDataError: a value that the query cannot handle, or an ambiguous first or last.
        BatchFailedError: any other error that Spark reports.
    """
    session = open_session(spark_context(master, daemon_module))
    try:
        frame = _placeless(compile_plan(plan, session, parallelism, cti_every_us))
        table = frame.df.orderBy(*frame.df.columns).toArrow()
    except (PySparkException, Py4JError) as error:
        raise explained(str(error)) from error
    schema = event_schema(plan.schema)
    arrays = [restored(column, f.type) for column, f in zip(table.columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def open_session(context: SparkContext) -> SparkSession:
    """Open a separate session on the shared context, with the settings that the SQL here needs."""
    session = SparkSession(context).newSession()
    for key, value in _CONF.items():
        session.conf.set(key, value)
    session.conf.set("spark.sql.shuffle.partitions", str(context.defaultParallelism))
    return session


def compile_plan(
    plan: logical.LogicalNode,
    session: SparkSession,
    parallelism: int,
    cti_every_us: int | None = None,
) -> Frame:
    """Return the plan as a DataFrame; reads the sources, runs nothing."""
    every_us = cti_every_us or grid_us(plan)
    frames: NodeMap[Frame] = NodeMap()
    for node in topological(plan):
        if isinstance(node, logical.Source):
            frames[node] = _source(node, session, parallelism, every_us)
            continue
        inputs = [frames[child] for child in node.inputs]
        time = reached(node, [frame.reached for frame in inputs])
        frames[node] = replace(_compile(node, inputs), reached=time)
    return frames[plan]


def _compile(node: logical.LogicalNode, inputs: Sequence[Frame]) -> Frame:
    match node:
        case _ if node.codes or isinstance(node, logical.Match):
            return with_user_code(node, *inputs)
        case logical.Filter(predicate=predicate):
            (below,) = inputs
            return replace(below, df=below.df.where(below.sql(predicate)))
        case logical.Project(columns=columns):
            (below,) = inputs
            made = [below.sql(expr) for _, expr in columns]
            return _selected(below, node.schema, made)
        case logical.Explode(column=column):
            below = _placeless(*inputs)
            made = [
                f"explode({sql})" if name == column else sql
                for name, sql in list(below.columns.items())[2:]
            ]
            return _selected(below, node.schema, made)
        case logical.Union():
            return _union(node, inputs)
        case logical.Lifetime(change=change):
            (below,) = inputs
            below = below if keeps_order(change) else _placeless(below)
            return with_change(below, change)
        case logical.AsOf():
            return nearest(node, *inputs)
        case logical.IntervalJoin():
            return by_interval(node, _joined_on, *inputs)
        case logical.Clip():
            return _clip(node, *inputs)
        case logical.Join(how="inner"):
            return _join(node, *inputs)
        case logical.Join(how="anti"):
            return _anti(node, *inputs)
        case logical.Join(how="left"):
            left, right = inputs
            return _union(node, [_join(node, left, right), _anti(node, left, right)])
        case logical.WindowAgg():
            assert node.phase == "complete", "phases are put in by the optimizer"
            return windowed.of_clock(node, *inputs)
        case logical.DataWindowAgg(window=SessionWindow() as window):
            return windowed.sessions(node, window, *inputs)
        case logical.DataWindowAgg(window=RunningSession() as window):
            return windowed.running_sessions(node, window, *inputs)
        case logical.DataWindowAgg(window=CountWindow(count)):
            return windowed.counted(node, count, *inputs)
        case logical.DataWindowAgg():
            return _snapshots(node, *inputs)
        case logical.Stitch():
            return windowed.stitched(node, *inputs)
        case logical.Distinct():
            return _deduplicated(node, *inputs)
        case logical.Sorted() | logical.Limited():
            return ordered(node, *inputs)
        case logical.Over():
            return frames.over_frames(node, *inputs)
        case logical.Exchange() | logical.Recover() | logical.Sink():
            return inputs[0]
        case _:
            raise UnsupportedInBatchError(type(node).__name__, "it cannot run as a batch yet")


def _selected(below: Frame, schema: pa.Schema, made: Sequence[str]) -> Frame:
    named = [f"{sql} as c{i}" for i, sql in enumerate(made)]
    df = below.df.selectExpr(*_LIFETIME, *named, *below.place)
    return Frame(df, schema, below.lifetime_us, below.has_place)


def _source(
    node: logical.Source, session: SparkSession, parallelism: int, cti_every_us: int
) -> Frame:
    events, last_cti = source_events(node, parallelism, cti_every_us)
    names = [VS, VE, *(f"c{i}" for i in range(len(node.schema))), PLACE]
    columns = [column.cast(physical(column.type)) for column in events.columns]
    columns.append(pa.array(np.arange(events.num_rows)))
    table = pa.Table.from_arrays(columns, names=names)
    lifetime = 1
    if table.num_rows:
        vs, ve = (table[name].to_numpy().astype(float) for name in (VS, VE))
        lifetime = max(1, min(INF_TIME, int((ve - vs).mean())))
    df = session.createDataFrame(table)
    return Frame(df, node.schema, lifetime, has_place=True, reached=last_cti)


def _placeless(below: Frame) -> Frame:
    return replace(below, df=below.df.drop(PLACE), has_place=False)


def _union(node: logical.Union | logical.Join, inputs: Sequence[Frame]) -> Frame:
    df, *others = (_placeless(frame).df for frame in inputs)
    for other in others:
        df = df.unionAll(other)
    return Frame(df, node.schema, max(frame.lifetime_us for frame in inputs))


def _join(node: logical.Join, left: Frame, right: Frame) -> Frame:
    """Return pairs with equal keys and overlapping lifetimes."""
    sides = _pairs(node, left, right, how="inner")
    names = {"left": ("l", left.columns), "right": ("r", right.columns)}
    made = [f"{names[side][0]}{names[side][1][column]}" for side, column, _ in node.columns]
    df = sides.selectExpr(
        f"{pairs.START} as `{VS}`",
        f"{pairs.END} as `{VE}`",
        *(f"{sql} as c{i}" for i, sql in enumerate(made)),
    )
    return Frame(df, node.schema, max(left.lifetime_us, right.lifetime_us))


def _joined_on(left: Frame, right: Frame, conditions: Sequence[str], how: str) -> Frame:
    return replace(left, df=left.df.join(right.df, on=expr(" and ".join(conditions)), how=how))


def _anti(node: logical.Join, left: Frame, right: Frame) -> Frame:
    """Return left events outside the lifetimes of their matches; right columns are null."""
    cover = f"if(r_slice is null, null, named_struct('s', {pairs.START}, 'e', {pairs.END}))"
    grouped = _per_left(node, left, right, f"array_sort(collect_list({cover})) as cover")
    made = [
        left.columns[column] if side == "left" else f"cast(null as {type_name(f.type)})"
        for (side, column, _), f in zip(node.columns, node.schema, strict=True)
    ]
    df = grouped.selectExpr("*", f"explode({gaps('cover')}) as gap").selectExpr(
        f"gap.s as `{VS}`", f"gap.e as `{VE}`", *(f"{sql} as c{i}" for i, sql in enumerate(made))
    )
    return Frame(df, node.schema, left.lifetime_us)


def _clip(node: logical.Clip, left: Frame, right: Frame) -> Frame:
    """End left events at the first later start of a match, regardless of the match's end."""
    starts = replace(right, df=right.df.withColumn(VE, expr(f"{VS} + 1L")), lifetime_us=1)
    later = f"min(if(r{VS} > l{VS}, r{VS}, null)) as cut"
    grouped = _per_left(node, left, starts, later)
    payload = list(left.columns.values())[2:]
    df = grouped.selectExpr(f"`{VS}`", f"coalesce(cut, {VE}) as `{VE}`", *payload)
    return Frame(df, node.schema, left.lifetime_us)


def _per_left(
    node: logical.Join | logical.Clip, left: Frame, right: Frame, aggregate: str
) -> DataFrame:
    """Return each left event once, with an aggregate over its pairs."""
    numbered = replace(left, df=left.df.withColumn("_id", expr("monotonically_increasing_id()")))
    pairs = _pairs(node, numbered, right, how="left")
    kept = [expr(f"any_value(l{name}) as {name}") for name in left.columns.values()]
    return pairs.groupBy("l_id").agg(*kept, expr(aggregate))


def _pairs(node: logical.Join | logical.Clip, left: Frame, right: Frame, *, how: str) -> DataFrame:
    """Return pairs with equal keys and overlapping lifetimes."""
    return _overlapping(pairs.conditions(node, left.columns, right.columns), left, right, how)


def _overlapping(conditions: Sequence[str], left: Frame, right: Frame, how: str) -> DataFrame:
    """Return pairs with overlapping lifetimes for which the conditions are true."""
    slice_us = max(left.lifetime_us, right.lifetime_us)
    on = expr(" and ".join([*conditions, *pairs.MEET]))
    return _sliced(left, "l", slice_us).join(_sliced(right, "r", slice_us), on=on, how=how)


def _sliced(frame: Frame, prefix: str, slice_us: int) -> DataFrame:
    columns, exploded = pairs.slices(frame.df.columns, prefix, slice_us)
    df: DataFrame = frame.df.selectExpr(*columns).selectExpr("*", exploded)
    return df


def _deduplicated(node: logical.Distinct, below: Frame) -> Frame:
    """Keep the first event of each key at each start at which the stream keeps one."""
    if not below.has_place:
        reason = "only the stream knows which event is the first"
        raise UnsupportedInBatchError("deduplicate", reason)
    keys = [below.columns[name] for name in node.on]
    cuts = below.df.groupBy(*keys).agg(expr(f"{data_windows.cuts(node.within_us)} as _cuts"))
    cuts = cuts.selectExpr(*(f"{key} as s{key}" for key in keys), "explode(_cuts) as _cut")
    on = expr(" and ".join([*(f"{key} <=> s{key}" for key in keys), f"{VS} = _cut"]))
    first = f"row_number() {data_windows.over([*keys, VS], f'order by {PLACE}')}"
    rows = below.df.join(cuts, on=on, how="inner").selectExpr("*", f"{first} as _first")
    kept = rows.where("_first = 1").selectExpr(*below.columns.values(), *below.place)
    return replace(below, df=kept)


def _snapshots(node: logical.DataWindowAgg, below: Frame) -> Frame:
    """Copy each event to every endpoint of its key at which it is valid, then group."""
    keys = [below.columns[key] for key in node.keys]
    ends = below.df.selectExpr(f"explode(array({VS}, {VE})) as `{VS}`", *keys).distinct()
    ends = ends.selectExpr("*", f"{data_windows.next_endpoint(keys)} as _next")
    points = ends.where("_next is not null").selectExpr(
        f"{VS}", f"{VS} + 1L as `{VE}`", "_next", *keys
    )
    same = [f"l{key} <=> r{key}" for key in keys]
    overlaps = _overlapping(same, below, Frame(points, below.schema, 1), "inner")
    columns = [f"l{name} as {name}" for name in (*below.columns.values(), *below.place)]
    rows = overlaps.selectExpr(*columns, f"r{VS} as _from", "r_next as _to")
    return windowed.grouped(
        node, below, rows, ["_from", "_to"], ("_from", "_to"), below.lifetime_us
    )
