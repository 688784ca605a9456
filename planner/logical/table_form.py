"""Time columns of a result as users read it: their names, and whether they can be omitted.

The lifetimes of windows are ``window_start`` and ``window_end``; all others, also those of running
sessions, are ``start`` and ``end``. A column of the query can replace one of them if it is ``vs()``
or ``ve()`` by definition, or the timestamp column from which a source takes the time. A time column
can be omitted if it follows from such a column, or from a length that all events have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from planner.errors import InvalidPlanError
from planner.expressions.nodes import Call, Column, Node, checked_name
from planner.expressions.types import TIMESTAMP_UTC
from planner.logical.nodes import (
    DataWindowAgg,
    Exchange,
    Explode,
    Extremes,
    Filter,
    Lifetime,
    LogicalNode,
    Project,
    Recover,
    Source,
    Union,
    WindowAgg,
)
from planner.logical.windows import RunningSession
from rstream.format.table import TableForm
from rstream.items.batch import EVENT, RESERVED, VE, VS, int64_column, kinds, lifetimes
from rstream.types import INF_TIME
from rvertex.operators.lifetimes.set_duration import SetDuration
from rvertex.operators.lifetimes.shift import Shift

if TYPE_CHECKING:
    from collections.abc import Collection

#: Stands for the usual name of a time column.
DEFAULT = ""
_WINDOW_NAMES = ("window_start", "window_end")
_NAMES = ("start", "end")
_ROLES = {VS: "start", VE: "end"}


def table_form(plan: LogicalNode, start: str | None, end: str | None) -> TableForm:
    """Return how events of ``plan`` are written; ``None`` omits a column, DEFAULT keeps its name.

    Raises:
        InvalidPlanError: a name is taken, or an omitted column does not follow from the others.
    """
    usual = _WINDOW_NAMES if is_of_windows(plan) else _NAMES
    first = _bound(plan, VS, start, usual[0])
    last = _bound(plan, VE, end, usual[1])
    if first is None:
        raise InvalidPlanError(
            "start=None: the files would lack the starts of events; select vs() as a column "
            "of the query, or give the column a name"
        )
    if first == last:
        raise InvalidPlanError(f"start and end cannot both be called {first!r}")
    if last is not None:
        return TableForm(first, last)
    length_us = fixed_length_us(plan)
    if length_us is None:
        raise InvalidPlanError(
            "end=None: the files would lack the ends of events, whose lengths differ; "
            "select ve() as a column of the query, or give the column a name"
        )
    return TableForm(first, None, length_us)


def side_form(taken: Collection[str]) -> TableForm:
    """Return how late and bad rows are written; no time column gets a name in ``taken``."""
    start, end = _NAMES
    while start in taken or end in taken:  # terminates: ``taken`` is finite
        start, end = f"event_{start}", f"event_{end}"
    return TableForm(start, end)


def is_of_windows(plan: LogicalNode) -> bool:
    """Return whether the lifetime of every event is a window."""
    match plan:
        case DataWindowAgg(window=RunningSession()):
            return False
        case WindowAgg() | DataWindowAgg():
            return True
        case Union(branches=branches):
            return all(is_of_windows(branch) for branch in branches)
        case _:
            return plan.keeps_lifetimes and is_of_windows(plan.inputs[0])


def fixed_length_us(plan: LogicalNode) -> int | None:
    """Return the length of all events; None: they may differ."""
    if plan.is_point:
        return 1
    match plan:
        case Source(spec=spec) if spec.items is not None:
            events = spec.items.filter(pa.array(kinds(spec.items) == EVENT))
            lengths = np.unique(lifetimes(int64_column(events, VS), int64_column(events, VE)))
            return int(lengths[0]) if len(lengths) == 1 and lengths[0] <= INF_TIME else None
        case Source(spec=spec):
            return None if spec.late == "adjust" else spec.length_us
        case WindowAgg(size_us=size_us):
            return size_us
        case Lifetime(change=SetDuration(duration_us=length)):
            return length
        case Lifetime(change=Shift(), input=below):
            return fixed_length_us(below)
        case Union(branches=branches):
            known = {fixed_length_us(branch) for branch in branches}
            return known.pop() if len(known) == 1 else None
        case _:
            return fixed_length_us(plan.inputs[0]) if plan.keeps_lifetimes else None


def _bound(plan: LogicalNode, time: str, given: str | None, usual: str) -> str | None:
    """Return the name of one of the two columns; None: it is omitted."""
    names = plan.schema.names
    if given is None:
        return next((name for name in names if _is_time(plan, name, time)), None)
    name = checked_name(given or usual)
    if name in names and not _is_time(plan, name, time):
        role = _ROLES[time]
        raise InvalidPlanError(
            f"column {name!r} of the query has the name that the {role} of lifetimes has "
            f"in the files: rename it, or name the {role} with to_parquet({role}='...'), "
            "in SQL with that option of the target of INSERT INTO"
        )
    return name


def _is_time(plan: LogicalNode, name: str, time: str) -> bool:
    """Return whether column ``name`` is the start (or the end) of each event."""
    match plan:
        case Project(columns=columns):
            expr = dict(columns)[name]
            if isinstance(expr, Column) and expr.name not in RESERVED:
                return _is_time(plan.input, expr.name, time)
            return _is_timestamp_of(expr, time)
        case Source(spec=spec):
            is_moved = spec.late == "adjust" or spec.schema.field(name).type != TIMESTAMP_UTC
            return not is_moved and name == (spec.vs if time == VS else spec.ve)
        case Explode(column=column) if column == name:
            return False
        case Union(branches=branches):
            return all(_is_time(branch, name, time) for branch in branches)
        case Filter() | Explode() | Extremes() | Recover() | Exchange():
            return _is_time(plan.input, name, time)
        case _:
            return False


def _is_timestamp_of(expr: Node, time: str) -> bool:
    return (
        isinstance(expr, Call)
        and expr.function == "cast"
        and expr.type == TIMESTAMP_UTC
        and len(expr.args) == 1
        and isinstance(expr.args[0], Column)
        and expr.args[0].name == time
    )
