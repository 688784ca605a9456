"""Builds the plans of aggregations: checks the functions, and adds columns for their arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from planner.api import names as naming
from planner.api.agg import Agg
from planner.api.grouped.sessions import SessionBy
from planner.errors import InvalidPlanError
from planner.expressions.nodes import (
    Call,
    Column,
    Literal,
    Node,
    cast_to,
    checked_name,
    resolve,
)
from planner.logical.event_time import never_ends
from planner.logical.nodes import (
    Aggregate,
    CalendarStep,
    DataWindowAgg,
    Filter,
    Lifetime,
    LogicalNode,
    Project,
    WindowAgg,
    identity_columns,
)
from planner.logical.windows import (
    CalendarWindow,
    CumulatingWindow,
    RunningSession,
    SnapshotWindow,
    Window,
)
from rstream.items.batch import VE, VS
from rstream.types import INF_TIME
from rvertex.aggregates.registry import FUNCTIONS
from rvertex.aggregates.spec import AggregateSpec
from rvertex.operators.lifetimes.calendar import NOMINAL_US
from rvertex.operators.lifetimes.chop import Chop
from rvertex.operators.lifetimes.extend import Extend
from rvertex.operators.lifetimes.extend_by import ExtendBy
from rvertex.operators.lifetimes.set_duration import SetDuration
from rvertex.operators.lifetimes.shift import Shift

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planner.logical.windows import AnyWindow


def aggregated(
    below: LogicalNode,
    keys: tuple[str, ...],
    window: AnyWindow | SessionBy,
    aggregates: Mapping[str, Agg],
    unnamed: Sequence[object] = (),
) -> LogicalNode:
    """Return the plan of an aggregation; see :meth:`planner.api.grouped.steps.Windows.agg`."""
    if unnamed:
        raise InvalidPlanError("agg() needs the name of each result: write agg(n=agg.count())")
    if not aggregates:
        raise InvalidPlanError("agg() takes at least one aggregate, as n=agg.count()")
    if isinstance(window, RunningSession) or (isinstance(window, SessionBy) and window.running):
        _check_running(aggregates)
    columns = {key: Column(key, below.schema.field(key).type) for key in keys}
    specs: list[Aggregate] = []
    inputs: dict[str, Node] = dict(columns)
    for name, aggregate in aggregates.items():
        checked_name(name)
        if name in keys:
            raise InvalidPlanError(f"agg({name}=...): a key already has that name")
        if not isinstance(aggregate, Agg):
            raise InvalidPlanError(f"agg({name}=...) needs an aggregate, such as agg.count()")
        specs.append(aggregate_of(name, aggregate, below.schema, inputs))
    if not isinstance(window, SessionBy):
        return _above(Project(below, tuple(inputs.items())), keys, window, tuple(specs))
    gap = free_column("gap", [*inputs, *below.schema.names])
    plan = Project(below, (*inputs.items(), (gap, window.gap_us(below.schema))))
    return _above(Lifetime(plan, ExtendBy(gap)), keys, window.window, tuple(specs))


def _check_running(aggregates: Mapping[str, Agg]) -> None:
    """Raise for functions that a running session cannot compute."""
    for name, aggregate in aggregates.items():
        if isinstance(aggregate, Agg):
            spec = AggregateSpec(aggregate.function, "x", name, aggregate.argument)
            if not spec.can_run:
                raise InvalidPlanError(
                    f"agg({name}=...): early results change with each event, and "
                    f"{aggregate.function} needs all events of a window at once; leave "
                    "out running=True or emit='changes' (in SQL EMIT CHANGES), or the "
                    "function"
                )


def running(
    below: LogicalNode,
    keys: tuple[str, ...],
    aggregates: Mapping[str, Agg],
    unnamed: Sequence[object] = (),
) -> LogicalNode:
    """Return running aggregates; see :meth:`planner.api.grouped.steps.RunningGroups.agg`."""
    if below.is_point:
        below = Lifetime(below, Extend(INF_TIME))
    return aggregated(below, keys, SnapshotWindow(), aggregates, unnamed)


def _above(
    plan: LogicalNode,
    keys: tuple[str, ...],
    window: AnyWindow,
    aggregates: tuple[Aggregate, ...],
) -> WindowAgg | DataWindowAgg | Lifetime | CalendarStep:
    """Return the aggregation of ``plan`` by key and window.

    If the windows have an offset, events are shifted back by it, and results forward again.
    """
    points = plan.is_point
    if isinstance(window, CalendarWindow):
        return _by_calendar(plan, keys, window, aggregates)
    if isinstance(window, CumulatingWindow):
        return _cumulated(plan, keys, window, aggregates)
    if not isinstance(window, Window):
        known = points and isinstance(window, SnapshotWindow)
        endless = isinstance(window, SnapshotWindow) and never_ends(plan)
        return DataWindowAgg(plan, keys, window, aggregates, known, endless=endless)
    if window.offset_us == 0:
        return WindowAgg(plan, keys, window.size_us, window.every_us, aggregates, points)
    earlier = Lifetime(plan, Shift(-window.offset_us))
    result = WindowAgg(earlier, keys, window.size_us, window.every_us, aggregates, points)
    return Lifetime(result, Shift(window.offset_us))


def _by_calendar(
    plan: LogicalNode,
    keys: tuple[str, ...],
    window: CalendarWindow,
    aggregates: tuple[Aggregate, ...],
) -> CalendarStep:
    """Return windows by a calendar: convert times to nominal times, aggregate, convert back.

    In nominal time all months (or other periods of the calendar) have the same length.

    Raises:
        InvalidPlanError: an aggregate reads the times of events.
    """
    for aggregate in aggregates:
        if aggregate.column in (VS, VE):
            raise InvalidPlanError(
                f"{aggregate.output}: aggregates of calendar windows cannot read {VS} or "
                f"{VE}; put the time into a column before, with with_columns(...)"
            )
    unit_us = NOMINAL_US[window.calendar.unit]
    nominal = CalendarStep(plan, window.calendar, back=False)
    size_us, every_us = window.size * unit_us, window.every * unit_us
    result = WindowAgg(nominal, keys, size_us, every_us, aggregates, False)
    return CalendarStep(result, window.calendar, back=True)


def _cumulated(
    plan: LogicalNode,
    keys: tuple[str, ...],
    window: CumulatingWindow,
    aggregates: tuple[Aggregate, ...],
) -> Lifetime:
    """Extend each event to the end of its window of ``size``: all later steps include it."""
    size, step = window.size_us, window.step_us
    plan = Lifetime(plan, Shift(-window.offset_us)) if window.offset_us else plan
    if not plan.is_point:
        plan = Lifetime(plan, Chop(size, 0))
    start = checked_name(free_column("window_of", plan.schema.names))
    whole = Project(plan, (*identity_columns(plan.schema), (start, _window_number(size))))
    pieces = Lifetime(Lifetime(whole, SetDuration(size)), Chop(size, 0))
    same = Call("equal", (Column(start, pa.int64()), _window_number(size)))
    first = Filter(pieces, resolve(same, pieces.schema))
    result = WindowAgg(first, keys, step, step, aggregates, False)
    return Lifetime(result, Shift(window.offset_us))


def _window_number(size_us: int) -> Node:
    """Return the number of the window of length ``size_us`` in which an event starts."""
    number = Call("floor_divide", (Column(VS, pa.int64()), Literal(size_us, pa.int64())))
    return resolve(number, pa.schema([]))


def free_column(name: str, taken: Sequence[str]) -> str:
    while name in taken:  # terminates: ``taken`` is finite
        name += "_"
    return name


def aggregate_of(name: str, agg: Agg, schema: pa.Schema, inputs: dict[str, Node]) -> Aggregate:
    """Return the aggregate over a column of ``inputs``; a missing column is added to ``inputs``."""
    expr = agg.expr if agg.of_rows is None else agg.of_rows(schema)
    if expr is None:
        return Aggregate(agg.function, None, name, agg.argument)
    node = naming.resolved(expr, schema)
    if FUNCTIONS[agg.function].adds_booleans and node.type == pa.bool_():
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
    return Aggregate(agg.function, column, name, agg.argument)
