"""CALENDAR: map times to a scale on which all days, weeks or months are equally long, and back.

Calendar windows are fixed-length windows between two of these operators. The first operator maps
each instant to a *nominal* time. It numbers the periods (days of 23 to 25 hours, months) since
1970; period k is ``[k * n, (k + 1) * n)`` in nominal time. The second operator maps the results
back.

A period begins at the instant after which the zone's wall clock never shows a time before the
period. If clocks are set forward over its start, it begins at the end of that gap. A day that a
zone skips has no length, and no result. The zone's rules are part of the specification, so a replay
elsewhere computes the same windows.

Invariant: both mappings are monotonic, so rows stay in order and CTIs (watermarks) stay valid.
"""

from __future__ import annotations

import functools
import io
import zoneinfo
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import pyarrow as pa

from rstream.items.batch import VE, VS, int64_column
from rstream.types import INF_TIME, MIN_TIME
from rvertex.errors import InvalidWindowError
from rvertex.events.lifetime import with_times
from rvertex.events.run import Run, growing
from rvertex.operators.protocol import OperatorState

if TYPE_CHECKING:
    from collections.abc import Sequence

Unit = Literal["day", "week", "month"]
_US = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY_US = 86_400_000_000
#: Length of a period in nominal time, us.
NOMINAL_US: dict[Unit, int] = {"day": DAY_US, "week": 7 * DAY_US, "month": 30 * DAY_US}
#: 1970 began on a Thursday, while weeks begin on Monday.
_DAYS_BEFORE_THURSDAY = 3
#: The first and the last instant that Python can convert in any zone.
FIRST_US = (datetime(2, 1, 1, tzinfo=UTC) - _EPOCH) // _US
LAST_US = (datetime(9998, 1, 1, tzinfo=UTC) - _EPOCH) // _US
#: Number of periods by which the estimate by UTC may be wrong: a wall clock differs from UTC.
_MARGIN = 3


@dataclass(frozen=True, slots=True)
class Calendar:
    """Periods of a time zone; period 0 contains the start of 1970. ``rules``: its TZif file."""

    unit: Unit
    zone: str
    offset_us: int
    release: str
    rules: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class CalendarTimes:
    """Maps lifetimes to nominal times of ``calendar``. ``back``: from nominal times to instants."""

    holds_ctis: ClassVar[bool] = False

    calendar: Calendar
    back: bool

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Return the input's schema."""
        (payload,) = inputs
        return payload

    def open(self, inputs: Sequence[pa.Schema]) -> CalendarOperator:
        """Return a new operator in its initial state."""
        return CalendarOperator(self)


class CalendarOperator:
    """The running operator of :class:`CalendarTimes`."""

    def __init__(self, spec: CalendarTimes) -> None:
        self._periods = Periods(spec.calendar)
        self._back = spec.back
        self._last_cti: int = MIN_TIME

    def process(self, ports: Sequence[Run]) -> Run:
        """Map all events and CTIs.

        Raises:
            InvalidWindowError: an event is before year 2 or after year 9997.
        """
        (run,) = ports
        vs, ve = int64_column(run.events, VS), int64_column(run.events, VE)
        ctis = run.ctis[run.ctis > MIN_TIME]
        if self._back:
            starts, ends = self._periods.instants(vs), self._periods.instants(ve)
            times = self._periods.instants(ctis)
        else:
            starts = self._periods.nominal(vs)
            ends = self._periods.nominal(ve - 1) + self._periods.nominal_us
            ends[ve == INF_TIME] = INF_TIME
            times = self._periods.nominal(ctis)
        events = with_times(run.events, vs=starts, ve=ends)
        if (ends <= starts).any():  # a period of a day that the zone skips is empty
            events = events.filter(pa.array(ends > starts))
        found = growing(times, self._last_cti)
        if len(found):
            self._last_cti = int(found[-1])
        return Run(events, found)

    def snapshot(self) -> OperatorState:
        """Return the last CTI."""
        return OperatorState({"cti": self._last_cti})

    def load(self, state: OperatorState) -> None:
        """Restore the last CTI."""
        self._last_cti = state.header["cti"]


class Periods:
    """Computes the starts of the periods of a calendar."""

    def __init__(self, calendar: Calendar) -> None:
        self._calendar = calendar
        self.nominal_us = NOMINAL_US[calendar.unit]
        self._zone = zoneinfo.ZoneInfo.from_file(io.BytesIO(calendar.rules), key=calendar.zone)
        self._start = functools.lru_cache(maxsize=1 << 16)(self._find_start)

    def nominal(self, times: np.ndarray) -> np.ndarray:
        """Return the nominal start of the period of each instant, int64[n].

        INF_TIME is unchanged.
        """
        finite = times[times < INF_TIME - 1]
        made = np.full(len(times), INF_TIME)
        if len(finite) == 0:
            return made
        for time in (int(finite.min()), int(finite.max())):
            if not FIRST_US <= time < LAST_US:
                raise InvalidWindowError(
                    f"calendar windows cover the years 2 to 9997, and {time} us is "
                    "outside: drop such rows with filter(...)"
                )
        near = np.arange(-_MARGIN, _MARGIN + 1)
        numbers = np.unique(np.unique(self._about(finite))[:, np.newaxis] + near)
        starts = np.array([self._start(k) for k in numbers.tolist()], np.int64)
        nominal = numbers[np.searchsorted(starts, finite, side="right") - 1]
        made[times < INF_TIME - 1] = nominal * self.nominal_us
        return made

    def instants(self, times: np.ndarray) -> np.ndarray:
        """Return the instants of nominal period starts, int64[n]; INF_TIME is unchanged."""
        periods, where = np.unique(times // self.nominal_us, return_inverse=True)
        is_end = periods >= INF_TIME // self.nominal_us
        pairs = zip(periods.tolist(), is_end.tolist(), strict=True)
        starts = np.array([INF_TIME if end else self._start(k) for k, end in pairs], np.int64)
        made: np.ndarray = starts[where] if len(starts) else times
        return made

    def _about(self, times: np.ndarray) -> np.ndarray:
        """Return an estimate of the periods of instants, by UTC."""
        shifted = times - self._calendar.offset_us
        days = shifted // DAY_US
        match self._calendar.unit:
            case "day":
                return days
            case "week":
                return (days + _DAYS_BEFORE_THURSDAY) // 7
            case "month":
                return days.astype("M8[D]").astype("M8[M]").astype(np.int64)

    def _find_start(self, period: int) -> int:
        """Return the instant at which a period begins, by search around the estimate."""
        match self._calendar.unit:
            case "day":
                wall = _EPOCH + timedelta(days=period)
            case "week":
                wall = _EPOCH + timedelta(days=7 * period - _DAYS_BEFORE_THURSDAY)
            case "month":
                wall = datetime(1970 + period // 12, 1 + period % 12, 1, tzinfo=UTC)
        wall = (wall + self._calendar.offset_us * _US).replace(tzinfo=None)
        first, start = (
            wall.replace(tzinfo=self._zone, fold=fold).astimezone(UTC) for fold in (0, 1)
        )
        if self._wall(start) == wall and first < start and self._wall(start - _US) >= wall:
            # Clocks are set back to exactly ``wall``, and show no earlier time after that
            start = first
        elif self._wall(start) != wall:  # in a gap: take the first instant that is not before it
            low, high = start - timedelta(days=2), start + timedelta(days=2)
            while high - low > _US:  # ends: each round halves the interval
                middle = low + (high - low) // 2
                low, high = (low, middle) if self._wall(middle) >= wall else (middle, high)
            start = high
        return (start - _EPOCH) // _US

    def _wall(self, instant: datetime) -> datetime:
        return instant.astimezone(self._zone).replace(tzinfo=None)
