"""Planted bugs of connections: numbers of messages and batches are not checked.

See :mod:`tests.sim.mutants`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rstream.transport.frame_order import InOrder
from rstream.transport.receive import PushedReader
from tests.sim.planting import Mutant

if TYPE_CHECKING:
    from collections.abc import Callable


def a_second_copy_is_taken() -> Mutant:
    """A repeated message is handled again, whenever it arrives."""
    original = InOrder.accept

    def accept(self: Any, number: int) -> str:
        verdict = original(self, number)
        return "take" if verdict == "ignore" else verdict

    return Mutant(InOrder, "accept", accept, ("duplicate",))


def a_gap_is_passed_over() -> Mutant:
    """A lost message is not missed."""

    def accept(self: Any, number: int) -> str:
        if number < self._expected:
            return "ignore"
        self._expected = number + 1
        return "take"

    return Mutant(InOrder, "accept", accept, ("lose",))


def batches_are_taken_as_they_come() -> Mutant:
    """A reader assumes that pushed batches are in order."""

    def take(self: Any, items: Any) -> bool:
        if self._queue.put(items):
            self._changed()
        return True

    return Mutant(PushedReader, "_take", take, ("duplicate", "reorder"))


LINE_MUTANTS: tuple[Callable[[], Mutant], ...] = (
    a_second_copy_is_taken,
    a_gap_is_passed_over,
    batches_are_taken_as_they_come,
)
