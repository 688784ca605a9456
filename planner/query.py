"""The fluent interface: a :class:`Stream` is built up, a sink makes it a :class:`Query`.

Every method returns a new stream over the old one and checks names and types at once, so a mistake
is reported at the line that made it. Nothing runs here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from planner import naming
from planner.agg import Agg
from planner.durations import Duration, positive_duration_us
from planner.errors import InvalidPlanError
from planner.ingest import (
    Cti,
    Event,
    SchemaLike,
    TimeColumn,
    file_source,
    items_source,
)
from planner.joining import join_nodes
from planner.logical import (
    Aggregate,
    Explode,
    Filter,
    LogicalNode,
    Project,
    Sink,
    Union,
    WindowAgg,
    identity_columns,
)
from planner.nodes import Column, Node, cast_to
from planner.properties import is_point
from planner.windows import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from planner.expressions import Expr, ExprLike
    from rvertex.sources.spec import LatePolicy

T = TypeVar("T")
#: The output of sink vertex i lies in the folder ``partition=<i>``.
OUTPUT_FOLDER_KEY = "partition"


@dataclass(frozen=True, slots=True, repr=False)
class Query:
    """A stream with a place for its answer: what ``jobmanager.run`` runs."""

    plan: Sink
    #: The grid of CTI times, us; None: the windows' common divisor, or 1 s without windows.
    cti_every_us: int | None = None

    @property
    def schema(self) -> pa.Schema:
        """The payload columns of the answer."""
        return self.plan.schema

    def __repr__(self) -> str:
        return f"Query({_columns(self.schema)})"


@dataclass(frozen=True, slots=True, repr=False)
class Stream:
    """A stream of events with lifetimes and payload columns."""

    plan: LogicalNode

    @staticmethod
    def from_parquet(
        path: str,
        *,
        vs: TimeColumn,
        ve: TimeColumn | Duration | None = None,
        delay: Duration = "0s",
        late: LatePolicy = "drop",
        partitions: int | None = None,
        schema: SchemaLike | None = None,
    ) -> Stream:
        """Rows of a Parquet file or of a folder of such files.

        ``vs`` is the column (or expression) of the event's start; ``ve`` that of its end, a length
        such as ``"+1h"``, or None for point events. Rows may be out of order by up to ``delay``;
        later ones are dropped, adjusted or an error as ``late`` says. ``schema`` overrides column
        types.
        """
        return Stream(
            file_source("parquet", str(path), vs=vs, ve=ve, delay=delay, late=late,
                        partitions=partitions, schema=schema)
        )  # fmt: skip

    @staticmethod
    def from_csv(
        path: str,
        *,
        vs: TimeColumn,
        ve: TimeColumn | Duration | None = None,
        delay: Duration = "0s",
        late: LatePolicy = "drop",
        partitions: int | None = None,
        schema: SchemaLike | None = None,
        delimiter: str = ",",
        null_values: Sequence[str] = ("",),
    ) -> Stream:
        """Rows of CSV files with a header line; see :meth:`from_parquet`."""
        options = {"delimiter": delimiter, "null_values": ",".join(null_values)}
        return Stream(
            file_source("csv", str(path), vs=vs, ve=ve, delay=delay, late=late,
                        partitions=partitions, schema=schema, options=options)
        )  # fmt: skip

    @staticmethod
    def from_json(
        path: str,
        *,
        vs: TimeColumn,
        ve: TimeColumn | Duration | None = None,
        delay: Duration = "0s",
        late: LatePolicy = "drop",
        partitions: int | None = None,
        schema: SchemaLike | None = None,
    ) -> Stream:
        """Objects of JSON-lines files; see :meth:`from_parquet`."""
        return Stream(
            file_source("json", str(path), vs=vs, ve=ve, delay=delay, late=late,
                        partitions=partitions, schema=schema)
        )  # fmt: skip

    @staticmethod
    def from_text(path: str, *, partitions: int | None = None) -> Stream:
        """Lines of text files in column ``line``; line n (over all files) starts at n us."""
        return Stream(
            file_source("text", str(path), vs=None, ve=None, delay="0s", late="drop",
                        partitions=partitions)
        )  # fmt: skip

    @staticmethod
    def from_items(schema: SchemaLike, items: Iterable[Event | Cti], partitions: int = 1) -> Stream:
        """The given ``event(...)`` and ``cti(...)`` items, in this order."""
        return Stream(items_source(schema, items, partitions=partitions))

    @property
    def schema(self) -> pa.Schema:
        """The payload columns."""
        return self.plan.schema

    def name(self, label: str) -> Stream:
        """A name for what was built last, as plans and progress show it."""
        return Stream(replace(self.plan, label=naming.checked_label(label)))

    def filter(self, predicate: ExprLike) -> Stream:
        """The events for which ``predicate`` is true (null is not)."""
        return Stream(Filter(self.plan, naming.resolved_predicate(predicate, self.schema)))

    def select(self, *columns: str | Expr, **named: ExprLike) -> Stream:
        """Just these columns: names, and expressions under the names they are given."""
        picked = naming.resolved_columns(self.schema, columns, named)
        return Stream(Project(self.plan, tuple(picked.items())))

    def with_columns(self, *columns: Expr, **named: ExprLike) -> Stream:
        """All columns, with these added or replaced."""
        added = naming.resolved_columns(self.schema, columns, named)
        kept = dict(identity_columns(self.schema))
        return Stream(Project(self.plan, tuple({**kept, **added}.items())))

    def drop(self, *columns: str) -> Stream:
        """All columns but these."""
        for column in columns:
            naming.require(self.schema, column, "drop")
        kept = tuple((n, c) for n, c in identity_columns(self.schema) if n not in columns)
        return Stream(Project(self.plan, kept))

    def rename(self, names: Mapping[str, str]) -> Stream:
        """The same columns, some under other names."""
        for column, new in names.items():
            naming.require(self.schema, column, "rename")
            naming.checked_name(new)
        renamed = tuple((names.get(n, n), c) for n, c in identity_columns(self.schema))
        naming.require_distinct([name for name, _ in renamed], "rename")
        return Stream(Project(self.plan, renamed))

    def explode(self, column: str) -> Stream:
        """One event per element of the list in ``column``; none for an empty list or null."""
        kind = naming.require(self.schema, column, "explode")
        if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
            raise InvalidPlanError(f"explode({column!r}): it is {kind}, not a list")
        return Stream(Explode(self.plan, column))

    def union(self, *others: Stream) -> Stream:
        """The events of all; equal columns, in any order."""
        branches = naming.aligned([self.plan, *(other.plan for other in others)])
        return Stream(Union(branches)) if others else self

    def join(
        self,
        other: Stream,
        *,
        on: str | Sequence[str] | None = None,
        left_on: str | Sequence[str] | None = None,
        right_on: str | Sequence[str] | None = None,
        how: str = "inner",
    ) -> Stream:
        """Pairs with equal keys whose lifetimes overlap; each pair lives in the overlap.

        With ``on`` the key columns appear once; other columns of ``other`` whose name is taken get
        the suffix ``_right``. Null keys match nothing.
        """
        if not isinstance(other, Stream):
            raise InvalidPlanError(f"join() takes another stream, not {other!r}")
        return Stream(join_nodes(self.plan, other.plan, on, left_on, right_on, how))

    def group_by(self, *keys: str | Expr, **named: ExprLike) -> GroupedStream:
        """Groups of events with equal keys (columns or named expressions); null is a key too."""
        picked = naming.resolved_columns(self.schema, keys, named)
        plan = self.plan
        for name, node in picked.items():
            naming.require_groupable(name, node)
        if any(node != Column(name, node.type) for name, node in picked.items()):
            kept = dict(identity_columns(self.schema))
            plan = Project(plan, tuple({**kept, **picked}.items()))
        return GroupedStream(plan, tuple(picked))

    def window(self, window: Window) -> WindowedStream:
        """Windows over the whole stream."""
        return GroupedStream(self.plan, ()).window(window)

    def to_parquet(self, path: str | None = None, *, cti_every: Duration | None = None) -> Query:
        """The answer as Parquet files under ``path``, or in the job's folder without one."""
        return self._query(None if path is None else str(path), cti_every)

    def to_rstream(self, uri: str, *, cti_every: Duration | None = None) -> Query:
        """The answer as rStreams under ``uri``, which other jobs can read while it grows."""
        return self._query(str(uri), cti_every)

    def __repr__(self) -> str:
        return f"Stream({_columns(self.schema)})"

    def pipe(self, function: Callable[[Stream], T]) -> T:
        """``function(self)``, to keep chains in reading order."""
        return function(self)

    def _query(self, uri: str | None, cti_every: Duration | None) -> Query:
        if OUTPUT_FOLDER_KEY in self.schema.names:
            raise InvalidPlanError(
                f"column {OUTPUT_FOLDER_KEY!r}: readers take that name from the output's folders "
                f"({OUTPUT_FOLDER_KEY}=0, ...); rename it"
            )
        every = None if cti_every is None else positive_duration_us(cti_every, what="cti_every")
        return Query(Sink(self.plan, uri), every)


@dataclass(frozen=True, slots=True)
class GroupedStream:
    """A stream by key, waiting for its windows."""

    plan: LogicalNode
    keys: tuple[str, ...]

    def window(self, window: Window) -> WindowedStream:
        """These windows per key."""
        if not isinstance(window, Window):
            raise InvalidPlanError(f"window() takes hopping(...) or tumbling(...), not {window!r}")
        return WindowedStream(self.plan, self.keys, window)


@dataclass(frozen=True, slots=True)
class WindowedStream:
    """A stream by key and window, waiting for its aggregates."""

    plan: LogicalNode
    keys: tuple[str, ...]
    spec: Window

    def agg(self, **aggregates: Agg) -> Stream:
        """One event per key and window that has events, alive as long as the window.

        The columns are the keys, then ``aggregates`` in the order given.
        """
        if not aggregates:
            raise InvalidPlanError("agg() takes at least one aggregate, as n=agg.count()")
        columns = {key: Column(key, self.plan.schema.field(key).type) for key in self.keys}
        specs: list[Aggregate] = []
        inputs: dict[str, Node] = dict(columns)
        for name, aggregate in aggregates.items():
            naming.checked_name(name)
            if name in self.keys:
                raise InvalidPlanError(f"agg({name}=...): there is a key of that name")
            if not isinstance(aggregate, Agg):
                raise InvalidPlanError(f"agg({name}=...) takes agg.count() and its like")
            specs.append(_aggregate(name, aggregate, self.plan.schema, inputs))
        plan = Project(self.plan, tuple(inputs.items()))
        node = WindowAgg(
            input=plan,
            keys=self.keys,
            size_us=self.spec.size_us,
            every_us=self.spec.every_us,
            aggregates=tuple(specs),
            points=is_point(plan),
        )
        return Stream(node)


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{f.name}: {f.type}" for f in schema)


def _aggregate(name: str, agg: Agg, schema: pa.Schema, inputs: dict[str, Node]) -> Aggregate:
    """The aggregate over a column of ``inputs``, which is added where it is not there yet."""
    if agg.expr is None:
        return Aggregate(agg.function, None, name)
    node = naming.resolved(agg.expr, schema)
    if agg.function in ("sum", "mean") and node.type == pa.bool_():
        node = cast_to(node, pa.int64())
    naming.require_aggregable(agg.function, name, node)
    if isinstance(node, Column):
        column = node.name
        taken = inputs.get(column)
        if taken is not None and taken != node:
            column = f"{name}_input"
    else:
        column = next((n for n, have in inputs.items() if have == node), f"{name}_input")
    while inputs.get(column, node) != node:
        column += "_"
    inputs[column] = node
    return Aggregate(agg.function, column, name)
