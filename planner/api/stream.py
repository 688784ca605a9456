"""The fluent interface: a :class:`Stream` is built up, a sink makes it a :class:`Query`.

Every method returns a new stream over the old one and checks names and types at once, so a mistake
is reported at the line that made it. Nothing runs here.
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
from planner.api.grouped.matching.building import Asked, match_node
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
    Union,
    identity_columns,
)
from planner.logical.nodes import Stitch as StitchNode
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
        """The events for which ``predicate`` is true (null is not)."""
        return Stream(Filter(self.plan, naming.resolved_predicate(predicate, self.schema)))

    def select(self, *columns: str | Expr, **named: ExprLike) -> Stream:
        """Just these columns: names, and expressions under the names they are given.

        ``select("id", price=col("cost"))``; behind a name a plain value, a text too, is a literal.
        """
        if not columns and not named:
            raise InvalidPlanError("select() takes at least one column")
        picked = naming.resolved_columns(self.schema, columns, named)
        return Stream(Project(self.plan, tuple(picked.items())))

    def with_columns(self, *columns: Expr, **named: ExprLike) -> Stream:
        """All columns, with these added or replaced."""
        return Stream(naming.with_columns(self.plan, columns, named))

    def drop(self, *columns: str) -> Stream:
        """All columns but these."""
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
        """One event per element of the list in ``column``, or per pair of a map.

        Nothing comes of an empty list or null; with ``outer`` one event with null does.
        ``position``: a new column for the places of the elements, from 0.
        """
        return Stream(exploded(self.plan, column, is_outer=outer, position=position))

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
        within: Within | None = None,
        how: str = "inner",
        where: ExprLike | None = None,
    ) -> Stream:
        """Pairs with equal keys whose lifetimes overlap; each pair lives in the overlap.

        With ``on`` the key columns appear once; other columns of ``other`` whose name is taken get
        the suffix ``_right``. Null keys match nothing. ``how="left"`` adds the events of this
        stream for the time they have no match, with null in the columns of ``other``;
        ``how="anti"`` gives those alone, without columns of ``other``. ``where`` is a further
        condition on a match, over the columns that a pair has.

        ``within=(lo, hi)`` compares starts in place of lifetimes, the *interval join*: a row of
        ``other`` matches if it starts ``lo`` to ``hi`` after this stream's event, inclusive;
        negative is before it. Keys are optional. A pair is a point at the later of both starts.
        ``how`` may also be "right", "full" and "semi" (this stream's events with a match). A row
        without a match is emitted once, as a point at the last instant at which a match was
        possible.
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
        """Each event with the event of ``other`` that started nearest to its start.

        ``strategy``: "backward" takes the last at or before the start, "forward" the first at or
        after it, "nearest" the nearest, on ties the latest. ``tolerance`` bounds the distance; the
        last two strategies need it, because an event waits this long. ``by``: equal columns; null
        matches nothing. Without a match the columns of ``other`` are null; ``how="inner"`` drops
        such events. Columns are named as in :meth:`join`.
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
        """Rows of a partition that follow one another as ``pattern`` says: MATCH_RECOGNIZE.

        Rows are in order of time; of those that start together ``order_by`` says which comes first,
        then the order of the stream does. ``define`` has a condition for each variable of the
        pattern; one without takes any row. See :func:`rows_of`, :func:`prev`, :func:`classifier`.

        ``rows``: "one" row per match, with the keys and ``measures``; "all" rows of a match with
        all columns, "all_without_empty" leaves out empty matches, "all_with_unmatched" adds the
        rows in no match. ``after_match``: "past_last_row", "to_next_row", "to_first A" or
        "to_last A". ``within``: the last row starts at most that much later than the first.
        Each result is a point at the start of the last row of its match.
        """
        keys = [partition_by] if isinstance(partition_by, str) else list(partition_by)
        order = (order_by,) if isinstance(order_by, str | Expr | Ordering) else tuple(order_by)
        asked = Asked(
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
        return Stream(match_node(self.plan, asked))

    def shift(self, duration: Duration) -> Stream:
        """Move events later by ``duration``, or earlier if it is negative."""
        return self._changed(Shift(duration_us(duration, what="shift")))

    def set_duration(self, duration: Duration) -> Stream:
        """Events that all live for ``duration`` from their start on."""
        return self._changed(SetDuration(positive_duration_us(duration, what="set_duration")))

    def extend(self, duration: Duration) -> Stream:
        """Ends later by ``duration``; earlier if it is negative, and what is empty is deleted."""
        return self._changed(Extend(duration_us(duration, what="extend")))

    def point_at_end(self) -> Stream:
        """A point at the instant at which each event has ended; events without end give none."""
        return self._changed(PointAtEnd())

    def chop(self, period: Duration, offset: Duration = 0) -> Stream:
        """Events cut at every ``offset + k * period``; they must end."""
        length = positive_duration_us(period, what="chop")
        return self._changed(Chop(length, duration_us(offset, what="offset")))

    def stitch(self, on: str | Sequence[str] | None = None) -> Stream:
        """Merge events of a key whose lifetimes touch or overlap; the first one's payload stays.

        ``on`` names the key columns; None: all of them. Null is a key like any other.
        """
        names = self.schema.names if on is None else [on] if isinstance(on, str) else list(on)
        for name in names:
            naming.require(self.schema, name, "stitch")
            naming.require_groupable(name, Column(name, self.schema.field(name).type))
        return Stream(StitchNode(self.plan, tuple(dict.fromkeys(names))))

    def clip(self, other: Stream, *, on: str | Sequence[str]) -> Stream:
        """Events cut at the start of the first later event of ``other`` with equal keys.

        A match that starts together with an event does not cut it, so ``s.clip(s, on="k")`` lets
        every event last until the next of its key. Null keys match nothing.
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
        """Statistics of a source for the planner; call it right behind ``from_...``.

        ``rate``: events per second of event time; ``keys``: how many different values a column has;
        both guide the cost model alone. ``max_duration`` is a promise that is checked: no event
        lives longer, one that does is an error. It bounds state, so that replay can recover it.
        """
        return Stream(hinted(self.plan, rate=rate, keys=keys or {}, max_duration=max_duration))

    def recover_with(self, strategy: str, *, replicas: int | None = None) -> Stream:
        """How the stage that computes this stream is recovered; the last word per stage counts.

        "checkpoint": from its last snapshot. "replay": by reading its input again, as far back as
        its state reaches, which must be bounded. "replication": by ``replicas`` instances at work
        at the same time (two, if not given). "strong": each step is durable before any of it is
        seen; code declared deterministic=False is recovered so by itself. Strategies mix
        freely, and change no answer.
        """
        return Stream(Recover(self.plan, recovery_choice(strategy, replicas)))

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

    def window(self, window: AnyWindow | SessionBy, *, emit: Emit = "final") -> WindowedStream:
        """Windows over the whole stream; see :meth:`GroupedStream.window`."""
        return GroupedStream(self.plan, ()).window(window, emit=emit)

    def __repr__(self) -> str:
        return f"Stream({column_list(self.schema)})"

    def _repr_html_(self) -> str:
        """The columns and the plan, as notebooks show them; nothing is run."""
        rows = [f"<tr><td>{escape(f.name)}</td><td>{f.type}</td></tr>" for f in self.schema]
        plan = escape(logical_text(self.plan))
        head = "<tr><th>column</th><th>type</th></tr>"
        return f"<table>{head}{''.join(rows)}</table><pre>{plan}</pre>"

    def pipe(self, function: Callable[[Stream], T]) -> T:
        """``function(self)``, to keep chains in reading order."""
        return function(self)

    def _changed(self, change: LifetimeChange) -> Stream:
        return Stream(Lifetime(self.plan, change))


@dataclass(frozen=True, slots=True)
class RollingStream(Frames[Stream]):
    """A stream by key whose rows have frames."""

    plan: LogicalNode
    keys: tuple[str, ...]
    frame: RowFrame
    order: tuple[OrderLike, ...]

    def _stream_of(self, plan: LogicalNode) -> Stream:
        return Stream(plan)


@dataclass(frozen=True, slots=True)
class GroupedStream(GroupedUserSteps[Stream], RunningGroups[Stream], Rolling[RollingStream]):
    """A stream by key, waiting for its windows."""

    plan: LogicalNode
    keys: tuple[str, ...]

    def _stream_of(self, plan: LogicalNode) -> Stream:
        return Stream(plan)

    def _frames_of(self, frame: RowFrame, order: tuple[OrderLike, ...]) -> RollingStream:
        return RollingStream(self.plan, self.keys, frame, order)

    def window(self, window: AnyWindow | SessionBy, *, emit: Emit = "final") -> WindowedStream:
        """These windows per key.

        ``emit="changes"`` emits the result of an open window, too. It lives from a row of the
        window until the next row, or the window's end. The final result lives from the window's
        end, for ever. Results get the columns ``window_start``, ``window_end`` and ``is_final``. A
        destination that keeps rows by key has each change at once. For a session it is the same as
        ``session(..., running=True)``.
        """
        if not isinstance(window, AnyWindow | SessionBy):
            raise InvalidPlanError(
                "window() takes hopping(...), tumbling(...), cumulating(...), snapshot(), "
                f"session(...) or count_window(...), not {window!r}"
            )
        return WindowedStream(self.plan, self.keys, *emitted(window, emit))


@dataclass(frozen=True, slots=True)
class WindowedStream(Windows[Stream]):
    """A stream by key and window, waiting for its aggregates."""

    plan: LogicalNode
    keys: tuple[str, ...]
    spec: AnyWindow | SessionBy
    #: Results so far are emitted, too.
    early: bool = False

    def _stream_of(self, plan: LogicalNode) -> Stream:
        return Stream(plan)


for _made in (Stream, GroupedStream, WindowedStream, RollingStream):
    suggest_in_class(_made)
