"""The functions behind ``expr.str``, ``expr.dt``, ``expr.list`` and ``expr.map``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.durations import Duration, positive_duration_us
from planner.errors import InvalidPlanError
from planner.expressions.entries.family import E, Functions, Whole, operand_node, plain_value
from planner.expressions.functions.calendar import UNITS
from planner.expressions.functions.of_rows.lambdas import lambda_call
from planner.expressions.functions.texts.codes import Codes
from planner.expressions.functions.texts.encodings import Encodings
from planner.expressions.functions.texts.json_parts import JsonParts
from planner.expressions.functions.texts.json_paths import JsonPaths
from planner.expressions.functions.texts.likeness import Likeness
from planner.expressions.functions.texts.parsing import Parsing
from planner.expressions.functions.texts.places import Places
from planner.expressions.functions.texts.regexp_lists import RegexpLists
from planner.expressions.functions.texts.text import Texts
from planner.expressions.functions.texts.urls import Urls
from planner.expressions.functions.texts.words import Words
from planner.expressions.functions.zones import Zones
from planner.expressions.nodes import Call
from planner.expressions.suggestions import suggest_in_class

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.expressions.nodes import Node


class StringFunctions(
    Texts[E],
    Words[E],
    Codes[E],
    Encodings[E],
    Likeness[E],
    Parsing[E],
    Places[E],
    Urls[E],
    JsonPaths[E],
    JsonParts[E],
    RegexpLists[E],
):
    """Functions of strings; lengths and positions count characters."""

    __slots__ = ()


class DatetimeFunctions(Zones[E]):
    """Parts of times in UTC, as int64, and conversions between time zones."""

    __slots__ = ()

    def year(self) -> E:
        """Return the year."""
        return self._call("year")

    def month(self) -> E:
        """Return the month, 1 to 12."""
        return self._call("month")

    def day(self) -> E:
        """Return the day of the month, 1 to 31."""
        return self._call("day")

    def hour(self) -> E:
        """Return the hour, 0 to 23."""
        return self._call("hour")

    def minute(self) -> E:
        """Return the minute, 0 to 59."""
        return self._call("minute")

    def second(self) -> E:
        """Return the second, 0 to 59."""
        return self._call("second")

    def weekday(self) -> E:
        """Return the day of the week, Monday 0 to Sunday 6."""
        return self._call("weekday")

    def day_of_year(self) -> E:
        """Return the day of the year, 1 to 366."""
        return self._call("day_of_year")

    def week(self) -> E:
        """Return the ISO 8601 week, 1 to 53."""
        return self._call("week")

    def iso_year(self) -> E:
        """Return the ISO 8601 year, to which the week belongs."""
        return self._call("iso_year")

    def quarter(self) -> E:
        """Return the quarter, 1 to 4."""
        return self._call("quarter")

    def day_of_week(self) -> E:
        """Return the day of the week, Sunday 0 to Saturday 6."""
        return self._call("day_of_week")

    def floor(self, unit: str) -> E:
        """Round down to a ``"week"`` (Monday), ``"month"``, ``"quarter"`` or ``"year"``."""
        if unit not in UNITS:
            raise InvalidPlanError(f"floor({unit!r}): choose one of {', '.join(UNITS)}")
        return self._call("floor_calendar", unit=unit)

    def add_months(self, months: Whole) -> E:
        """Add months; if the month has no such day, take its last day."""
        count = plain_value(months)
        if isinstance(count, int) and not isinstance(count, bool):
            return self._call("add_months", months=count)
        if count is not None and operand_node(count) is None:
            raise InvalidPlanError(f"add_months({count!r}): it takes a whole number")
        return self._call("add_months", months)

    def format(self, format: str) -> E:
        """Format the time as a string, such as with ``"%Y-%m-%d %H:%M:%S"``."""
        return self._call("format_time", format=format)

    def truncate(self, every: Duration) -> E:
        """Round the time down to a multiple of ``every`` since 1970."""
        return self._call("truncate", every_us=positive_duration_us(every, what="every"))

    def epoch_us(self) -> E:
        """Microseconds since 1970; for a duration its length in microseconds."""
        return self._call("epoch_us")


class ListFunctions(Functions[E]):
    """Functions of lists."""

    __slots__ = ()

    def length(self) -> E:
        """Return the number of elements; null for null."""
        return self._call("size")

    def contains(self, value: object) -> E:
        """Return whether ``value`` is an element; null if the list or the value is null."""
        return self.wrap(Call("list_contains", (self.node, self.as_node(value))))

    def transform(self, function: Callable[[E], object], *, with_place: bool = False) -> E:
        """Apply ``function`` to each element, such as ``lambda x: x * 2``.

        ``with_place``: the function takes the element and its index, from 0.
        """
        roles = ("element", "place")[: 1 + with_place]
        return self._of_elements("list_transform", (), roles, function)

    def filter(self, condition: Callable[[E], object]) -> E:
        """Keep the elements for which ``condition`` is true, such as ``lambda x: x > 2``."""
        return self._of_elements("list_filter", (), ("element",), condition)

    def reduce(self, start: object, function: Callable[[E, E], object]) -> E:
        """Fold the list: ``function`` gets the result so far, first ``start``, and an element."""
        return self._of_elements(
            "list_reduce", (self.as_node(start),), ("result", "element"), function
        )

    def reverse(self) -> E:
        """Reverse the order of the elements."""
        return self._call("list_reverse")

    def sort(self) -> E:
        """Sort the elements in ascending order, nulls last."""
        return self._call("list_sort")

    def unique(self) -> E:
        """Keep the first of equal elements, in the order of the list."""
        return self._call("list_unique")

    def concat(self, *others: object) -> E:
        """Append the elements of ``others``; null if one of the lists is null."""
        return self.wrap(Call("list_concat", (self.node, *map(self.as_node, others))))

    def slice(self, first: object, end: object) -> E:
        """Return the elements ``[first, end)``, from 0; negative indexes count from the end."""
        return self.wrap(Call("list_slice", (self.node, *map(self.as_node, (first, end)))))

    def flatten(self) -> E:
        """Concatenate the lists in a list of lists."""
        return self._call("list_flatten")

    def position(self, value: object) -> E:
        """Return the position of the first element equal to ``value``, from 1; 0 if none is."""
        return self.wrap(Call("list_position", (self.node, self.as_node(value))))

    def join(self, separator: object) -> E:
        """Join the strings of a list with ``separator``, without nulls."""
        return self.wrap(Call("list_join", (self.node, self.as_node(separator))))

    def _of_elements(
        self,
        name: str,
        args: tuple[Node, ...],
        roles: tuple[str, ...],
        function: Callable[..., object],
    ) -> E:
        def made(*columns: Node) -> Node:
            return self.as_node(function(*map(self.wrap, columns)))

        return self.wrap(lambda_call(name, (self.node, *args), roles, made))


class MapFunctions(Functions[E]):
    """Functions of maps; the pairs of a map keep their order."""

    __slots__ = ()

    def length(self) -> E:
        """Return the number of pairs; null for null."""
        return self._call("size")

    def keys(self) -> E:
        """Return the keys as a list."""
        return self._call("map_keys")

    def contains_key(self, key: object) -> E:
        """Return whether the map has ``key``; null if the map or the key is null."""
        return self.wrap(Call("list_contains", (Call("map_keys", (self.node,)), self.as_node(key))))

    def values(self) -> E:
        """Return the values as a list."""
        return self._call("map_values")

    def entries(self) -> E:
        """Return the pairs as a list of structs with ``key`` and ``value``."""
        return self._call("entries")


for _made in (StringFunctions, DatetimeFunctions, ListFunctions, MapFunctions):
    suggest_in_class(_made)
