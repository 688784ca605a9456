"""Row patterns matched exhaustively: every mapping of rows, in order of preference.

Patterns are those of :mod:`rvertex.operators.ordered.matching.pattern`; a condition is a function
of the rows of the key, the first row of the match and the rows mapped so far.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rvertex.operators.ordered.matching.pattern import (
    Alternation,
    Exclusion,
    Pattern,
    Permutation,
    Repetition,
    Sequence,
    Var,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: The variable of each row, and whether it is excluded.
Mapped = tuple[tuple[int, bool], ...]
#: ``(rows of the key, first row, mapped rows including the current one)``
Condition = "Callable[[list[dict[str, Any]], int, Mapped], bool]"
STEPS_MAX = 200_000


class TooManyWaysError(Exception):
    """The pattern is too ambiguous for an exhaustive search."""


@dataclass
class Naive:
    """Matches in the rows of one key."""

    pattern: Pattern
    conditions: list[Callable[[list[dict[str, Any]], int, Mapped], bool] | None]
    rows: list[dict[str, Any]]
    within: int | None
    steps: int = 0

    def best(self, start: int) -> Mapped | None:
        """Return the preferred match that starts at a row."""
        return next(self._ways(self.pattern, start, (), False), None)

    def _fits(self, start: int, mapped: Mapped) -> bool:
        self.steps += 1
        if self.steps > STEPS_MAX:
            raise TooManyWaysError
        at = start + len(mapped) - 1
        if at >= len(self.rows):
            return False
        if self.within is not None and self.rows[at]["t"] - self.rows[start]["t"] > self.within:
            return False
        condition = self.conditions[mapped[-1][0]]
        return condition is None or condition(self.rows, start, mapped)

    def _ways(self, part: Pattern, start: int, mapped: Mapped, out: bool) -> Iterator[Mapped]:
        match part:
            case Var(index):
                longer = (*mapped, (index, out))
                if self._fits(start, longer):
                    yield longer
            case Sequence(parts):
                yield from self._in_a_row(parts, start, mapped, out)
            case Alternation(parts):
                for one in parts:
                    yield from self._ways(one, start, mapped, out)
            case Permutation(parts):
                for order in itertools.permutations(parts):
                    yield from self._in_a_row(order, start, mapped, out)
            case Exclusion(inner):
                yield from self._ways(inner, start, mapped, True)
            case Repetition():
                yield from self._rounds(part, 0, start, mapped, out)

    def _in_a_row(
        self, parts: tuple[Pattern, ...], start: int, mapped: Mapped, out: bool
    ) -> Iterator[Mapped]:
        if not parts:
            yield mapped
            return
        for one in self._ways(parts[0], start, mapped, out):
            yield from self._in_a_row(parts[1:], start, one, out)

    def _rounds(
        self, part: Repetition, done: int, start: int, mapped: Mapped, out: bool
    ) -> Iterator[Mapped]:
        can_stop = done >= part.least
        if can_stop and not part.greedy:
            yield mapped
        if part.most is None or done < part.most:
            for one in self._ways(part.part, start, mapped, out):
                is_empty = len(one) == len(mapped)
                if is_empty and can_stop and part.most is None:
                    continue
                yield from self._rounds(part, done + 1, start, one, out)
        if can_stop and part.greedy:
            yield mapped


def matches(naive: Naive, skip: str, variables: tuple[int, ...]) -> list[tuple[int, Mapped | None]]:
    """Return each match with its first row; None stands for a row in no match."""
    found: list[tuple[int, Mapped | None]] = []
    covered = at = 0
    while at < len(naive.rows):
        best = naive.best(at)
        if best is None:
            if at >= covered:
                found.append((at, None))
            at += 1
            continue
        found.append((at, best))
        covered = max(covered, at + len(best))
        if not best or skip == "next":
            at += 1
        elif skip == "past":
            at += len(best)
        else:
            places = [i for i, (v, _) in enumerate(best) if v in variables]
            if not places or (place := places[0] if skip == "first" else places[-1]) == 0:
                raise LookupError("the search cannot go on there")
            at += place
    return found
