"""Planted bugs of retention: it ignores a reader that still needs items.

See :mod:`tests.sim.mutants`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jobmanager.delivery.retention
from jobmanager.delivery.deliveries import Deliveries
from jobmanager.driver.job_deliveries import JobDeliveries
from tests.sim.delivery_mutants import delivered

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.sim.planting import Mutant

BEHIND = ("absent_destination", "slow_destination", "lose_answers", "crash_manager")
LATE = ("late_delivery", "crash_delivery")


def what_is_not_delivered_goes() -> Mutant:
    """Deliveries of the job's own process are ignored."""
    return delivered(JobDeliveries, "_needed", lambda self: {}, BEHIND)


def retention_forgets_a_delivery_that_waits() -> Mutant:
    """A delivery whose destination fails does not prevent deletions."""

    def positions(self: Any) -> dict[int, int]:
        found: dict[int, int] = {}
        for _, k, part in self._parts:
            if part.state != "waiting":
                seq = part.view().delivered_seq
                found[k] = min(seq, found.get(k, seq))
        return found

    return delivered(Deliveries, "positions", positions, BEHIND)


def what_is_read_counts_as_delivered() -> Mutant:
    """Items that wait for their commit are deleted."""

    def positions(self: Any) -> dict[int, int]:
        found: dict[int, int] = {}
        for _, k, part in self._parts:
            seq = part._output.next_seq
            found[k] = min(seq, found.get(k, seq))
        return found

    return delivered(Deliveries, "positions", positions, BEHIND)


def a_delivery_of_another_process_is_not_looked_at() -> Mutant:
    """Only deliveries of the job's own process prevent deletions."""
    return delivered(
        jobmanager.delivery.retention, "recorded_positions", lambda store, since_us: {}, LATE
    )


RETENTION_MUTANTS: tuple[Callable[[], Mutant], ...] = (
    what_is_not_delivered_goes,
    retention_forgets_a_delivery_that_waits,
    what_is_read_counts_as_delivered,
    a_delivery_of_another_process_is_not_looked_at,
)
