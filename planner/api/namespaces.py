"""The functions behind ``expr.str`` and ``expr.dt``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from planner.durations import Duration, positive_duration_us
from planner.expressions.nodes import Call, Node, OptionValue

if TYPE_CHECKING:
    from collections.abc import Callable

E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class _Functions(Generic[E]):
    """Builds calls on ``node``, wrapped as expressions by ``wrap``."""

    node: Node
    wrap: Callable[[Node], E]

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
        return self._call("slice", start=start, stop=stop)

    def strip(self, characters: str | None = None) -> E:
        """Without ``characters`` (None: white space) at both ends."""
        return self._call("strip", characters=characters)

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

    def truncate(self, every: Duration) -> E:
        """The time rounded down to a multiple of ``every`` since 1970."""
        return self._call("truncate", every_us=positive_duration_us(every, what="every"))

    def epoch_us(self) -> E:
        """Microseconds since 1970 (of a duration: its length in microseconds)."""
        return self._call("epoch_us")
