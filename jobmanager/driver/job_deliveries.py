"""The deliveries that a query names, while its job runs and until they are done.

They run on threads of the driver's process. A job whose output is complete stays open until its
deliveries are done; one that fails or is cancelled stops them. A later process goes on with them
where the destinations say. One that another process has taken over is not waited for: that process
may deliver for ever, or die, and then ``jobmanager deliver`` goes on over the output, of which
nothing is collected any more once the job has ended.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobmanager.delivery.deliveries import Deliveries
from jobmanager.delivery.retention import OutputRetention

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jobmanager.config import JobConfig
    from jobmanager.delivery.wiring import DeliveryWiring
    from jobmanager.driver.driver import Driver
    from jobmanager.driver.subscription import Subscription
    from jobmanager.storage.root import JobRoot
    from planner.physical.plan import PhysicalPlan

#: States of deliveries that do not know yet whether the output has all that they delivered.
_BEHIND = ("opening", "checking")


@dataclass(frozen=True)
class _Opening:
    """``kept_from``: by partition below which seq what is still there may go at any time.

    ``keep_for``: from then on nothing goes that this subscription has not read, while it is open.
    """

    kept_from: dict[int, int]
    keep_for: Callable[[Subscription], None]


class JobDeliveries:
    """The deliveries of one driver; none is there if the plan names none."""

    def __init__(
        self,
        plan: PhysicalPlan,
        root: JobRoot,
        job_id: str,
        driver: Driver,
        config: JobConfig,
        wiring: DeliveryWiring | None = None,
    ) -> None:
        self._plan, self._config = plan, config
        self._is_written = threading.Event()
        self._is_cancelled = threading.Event()
        #: The job has stopped, and what it has written by then is being delivered.
        self._drains = False
        #: By partition the greatest seq that was reported of the output.
        self._ends = dict.fromkeys(range(len(plan.sink_streams())), 0)
        self._deliveries = Deliveries(
            plan.deliveries,
            plan,
            job_id=job_id,
            store=root.store,
            endpoints=driver.endpoints,
            secret=driver.secret,
            has_ended=self._is_written.is_set,
            limits=config.delivery,
            wiring=wiring,
        )
        self._subscriptions: weakref.WeakSet[Subscription] = weakref.WeakSet()
        self._retention = OutputRetention(
            plan,
            root.store,
            config,
            needed=self._needed,
            tell=driver.collect_output,
            wiring=wiring,
        )

    def start(self) -> None:
        """Start them; they wait for the output."""
        self._deliveries.start()
        self._retention.start()

    @contextlib.contextmanager
    def opening(self) -> Iterator[_Opening]:
        """Open a subscription within: nothing goes of the output until it is known."""
        with self._retention.opening() as kept_from:
            yield _Opening(kept_from, self._subscriptions.add)

    def _needed(self) -> dict[int, int]:
        """By partition the least seq that a delivery or a subscription of this process needs."""
        found = self._deliveries.positions()
        for subscription in list(self._subscriptions):
            positions = subscription.positions if subscription.is_open else {}
            found |= {k: min(seq, found.get(k, seq)) for k, seq in positions.items()}
        return found

    def retry(self) -> None:
        """Begin deliveries that have failed again; those that wait are tried now."""
        self._deliveries.retry()

    def cancel(self) -> None:
        """Have :meth:`finish` end soon; from any thread."""
        self._is_cancelled.set()

    @property
    def is_cancelled(self) -> bool:
        """Whether :meth:`cancel` was called."""
        return self._is_cancelled.is_set()

    def finish(self, report: Callable[[], None]) -> None:
        """Wait until all of a complete output is delivered, with a ``report`` at each tick."""
        self._is_written.set()
        self._deliveries.wake()
        while not self._deliveries.wait(self._config.tick_s):  # until done, or cancelled
            if self._is_cancelled.is_set():
                self._deliveries.stop()
            report()

    def drain(self, report: Callable[[], None]) -> None:
        """Wait until all is delivered of an output that is not complete, and goes on later."""
        self._drains = True
        self.finish(report)

    @property
    def have_caught_up(self) -> bool:
        """Whether the output has all that the destinations have had of it before."""
        return not any(row["state"] in _BEHIND for row in self._deliveries.rows())

    def stop(self) -> None:
        """End them: the output will not be complete."""
        self._is_written.set()
        self._retention.stop()
        self._deliveries.stop()
        self._deliveries.wait(self._config.delivery.stop_wait_s)

    def view(self, status: dict[str, Any]) -> dict[str, Any]:
        """What of the driver's ``status`` is otherwise because of them, and their rows."""
        kept = self._retention.rows()
        told = {"kept": kept} if kept else {}
        if not self._plan.deliveries:
            return told
        self._note_ends(status)
        rows = [{**row, "lag_items": self._lag(row)} for row in self._deliveries.rows()]
        return {"deliveries": rows, **told, **self._state(status["state"])}

    def _state(self, state: str) -> dict[str, str]:
        if state != "finished" and not (state == "stopped" and self._drains):
            return {}
        if not self._deliveries.is_done:
            return {"state": "running"}
        if self._is_cancelled.is_set():
            return {"state": "cancelled"}
        failures = self._deliveries.failures(but_stopped=self._drains)
        return {"state": "failed", "error": "; ".join(failures)} if failures else {}

    def _lag(self, row: dict[str, Any]) -> int:
        return max(self._ends[row["partition"]] - int(row["delivered_seq"]), 0)

    def _note_ends(self, status: dict[str, Any]) -> None:
        rows = {row["vertex"]: row["outputs"] for row in status["vertices"]}
        writers = self._plan.writers()
        for k, (stream, _) in enumerate(self._plan.sink_streams()):
            vertex = self._plan.vertex(writers[stream])
            seqs = rows.get(vertex.id) or ()
            place = vertex.output_streams.index(stream)
            if place < len(seqs):
                self._ends[k] = max(self._ends[k], seqs[place])
