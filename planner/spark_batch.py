"""The batch twin: a logical plan as Spark SQL DataFrames, made of Spark's own operators.

It is what users validate a query with, and what the stream is tested against, so it shares with the
stream the source readers and nothing else: expressions are Spark SQL (:mod:`planner.spark_sql`), a
temporal join is an equality join with a condition on the lifetimes, a window aggregate explodes
each event into its windows and groups. The plan is taken as the query has it, not optimised.

What differs from the stream: there is no sequence. (1) ``first`` and ``last`` go by ``_vs`` alone;
where several events of a group start together with different values, the stream takes the one that
MERGE orders first (last), a batch has no such order and refuses. (2) Floats are added in any order,
so sums and means agree up to rounding. (3) Expressions are evaluated where they are needed only.
(4) All rows of the sources pass through the driver. (5) RE2 and Java
read some regular expressions differently.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

from planner import logical
from planner.batch_rows import source_events
from planner.spark_sql import (
    MARK,
    BatchDataError,
    BatchFailedError,
    UnsupportedInBatchError,
    failure,
    floor_divide,
    physical,
    to_sql,
)
from planner.spark_sql.aggregates import Take
from planner.spark_sql.lifetimes import changed, changed_mean_us, gaps
from planner.spark_sql.types import integer, type_name
from planner.traversal import NodeMap, topological
from rstream.batch import VE, VS, event_schema
from rstream.types import INF_TIME, MIN_TIME
from rvertex.spark import spark_context

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark import SparkContext

    from planner.nodes import Node
    from planner.spark_sql.lifetimes import Times

#: An event in more windows than this is refused, as the stream refuses it.
WINDOWS_PER_EVENT_MAX = 1_000_000
_LIFETIME = [f"`{VS}`", f"`{VE}`"]
#: Where both events of a pair are alive.
_START, _END = f"greatest(l{VS}, r{VS})", f"least(l{VE}, r{VE})"
_CONF = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.variable.substitute": "false",
}


@dataclass(frozen=True, slots=True)
class Frame:
    """Events as a DataFrame: ``_vs``, ``_ve``, and ``c0``, ``c1``, ... for ``schema``."""

    df: DataFrame
    schema: pa.Schema
    #: Mean length of a lifetime, as far as the sources tell. It says how joins cut time, no more.
    lifetime_us: int

    @property
    def columns(self) -> dict[str, str]:
        """What the columns, and the lifetime, are called in Spark SQL."""
        named = {name: f"c{i}" for i, name in enumerate(self.schema.names)}
        return {VS: VS, VE: VE, **named}

    def sql(self, node: Node) -> str:
        """An expression over the columns."""
        return to_sql(node, self.columns)


def collect(
    plan: logical.LogicalNode, *, master: str, daemon_module: str, parallelism: int
) -> pa.Table:
    """The answer of ``plan``: columns ``_vs, _ve, payload``, sorted by all of them (nulls first).

    Raises:
        UnsupportedInBatchError: the plan has no exact counterpart in Spark SQL.
        BatchDataError: a value that the query cannot handle, or an ambiguous first or last.
        BatchFailedError: anything else that Spark reports.
    """
    session = open_session(spark_context(master, daemon_module))
    try:
        frame = compile_plan(plan, session, parallelism)
        table = frame.df.orderBy(*frame.df.columns).toArrow()
    except (PySparkException, Py4JError) as error:
        raise _explained(error) from error
    schema = event_schema(plan.schema)
    arrays = [column.cast(f.type) for column, f in zip(table.columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def open_session(context: SparkContext) -> SparkSession:
    """A session of its own on the shared context, configured as the SQL here needs it."""
    session = SparkSession(context).newSession()
    for key, value in _CONF.items():
        session.conf.set(key, value)
    session.conf.set("spark.sql.shuffle.partitions", str(context.defaultParallelism))
    return session


def compile_plan(plan: logical.LogicalNode, session: SparkSession, parallelism: int) -> Frame:
    """The plan as a DataFrame; reads the sources, runs nothing."""
    frames: NodeMap[Frame] = NodeMap()
    for node in topological(plan):
        inputs = [frames[child] for child in node.inputs]
        frames[node] = _compile(node, inputs, session, parallelism)
    return frames[plan]


def _compile(
    node: logical.LogicalNode, inputs: Sequence[Frame], session: SparkSession, parallelism: int
) -> Frame:
    match node:
        case logical.Source():
            return _source(node, session, parallelism)
        case logical.Filter(predicate=predicate):
            (below,) = inputs
            return replace(below, df=below.df.where(below.sql(predicate)))
        case logical.Project(columns=columns):
            (below,) = inputs
            made = [below.sql(expr) for _, expr in columns]
            return _selected(below, node.schema, made)
        case logical.Explode(column=column):
            (below,) = inputs
            made = [
                f"explode({sql})" if name == column else sql
                for name, sql in list(below.columns.items())[2:]
            ]
            return _selected(below, node.schema, made)
        case logical.Union():
            return _union(node, inputs)
        case logical.Lifetime(change=change):
            (below,) = inputs
            return _changed(below, changed(change), changed_mean_us(change, below.lifetime_us))
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
            return _aggregate(node, *inputs)
        case logical.Exchange() | logical.Recover() | logical.Sink():
            return inputs[0]
        case _:
            raise UnsupportedInBatchError(type(node).__name__, "it has no batch twin yet")


def _selected(below: Frame, schema: pa.Schema, made: Sequence[str]) -> Frame:
    named = [f"{sql} as c{i}" for i, sql in enumerate(made)]
    return Frame(below.df.selectExpr(*_LIFETIME, *named), schema, below.lifetime_us)


def _source(node: logical.Source, session: SparkSession, parallelism: int) -> Frame:
    events = source_events(node, parallelism)
    names = [VS, VE, *(f"c{i}" for i in range(len(node.schema)))]
    columns = [column.cast(physical(column.type)) for column in events.columns]
    table = pa.Table.from_arrays(columns, names=names)
    lifetime = 1
    if table.num_rows:
        vs, ve = (table[name].to_numpy().astype(float) for name in (VS, VE))
        lifetime = max(1, min(INF_TIME, int((ve - vs).mean())))
    return Frame(session.createDataFrame(table), node.schema, lifetime)


def _union(node: logical.Union | logical.Join, inputs: Sequence[Frame]) -> Frame:
    df = inputs[0].df
    for other in inputs[1:]:
        df = df.unionAll(other.df)
    return Frame(df, node.schema, max(frame.lifetime_us for frame in inputs))


def _changed(below: Frame, times: Times, lifetime_us: int) -> Frame:
    """The same payload with other lifetimes."""
    found = below.df.where(times.kept).selectExpr("*", *times.made)
    payload = list(below.columns.values())[2:]
    df = found.selectExpr(f"{times.vs} as `{VS}`", f"{times.ve} as `{VE}`", *payload)
    return Frame(df, below.schema, lifetime_us)


def _join(node: logical.Join, left: Frame, right: Frame) -> Frame:
    """Pairs with equal keys and overlapping lifetimes."""
    sides = _pairs(node, left, right, how="inner")
    names = {"left": ("l", left.columns), "right": ("r", right.columns)}
    made = [f"{names[side][0]}{names[side][1][column]}" for side, column, _ in node.columns]
    df = sides.selectExpr(
        f"{_START} as `{VS}`",
        f"{_END} as `{VE}`",
        *(f"{sql} as c{i}" for i, sql in enumerate(made)),
    )
    return Frame(df, node.schema, max(left.lifetime_us, right.lifetime_us))


def _anti(node: logical.Join, left: Frame, right: Frame) -> Frame:
    """Left events outside the lifetimes of their matches; null in columns of the right."""
    cover = f"if(r_slice is null, null, named_struct('s', {_START}, 'e', {_END}))"
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
    """Left events up to the first later start of a match, however long that lives."""
    starts = replace(right, df=right.df.withColumn(VE, expr(f"{VS} + 1L")), lifetime_us=1)
    later = f"min(if(r{VS} > l{VS}, r{VS}, null)) as cut"
    grouped = _per_left(node, left, starts, later)
    payload = list(left.columns.values())[2:]
    df = grouped.selectExpr(f"`{VS}`", f"coalesce(cut, {VE}) as `{VE}`", *payload)
    return Frame(df, node.schema, left.lifetime_us)


def _per_left(
    node: logical.Join | logical.Clip, left: Frame, right: Frame, aggregate: str
) -> DataFrame:
    """Each left event once, with an aggregate over its pairs."""
    numbered = replace(left, df=left.df.withColumn("_id", expr("monotonically_increasing_id()")))
    pairs = _pairs(node, numbered, right, how="left")
    kept = [expr(f"any_value(l{name}) as {name}") for name in left.columns.values()]
    return pairs.groupBy("l_id").agg(*kept, expr(aggregate))


def _pairs(node: logical.Join | logical.Clip, left: Frame, right: Frame, *, how: str) -> DataFrame:
    """Pairs with equal keys and overlapping lifetimes; columns with prefixes ``l`` and ``r``.

    To spare Spark all pairs of a key, time is cut into slices of about a mean lifetime; each side
    is exploded into the slices it lives in, and a pair is found in the slice in which it begins.
    """
    slice_us = max(left.lifetime_us, right.lifetime_us)
    keys = [
        f"l{left.columns[mine]} = r{right.columns[other]}"
        for mine, other in zip(node.left_on, node.right_on, strict=True)
    ]
    if isinstance(node, logical.Join) and node.where is not None:
        of = {"left": ("l", left.columns), "right": ("r", right.columns)}
        names = {name: of[side][0] + of[side][1][column] for side, column, name in node.reads}
        keys.append(f"({to_sql(node.where, names)})")
    slices = ["l_slice = r_slice", "l_slice = greatest(l_first, r_first)"]
    overlap = [f"l{VS} < r{VE}", f"r{VS} < l{VE}"]
    return _sliced(left, "l", slice_us).join(
        _sliced(right, "r", slice_us), on=expr(" and ".join([*keys, *slices, *overlap])), how=how
    )


def _sliced(frame: Frame, prefix: str, slice_us: int) -> DataFrame:
    """The events once per slice that they live in; all columns with a prefix."""
    first, last = floor_divide(VS, slice_us), floor_divide(f"({VE} - 1L)", slice_us)
    renamed = [f"`{name}` as {prefix}{name}" for name in frame.df.columns]
    found = frame.df.selectExpr(*renamed, f"{first} as {prefix}_first", f"{last} as {prefix}_last")
    slices = f"explode(sequence({prefix}_first, {prefix}_last)) as {prefix}_slice"
    return found.selectExpr("*", slices)


def _aggregate(node: logical.WindowAgg, below: Frame) -> Frame:
    """Each event once per window that its lifetime overlaps, then grouped."""
    size, every = node.size_us, node.every_us
    lowest, highest = -(-MIN_TIME // every), (INF_TIME - size) // every
    first = (
        f"if({VS} < {integer(MIN_TIME + size)}, {integer(lowest)}, "
        f"greatest({integer(lowest)}, {floor_divide(f'({VS} - {integer(size)})', every)} + 1L))"
    )
    last = f"least({floor_divide(f'({VE} - 1L)', every)}, {integer(highest)})"
    endless = failure(
        f"window: an event never ends, or is in more than {WINDOWS_PER_EVENT_MAX} windows; "
        "end lifetimes before a window"
    )
    count = "cast(_last as double) - cast(_first as double) + 1D"
    is_endless = f"{count} > {WINDOWS_PER_EVENT_MAX}D"
    if not node.points:
        is_endless += f" or {VE} = {integer(INF_TIME)}"
    windows = (
        f"explode(case when {is_endless} then {endless} "
        "when _first > _last then cast(array() as array<bigint>) "
        "else sequence(_first, _last) end) as _window"
    )
    spread = below.df.selectExpr("*", f"{first} as _first", f"{last} as _last")
    keys = [below.columns[key] for key in node.keys]
    takes = [Take.of(a, i, below.columns, below.schema) for i, a in enumerate(node.aggregates)]
    grouped = (
        spread.selectExpr("*", windows)
        .groupBy("_window", *keys)
        .agg(*(expr(f"{sql} as {name}") for take in takes for name, sql in take.partial.items()))
    )
    made = [*keys, *(take.result for take in takes)]
    df = grouped.selectExpr(
        f"_window * {integer(every)} as `{VS}`",
        f"_window * {integer(every)} + {integer(size)} as `{VE}`",
        *(f"{sql} as c{i}" for i, sql in enumerate(made)),
    )
    return Frame(df, node.schema, size)


def _explained(error: Exception) -> BatchDataError | BatchFailedError:
    """Our own message where the SQL raised it; otherwise the first line of Spark's."""
    message = str(error)
    found = re.search(f"{MARK}(.*?){MARK}", message, re.DOTALL)
    if found is not None:
        return BatchDataError(found[1])
    return BatchFailedError(message.strip().splitlines()[0][:500] if message else repr(error))
