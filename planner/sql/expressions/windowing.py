"""The windows that GROUP BY may name: HOP, TUMBLE, SNAPSHOT, SESSION and COUNT_WINDOW."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from planner.api.grouped.sessions import session
from planner.logical.windows import (
    CumulatingWindow,
    RunningSession,
    SessionWindow,
    Window,
    count_window,
    cumulating,
    hopping,
    snapshot,
    tumbling,
)
from planner.sql.expressions.engines.calendar_lengths import by_calendar, in_zone
from planner.sql.reading.grammar import as_sql
from planner.sql.reading.literals import interval_us, plain_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.api.expressions import Expr
    from planner.api.grouped.sessions import SessionBy
    from planner.logical.windows import AnyWindow
    from planner.sql.reading.engines import Engine
    from planner.sql.reading.parsing import SqlText

#: Name -> the function that makes the window, and its arguments; ``?`` marks optional ones.
_WINDOWS: dict[str, tuple[Callable[..., AnyWindow | SessionBy], tuple[str, ...]]] = {
    "HOP": (hopping, ("size", "every", "offset?")),
    "TUMBLE": (tumbling, ("size", "offset?")),
    "CUMULATE": (cumulating, ("size", "step", "offset?")),
    "SNAPSHOT": (snapshot, ()),
    "SESSION": (session, ("gap", "max?")),
    "COUNT_WINDOW": (count_window, ("events",)),
}
#: The arguments after the time column, for windows that have a time column in Flink's GROUP BY.
_LENGTHS = {"HOP": "size, every", "TUMBLE": "size", "CUMULATE": "size, step"}
_NO_COLUMN = (
    "windows in GROUP BY use the stream's own time and take no column; write "
    "{name}({lengths}), or FROM TABLE({name}(TABLE t, DESCRIPTOR({column}), ...))"
)
OVER = "OVER cannot be combined with GROUP BY in one SELECT; put one of both in a subquery in FROM"


def is_window(node: exp.Expr) -> bool:
    """Return whether a part of GROUP BY is a window."""
    return isinstance(node, exp.Anonymous) and node.name.upper() in _WINDOWS


def window_of(
    node: exp.Expr, text: SqlText, compiled: Callable[[exp.Expr], Expr], zone: str
) -> AnyWindow | SessionBy:
    """Return the window of such a node; the gap of a session may be computed from columns."""
    name = node.name.upper()
    make, wanted = _WINDOWS[name]
    least = sum(not what.endswith("?") for what in wanted)
    given = node.expressions
    if name in _LENGTHS and len(given) > 1 and isinstance(given[0], exp.Column):
        lengths, column = _LENGTHS[name], as_sql(given[0])
        raise text.error(given[0], _NO_COLUMN.format(name=name, lengths=lengths, column=column))
    if not least <= len(given) <= len(wanted):
        shown = ", ".join(f"[{w[:-1]}]" if w.endswith("?") else w for w in wanted)
        raise text.error(node, f"write {name}({shown})")
    values: list[Any]
    if name == "COUNT_WINDOW":
        values = [plain_value(part, text) for part in given]
    elif name == "SESSION" and given[0].find(exp.Column):
        values = [compiled(given[0]), *(length(part, text, least=1) for part in given[1:])]
    else:
        with text.located(node):
            offset_us = length(given[2], text, least=0) if len(given) > 2 else 0
            window = by_calendar(given[: 2 if name == "HOP" else 1], offset_us, zone)
        if window is not None and name in ("HOP", "TUMBLE"):
            return window
        values = [
            length(part, text, least=0 if what == "offset?" else 1)
            for part, what in zip(given, wanted, strict=False)
        ]
    if name == "HOP" and text.engine.name == "postgres" and values[0] < values[1]:
        values[:2] = values[1::-1]  # Arroyo writes HOP(slide, size): swap them
    with text.located(node):
        made = make(*values)
        if zone and isinstance(made, Window | CumulatingWindow):
            return in_zone(made, zone)
        return made


def merging(spec: AnyWindow | SessionBy, engine: Engine) -> AnyWindow | SessionBy:
    """Return sessions that also join rows exactly a gap apart, for engines that do so.

    These sessions end 1 us later than the engine's sessions.
    """
    if not engine.merges_at_gap or not isinstance(spec, SessionWindow | RunningSession):
        return spec
    return replace(spec, gap_us=spec.gap_us + 1)


def length(node: exp.Expr, text: SqlText, *, least: int | None) -> int:
    """Return a duration of at least ``least`` microseconds; a number is in microseconds."""
    number = isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit()
    us = int(node.name) if number else interval_us(node, text)
    if least is not None and us < least:
        what = "a window has to be longer than zero" if least else "an offset is not negative"
        raise text.error(node, what)
    return us
