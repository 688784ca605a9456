"""Windows of months, quarters and years, and windows in the time zone of the session."""

from __future__ import annotations

import re
import zoneinfo
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.errors import InvalidPlanError
from planner.logical.windows import CalendarWindow, Window, calendar_window
from rvertex.operators.lifetimes.calendar import DAY_US

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.logical.windows import AnyWindow

_WRITTEN = re.compile(r"\s*(\d{1,6})\s*(months?|mons?|mo|quarters?|q|years?|y)\s*", re.IGNORECASE)
_UNITS = {"m": "mo", "q": "q", "y": "y"}
#: Years whose offsets from UTC decide whether windows by the clock fit a zone.
_YEARS = range(1970, 2038)
_SIZES = (
    "windows of {0} do not fit the wall clock of {1}, whose distance from UTC changes: take "
    "whole days, months or years, or SET the time zone to UTC"
)


def calendar_length(node: exp.Expr) -> str | None:
    """Return ``"3mo"`` for ``INTERVAL '3' MONTH`` or ``'3 months'``; None: it has another unit."""
    written = node.name if isinstance(node, exp.Literal) and node.is_string else ""
    if isinstance(node, exp.Interval) and isinstance(node.this, exp.Literal):
        unit = node.args.get("unit")
        written = f"{node.this.name} {unit.name if unit is not None else ''}"
    match = _WRITTEN.fullmatch(written)
    return None if match is None else f"{int(match[1])}{_UNITS[match[2][0].lower()]}"


def by_calendar(lengths: Sequence[exp.Expr], offset_us: int, zone: str) -> CalendarWindow | None:
    """Return windows with a size and a step in months or years; None: other units.

    Raises:
        InvalidPlanError: one has such a unit and the other does not.
    """
    # SNAPSHOT() has no length; one None stands for it
    periods = [calendar_length(node) for node in lengths] or [None]
    size, every = periods[0], periods[-1]
    if size is None and every is None:
        return None
    if size is None or every is None:
        raise InvalidPlanError("write both lengths in months, quarters or years")
    return calendar_window(size, every, offset_us, zone or "UTC")


def in_zone(window: AnyWindow, zone: str) -> AnyWindow:
    """Convert windows by the clock to windows in a zone's local time.

    Raises:
        InvalidPlanError: the windows do not fit the zone in all years.
    """
    if not isinstance(window, Window):
        size_us = getattr(window, "size_us", 0)
        if size_us and not _fits(size_us, zone):
            raise InvalidPlanError(_SIZES.format(timedelta(microseconds=size_us), zone))
        return window
    if window.size_us % DAY_US == 0 and window.every_us % DAY_US == 0:
        size, every = (f"{us // DAY_US}d" for us in (window.size_us, window.every_us))
        return calendar_window(size, every, window.offset_us, zone)
    is_tumbling = window.size_us == window.every_us
    if not _fits(window.every_us, zone) or not (is_tumbling or len(_offsets(zone)) == 1):
        raise InvalidPlanError(_SIZES.format(timedelta(microseconds=window.size_us), zone))
    return window


def _fits(every_us: int, zone: str) -> bool:
    return all(offset % every_us == 0 for offset in _offsets(zone))


def _offsets(zone: str) -> set[int]:
    """Return the offsets from UTC that a zone has at the starts of months, us."""
    rules = zoneinfo.ZoneInfo(zone)
    offsets = set()
    for year in _YEARS:
        for month in range(1, 13):
            distance = datetime(year, month, 1, tzinfo=UTC).astimezone(rules).utcoffset()
            assert distance is not None, zone
            offsets.add(distance // timedelta(microseconds=1))
    return offsets
