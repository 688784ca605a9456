"""The stored rows of one key, and the results that a search finds in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from rvertex.errors import OperatorTypeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rvertex.operators.ordered.matching.pattern import Pattern


class Found(NamedTuple):
    """A match, an empty match, or a row in no match.

    ``numbers``: its rows, with ``context`` rows before and after them; -1 if there is no such row.
    ``takes``: the instruction that mapped each row. It is empty for an empty match and an unmatched
    row, which are at row ``at``. ``match``: the match number; None: an unmatched row.
    """

    at: int
    numbers: list[int]
    takes: list[int]
    match: int | None


@dataclass(slots=True)
class KeyRows:
    """The stored rows of a key, and its search.

    ``numbers``, ``times``: all stored rows. ``symbols``: the symbols of the first rows, whose
    conditions are known. ``begin``: the position at which the search starts; rows before it are
    kept for PREV. Positions count from the first stored row.
    """

    code: int
    numbers: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    symbols: list[int] = field(default_factory=list)
    begin: int = 0
    #: Number of matches so far, and the number of the last row in any of them.
    matches: int = 0
    covered: int = -1
    #: The state of the search; None: it has none.
    search: Any = None
    #: The first position after ``begin`` at which another match may begin, or a lower bound of it.
    second: int = 0

    def extend(self, numbers: list[int], times: list[int]) -> None:
        """Add rows."""
        self.numbers += numbers
        self.times += times

    def found(self, rows: int, takes: list[int], context: tuple[int, int], number: int) -> Found:
        """Return the match of ``rows`` rows from ``begin`` on."""
        before, after = context
        lo, hi = self.begin - before, self.begin + max(rows, 1) + after
        known = self.numbers[max(lo, 0) : hi]
        if before or after:
            known = [-1] * max(-lo, 0) + known
            known += [-1] * (hi - lo - len(known))
        return Found(self.numbers[self.begin], known, takes, number)

    def trim(self, before: int) -> int:
        """Drop all rows except the rows from ``begin`` on and ``before`` rows before it.

        Returns the number of dropped rows.
        """
        dropped = max(0, min(self.begin, len(self.numbers)) - before)
        if dropped:
            del self.numbers[:dropped], self.times[:dropped], self.symbols[:dropped]
            self.begin -= dropped
            self.second = max(0, self.second - dropped)
        return dropped


@dataclass(frozen=True, slots=True)
class Skip:
    """Where the search continues after a match (AFTER MATCH SKIP).

    ``to``: "past" the last row, to the "next" row, or to the "first" or "last" row of
    ``variables``.
    """

    to: str = "past"
    variables: tuple[int, ...] = ()
    name: str = ""

    def after(self, takes: list[int], variable_of: Callable[[int], int]) -> int:
        """Return the distance from the match's first row to the start of the next search, in rows.

        Raises:
            OperatorTypeError: the match has no row of the variable, or it is the first row.
        """
        if self.to == "next" or not takes:
            return 1
        if self.to == "past":
            return len(takes)
        places = [i for i, take in enumerate(takes) if variable_of(take) in self.variables]
        word = self.to.upper()
        if not places:
            raise OperatorTypeError(
                "match",
                f"AFTER MATCH SKIP TO {word} {self.name}: a match has no row of {self.name}; "
                "skip TO NEXT ROW or PAST LAST ROW, or make the variable required",
            )
        at = places[0] if self.to == "first" else places[-1]
        if at == 0:
            raise OperatorTypeError(
                "match",
                f"AFTER MATCH SKIP TO {word} {self.name}: this is the first row of the match, so "
                "the same match would be found for ever; skip TO NEXT ROW",
            )
        return at


@dataclass(frozen=True, slots=True)
class Searching:
    """The parameters of a search."""

    pattern: Pattern
    skip: Skip
    #: Greatest time from the start of a match's first row to that of its last; INF_TIME: any.
    within_us: int
    #: Number of rows before and after a match that measures may read.
    context: tuple[int, int]
    #: Whether rows in no match are results, too.
    tells_unmatched: bool
