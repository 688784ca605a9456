"""The random numbers that determine a query; fewer and smaller ones make it simpler."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")


class Choices:
    """Numbers below a bound: random ones of a seed, or given ones followed by 0."""

    def __init__(self, seed: int = 0, given: Sequence[int] | None = None) -> None:
        self._rng = Random(seed)
        self._given = given
        self.made: list[int] = []

    def below(self, n: int) -> int:
        """A number in ``[0, n)``."""
        at = len(self.made)
        if self._given is None:
            value = self._rng.randrange(n)
        else:
            value = min(self._given[at], n - 1) if at < len(self._given) else 0
        self.made.append(value)
        return value

    def pick(self, options: Sequence[T]) -> T:
        """Choose one of them; the first is the simplest."""
        return options[self.below(len(options))]

    def chance(self, percent: int) -> bool:
        """True with this probability; 0 means never."""
        return self.below(100) >= 100 - percent
