"""The deliveries of a query, while its job runs and until they are done.

They run on threads of the driver's process. After its output is complete, a job stays open until
its deliveries are done. A job that fails or is cancelled stops them. A later process continues
them from the positions stored at the destinations. The job does not wait for a delivery that
another process has taken over, because that process may never end. If it dies, ``jobmanager
deliver`` can continue, because no output is deleted after the job's end.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobmanager.delivery.claim import BEHIND
from jobmanager.delivery.deliveries import Deliveries
from jobmanager.delivery.retention import OutputRetention
from rstream.errors import OperatingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jobmanager.config import JobConfig
    from jobmanager.delivery.wiring import DeliveryWiring
    from jobmanager.driver.driver import Driver
    from jobmanager.driver.subscription import Subscription
    from jobmanager.storage.root import JobRoot
    from planner.physical.plan import PhysicalPlan

#: States in which a delivery has not yet checked that the output has all delivered items.
_BEHIND = ("opening", "checking")
#: States in which it has checked that.
_CAUGHT_UP = ("delivering", "finished")


@dataclass(frozen=True)
class _Opening:
    """The result of :meth:`JobDeliveries.opening`.

    ``kept_from``: per partition a seq; items below it may be deleted at any time. ``keep_for``:
    registers a subscription; while it is open, no item is deleted that it has not read.
    """

    kept_from: dict[int, int]
    keep_for: Callable[[Subscription], None]


class _Subscriptions:
    """Subscriptions in use. Users' threads add to them while the retention's thread reads them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: weakref.WeakSet[Subscription] = weakref.WeakSet()

    def add(self, subscription: Subscription) -> None:
        with self._lock:
            self._known.add(subscription)

    def present(self) -> list[Subscription]:
        with self._lock:
            return list(self._known)


class JobDeliveries:
    """The deliveries of one driver, and the retention of its output."""

    def __init__(
        self,
        plan: PhysicalPlan,
        root: JobRoot,
        job_id: str,
        driver: Driver,
        config: JobConfig,
        wiring: DeliveryWiring | None = None,
        *,
        is_moved: bool = False,
        is_resumed: bool = True,
    ) -> None:
        """Prepare the deliveries.

        ``is_moved``: another job began them. ``is_resumed``: another process may have delivered
        items that the output lacks.
        """
        self._is_resumed = is_resumed
        self._store, self._may_be_behind = root.store, is_moved
        self._plan, self._config = plan, config
        self._is_written = threading.Event()
        self._is_cancelled = threading.Event()
        #: Whether the job has stopped, and its written output is still being delivered.
        self._drains = False
        #: Per partition of the output: the greatest end that was reported, as a seq.
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
        self._subscriptions = _Subscriptions()
        self._retention = OutputRetention(
            plan,
            root.store,
            config,
            needed=self._needed,
            tell=driver.collect_output,
            wiring=wiring,
        )

    def start(self) -> None:
        """Start the deliveries, which wait until the output has items."""
        self._deliveries.start()
        self._retention.start()

    @contextlib.contextmanager
    def opening(self) -> Iterator[_Opening]:
        """Open a subscription in this context. Meanwhile no output is deleted."""
        with self._retention.opening() as kept_from:
            yield _Opening(kept_from, self._subscriptions.add)

    def _needed(self) -> dict[int, int]:
        """Return, per partition, the smallest seq that a local delivery or subscription needs."""
        needed = self._deliveries.positions()
        for subscription in self._subscriptions.present():
            positions = subscription.positions if subscription.is_open else {}
            needed |= {k: min(seq, needed.get(k, seq)) for k, seq in positions.items()}
        return needed

    def keep_for_those_of(self, former: JobDeliveries) -> None:
        """Keep the output for the subscriptions of the job before a change, also for later ones."""
        self._subscriptions = former._subscriptions

    def retry(self) -> None:
        """Restart failed deliveries, and let waiting deliveries try at once."""
        self._deliveries.retry()

    def cancel(self) -> None:
        """Let :meth:`finish` return soon. Safe from any thread."""
        self._is_cancelled.set()

    @property
    def is_cancelled(self) -> bool:
        """Whether :meth:`cancel` was called."""
        return self._is_cancelled.is_set()

    def finish(self, report: Callable[[], None]) -> None:
        """Wait until a complete output is delivered. Call ``report`` at each tick."""
        self._is_written.set()
        self._deliveries.wake()
        while not self._deliveries.wait(self._config.tick_s):  # until done or cancelled
            if self._is_cancelled.is_set():
                self._deliveries.stop()
            report()

    def drain(self, report: Callable[[], None]) -> None:
        """Wait until all present items are delivered of an output that will continue to grow."""
        self._drains = True
        self.finish(report)

    @property
    def have_caught_up(self) -> bool:
        """Return whether the output again has all items that were delivered before a restart."""
        rows = self._deliveries.rows()
        if any(row["state"] in _BEHIND for row in rows) or self._is_behind(rows):
            return False
        # a destination that is away since a restart may have items that the output lacks
        return self._deliveries.have_checked or not self._is_resumed

    def _is_behind(self, rows: list[dict[str, Any]]) -> bool:
        """Return whether the output may lack items that the former job has delivered.

        If not, delete the file ``BEHIND``.
        """
        if self._may_be_behind:
            with contextlib.suppress(OperatingError):  # the next call tries again
                if all(row["state"] in _CAUGHT_UP for row in rows):
                    self._store.delete(BEHIND)
                self._may_be_behind = self._store.exists(BEHIND)
        return self._may_be_behind

    def stop(self) -> None:
        """End the deliveries, because the output will not be completed."""
        self._is_written.set()
        self._retention.stop()
        self._deliveries.stop()
        self._deliveries.wait(self._config.delivery.stop_wait_s)

    def view(self, status: dict[str, Any]) -> dict[str, Any]:
        """Return the status fields that deliveries change or add, given the driver's status."""
        kept = self._retention.rows()
        kept_row = {"kept": kept} if kept else {}
        if not self._plan.deliveries:
            return kept_row
        self._note_ends(status)
        rows = self._deliveries.rows()
        self._is_behind(rows)
        rows = [{**row, "lag_items": self._lag(row)} for row in rows]
        return {"deliveries": rows, **kept_row, **self._state(status["state"])}

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
