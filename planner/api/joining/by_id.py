"""Joins events with the earlier or later event whose id they carry, as Google's Photon does.

The plan is two interval joins: one pairs foreign events that find their partner in time, and marks
the others; the second pairs marked events whose partner arrives later. Duplicates are dropped
before, so each foreign event is joined at most once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from planner.api import names as naming
from planner.api.expressions import col, lit
from planner.api.grouped.aggregation import free_column
from planner.api.grouped.versions import deduplicated
from planner.api.joining.intervals import interval_nodes
from planner.durations import duration_us, positive_duration_us
from planner.errors import InvalidPlanError
from planner.logical.nodes import Filter, Project, Union, identity_columns

if TYPE_CHECKING:
    from planner.api.expressions import Expr
    from planner.durations import Duration
    from planner.logical.nodes import LogicalNode

MadeStream = TypeVar("MadeStream")

UNJOINABLE = "unjoinable"


class IdJoins(Generic[MadeStream]):
    """The join of a stream of primary events with a stream of foreign ones."""

    __slots__ = ()
    plan: LogicalNode

    def _stream_of(self, plan: LogicalNode) -> MadeStream:
        raise NotImplementedError

    def join_by_id(
        self,
        foreign: IdJoins[MadeStream],
        *,
        on: str,
        unjoinable_after: Duration,
        retry: Duration = 0,
        id: str | None = None,
    ) -> MadeStream:
        """Pair each event of ``foreign`` with the event of this stream whose id it carries.

        For example ``searches.join_by_id(clicks, on="query_id", unjoinable_after="26h",
        id="click_id")``. Either event may start first; the state keeps both for
        ``unjoinable_after``. A foreign event without a partner is emitted after that time, with
        null in the columns of this stream and true in ``unjoinable``. If its partner starts up to
        ``retry`` later than that, the event is emitted again, joined. Events of this stream with
        equal ``on`` count once, and so do foreign events with equal ``id``, a column of
        ``foreign``.

        The result has the columns of ``foreign``, of this stream, and ``unjoinable``. A pair is a
        point event at the later of both starts.
        """
        if not isinstance(foreign, IdJoins):
            raise InvalidPlanError(f"join_by_id() takes another stream, not {foreign!r}")
        after_us = positive_duration_us(unjoinable_after, what="unjoinable_after")
        retry_us = duration_us(retry, what="retry")
        if retry_us < 0:
            raise InvalidPlanError(f"join_by_id(retry={retry!r}): must be 0 or more")
        return self._stream_of(joined_by_id(self.plan, foreign.plan, on, id, after_us, retry_us))


def joined_by_id(
    primary: LogicalNode,
    foreign: LogicalNode,
    on: str,
    id_: str | None,
    after_us: int,
    retry_us: int,
) -> LogicalNode:
    """Return the plan of a join by id; see :meth:`IdJoins.join_by_id`."""
    # Kept events with equal ids are further apart than any join reaches, so none joins twice.
    reach_us = 2 * after_us + retry_us + 1
    for plan in (primary, foreign):
        naming.require(plan.schema, on, "join_by_id")
        if UNJOINABLE in plan.schema.names:
            raise InvalidPlanError(f"join_by_id() adds the column {UNJOINABLE!r}: rename yours")
    if id_ is not None:
        naming.require(foreign.schema, id_, "join_by_id")
        with_id, without = col(id_).is_not_null(), col(id_).is_null()
        first = deduplicated(_filtered(foreign, with_id), (id_,), reach_us)
        foreign = Union((first, _filtered(foreign, without)))
    mark = free_column("is_joined", [*primary.schema.names, *foreign.schema.names])
    unique = deduplicated(primary, (on,), reach_us)
    marked = naming.with_columns(unique, (), {mark: lit(True)})
    keys = (on, None, None)
    pairs = interval_nodes(foreign, marked, keys, "left", None, (-after_us, after_us))
    answer = _flagged(pairs, mark)
    if retry_us == 0:
        return answer
    bounds = (after_us + 1, after_us + retry_us)
    later = interval_nodes(foreign, marked, keys, "inner", None, bounds)
    return Union((answer, _flagged(later, mark)))


def _flagged(pairs: LogicalNode, mark: str) -> LogicalNode:
    kept = tuple((n, c) for n, c in identity_columns(pairs.schema) if n != mark)
    flag = naming.resolved(col(mark).is_null(), pairs.schema)
    return Project(pairs, (*kept, (UNJOINABLE, flag)))


def _filtered(plan: LogicalNode, predicate: Expr) -> LogicalNode:
    return Filter(plan, naming.resolved_predicate(predicate, plan.schema))
