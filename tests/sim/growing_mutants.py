"""Planted bugs of logs that get partitions while jobs read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobmanager.storage.root import JobRoot
from rvertex.host.log_feed import LogFeed
from rvertex.vertex.log_input import LogInput
from tests.sim.live_mutants import CRASHES
from tests.sim.planting import Mutant

if TYPE_CHECKING:
    from collections.abc import Callable


def the_plan_is_not_durable_when_it_is_followed() -> Mutant:
    """Vertices read an added partition before the plan that contains it is durable."""
    return Mutant(JobRoot, "replace_plan", lambda self, plan: None, ("crash_manager",), grow=True)


def a_partition_takes_part_at_once() -> Mutant:
    """A vertex reads an added partition at once, whatever its predecessor has emitted."""
    return Mutant(LogFeed, "_is_settled", lambda self: True, CRASHES, grow=True)


def a_partition_takes_part_from_its_first_row() -> Mutant:
    """The vertex does not wait for the entry with the start."""
    original = LogInput.__init__

    def init(self: Any, *given: Any, **options: Any) -> None:
        original(self, *given, **options)
        for channel in self.channels:
            channel.is_added = False

    return Mutant(LogInput, "__init__", init, CRASHES, grow=True)


GROWING_MUTANTS: tuple[Callable[[], Mutant], ...] = (
    the_plan_is_not_durable_when_it_is_followed,
    a_partition_takes_part_at_once,
    a_partition_takes_part_from_its_first_row,
)
