"""The logical node for calendar windows; part of :mod:`planner.logical.nodes`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.logical.nodes.lifetimes import SameRows
from rvertex.operators.lifetimes.calendar import Calendar, CalendarTimes

if TYPE_CHECKING:
    from collections.abc import Set


@dataclass(frozen=True, slots=True)
class CalendarStep(SameRows):
    """Moves events to the nominal times of a calendar, or results back."""

    calendar: Calendar
    back: bool
    label: str = ""

    takes_dictionaries = True

    def columns_needed(self, wanted: Set[str]) -> tuple[Set[str], ...]:
        return (wanted,)

    def operator(self) -> CalendarTimes:
        return CalendarTimes(self.calendar, self.back)

    def describe(self) -> str:
        of = f"{self.calendar.unit}s of {self.calendar.zone} (tzdata {self.calendar.release})"
        return f"instants of {of}" if self.back else of
