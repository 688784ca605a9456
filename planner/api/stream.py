"""The fluent interface: methods of :class:`Stream` add steps, an output makes a :class:`Query`.

Every method returns a new stream and checks column names and types at once, so an error points at
the line with the mistake. Nothing runs here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, TypeVar

from planner.api import names as naming
from planner.api.agg import Ordering
from planner.api.expressions import Expr
from planner.api.grouped.early import Emit, emitted
from planner.api.grouped.frames import Frames, RowFrame
from planner.api.grouped.matching.building import MatchRequest, match_node
from planner.api.grouped.sessions import SessionBy
from planner.api.grouped.steps import OrderedSteps, Rolling, RunningGroups, Windows
from planner.api.inputs.files import FileInputs
from planner.api.inputs.frames import FrameInputs
from planner.api.inputs.hints import hinted
from planner.api.inputs.kafka import KafkaTopics
from planner.api.joining.by_id import IdJoins
from planner.api.joining.intervals import Within, interval_nodes
from planner.api.joining.pairs import as_of_nodes, clip_nodes, exploded, join_nodes
from planner.api.outputs import Outputs
from planner.api.user_steps import GroupedUserSteps, UserSteps
from planner.durations import Duration, duration_us, positive_duration_us
from planner.errors import InvalidPlanError
from planner.expressions.nodes import Column, checked_name
from planner.expressions.suggestions import suggest_in_class
from planner.logical.nodes import (
    Filter,
    Lifetime,
    LifetimeChange,
    LogicalNode,
    Project,
    Recover,
    Stitch as StitchNode,
    Union,
    identity_columns,
)
from planner.logical.nodes.recover import recovery_choice
from planner.logical.query import Query, column_list
from planner.logical.text import logical_text
from planner.logical.windows import AnyWindow
from rvertex.operators.lifetimes.chop import Chop
from rvertex.operators.lifetimes.extend import Extend
from rvertex.operators.lifetimes.point_at_end import PointAtEnd
from rvertex.operators.lifetimes.set_duration import SetDuration
from rvertex.operators.lifetimes.shift import Shift

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from planner.api.agg import OrderLike
    from planner.api.expressions import ExprLike

__all__ = ["GroupedStream", "Query", "Stream", "WindowedStream"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, repr=False)
class Stream(
    UserSteps["Stream"],
    OrderedSteps["Stream"],
    IdJoins["Stream"],
    Outputs,
    FileInputs,
    FrameInputs,
    KafkaTopics,
):
    """A stream of events with lifetimes and payload columns."""

    plan: LogicalNode

    def _stream_of(self, plan: LogicalNode) -> Stream:
        return Stream(plan)

    @property
    def schema(self) -> pa.Schema:
        """The payload columns."""
        return self.plan.schema

    def name(self, label: str) -> Stream:
        """Name the last step, for plans and progress."""
        return Stream(replace(self.plan, label=naming.checked_label(label)))

    def filter(self, predicate: ExprLike) -> Stream:
        """Keep the events for which ``predicate`` is true; false and null drop the event."""
        return Stream(Filter(self.plan, naming.resolved_predicate(predicate, self.schema)))

    def select(self, *columns: str | Expr, **named: ExprLike) -> Stream:
        """Keep only these columns: names, or expressions under the name of their keyword.

        ``select("id", price=col("cost"))``. A plain value of a keyword, even a string, is a
        literal.
        """
        if not columns and not named:
            raise InvalidPlanError("select() takes at least one column")
        picked = naming.resolved_columns(self.schema, columns, named)
        return Stream(Project(self.plan, tuple(picked.items())))

    def with_columns(self, *columns: Expr, **named: ExprLike) -> Stream:
        """Add columns, or replace those of the same name, and keep all others."""
        return Stream(naming.with_columns(self.plan, columns, named))

    def drop(self, *columns: str) -> Stream:
        """Remove these columns and keep all others."""
        for column in columns:
            naming.require(self.schema, column, "drop")
        kept = tuple((n, c) for n, c in identity_columns(self.schema) if n not in columns)
        return Stream(Project(self.plan, kept))

    def rename(self, names: Mapping[str, str]) -> Stream:
        """Rename some columns and keep the others."""
        for column, new in names.items():
            naming.require(self.schema, column, "rename")
            checked_name(new)
        renamed = tuple((names.get(n, n), c) for n, c in identity_columns(self.schema))
        naming.require_distinct([name for name, _ in renamed], "rename")
        return Stream(Project(self.plan, renamed))

    def explode(self, column: str, *, outer: bool = False, position: str | None = None) -> Stream:
        """Return one event per element of the list in ``column``, or per pair of a map.

        An empty or null list drops its event; ``outer`` keeps the event, with null as the element.
        ``position``: a new column with the index of each element, from 0.
        """
        return Stream(exploded(self.plan, column, is_outer=outer, position=position))

    def union(self, *others: Stream) -> Stream:
        """Merge the events of all streams; their columns must be equal, in any order."""
        branches = naming.aligned([self.plan, *(other.plan for other in others)])
        return Stream(Union(branches)) if others else self

    def join(
        self,
        other: Stream,
        *,
        on: str | Sequence[str] | None = None,
        left_on: str | Sequence[str] | None = None,
        right_on: str | Sequence[str] | None = None,
        within: Within | None = None,
        how: str = "inner",
        where: ExprLike | None = None,
    ) -> Stream:
        """Pair events with equal keys whose lifetimes overlap; a pair is valid for the overlap.

        With ``on`` the key columns appear once. Other columns of ``other`` whose name is taken get
        the suffix ``_right``. Null keys match nothing. ``how="left"`` also emits each event of this
        stream for the time in which it has no match, with null in the columns of ``other``.
        ``how="anti"`` emits only these, without columns of ``other``. ``where`` is a further
        condition on a pair.

        ``within=(lo, hi)`` compares starts instead of lifetimes, the *interval join*: a row of
        ``other`` matches if it starts ``lo`` to ``hi`` after this stream's event, both inclusive;
        negative means before it. Keys are then optional. A pair is a point event at the later of
        both starts. ``how`` may also be "right", "full" and "semi" (this stream's events with a
        match). A row without a match is emitted once, as a point event at the last instant at which
        a match was possible.
        """
        if not isinstance(other, Stream):
            raise InvalidPlanError(f"join() takes another stream, not {other!r}")
        if within is not None:
            keys = (on, left_on, right_on)
            return Stream(interval_nodes(self.plan, other.plan, keys, how, where, within))
        return Stream(join_nodes(self.plan, other.plan, on, left_on, right_on, how, where))

    def join_asof(
        self,
        other: Stream,
        *,
        by: str | Sequence[str] | None = None,
        left_by: str | Sequence[str] | None = None,
        right_by: str | Sequence[str] | None = None,
        strategy: str = "backward",
        tolerance: Duration | None = None,
        how: str = "left",
    ) -> Stream:
        """Pair each event with the event of ``other`` that started nearest to its start.

        ``strategy``: "backward" takes the last event at or before the start, "forward" the first at
        or after it, "nearest" the nearest, on ties the latest. ``tolerance`` is the greatest
        distance in time; "forward" and "nearest" need it, because an event waits this long for its
        match. ``by``: key columns that must be equal; null matches nothing. Without a match the
        columns of ``other`` are null; ``how="inner"`` drops such events. Columns are named as in
        :meth:`join`.
        """
        if not isinstance(other, Stream):
            raise InvalidPlanError(f"join_asof() takes another stream, not {other!r}")
        keys = (by, left_by, right_by)
        return Stream(as_of_nodes(self.plan, other.plan, keys, strategy, tolerance, how))

    def match(
        self,
        pattern: str,
        *,
        partition_by: str | Sequence[str] = (),
        order_by: OrderLike | Sequence[OrderLike] = (),
        define: Mapping[str, Expr] | None = None,
        measures: Mapping[str, ExprLike] | None = None,
        rows: str = "one",
        after_match: str = "past_last_row",
        within: Duration | None = None,
        subset: Mapping[str, Sequence[str]] | None = None,
    ) -> Stream:
        """Find sequences of rows in each partition that match ``pattern``, as MATCH_RECOGNIZE does.

        Rows are ordered by their start. ``order_by`` orders rows that start together; on ties they
        keep the order of the stream. ``define`` maps variables of the pattern to conditions; a
        variable without one matches any row. See :func:`rows_of`, :func:`prev`, :func:`classifier`.

        ``rows``: "one" row per match, with the keys and ``measures``; "all" rows of a match, with
        all columns; "all_without_empty" omits empty matches, "all_with_unmatched" adds the rows
        outside of all matches. ``after_match``, where the next match may begin: "past_last_row",
        "to_next_row", "to_first A" or "to_last A". ``within``: the longest time from the start of a
        match's first row to the start of its last. Each result is a point event at the start of its
        match's last row.
        """
        keys = [partition_by] if isinstance(partition_by, str) else list(partition_by)
        order = (order_by,) if isinstance(order_by, str | Expr | Ordering) else tuple(order_by)
        request = MatchRequest(
            pattern=pattern,
            keys=keys,
            order=order,
            define=define or {},
            measures=measures or {},
            rows=rows,
            after=after_match,
            within=within,
            subset=subset or {},
        )
        return Stream(match_node(self.plan, request))

    def shift(self, duration: Duration) -> Stream:
        """Move events later by ``duration``, or earlier if it is negative."""
        return self._changed(Shift(duration_us(duration, what="shift")))

    def set_duration(self, duration: Duration) -> Stream:
        """Set the length of all events to ``duration``, counted from their start."""
        return self._changed(SetDuration(positive_duration_us(duration, what="set_duration")))

    def extend(self, duration: Duration) -> Stream:
        """Move ends later by ``duration``, earlier if it is negative; drop events left empty."""
        return self._changed(Extend(duration_us(duration, what="extend")))

    def point_at_end(self) -> Stream:
        """Replace each event by a point event at its end; drop events that never end."""
        return self._changed(PointAtEnd())

    def chop(self, period: Duration, offset: Duration = 0) -> Stream:
        """Cut events at every ``offset + k * period``; all events must have an end."""
        length = positive_duration_us(period, what="chop")
        return self._changed(Chop(length, duration_us(offset, what="offset")))

    def stitch(self, on: str | Sequence[str] | None = None) -> Stream:
        """Merge events of a key whose lifetimes touch or overlap; keep the payload of the first.

        ``on`` names the key columns; None: all columns. Null is a key like any other.
        """
        names = self.schema.names if on is None else [on] if isinstance(on, str) else list(on)
        for name in names:
            naming.require(self.schema, name, "stitch")
            naming.require_groupable(name, Column(name, self.schema.field(name).type))
        return Stream(StitchNode(self.plan, tuple(dict.fromkeys(names))))

    def clip(self, other: Stream, *, on: str | Sequence[str]) -> Stream:
        """End each event at the start of the first later event of ``other`` with equal keys.

        An event of ``other`` with the same start does not end it, so ``s.clip(s, on="k")`` keeps
        every event until the next event of its key starts. Null keys match nothing.
        """
        if not isinstance(other, Stream):
            raise InvalidPlanError(f"clip() takes another stream, not {other!r}")
        return Stream(clip_nodes(self.plan, other.plan, on))

    def hint(
        self,
        *,
        rate: float | None = None,
        keys: Mapping[str, int] | None = None,
        max_duration: Duration | None = None,
    ) -> Stream:
        """Give the planner statistics of a source; call it right behind ``from_...``.

        ``rate``: events per second of event time. ``keys``: the number of distinct values per
        column. Only the cost model uses these two. ``max_duration``: the longest lifetime of an
        event; a longer one is an error. It bounds the state, so that replay can recover it.
        """
        return Stream(hinted(self.plan, rate=rate, keys=keys or {}, max_duration=max_duration))

    def recover_with(self, strategy: str, *, replicas: int | None = None) -> Stream:
        """Choose how the stage that computes this stream recovers after a failure.

        "checkpoint": load the last snapshot. "replay": read the input again, as far back as the
        state reaches; the state must be bounded. "replication": run ``replicas`` instances at the
        same time (default 2). "strong": make each step durable before its output is visible; the
        default for code that is declared ``deterministic=False``. If a stage gets several
        strategies, the last call decides. Stages may differ, and no strategy changes the result.
        """
        return Stream(Recover(self.plan, recovery_choice(strategy, replicas)))

    def group_by(self, *keys: str | Expr, **named: ExprLike) -> GroupedStream:
        """Group events by equal keys (columns or named expressions); null is a key too."""
        picked = naming.resolved_columns(self.schema, keys, named)
        plan = self.plan
        for name, node in picked.items():
            naming.require_groupable(name, node)
        if any(node != Column(name, node.type) for name, node in picked.items()):
            kept = dict(identity_columns(self.schema))
            plan = Project(plan, tuple({**kept, **picked}.items()))
        return GroupedStream(plan, tuple(picked))

    def window(self, window: AnyWindow | SessionBy, *, emit: Emit = "final") -> WindowedStream:
        """Divide the whole stream into windows, without keys; see :meth:`GroupedStream.window`."""
        return GroupedStream(self.plan, ()).window(window, emit=emit)

    def __repr__(self) -> str:
        return f"Stream({column_list(self.schema)})"

    def _repr_html_(self) -> str:
        """Return the columns and the plan as HTML for notebooks; run nothing."""
        rows = [f"<tr><td>{escape(f.name)}</td><td>{f.type}</td></tr>" for f in self.schema]
        plan = escape(logical_text(self.plan))
        head = "<tr><th>column</th><th>type</th></tr>"
        return f"<table>{head}{''.join(rows)}</table><pre>{plan}</pre>"

    def pipe(self, function: Callable[[Stream], T]) -> T:
        """Return ``function(self)``, so that a chain of steps stays in reading order."""
        return function(self)

    def _changed(self, change: LifetimeChange) -> Stream:
        return Stream(Lifetime(self.plan, change))


@dataclass(frozen=True, slots=True)
class RollingStream(Frames[Stream]):
    """A stream by key with a frame of rows per row, made by :meth:`GroupedStream.rolling`."""

    plan: LogicalNode
    keys: tuple[str, ...]
    frame: RowFrame
    order: tuple[OrderLike, ...]

    def _stream_of(self, plan: LogicalNode) -> Stream:
        return Stream(plan)


@dataclass(frozen=True, slots=True)
class GroupedStream(GroupedUserSteps[Stream], RunningGroups[Stream], Rolling[RollingStream]):
    """A stream grouped by key; its methods add a window, an aggregate or user code per key."""

    plan: LogicalNode
    keys: tuple[str, ...]

    def _stream_of(self, plan: LogicalNode) -> Stream:
        return Stream(plan)

    def _frames_of(self, frame: RowFrame, order: tuple[OrderLike, ...]) -> RollingStream:
        return RollingStream(self.plan, self.keys, frame, order)

    def window(self, window: AnyWindow | SessionBy, *, emit: Emit = "final") -> WindowedStream:
        """Divide the events of each key into windows.

        ``emit="changes"`` also emits results of windows that are still open. Such a result is valid
        from one row of the window to the next, or to the window's end. The final result is valid
        from the window's end on, for ever. Both have the columns ``window_start``, ``window_end``
        and ``is_final``. A destination that stores rows by key gets each change at once. For a
        session it is the same as ``session(..., running=True)``.
        """
        if not isinstance(window, AnyWindow | SessionBy):
            raise InvalidPlanError(
                "window() takes hopping(...), tumbling(...), cumulating(...), snapshot(), "
                f"session(...) or count_window(...), not {window!r}"
            )
        return WindowedStream(self.plan, self.keys, *emitted(window, emit))


@dataclass(frozen=True, slots=True)
class WindowedStream(Windows[Stream]):
    """A stream grouped by key and window; its methods add aggregates."""

    plan: LogicalNode
    keys: tuple[str, ...]
    spec: AnyWindow | SessionBy
    #: Whether results of windows that are still open are emitted, too.
    early: bool = False

    def _stream_of(self, plan: LogicalNode) -> Stream:
        return Stream(plan)


for _made in (Stream, GroupedStream, WindowedStream, RollingStream):
    suggest_in_class(_made)
