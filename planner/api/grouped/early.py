"""Early results of windows: ``.window(tumbling("1m"), emit="changes")``.

An early result of a key and window is valid from one row in the window to the next, or to the
window's end. The final result is valid from the window's end on, for ever. Both have columns for
the bounds of the window, and whether they are final. The plan is a union of existing nodes: the
windows themselves, and a session per key and window, whose rows are extended to the end of the
window.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from planner.api import names as naming
from planner.api.expressions import col, lit, ve, vs
from planner.api.grouped.aggregation import aggregated
from planner.api.grouped.sessions import SessionBy
from planner.durations import format_us
from planner.errors import InvalidPlanError
from planner.logical.event_time import never_ends
from planner.logical.nodes import Filter, Lifetime, Project, Source, Union, identity_columns
from planner.logical.table_form import fixed_length_us
from planner.logical.windows import RunningSession, SessionWindow, Window
from rstream.types import INF_TIME
from rvertex.operators.lifetimes.chop import Chop
from rvertex.operators.lifetimes.extend import Extend
from rvertex.operators.lifetimes.set_duration import SetDuration
from rvertex.operators.lifetimes.shift import Shift

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planner.api.agg import Agg
    from planner.logical.nodes import LogicalNode
    from planner.logical.windows import AnyWindow

#: When windows emit: "final", once when they close; "changes", also at each change before.
Emit = Literal["final", "changes"]
#: The columns that are added: the window's bounds, and whether the result is final.
START, END, IS_FINAL = "window_start", "window_end", "is_final"
ADDED = (START, END, IS_FINAL)
#: The most overlapping windows that a row may be in: the row is copied for each of them.
_COPIES_MAX = 100


def emitted(window: AnyWindow | SessionBy, emit: Emit) -> tuple[AnyWindow | SessionBy, bool]:
    """Return the window to aggregate, and whether its early results are emitted as well."""
    if emit not in ("final", "changes"):
        raise InvalidPlanError(f"window(emit={emit!r}): emit must be 'final' or 'changes'")
    if emit == "final" or isinstance(window, RunningSession):
        return window, False
    match window:
        case Window():
            return window, True
        case SessionBy():
            return replace(window, running=True), False
        case SessionWindow(gap_us, max_us):
            return RunningSession(gap_us, max_us), False
    raise InvalidPlanError(
        f"window({type(window).__name__}, emit='changes'): only tumbling(), hopping() and "
        "session() have early results; group_by(...).agg(...) without a window emits each change"
    )


def early_results(
    below: LogicalNode,
    keys: tuple[str, ...],
    window: Window,
    aggregates: Mapping[str, Agg],
    unnamed: Sequence[object] = (),
) -> LogicalNode:
    """Return early and final results of windows; see :meth:`GroupedStream.window`."""
    for name in ADDED:
        if name in keys or name in aggregates:
            raise InvalidPlanError(
                f"window(emit='changes') adds the columns {', '.join(ADDED)}; rename your {name}"
            )
    if never_ends(below) or not _ends_are_known(below):
        raise InvalidPlanError(
            "window(emit='changes') needs rows whose ends are known when they begin; to "
            "count each in the window in which it begins, write .set_duration(1) before "
            "group_by()"
        )
    final = aggregated(below, keys, window, aggregates, unnamed)
    size, offset = window.size_us, window.offset_us
    if size % window.every_us or size // window.every_us > _COPIES_MAX:
        raise InvalidPlanError(
            f"window(hopping({format_us(size)}, {format_us(window.every_us)}), emit='changes'): "
            f"the size must be a multiple of the step, at most {_COPIES_MAX} times it"
        )
    phases = [_in_window(below, size, offset + phase) for phase in range(0, size, window.every_us)]
    rows = Union(tuple(phases)) if len(phases) > 1 else phases[0]
    grown = aggregated(rows, (*keys, START, END), RunningSession(1, None), aggregates)
    early = naming.with_columns(grown, (), {IS_FINAL: lit(value=False)})
    bounded = naming.with_columns(final, (), {START: vs(), END: ve(), IS_FINAL: lit(value=True)})
    columns = dict(identity_columns(bounded.schema))
    ordered = Project(bounded, tuple((name, columns[name]) for name in early.schema.names))
    lasting = Lifetime(Lifetime(ordered, Shift(size)), Extend(INF_TIME))
    return Union((early, lasting))


def _ends_are_known(plan: LogicalNode) -> bool:
    """Return whether the end of a row is known when it begins."""
    if isinstance(plan, Source) or fixed_length_us(plan) is not None:
        return True
    is_passed = isinstance(plan, Union) or plan.keeps_lifetimes
    return is_passed and all(map(_ends_are_known, plan.inputs))


def _in_window(plan: LogicalNode, size: int, offset: int) -> LogicalNode:
    """Extend rows to the end of their tumbling window; split rows that overlap several windows."""
    pieces = plan if plan.is_point else Lifetime(plan, Chop(size, offset))
    away = lit(timedelta(microseconds=offset))
    start = vs().dt.truncate(size) if offset == 0 else (vs() - away).dt.truncate(size) + away
    end = start + lit(timedelta(microseconds=size))
    bounded = naming.with_columns(pieces, (), {START: start, END: end})
    lasting = Lifetime(Lifetime(bounded, SetDuration(size)), Chop(size, offset))
    return Filter(lasting, naming.resolved(vs() < col(END), lasting.schema))
