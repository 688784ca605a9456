"""The random numbers that a text is made of; a text of fewer and smaller ones is simpler."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")


class Choices:
    """Numbers below a bound: random ones of a seed, or given ones, and 0 behind those."""

    def __init__(self, seed: int = 0, given: Sequence[int] | None = None) -> None:
        self._rng = Random(seed)
        self._given = given
        self.made: list[int] = []

    def below(self, n: int) -> int:
        """A number from 0 up to ``n``."""
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
        """True so often; false of 0."""
        return self.below(100) >= 100 - percent
