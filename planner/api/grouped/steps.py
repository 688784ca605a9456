"""The methods of streams that compare rows: aggregates, first rows, order, versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from planner.api import agg
from planner.api.expressions import Expr
from planner.api.grouped.aggregation import aggregated, running
from planner.api.grouped.early import early_results
from planner.api.grouped.frames import frame_of
from planner.api.grouped.ordering import first_rows, limited, sorted_together
from planner.api.grouped.versions import deduplicated, several, versions
from planner.errors import InvalidPlanError
from planner.logical.nodes import Lifetime
from planner.logical.windows import Window
from rstream.types import INF_TIME
from rvertex.operators.lifetimes.extend import Extend

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.api.agg import Agg, OrderLike
    from planner.api.expressions import ExprLike
    from planner.api.grouped.frames import RowFrame
    from planner.api.grouped.sessions import SessionBy
    from planner.durations import Duration
    from planner.logical.nodes import LogicalNode
    from planner.logical.windows import AnyWindow

#: The type of the streams that the methods return: a subclass of the classes in this module.
MadeStream = TypeVar("MadeStream")
#: The type of the streams that ``rolling`` returns, whose rows have frames.
MadeFrames = TypeVar("MadeFrames")


class Versions(Generic[MadeStream]):
    """Steps of a stream that has several rows per key."""

    __slots__ = ()
    plan: LogicalNode

    def _stream_of(self, plan: LogicalNode) -> MadeStream:
        raise NotImplementedError

    def deduplicate(
        self, on: str | Sequence[str], *more: str, within: Duration | None = None
    ) -> MadeStream:
        """Keep the first event of each key, once per ``within``, or once for ever.

        An event is dropped if a kept event of its key started less than ``within`` before it. Kept
        events are emitted at once. Null is a key like any other. Without ``within`` the state holds
        all keys of the stream.
        """
        return self._stream_of(deduplicated(self.plan, several(on, more), within))

    def upserts(
        self, key: str | Sequence[str], *more: str, deleted: ExprLike | None = None
    ) -> MadeStream:
        """Treat each row as a version of its key: it is valid until the next version starts.

        The valid rows are the table at each instant, so joins, running aggregates and windows
        follow its updates. If versions of a key start together, the last one replaces the others. A
        version with a true ``deleted`` ends the previous one and is dropped. Rows with a null key
        never end; if several start together, only the last one is kept.
        """
        return self._stream_of(versions(self.plan, several(key, more), deleted))


class OrderedSteps(Versions[MadeStream]):
    """Steps of a stream that extend its rows, order them or limit them."""

    __slots__ = ()
    plan: LogicalNode

    def _stream_of(self, plan: LogicalNode) -> MadeStream:
        raise NotImplementedError

    def for_ever(self) -> MadeStream:
        """Remove the end of every event, as in a table that only grows."""
        return self._stream_of(Lifetime(self.plan, Extend(INF_TIME)))

    def sort(self, *by: OrderLike) -> MadeStream:
        """Order events that start together by columns; the start itself always comes first.

        ``by``: columns, ascending, or :func:`planner.asc` and :func:`planner.desc` of them.
        """
        return self._stream_of(sorted_together(self.plan, by))

    def limit(self, n: int) -> MadeStream:
        """Keep the first ``n`` events in the order of the stream.

        The order is by start; ``sort`` orders events with the same start. Every run returns the
        same events, after failures, too. A query with a limit still reads its whole input: to look
        at data, :func:`streamscope.head` and :func:`streamscope.show` are faster. The first rows of
        each key or window are ``group_by(...).top(n, by)``.
        """
        return self._stream_of(limited(self.plan, n))


class RunningGroups(Generic[MadeStream]):
    """Steps of a stream by key that need no window."""

    __slots__ = ()
    plan: LogicalNode
    keys: tuple[str, ...]

    def _stream_of(self, plan: LogicalNode) -> MadeStream:
        raise NotImplementedError

    def agg(self, *unnamed: Agg, **aggregates: Agg) -> MadeStream:
        """Compute running aggregates: at each instant over the key's events that are valid then.

        A point event counts from its start and stays, like a row of a table that only grows. A
        result is valid until the next change of its key; the last result of a key never ends. As
        with :func:`planner.snapshot`, a key that does not change delays the later results of other
        keys.
        """
        return self._stream_of(running(self.plan, self.keys, aggregates, unnamed))

    def top(
        self,
        n: int,
        by: OrderLike | Sequence[OrderLike],
        *,
        rank: str = "row_number",
        place: str | None = None,
        ties: str = "first",
    ) -> MadeStream:
        """Keep the first ``n`` rows of each key at each instant, as rows; see :func:`agg.top_rows`.

        As with :meth:`agg`, a point event counts from its start on. A row is valid while it is
        among the first ``n``. ``place`` names a column for the row's rank. With it, a change of
        rank ends the row and begins another; without it the row continues.
        """
        top = agg.top_rows(n, by, rank=rank, ties=ties)
        return self._stream_of(first_rows(self.plan, self.keys, None, top, place))


class Rolling(Generic[MadeFrames]):
    """Frames of rows per key."""

    __slots__ = ()
    plan: LogicalNode
    keys: tuple[str, ...]

    def _frames_of(self, frame: RowFrame, order: tuple[OrderLike, ...]) -> MadeFrames:
        raise NotImplementedError

    def rolling(
        self,
        *,
        rows: int | None = None,
        period: Duration | None = None,
        order_by: OrderLike | Sequence[OrderLike] = (),
    ) -> MadeFrames:
        """Give each row a frame: the last ``rows`` rows of its key, or all of the last ``period``.

        The frame includes the row itself and uses starts, not lifetimes. Without ``rows`` and
        ``period`` it has all earlier rows of the key. ``period="1h"`` is the hour up to the row's
        start, inclusive, with all rows of that start. ``order_by`` orders rows with the same start,
        ascending; ties keep the order of the stream. Follow it with
        ``.with_columns(total=agg.sum("x"))``.
        """
        by = (order_by,) if isinstance(order_by, str | Expr | agg.Ordering) else order_by
        return self._frames_of(frame_of(rows, period), tuple(by))


class Windows(Generic[MadeStream]):
    """Steps of a stream by key and window."""

    __slots__ = ()
    plan: LogicalNode
    keys: tuple[str, ...]
    spec: AnyWindow | SessionBy
    early: bool

    def _stream_of(self, plan: LogicalNode) -> MadeStream:
        raise NotImplementedError

    def agg(self, *unnamed: Agg, **aggregates: Agg) -> MadeStream:
        """Emit one event per key and window that has events, valid for the window's interval.

        The columns are the keys, then ``aggregates`` in the order given.
        """
        if self.early and isinstance(self.spec, Window):
            return self._stream_of(
                early_results(self.plan, self.keys, self.spec, aggregates, unnamed)
            )
        return self._stream_of(aggregated(self.plan, self.keys, self.spec, aggregates, unnamed))

    def top(
        self,
        n: int,
        by: OrderLike | Sequence[OrderLike],
        *,
        rank: str = "row_number",
        place: str | None = None,
        ties: str = "first",
    ) -> MadeStream:
        """Keep the first ``n`` rows of each key and window, valid for the window's interval.

        ``place`` names a column for their ranks. See :func:`agg.top_rows`.
        """
        if self.early:
            raise InvalidPlanError(
                "top() of windows has no early results: leave out emit='changes', or write "
                "group_by(...).top(...) without a window"
            )
        top = agg.top_rows(n, by, rank=rank, ties=ties)
        return self._stream_of(first_rows(self.plan, self.keys, self.spec, top, place))
