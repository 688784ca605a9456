"""Windows: ``hopping``, ``tumbling``, ``cumulating``, ``snapshot``, ``session``, ``count_window``.

``hopping``, ``tumbling`` and ``cumulating`` are fixed on the clock, the same for every key. The
events of a key decide the bounds of the others. Exact rules, with a worked table each, are in
docs/ALGEBRA.md and in the operators:
``rvertex/operators/{snapshot_window,session,count_window}.py``.
"""

from __future__ import annotations

import importlib.metadata
import importlib.resources
import re
import zoneinfo
from dataclasses import dataclass
from pathlib import Path
from typing import overload

from planner.durations import Duration, duration_us, format_us, positive_duration_us
from planner.errors import InvalidPlanError
from rvertex.operators.lifetimes.calendar import DAY_US, Calendar, Unit

_EVENTS_MAX = 2**31 - 1
#: The most calendar periods of one window.
_COUNT_MAX = 10_000
_PERIODS = re.compile(r"(\d{1,6})\s*(mo|[dwqy])")
_UNITS: dict[str, tuple[int, Unit]] = {
    "d": (1, "day"),
    "w": (1, "week"),
    "mo": (1, "month"),
    "q": (3, "month"),
    "y": (12, "month"),
}


@dataclass(frozen=True, slots=True)
class Window:
    """Windows ``[k * every + offset, k * every + offset + size)`` for all integers k, in us."""

    size_us: int
    every_us: int
    #: At least 0, less than ``every_us``.
    offset_us: int = 0


@dataclass(frozen=True, slots=True)
class CalendarWindow:
    """Windows of ``size`` calendar periods; one begins every ``every`` periods."""

    size: int
    every: int
    calendar: Calendar


@dataclass(frozen=True, slots=True)
class CumulatingWindow:
    """Windows ``[k * size + offset, k * size + offset + j * step)`` for ``0 < j <= size / step``.

    The result of each is valid in its last step.
    """

    size_us: int
    step_us: int
    #: At least 0, less than ``size_us``.
    offset_us: int = 0


@dataclass(frozen=True, slots=True)
class SnapshotWindow:
    """Windows between each two neighbouring starts or ends of a key's events."""

    def __str__(self) -> str:
        return "snapshot"


@dataclass(frozen=True, slots=True)
class SessionWindow:
    """Windows of a key's activity: a gap without events ends one, at most ``max_us`` long."""

    gap_us: int
    max_us: int | None

    def __str__(self) -> str:
        longest = "" if self.max_us is None else f" max {format_us(self.max_us)}"
        gap = "of what overlaps" if self.gap_us == 1 else format_us(self.gap_us)
        return f"session {gap}{longest}"


@dataclass(frozen=True, slots=True)
class RunningSession:
    """Sessions with early results: at each event's start the result of the session so far."""

    gap_us: int
    max_us: int | None

    def __str__(self) -> str:
        return f"running {SessionWindow(self.gap_us, self.max_us)}"


@dataclass(frozen=True, slots=True)
class CountWindow:
    """Windows of ``count`` events of a key each."""

    count: int

    def __str__(self) -> str:
        return f"every {self.count} events"


#: Windows whose bounds depend on the events of a key.
DataWindow = SnapshotWindow | SessionWindow | RunningSession | CountWindow
AnyWindow = Window | CalendarWindow | CumulatingWindow | DataWindow


@overload
def hopping(
    size: Duration, every: Duration, offset: Duration = ..., *, zone: None = ...
) -> Window: ...


@overload
def hopping(
    size: Duration, every: Duration, offset: Duration = ..., *, zone: str
) -> CalendarWindow: ...


def hopping(
    size: Duration, every: Duration, offset: Duration = 0, *, zone: str | None = None
) -> Window | CalendarWindow:
    """Return windows of length ``size`` that begin every ``every``, aligned to 1970 + ``offset``.

    With a ``zone``, such as "Europe/Berlin", lengths are whole calendar periods in its local time:
    days ("1d"), weeks from Monday ("1w"), months ("1mo"), quarters ("1q") or years ("1y").
    ``offset`` shifts their starts in local time: "6h" for days that begin at six.
    """
    if zone is not None:
        return calendar_window(size, every, offset, zone)
    for length in (size, every):
        require_no_calendar(length)
    size_us = positive_duration_us(size, what="window size")
    every_us = positive_duration_us(every, what="window every")
    return Window(size_us, every_us, duration_us(offset, what="window offset") % every_us)


@overload
def tumbling(size: Duration, offset: Duration = ..., *, zone: None = ...) -> Window: ...


@overload
def tumbling(size: Duration, offset: Duration = ..., *, zone: str) -> CalendarWindow: ...


def tumbling(
    size: Duration, offset: Duration = 0, *, zone: str | None = None
) -> Window | CalendarWindow:
    """Return windows of length ``size`` without gaps; other arguments as in :func:`hopping`."""
    if zone is not None:
        return calendar_window(size, size, offset, zone)
    return hopping(size, size, offset)


def calendar_window(size: Duration, every: Duration, offset: Duration, zone: str) -> CalendarWindow:
    """Make windows in a zone's calendar; see :func:`hopping`.

    Raises:
        InvalidPlanError: a length is not whole periods, or the zone does not exist.
    """
    (periods, unit), (steps, other) = _periods(size), _periods(every)
    if unit != other:
        raise InvalidPlanError(
            f"hopping({size!r}, {every!r}, zone={zone!r}): the lengths are of different units; "
            "write both in days, both in weeks, or both in months, quarters and years"
        )
    offset_us = duration_us(offset, what="window offset")
    longest_us = {"day": DAY_US, "week": 7 * DAY_US, "month": 28 * DAY_US}[unit]
    if not 0 <= offset_us < longest_us:
        raise InvalidPlanError(
            f"offset={offset!r}: for windows of {unit}s it is from 0 to less than "
            f"{longest_us // DAY_US} days"
        )
    rules, release = zone_rules(zone)
    return CalendarWindow(periods, steps, Calendar(unit, zone, offset_us, release, rules))


def require_no_calendar(length: Duration) -> None:
    """Raise for months and years without a zone.

    Raises:
        InvalidPlanError: the length is in months, quarters or years.
    """
    match = _PERIODS.fullmatch(length.strip()) if isinstance(length, str) else None
    if match is not None and match[2] in ("mo", "q", "y"):
        raise InvalidPlanError(
            f"{length!r} has no fixed length: set the time zone, such as zone='UTC' or "
            "zone='Europe/Berlin'"
        )


def _periods(length: Duration) -> tuple[int, Unit]:
    match = _PERIODS.fullmatch(length.strip()) if isinstance(length, str) else None
    if match is None or not 0 < int(match[1]) <= _COUNT_MAX:
        raise InvalidPlanError(
            f"{length!r} with a zone: a length is a number of days, weeks, months, quarters or "
            "years, such as '1d', '1w', '1mo', '1q' or '1y'"
        )
    count, unit = _UNITS[match[2]]
    return int(match[1]) * count, unit


def zone_rules(name: str) -> tuple[bytes, str]:
    """Return the rules of a time zone, as its file has them, and the release of the zone database.

    Raises:
        InvalidPlanError: there is no such zone.
    """
    try:
        zoneinfo.ZoneInfo(name)
        for folder in zoneinfo.TZPATH:
            path = Path(folder) / name
            if path.is_file():
                return path.read_bytes(), _release(Path(folder))
        packed = importlib.resources.files("tzdata") / "zoneinfo" / name
        return packed.read_bytes(), importlib.metadata.version("tzdata")
    except (ValueError, OSError, TypeError, zoneinfo.ZoneInfoNotFoundError):
        raise InvalidPlanError(f"no time zone {name!r}; write one as 'Europe/Berlin'") from None


def _release(folder: Path) -> str:
    """Return the release of the zones in a folder: the first line of tzdata.zi names it."""
    try:
        with (folder / "tzdata.zi").open() as file:
            return file.readline().rpartition(" ")[2].strip()
    except OSError:
        return "unknown"


def cumulating(size: Duration, step: Duration, offset: Duration = 0) -> CumulatingWindow:
    """Return windows that grow: from a window's start of ``size``, with a result every ``step``.

    The result of a step covers the events from the window's start to the step's end, and is valid
    in that step. ``size`` is a multiple of ``step``; ``offset`` as in :func:`hopping`.
    """
    size_us = positive_duration_us(size, what="window size")
    step_us = positive_duration_us(step, what="window step")
    if size_us % step_us:
        raise InvalidPlanError(
            f"cumulating(size={format_us(size_us)}, step={format_us(step_us)}): the size must be a "
            "multiple of the step"
        )
    return CumulatingWindow(size_us, step_us, duration_us(offset, what="window offset") % size_us)


def snapshot() -> SnapshotWindow:
    """Return windows between each two neighbouring starts or ends of a key's events.

    A window has the events that are valid in it; a stretch without events is no window.
    """
    return SnapshotWindow()


def session(
    gap: Duration, max: Duration | None = None, *, running: bool = False
) -> SessionWindow | RunningSession:
    """Return session windows; see :func:`planner.api.grouped.sessions.session`."""
    longest = None if max is None else positive_duration_us(max, what="session max")
    kind = RunningSession if running else SessionWindow
    return kind(positive_duration_us(gap, what="session gap"), longest)


def count_window(n: int) -> CountWindow:
    """Return windows of ``n`` events of a key each, from the first one's start to the last one's.

    Events are counted in stream order. If fewer than ``n`` events are left, they are in no window.
    """
    if not isinstance(n, int) or isinstance(n, bool) or not 0 < n <= _EVENTS_MAX:
        raise InvalidPlanError(f"count_window({n!r}): n must be a number of events, at least 1")
    return CountWindow(n)
