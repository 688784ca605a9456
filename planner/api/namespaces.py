"""The functions behind ``expr.str``, ``expr.dt``, ``expr.list`` and ``expr.map``."""

from __future__ import annotations

from planner.durations import Duration, positive_duration_us
from planner.errors import InvalidPlanError
from planner.expressions.entries.family import E, Functions
from planner.expressions.functions.calendar import UNITS
from planner.expressions.functions.texts.codes import Codes
from planner.expressions.functions.texts.json_paths import JsonPaths
from planner.expressions.functions.texts.likeness import Likeness
from planner.expressions.functions.texts.parsing import Parsing
from planner.expressions.functions.texts.places import Places
from planner.expressions.functions.texts.text import Texts
from planner.expressions.functions.texts.urls import Urls
from planner.expressions.functions.texts.words import Words
from planner.expressions.functions.zones import Zones
from planner.expressions.nodes import Call
from planner.expressions.suggestions import suggest_in_class


class StringFunctions(
    Texts[E], Words[E], Codes[E], Likeness[E], Parsing[E], Places[E], Urls[E], JsonPaths[E]
):
    """Functions of strings; lengths and positions count characters."""

    __slots__ = ()


class DatetimeFunctions(Zones[E]):
    """Parts of times in UTC, as int64, and times in zones."""

    __slots__ = ()

    def year(self) -> E:
        """The year."""
        return self._call("year")

    def month(self) -> E:
        """The month, 1 to 12."""
        return self._call("month")

    def day(self) -> E:
        """The day of the month, 1 to 31."""
        return self._call("day")

    def hour(self) -> E:
        """The hour, 0 to 23."""
        return self._call("hour")

    def minute(self) -> E:
        """The minute, 0 to 59."""
        return self._call("minute")

    def second(self) -> E:
        """The second, 0 to 59."""
        return self._call("second")

    def weekday(self) -> E:
        """The day of the week, Monday 0 to Sunday 6."""
        return self._call("weekday")

    def day_of_year(self) -> E:
        """The day of the year, 1 to 366."""
        return self._call("day_of_year")

    def week(self) -> E:
        """The week of ISO 8601, 1 to 53."""
        return self._call("week")

    def iso_year(self) -> E:
        """The year that the week belongs to."""
        return self._call("iso_year")

    def quarter(self) -> E:
        """The quarter, 1 to 4."""
        return self._call("quarter")

    def day_of_week(self) -> E:
        """The day of the week, Sunday 0 to Saturday 6."""
        return self._call("day_of_week")

    def floor(self, unit: str) -> E:
        """The start of its ``"week"`` (Monday), ``"month"``, ``"quarter"`` or ``"year"``."""
        if unit not in UNITS:
            raise InvalidPlanError(f"floor({unit!r}): there are {', '.join(UNITS)}")
        return self._call("floor_calendar", unit=unit)

    def add_months(self, months: int) -> E:
        """Add months; in a month without that day, take its last day."""
        return self._call("add_months", months=int(months))

    def format(self, format: str) -> E:
        """Write the time as text by a format such as ``"%Y-%m-%d %H:%M:%S"``."""
        return self._call("format_time", format=format)

    def truncate(self, every: Duration) -> E:
        """The time rounded down to a multiple of ``every`` since 1970."""
        return self._call("truncate", every_us=positive_duration_us(every, what="every"))

    def epoch_us(self) -> E:
        """Microseconds since 1970 (of a duration: its length in microseconds)."""
        return self._call("epoch_us")


class ListFunctions(Functions[E]):
    """Functions of lists."""

    __slots__ = ()

    def length(self) -> E:
        """How many elements; null of null."""
        return self._call("size")

    def contains(self, value: object) -> E:
        """Whether ``value`` is an element; null where the list or the value is."""
        return self.wrap(Call("list_contains", (self.node, self.as_node(value))))


class MapFunctions(Functions[E]):
    """Functions of maps, whose pairs keep their order."""

    __slots__ = ()

    def length(self) -> E:
        """How many pairs; null of null."""
        return self._call("size")

    def keys(self) -> E:
        """The list of its keys."""
        return self._call("map_keys")

    def contains_key(self, key: object) -> E:
        """Whether ``key`` is one of its keys; null where the map or the key is."""
        return self.wrap(Call("list_contains", (Call("map_keys", (self.node,)), self.as_node(key))))

    def values(self) -> E:
        """The list of its values."""
        return self._call("map_values")

    def entries(self) -> E:
        """The list of its pairs, as structs with ``key`` and ``value``."""
        return self._call("entries")


for _made in (StringFunctions, DatetimeFunctions, ListFunctions, MapFunctions):
    suggest_in_class(_made)
