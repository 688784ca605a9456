"""The functions behind ``expr.str``, ``expr.dt``, ``expr.list`` and ``expr.map``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import pyarrow as pa

from planner.durations import Duration, positive_duration_us
from planner.errors import InvalidPlanError
from planner.expressions.functions.calendar import UNITS
from planner.expressions.functions.texts.parsing import URL_PARTS, time_pattern
from planner.expressions.functions.texts.words import CHARACTERS_MAX, json_steps
from planner.expressions.nodes import Call, Node, OptionValue
from planner.expressions.suggestions import suggest_in_class

if TYPE_CHECKING:
    from collections.abc import Callable

#: Texts are shorter; Spark counts their characters in 32 bits.
_PLACE_MAX = 2**30


def _within(place: int | None) -> int | None:
    return max(-_PLACE_MAX, min(place, _PLACE_MAX)) if isinstance(place, int) else place


E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class _Functions(Generic[E]):
    """Builds calls on ``node``, wrapped as expressions by ``wrap``.

    ``as_node`` makes a tree of an expression, or of a plain value.
    """

    node: Node
    wrap: Callable[[Node], E]
    as_node: Callable[[object], Node]

    def _call(self, function: str, **options: OptionValue) -> E:
        return self.wrap(Call(function, (self.node,), tuple(sorted(options.items()))))


class StringFunctions(_Functions[E]):
    """Functions of strings; lengths and positions count characters."""

    __slots__ = ()

    def upper(self) -> E:
        """In upper case."""
        return self._call("upper")

    def lower(self) -> E:
        """In lower case."""
        return self._call("lower")

    def length(self) -> E:
        """How many characters."""
        return self._call("length")

    def contains(self, pattern: str, *, regex: bool = False) -> E:
        """Whether ``pattern`` occurs in it."""
        return self._call("contains", pattern=pattern, regex=regex)

    def starts_with(self, pattern: str) -> E:
        """Whether it begins with ``pattern``."""
        return self._call("starts_with", pattern=pattern)

    def ends_with(self, pattern: str) -> E:
        """Whether it ends with ``pattern``."""
        return self._call("ends_with", pattern=pattern)

    def replace(self, pattern: str, replacement: str, *, regex: bool = False) -> E:
        """Every ``pattern`` replaced."""
        return self._call("replace", pattern=pattern, replacement=replacement, regex=regex)

    def slice(self, start: int, stop: int | None = None) -> E:
        """Characters ``[start, stop)``, counted from the end where negative."""
        return self._call("slice", start=_within(start), stop=_within(stop))

    def strip(self, characters: str | None = None) -> E:
        """Without ``characters`` (None: white space) at both ends."""
        return self._call("strip", characters=characters)

    def strip_left(self, characters: str | None = None) -> E:
        """Without ``characters`` (None: white space) at its start."""
        return self._call("strip_left", characters=characters)

    def strip_right(self, characters: str | None = None) -> E:
        """Without ``characters`` (None: white space) at its end."""
        return self._call("strip_right", characters=characters)

    def position(self, pattern: str) -> E:
        """Where ``pattern`` first occurs, counted from 1; 0 where it does not."""
        return self._call("position", pattern=pattern)

    def initcap(self) -> E:
        """The first character of each word in upper case, the others in lower case."""
        return self._call("initcap")

    def reverse(self) -> E:
        """From its end to its start."""
        return self._call("reverse")

    def repeat(self, times: int) -> E:
        """Repeat the text ``count`` times."""
        return self._call("repeat", times=_count("repeat", times))

    def pad_left(self, width: int, fill: str = " ") -> E:
        """To ``width`` characters, with ``fill`` over and over in front; longer text is cut."""
        return self._call("pad_left", width=_count("pad_left", width), fill=fill)

    def pad_right(self, width: int, fill: str = " ") -> E:
        """To ``width`` characters, with ``fill`` over and over behind; longer text is cut."""
        return self._call("pad_right", width=_count("pad_right", width), fill=fill)

    def extract(self, pattern: str, group: int = 0) -> E:
        """A group of the first match of a regular expression; ``""`` where nothing matches."""
        return self._call("extract", pattern=pattern, group=_count("extract", group))

    def digest(self, algorithm: str) -> E:
        """``"md5"``, ``"sha1"``, ``"sha256"`` or ``"sha512"``, in hexadecimal digits."""
        if algorithm not in ("md5", "sha1", "sha256", "sha512"):
            raise InvalidPlanError(f"digest({algorithm!r}): there are md5, sha1, sha256, sha512")
        return self._call("digest", algorithm=algorithm)

    def translate(self, characters: str, others: str) -> E:
        """Each of ``characters`` as that of ``others`` at its place; without one it is deleted."""
        return self._call("translate", characters=characters, others=others)

    def ascii(self) -> E:
        """The number of the first character; 0 of an empty text."""
        return self._call("ascii")

    def byte_length(self) -> E:
        """How many bytes in UTF-8."""
        return self._call("byte_length")

    def json_value(self, path: str) -> E:
        """Read the value at a path such as ``"$.a.b[0]"`` from a text of JSON, as text."""
        json_steps(path)
        return self._call("json_value", path=path)

    def levenshtein(self, other: object) -> E:
        """How many characters to insert, delete or replace to make ``other`` of it."""
        return self.wrap(Call("levenshtein", (self.node, self.as_node(other))))

    def soundex(self) -> E:
        """How it sounds in English, as ``"R163"``; equal for names that sound alike."""
        return self._call("soundex")

    def url(self, part: str, key: str | None = None) -> E:
        """A part of a URL as it is written: ``"host"``, ``"path"``, ``"query"`` and others.

        With a ``key`` the value of that name in the query. Null where there is no such part, and
        of what is no URL.
        """
        if part not in URL_PARTS:
            raise InvalidPlanError(f"url({part!r}): the parts are {', '.join(URL_PARTS)}")
        if key is not None and part != "query":
            raise InvalidPlanError(f"url({part!r}, {key!r}): a key is one of the query")
        return self._call("url", part=part, key=key)

    def to_timestamp(self, format: str, *, strict: bool = True) -> E:
        """Read a time that is written as ``"%d.%m.%Y %H:%M"``; in UTC without ``%z``.

        Text that does not fit is an error, or null if not ``strict``. Codes: ``%Y %y %m %b %B %d
        %H %I %p %M %S %f %z``, and ``%a %A``, which are read over.
        """
        return self.wrap(self._parsed(format, strict=strict))

    def to_date(self, format: str, *, strict: bool = True) -> E:
        """Read a date that is written as ``"%d.%m.%Y"``; see :meth:`to_timestamp`."""
        made = self._parsed(format, strict=strict)
        return self.wrap(Call("cast", (made,), (("to", pa.date32()),)))

    def _parsed(self, format: str, *, strict: bool) -> Node:
        time_pattern(format)
        function = "parse_time" if strict else "try_parse_time"
        return Call(function, (self.node,), (("format", format),))

    def split(self, separator: str | None = None) -> E:
        """The list of parts between ``separator`` (None: words between white space)."""
        return self._call("split", separator=separator)


class DatetimeFunctions(_Functions[E]):
    """Parts of times in UTC, as int64."""

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


class ListFunctions(_Functions[E]):
    """Functions of lists."""

    __slots__ = ()

    def length(self) -> E:
        """How many elements; null of null."""
        return self._call("size")

    def contains(self, value: object) -> E:
        """Whether ``value`` is an element; null where the list or the value is."""
        return self.wrap(Call("list_contains", (self.node, self.as_node(value))))


class MapFunctions(_Functions[E]):
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


def _count(method: str, value: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= CHARACTERS_MAX:
        raise InvalidPlanError(
            f"{method}({value!r}): it takes a whole number from 0 to {CHARACTERS_MAX}"
        )
    return value


for _made in (StringFunctions, DatetimeFunctions, ListFunctions, MapFunctions):
    suggest_in_class(_made)
