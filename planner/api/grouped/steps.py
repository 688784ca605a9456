"""The methods of streams for what is alive together: aggregates, first rows, orders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from planner.api import agg
from planner.api.expressions import Expr
from planner.api.grouped.aggregation import aggregated, running
from planner.api.grouped.frames import frame_of
from planner.api.grouped.ordering import first_rows, limited, sorted_together
from planner.api.grouped.versions import deduplicated, several, versions
from planner.logical.nodes import Lifetime
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

#: The class of streams, which is built upon these.
MadeStream = TypeVar("MadeStream")
#: The class of streams whose rows have frames.
MadeFrames = TypeVar("MadeFrames")


class Versions(Generic[MadeStream]):
    """Steps of a stream whose rows come again under one key."""

    __slots__ = ()
    plan: LogicalNode

    def _stream_of(self, plan: LogicalNode) -> MadeStream:
        raise NotImplementedError

    def deduplicate(
        self, on: str | Sequence[str], *more: str, within: Duration | None = None
    ) -> MadeStream:
        """The first event of each key: one of equal ``on`` in ``within``, or one for ever.

        An event is left out if one of its key that was kept started less than ``within`` before.
        What is kept comes at once. Null is a key like any other. Without ``within`` every key is
        remembered for as long as the stream goes on.
        """
        return self._stream_of(deduplicated(self.plan, several(on, more), within))

    def upserts(
        self, key: str | Sequence[str], *more: str, deleted: ExprLike | None = None
    ) -> MadeStream:
        """Each row as a version of its key: it lives until the next one of its key starts.

        So what is alive is the table as it was at each instant, and joins, running aggregates and
        windows follow its updates. Of versions that start together the last counts. A version for
        which ``deleted`` is true ends the one before it, and is not there itself. Rows of a null
        key end nothing and last for ever; of those that start together the last counts, too.
        """
        return self._stream_of(versions(self.plan, several(key, more), deleted))


class OrderedSteps(Versions[MadeStream]):
    """Steps of a stream that make rows last, or order them."""

    __slots__ = ()
    plan: LogicalNode

    def _stream_of(self, plan: LogicalNode) -> MadeStream:
        raise NotImplementedError

    def for_ever(self) -> MadeStream:
        """Events that never end, as rows of a table that only grows."""
        return self._stream_of(Lifetime(self.plan, Extend(INF_TIME)))

    def sort(self, *by: OrderLike) -> MadeStream:
        """Events that start together in the order of columns; time still goes first.

        ``by``: columns, from the least on, or :func:`planner.asc` and :func:`planner.desc` of them.
        """
        return self._stream_of(sorted_together(self.plan, by))

    def limit(self, n: int) -> MadeStream:
        """The first ``n`` events in the order of the stream.

        That is the order of time; ``sort`` decides about those that start together. They are the
        same ones on every run, whatever fails. To look at data, :func:`streamscope.head` and
        :func:`streamscope.show` are quicker: a query with a limit still reads its input to the end.
        The first rows of each key or window are ``group_by(...).top(n, by)``.
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
        """Running results: at each instant the aggregates of the key's events that are alive then.

        A point counts from its start on, for ever, as a row of a table that only grows. A result
        lives until the next change of its key, and is final then: what is still to change when the
        stream ends lives for ever. As with :func:`planner.snapshot`, a key that does not change
        holds back the results of others that start later.
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
        """The first ``n`` rows of each key at each instant, as rows; see :func:`agg.top_rows`.

        As with :meth:`agg` a point counts from its start on. Each row lives as long as it is among
        the first, at one place. ``place`` names a column for that; None: there is none, and a row
        lives on when its place changes.
        """
        top = agg.top_rows(n, by, rank=rank, ties=ties)
        return self._stream_of(first_rows(self.plan, self.keys, None, top, place))


class Rolling(Generic[MadeFrames]):
    """Frames of a stream's rows by key."""

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
        """For each row the last ``rows`` rows of its key, or those that started in ``period``.

        Both end with the row itself and go by starts, however long rows live; without either the
        frame holds all rows of the key so far. ``period="1h"`` is the hour up to and with the row's
        start, and holds all rows that start together with it. Of rows that start together
        ``order_by`` says which comes first, from the least on; where that leaves two equal, the
        order of the stream does. Follow it with ``.with_columns(total=agg.sum("x"))``.
        """
        by = (order_by,) if isinstance(order_by, str | Expr | agg.Ordering) else order_by
        return self._frames_of(frame_of(rows, period), tuple(by))


class Windows(Generic[MadeStream]):
    """Steps of a stream by key and window."""

    __slots__ = ()
    plan: LogicalNode
    keys: tuple[str, ...]
    spec: AnyWindow | SessionBy

    def _stream_of(self, plan: LogicalNode) -> MadeStream:
        raise NotImplementedError

    def agg(self, *unnamed: Agg, **aggregates: Agg) -> MadeStream:
        """One event per key and window that has events, alive as long as the window.

        The columns are the keys, then ``aggregates`` in the order given.
        """
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
        """The first ``n`` rows of each key and window, as rows that live as long as the window.

        ``place`` names a column for their ranks. See :func:`agg.top_rows`.
        """
        top = agg.top_rows(n, by, rank=rank, ties=ties)
        return self._stream_of(first_rows(self.plan, self.keys, self.spec, top, place))
