"""Window functions in FROM: ``TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE))``.

With ``GROUP BY window_start, window_end`` they are the windows of the aggregation, as if GROUP BY
named them. Without it, each row is emitted once per window that it is in, with the window's bounds
as columns, and is valid from its own start to the window's end. So rows of one window overlap, and
joins of them are joins in the window.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from math import gcd
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from planner.api.expressions import Expr, col, lit, ve, vs
from planner.errors import InvalidPlanError
from planner.logical.event_time import is_event_time, never_ends
from planner.logical.nodes import IntervalJoin
from planner.logical.traversal import topological
from planner.logical.windows import (
    CalendarWindow,
    CumulatingWindow,
    SessionWindow,
    Window,
    cumulating,
    hopping,
    session,
    tumbling,
)
from planner.sql.expressions.engines.calendar_lengths import by_calendar, in_zone
from planner.sql.expressions.scope import (
    Bound,
    InWindows,
    Rows,
    Scope,
    Visible,
    WindowInFrom,
    scope_of,
    scope_of_rows,
)
from planner.sql.expressions.windowing import length
from planner.sql.reading.grammar import Descriptor, TableArgument, WindowTable
from planner.sql.windows.in_windows import BOUNDS, common_bounds, fits_within, same_kinds
from rstream.items.batch import VS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from planner.api.grouped.sessions import SessionBy
    from planner.api.stream import Stream
    from planner.logical.windows import AnyWindow
    from planner.sql.expressions.names import Names
    from planner.sql.reading.parsing import SqlText

#: Function -> the function that makes the window, and its arguments; ``?`` marks optional ones.
_FUNCTIONS: dict[str, tuple[Callable[..., AnyWindow], tuple[str, ...]]] = {
    "TUMBLE": (tumbling, ("SIZE", "OFFSET?")),
    "HOP": (
        lambda slide, size, offset=0: hopping(size, slide, offset),
        ("SLIDE", "SIZE", "OFFSET?"),
    ),
    "SESSION": (session, ("GAP",)),
    "CUMULATE": (
        lambda step, size, offset=0: cumulating(size, step, offset),
        ("STEP", "SIZE", "OFFSET?"),
    ),
}
_OF_PAIRS = (
    "vs(), which is the later time of a pair that is joined by time: write DESCRIPTOR(vs()), or "
    "make the windows before the join"
)
#: The most overlapping windows that a row may be in: the row is copied for each of them.
_COPIES_MAX = 100
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class _Call:
    """The arguments of a window function, by name."""

    node: WindowTable
    text: SqlText
    table: exp.Table
    time: exp.Expr
    keys: tuple[exp.Column, ...]
    lengths: tuple[exp.Expr, ...]

    @property
    def name(self) -> str:
        return self.node.name.upper()


def window_table(node: WindowTable, names: Names) -> Scope:
    """Return the relation of a window function; its windows are applied later."""
    call = _read(node, names.text)
    rows = names.rows(call.table)
    stream = rows.stream
    zone = names.zone if _is_zoned(call, stream) else ""
    spec = _spec(call, zone)
    if never_ends(stream.plan) or not _are_within(rows, spec):
        stream = stream.set_duration(1)  # the start of a row decides its windows
    relation = node.alias or call.table.name
    scope = scope_of(stream, relation)
    _check_time(call, scope, rows, spec)
    for bound in BOUNDS:
        if bound in stream.schema.names:
            raise call.text.error(node, f"the stream has a column {bound!r}; rename it first")
    keys = tuple(scope.column(key, call.text) for key in call.keys)
    if keys and call.name != "SESSION":
        raise call.text.error(call.keys[0], f"{call.name} takes no PARTITION BY; SESSION does")
    window = WindowInFrom(spec, relation, keys, zone)
    return replace(scope, window=window)


def bound_of(spec: AnyWindow | SessionBy | None, name: str, zone: str = "") -> Expr:
    """Return a bound of a window over its aggregation, in local time if it has a zone."""
    if zone and name != "window_time":
        return bound_of(spec, name).dt.at_zone(zone)
    if name == "window_start":
        return (
            _floored(vs(), spec.size_us, spec.offset_us)
            if isinstance(spec, CumulatingWindow)
            else vs()
        )
    return ve() if name == "window_end" else ve() - lit(_MILLISECOND)


def with_rows_of_windows(scope: Scope, node: exp.Expr, names: Names) -> Scope:
    """Return the rows with the bounds of their windows as columns, once per window."""
    window = scope.window
    if window is None:
        return scope
    spec = window.spec
    if not isinstance(spec, Window) or window.zone:
        kind = "SESSION" if isinstance(spec, SessionWindow) else "CUMULATE"
        kind = "windows by a calendar" if isinstance(spec, CalendarWindow) else kind
        raise names.text.error(
            node,
            f"rows of {kind} need GROUP BY; write GROUP BY window_start, window_end",
        )
    if spec.size_us % spec.every_us or spec.size_us // spec.every_us > _COPIES_MAX:
        raise names.text.error(
            node,
            "to use rows of HOP without GROUP BY, SIZE must be a multiple of SLIDE, at "
            f"most {_COPIES_MAX} times it; else write GROUP BY window_start, window_end",
        )
    phases = range(0, spec.size_us, spec.every_us)
    with names.text.located(node):
        first, *others = (
            _in_windows(scope.stream, spec.size_us, spec.offset_us + phase) for phase in phases
        )
        stream = first.union(*others)
    added = tuple(Visible(window.relation, name, name, Bound(name, spec)) for name in BOUNDS)
    return replace(
        scope,
        stream=stream,
        columns=(*scope.columns, *added),
        window=None,
        in_windows=InWindows((spec,), has_rows=True),
    )


def in_whole_windows(
    left: Scope, right: Scope, conditions: Iterable[exp.Expr]
) -> tuple[Scope, Scope]:
    """Extend both sides of an outer or anti join in windows to their windows' lifetimes.

    Otherwise a row would have no match until its match starts, and be emitted twice.
    """
    is_joined = any(same_kinds(part, left, right) for part in conditions)
    return _both_whole(left, right, is_joined=is_joined)


def compared_in_windows(left: Rows, right: Rows) -> tuple[Rows, Rows]:
    """Extend both sides of EXCEPT or INTERSECT in windows to their windows' lifetimes."""
    bounds = common_bounds([left, right]).values()
    sides = (scope_of_rows(left, ""), scope_of_rows(right, ""))
    made = _both_whole(*sides, is_joined=any(bound.window is not None for bound in bounds))
    new_left, new_right = (
        replace(rows, stream=side.stream, in_windows=side.in_windows)
        for rows, side in zip((left, right), made, strict=True)
    )
    return new_left, new_right


def _both_whole(left: Scope, right: Scope, *, is_joined: bool) -> tuple[Scope, Scope]:
    windows = {window for side in (left, right) for window in side.in_windows.windows}
    window = windows.pop() if len(windows) == 1 else None
    if window is None or left.in_windows.windows != right.in_windows.windows:
        return left, right
    if not is_joined and window.size_us > window.every_us:
        return left, right
    return _whole(left, window), _whole(right, window)


def _whole(side: Scope, window: Window) -> Scope:
    """Return the rows that are valid when their window ends, with their window's lifetime."""
    lives = side.in_windows
    bounds = [(c.column, c.bound) for c in side.columns if c.bound is not None]
    known = [pair for pair in bounds if pair[1].window == window and not pair[1].is_nullable]
    if lives.is_whole or lives.is_crossed or lives.refused or not known:
        return side
    column, bound = known[0]
    rows = side.stream.filter(ve() == _end_of(bound, col(column)))
    whole = rows.point_at_end().shift(-window.size_us).set_duration(window.size_us)
    return replace(side, stream=whole, in_windows=replace(lives, is_whole=True))


def _end_of(bound: Bound, value: Expr) -> Expr:
    """Return the end of the window of which ``value`` is the ``bound``."""
    assert bound.window is not None, bound
    size = timedelta(microseconds=bound.window.size_us)
    add = {"window_start": size, "window_time": _MILLISECOND}
    return value + lit(add[bound.kind]) if bound.kind in add else value


def of_each_window(
    stream: Stream, bound: Bound, value: Expr, make: Callable[[Stream, Window], Stream]
) -> Stream:
    """Apply ``make`` to the rows of each window that are valid when the window ends.

    ``value`` is the ``bound`` of their window. Rows of joins may end before: rows whose match
    ended, and rows that had no match until one arrived. ``make`` gets each row as a point at its
    own start, in tumbling windows. Overlapping windows are split into sets without overlap, one
    after the other.

    Raises:
        InvalidPlanError: more than ``_COPIES_MAX`` windows overlap.
    """
    window = bound.window
    assert window is not None, bound
    size = window.size_us
    rows = stream.filter(ve() == _end_of(bound, value))
    kinds = size // gcd(size, window.every_us)
    if kinds == 1:
        return make(rows.set_duration(1), window)
    if kinds > _COPIES_MAX:
        raise InvalidPlanError(
            f"at most {_COPIES_MAX} windows of HOP may overlap, and SIZE must be a "
            "multiple of SLIDE"
        )
    made = []
    for phase in range(0, size, size // kinds):
        of_kind = tumbling(size, window.offset_us + phase)
        is_of_kind = _floored(ve(), size, of_kind.offset_us) == ve()
        made.append(make(rows.filter(is_of_kind).set_duration(1), of_kind))
    return made[0].union(*made[1:])


def _in_windows(stream: Stream, size_us: int, offset_us: int) -> Stream:
    """Extend rows to the end of their tumbling window; split rows that overlap several windows."""
    pieces = stream if stream.plan.is_point else stream.chop(size_us, offset_us)
    start = _floored(vs(), size_us, offset_us)
    end = start + lit(timedelta(microseconds=size_us))
    bounded = pieces.with_columns(
        window_start=start, window_end=end, window_time=end - lit(_MILLISECOND)
    )
    lasting = bounded.set_duration(size_us).chop(size_us, offset_us)
    return lasting.filter(vs() < col("window_end"))


def _floored(time: Expr, size_us: int, offset_us: int) -> Expr:
    offset = lit(timedelta(microseconds=offset_us))
    if offset_us == 0:
        return time.dt.truncate(size_us)
    return (time - offset).dt.truncate(size_us) + offset


def _is_zoned(call: _Call, stream: Stream) -> bool:
    """Return whether the time of the windows is an instant, as TIMESTAMP_LTZ is."""
    kinds = {field.name: field.type for field in stream.schema}
    kind = kinds.get(call.time.name)
    return kind is not None and pa.types.is_timestamp(kind) and kind.tz is not None


def _spec(call: _Call, zone: str) -> AnyWindow:
    make, wanted = _FUNCTIONS[call.name]
    count = sum(not what.endswith("?") for what in wanted)
    with call.text.located(call.node):
        if call.name in ("TUMBLE", "HOP"):
            offset = call.lengths[count:]
            offset_us = length(offset[0], call.text, least=None) if offset else 0
            by_period = by_calendar(call.lengths[:count][::-1], offset_us, zone)
            if by_period is not None:
                return by_period
    values = [
        length(part, call.text, least=None if what == "OFFSET?" else 1)
        for part, what in zip(call.lengths, wanted, strict=False)
    ]
    if call.name in ("HOP", "CUMULATE") and values[0] > values[1]:
        shorter, longer = wanted[:2]
        raise call.text.error(
            call.node, f"{call.name} takes the {shorter} first, then the {longer}, which is longer"
        )
    with call.text.located(call.node):
        return in_zone(make(*values), zone) if zone else make(*values)


def _read(node: WindowTable, text: SqlText) -> _Call:
    """Return the arguments, by position or by name (``SIZE => ...``)."""
    name = node.name.upper()
    wanted = ("DATA", "TIMECOL", *_FUNCTIONS[name][1])
    known = {what.removesuffix("?"): what for what in wanted}
    arguments: dict[str, exp.Expr] = {}
    for place, part in enumerate(node.expressions):
        key = part.this.name.upper() if isinstance(part, exp.Kwarg) else None
        if key is None and place < len(wanted):
            key = wanted[place].removesuffix("?")
        if key not in known or key in arguments:
            raise text.error(part, _usage(name, wanted))
        arguments[key] = part.expression if isinstance(part, exp.Kwarg) else part
    if any(what not in arguments for what in wanted if not what.endswith("?")):
        raise text.error(node, _usage(name, wanted))
    table, keys = arguments["DATA"], ()
    if isinstance(table, TableArgument):
        keys, table = tuple(table.expressions), table.this
    if isinstance(table, exp.Column) and not table.table:
        table = exp.Table(this=table.this)
    if not isinstance(table, exp.Table) or table.args.get("version") is not None:
        raise text.error(
            table, f"{name} takes the name of a stream; name a query by WITH or CREATE VIEW"
        )
    time = arguments["TIMECOL"]
    time = time.this if isinstance(time, Descriptor) else time
    lengths = tuple(arguments[what] for what in known if what in arguments)[2:]
    return _Call(node, text, table, time, keys, lengths)


def _usage(name: str, wanted: Sequence[str]) -> str:
    shown = {"DATA": "TABLE t", "TIMECOL": "DESCRIPTOR(ts)"}
    parts = [shown.get(w, f"[{w[:-1]}]" if w.endswith("?") else w) for w in wanted]
    return f"write {name}({', '.join(parts)})"


def _check_time(call: _Call, scope: Scope, rows: Rows, spec: AnyWindow) -> None:
    """Check that the column is the start of events, which windows use."""
    time = call.time
    if isinstance(time, exp.Anonymous) and time.name.lower() == "vs":
        return
    if not isinstance(time, exp.Column):
        raise call.text.error(time, "the time of a window must be a column: DESCRIPTOR(ts)")
    column = scope.column(time, call.text)
    is_time = column == VS or is_event_time(scope.stream.plan, column)
    if not is_time and not _is_within(rows, column, spec):
        is_pair = any(isinstance(node, IntervalJoin) for node in topological(scope.stream.plan))
        raise call.text.error(
            time,
            f"{time.name!r} is not the time of {scope.relations[0]!r}: windows use "
            + (_OF_PAIRS if is_pair else "the column that WATERMARK FOR or vs = names, or vs()"),
        )


def _are_within(rows: Rows, spec: AnyWindow) -> bool:
    """Return whether rows of other windows end in those windows of ``spec`` in which they start."""
    if isinstance(spec, CumulatingWindow):
        spec = tumbling(spec.step_us, spec.offset_us)
    windows = rows.in_windows.windows
    return not isinstance(spec, Window) or all(w and _ends_within(w, spec) for w in windows)


def _is_within(rows: Rows, column: str, spec: AnyWindow) -> bool:
    """Return whether a column is window_time of windows within the windows of ``spec``."""
    bound, lives = rows.bounds.get(column), rows.in_windows
    if bound is None or bound.kind != "window_time" or bound.window is None:
        return False
    is_alone = lives.is_whole and lives.windows == (bound.window,) and bound.is_life
    return is_alone and isinstance(spec, Window) and _ends_within(bound.window, spec)


def ends_within(lives: InWindows, spec: AnyWindow | SessionBy) -> bool:
    """Return whether each row of windows ends in the window of ``spec`` in which it starts."""
    if not lives.has_rows:
        return True
    if not isinstance(spec, Window) or spec.size_us != spec.every_us:
        return False
    return all(w is not None and _ends_within(w, spec) for w in lives.windows)


def _ends_within(window: Window, spec: Window) -> bool:
    """Return whether each window ends in the window of ``spec`` in which it starts.

    A HOP never does, since its rows are in several windows.
    """
    return window.size_us == window.every_us and fits_within(window, spec)
