"""The rows of one key that a match may still hold, and what was found in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from rvertex.errors import OperatorTypeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rvertex.operators.ordered.matching.pattern import Pattern

#: The label of a row that is in no match.
UNMATCHED = -1


class Found(NamedTuple):
    """A match, an empty match, or a row in no match.

    ``numbers``: its rows with ``context`` rows before and after them, -1 where there is none.
    ``takes``: for each row the instruction that mapped it. An empty match and an unmatched row have
    no takes, and stand at the row ``at``.
    """

    at: int
    numbers: list[int]
    takes: list[int]
    match: int | None


@dataclass(slots=True)
class KeyRows:
    """The rows of a key, and the search from its first open start on.

    ``numbers``, ``times`` have all rows that are kept; ``symbols`` those whose conditions are
    known, a prefix. ``begin`` is the row at which the search starts; rows before it are there for
    PREV. All places count from the first row that is kept.
    """

    code: int
    numbers: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    symbols: list[int] = field(default_factory=list)
    begin: int = 0
    #: Matches so far, and the number of the last row that was in one.
    matches: int = 0
    covered: int = -1
    #: What a search keeps; None: none is open.
    search: Any = None
    #: The first row behind ``begin`` at which another match could begin, as far as known.
    second: int = 0

    def extend(self, numbers: list[int], times: list[int]) -> None:
        """Add rows."""
        self.numbers += numbers
        self.times += times

    def found(self, rows: int, takes: list[int], context: tuple[int, int], number: int) -> Found:
        """The match of the first ``rows`` rows from ``begin`` on."""
        before, after = context
        lo, hi = self.begin - before, self.begin + max(rows, 1) + after
        known = self.numbers[max(lo, 0) : hi]
        if before or after:
            known = [-1] * max(-lo, 0) + known
            known += [-1] * (hi - lo - len(known))
        return Found(self.numbers[self.begin], known, takes, number)

    def trim(self, before: int) -> int:
        """Forget the rows that nothing needs: all but ``before`` rows before ``begin``.

        Returns: how many places all rows have moved.
        """
        dropped = max(0, min(self.begin, len(self.numbers)) - before)
        if dropped:
            del self.numbers[:dropped], self.times[:dropped], self.symbols[:dropped]
            self.begin -= dropped
            self.second = max(0, self.second - dropped)
        return dropped


@dataclass(frozen=True, slots=True)
class Skip:
    """Where the search goes on after a match.

    ``to``: "past" the last row, the "next" row, or the "first" or "last" row of ``variables``.
    """

    to: str = "past"
    variables: tuple[int, ...] = ()
    name: str = ""

    def after(self, takes: list[int], variable_of: Callable[[int], int]) -> int:
        """How many rows behind its first row the search goes on.

        Raises:
            OperatorTypeError: no row is of the variable, or only the first row is.
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
    """What every search for a pattern knows."""

    pattern: Pattern
    skip: Skip
    #: The greatest time from the first row of a match to its last; INF_TIME: any.
    within_us: int
    #: Rows around a match that measures may read.
    context: tuple[int, int]
    #: Whether rows in no match are told.
    tells_unmatched: bool
