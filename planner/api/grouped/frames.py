"""Builds aggregates per row over a frame of its key, and values of earlier rows (lag)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from planner.api import names as naming
from planner.api.agg import Agg, Lag, OrderLike
from planner.api.choices import when
from planner.api.expressions import col
from planner.api.grouped.aggregation import aggregate_of, free_column
from planner.api.grouped.ordering import ordered
from planner.durations import positive_duration_us
from planner.errors import InvalidPlanError
from planner.expressions.nodes import checked_name
from planner.logical.nodes import LogicalNode, Over, Project, identity_columns
from rvertex.aggregates.registry import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planner.api.expressions import Expr
    from planner.durations import Duration
    from planner.expressions.nodes import Node
    from planner.logical.nodes import Aggregate

#: The type of the streams that the methods return: a subclass of the classes in this module.
MadeStream = TypeVar("MadeStream")
ROWS_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class RowFrame:
    """The frame of a row: from ``first`` before it to ``last`` before it.

    Both count rows if ``rows`` is true, else microseconds. ``first=None``: all earlier rows.
    """

    rows: bool
    first: int | None
    last: int = 0


def frame_of(rows: int | None, period: Duration | None) -> RowFrame:
    """Return the frame that ends with its row: the last ``rows`` rows, or those of ``period``."""
    if rows is not None and period is not None:
        raise InvalidPlanError("rolling() takes rows=... or period=..., not both")
    if period is not None:
        return RowFrame(False, positive_duration_us(period, what="period") - 1)
    if rows is None:
        return RowFrame(True, None)
    if not isinstance(rows, int) or isinstance(rows, bool) or not 1 <= rows <= ROWS_MAX:
        raise InvalidPlanError(f"rolling(rows={rows!r}): must be an int between 1 and {ROWS_MAX}")
    return RowFrame(True, rows - 1)


class Frames(Generic[MadeStream]):
    """A stream by key with a frame per row; ``with_columns`` adds columns over the frames."""

    __slots__ = ()
    plan: LogicalNode
    keys: tuple[str, ...]
    frame: RowFrame
    order: tuple[OrderLike, ...]

    def _stream_of(self, plan: LogicalNode) -> MadeStream:
        raise NotImplementedError

    def with_columns(self, **columns: Agg | Lag) -> MadeStream:
        """Keep all rows and columns, and add or replace columns: aggregates, and ``agg.lag``."""
        return self._stream_of(framed(self.plan, self.keys, self.frame, self.order, columns))


def framed(
    below: LogicalNode,
    keys: tuple[str, ...],
    frame: RowFrame,
    order: Sequence[OrderLike],
    columns: Mapping[str, Agg | Lag],
) -> LogicalNode:
    """Return rows with columns over their frames; see :meth:`Frames.with_columns`."""
    if not columns:
        raise InvalidPlanError("with_columns() needs a column, such as total=agg.sum('x')")
    schema = below.schema
    plan, by = below, tuple[str, ...]()
    if order:
        plan = ordered(below, order, keys)
        by = plan.by
    steps = _Steps(plan, by)
    made: dict[str, Expr] = {}
    for name, what in columns.items():
        checked_name(name)
        if isinstance(what, Lag):
            made[name] = steps.lagged(name, what)
        elif isinstance(what, Agg):
            made[name] = steps.aggregated(name, what, frame)
        else:
            raise InvalidPlanError(f"with_columns({name}=...) takes agg.sum(...) or agg.lag(...)")
    over = steps.over(keys)
    added = {name: naming.resolved(value, over.schema) for name, value in made.items()}
    return Project(over, tuple({**dict(identity_columns(schema)), **added}.items()))


class _Steps:
    """The columns that frames read and compute."""

    def __init__(self, below: LogicalNode, by: tuple[str, ...]) -> None:
        """``by``: the columns that order rows with the same start."""
        self._below, self._by = below, by
        self._inputs: dict[str, Node] = dict(identity_columns(below.schema))
        self._frames: dict[RowFrame, list[Aggregate]] = {}
        self._taken: list[str] = [*below.schema.names]

    def aggregated(self, name: str, aggregate: Agg, frame: RowFrame) -> Expr:
        """Return the column of an aggregate over a frame."""
        if frame.first is None and FUNCTIONS[aggregate.function].is_holistic(aggregate.argument):
            raise InvalidPlanError(
                f"{name}={aggregate.function}(...) needs all rows of its frame at once, so the "
                "frame needs a beginning: rolling(rows=...) or rolling(period=...)"
            )
        return col(self._add(name, aggregate, frame))

    def lagged(self, name: str, lag: Lag) -> Expr:
        """Return the column of an earlier row's value."""
        frame = RowFrame(True, lag.rows, lag.rows)
        value = col(self._add(name, Agg("first", lag.expr), frame))
        if lag.default is None:
            return value
        there = col(self._add(f"{name}_there", Agg("count", None), frame))
        return when(there > 0).then(value).otherwise(lag.default)

    def over(self, keys: tuple[str, ...]) -> LogicalNode:
        """Return the plan with all added columns."""
        plan: LogicalNode = Project(self._below, tuple(self._inputs.items()))
        for frame, aggregates in self._frames.items():
            peers = () if frame.rows or frame.first is not None else self._by
            made = tuple(aggregates)
            plan = Over(plan, keys, frame.rows, frame.first, frame.last, made, peers=peers)
        return plan

    def _add(self, name: str, aggregate: Agg, frame: RowFrame) -> str:
        output = free_column(f"over_{name}", [*self._taken, *self._inputs])
        self._taken.append(output)
        made = aggregate_of(output, aggregate, self._below.schema, self._inputs)
        self._taken += [n for n in self._inputs if n not in self._taken]
        self._frames.setdefault(frame, []).append(made)
        return output
