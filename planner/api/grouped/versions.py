"""Builds deduplication, and rows that are versions of their key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.api import agg, names as naming
from planner.api.expressions import col, lit_or
from planner.api.grouped.aggregation import aggregated, free_column
from planner.api.joining.pairs import clip_nodes
from planner.durations import positive_duration_us
from planner.errors import InvalidPlanError
from planner.expressions.nodes import Column
from planner.logical.nodes import Distinct, Filter, Lifetime, LogicalNode, Project, identity_columns
from planner.logical.windows import SnapshotWindow
from rstream.types import INF_TIME
from rvertex.operators.lifetimes.extend import Extend
from rvertex.operators.lifetimes.set_duration import SetDuration

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from planner.api.expressions import ExprLike
    from planner.durations import Duration


def several(on: str | Sequence[str], more: tuple[str, ...]) -> Sequence[str]:
    """Return the columns of a key, which may be one list or several arguments."""
    first = on if isinstance(on, list | tuple) else (on,)
    return (*first, *more)


def deduplicated(below: LogicalNode, on: Sequence[str], within: Duration | None) -> LogicalNode:
    """Return first events; see :meth:`planner.api.grouped.steps.Versions.deduplicate`."""
    names = _keys(below.schema, on, "deduplicate")
    if within is None:
        return Distinct(below, names, int(INF_TIME))
    return Distinct(below, names, positive_duration_us(within, what="within"))


def versions(below: LogicalNode, key: Sequence[str], deleted: ExprLike | None) -> LogicalNode:
    """Return versions of keys; see :meth:`planner.api.grouped.steps.Versions.upserts`."""
    keys = _keys(below.schema, key, "upserts")
    kept = identity_columns(below.schema)
    plan = below if below.is_point else Lifetime(below, SetDuration(1))
    mark = free_column("is_deleted", below.schema.names)
    condition = lit_or(False if deleted is None else deleted).fill_null(False)
    node = naming.resolved_predicate(condition, below.schema)
    plan = Project(plan, (*kept, (mark, node)))
    others = [name for name in plan.schema.names if name not in keys]
    last = {name: agg.last(name) for name in others}
    # Keep only the last of the versions of a key that start together.
    newest = aggregated(plan, keys, SnapshotWindow(), last)
    lasting = Lifetime(newest, Extend(INF_TIME))
    clipped = clip_nodes(lasting, lasting, keys)
    alive = Filter(clipped, naming.resolved(~col(mark), clipped.schema))
    return Project(alive, tuple((name, Column(name, node.type)) for name, node in kept))


def _keys(schema: pa.Schema, on: Sequence[str], what: str) -> tuple[str, ...]:
    given: list[object] = list(on)
    names = [name for name in given if isinstance(name, str)]
    wrong = [name for name in given if not isinstance(name, str)]
    if wrong or not names:
        got = f", not {wrong[0]!r:.80}; compute it before, with_columns(key=...)" if wrong else ""
        raise InvalidPlanError(f"{what}() takes the names of a key's columns{got}")
    for name in names:
        kind = naming.require(schema, name, what)
        naming.require_groupable(name, Column(name, kind))
    return tuple(dict.fromkeys(names))
