"""Delivers the output of a job from a separate process (``jobmanager deliver``).

It reads the flushed items, during the job or after it, because only the job's own process can read
the memory of the hosts. So it lags behind by the flush interval of outputs. It continues if the
job's process dies.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from jobmanager.delivery.claim import report_position
from jobmanager.delivery.deliveries import Deliveries
from jobmanager.delivery.output_tap import Endpoints
from jobmanager.delivery.wiring import ThreadWiring
from jobmanager.errors import NoDeliveryError
from jobmanager.state.job_state import OPEN_STATES
from jobmanager.storage.root import JobRoot, delivery_id, display_uri
from jobmanager.storage.shown import INTERRUPTED, shown_status
from rstream.errors import OperatingError, StoreError
from rvertex.messages import Locate
from rvertex.sinks.errors import InvalidSinkError
from rvertex.sinks.limits import DeliveryLimits
from rvertex.sinks.spec import name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobmanager.delivery.wiring import DeliveryWiring
    from planner.physical.plan import PhysicalPlan
    from rstream.clock import Clock
    from rvertex.sinks.spec import SinkSpec

#: Seconds between two checks of whether the job still runs, and between two progress reports.
TICK_S = 0.5
#: Seconds between two records of its position in the root. The job keeps the items from this
#: position on.
TELL_EVERY_S = 5.0
#: How long an unreadable root is retried before the delivery fails, s.
STORE_WAIT_S = 300.0
_log = logging.getLogger(__name__)
T = TypeVar("T")


def deliver(
    root: str,
    destinations: Sequence[SinkSpec] = (),
    *,
    start_seq: int = 0,
    output: str | None = None,
    trust: bool = False,
    limits: DeliveryLimits | None = None,
    on_rows: Callable[[list[dict[str, Any]]], None] = lambda rows: None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> list[dict[str, Any]]:
    """Deliver until the output is complete or the job has ended. Return the rows of the status.

    ``destinations``: if empty, those of the query. ``start_seq``: the first seq of new deliveries,
    in each present partition; later ones start at 0. ``output``: the name of the output for
    ``destinations``, if the job has several. ``on_rows``: called at each tick with the rows of the
    status.

    Raises:
        NoJobError: the root contains no job, or a job that has not started.
        InvalidSinkError: the output does not fit a destination.
        NoDeliveryError: neither the query nor the caller names a destination.
        OperatingError: the status of the job could not be read for STORE_WAIT_S.
    """
    job_root = JobRoot(root, trust=trust)
    job_root.check_trusted()
    settings = job_root.readable_settings()
    plan = job_root.read_plan()
    if plan is None:
        raise NoDeliveryError(display_uri(job_root.uri))

    def choose(plan: PhysicalPlan) -> tuple[PhysicalPlan, Sequence[SinkSpec]]:
        specs = tuple(destinations) or plan.deliveries
        if not specs:
            raise NoDeliveryError(display_uri(job_root.uri))
        if destinations:
            plan = plan.output_named(output)
        if plan.changes is None:
            _refuse_changes(destinations)
        return plan, specs

    return deliver_plan(
        plan,
        choose,
        job_root,
        settings["id"] if destinations else delivery_id(settings),
        start_seq=start_seq,
        limits=limits or DeliveryLimits(),
        on_rows=on_rows,
        is_cancelled=is_cancelled,
        wiring=ThreadWiring(),
    )


def _refuse_changes(destinations: Sequence[SinkSpec]) -> None:
    """Check that no destination needs changes, because this output has only complete rows.

    Raises:
        InvalidSinkError: a destination takes changes.
    """
    for spec in (one for one in destinations if one.needs_changes):
        reason = (
            "the output of this job has whole rows, not changes. Name this destination in the "
            "query, or deliver whole rows"
        )
        raise InvalidSinkError(name_of(spec), reason)


def deliver_plan(
    plan: PhysicalPlan,
    choose: Callable[[PhysicalPlan], tuple[PhysicalPlan, Sequence[SinkSpec]]],
    root: JobRoot,
    job_id: str,
    *,
    start_seq: int,
    limits: DeliveryLimits,
    on_rows: Callable[[list[dict[str, Any]]], None],
    is_cancelled: Callable[[], bool],
    wiring: DeliveryWiring,
) -> list[dict[str, Any]]:
    """Do the same as :func:`deliver` with an opened root and a loaded plan.

    ``choose``: returns the output and destinations of a plan. A change restarts the deliveries.
    """
    job, pause = _Watch(root, wiring.clock), wiring.signal()

    def begin(plan: PhysicalPlan) -> Deliveries:
        output, specs = choose(plan)
        begun = Deliveries(
            specs,
            output,
            job_id=job_id,
            store=root.store,
            endpoints=_without_hosts(output),
            secret="",
            has_ended=job.is_over.is_set,
            limits=limits,
            start_seq=start_seq,
            wiring=wiring,
        )
        _record_positions(root, begun, wiring.clock)
        begun.start()
        return begun

    deliveries, reported_s = begin(plan), wiring.clock.monotonic_s()
    while True:  # until all deliveries of the last plan are done
        is_over = deliveries.wait(TICK_S)
        is_last = is_cancelled() or (is_over and deliveries.is_fenced)
        try:
            job.note_end()
            present = plan if is_last else job.present_plan(plan)
        except OperatingError:
            _stop(deliveries, limits)
            raise
        if is_over and present is plan:
            break
        if is_last:
            deliveries.stop()
        elif present is not None and present is not plan:
            _stop(deliveries, limits)
            plan, deliveries = present, begin(present)
        elif is_over:  # whether a change has added partitions is unknown now
            pause.wait(TICK_S)
        if wiring.clock.monotonic_s() >= reported_s + TELL_EVERY_S:
            reported_s = _record_positions(root, deliveries, wiring.clock)
        on_rows(deliveries.rows())
    _record_positions(root, deliveries, wiring.clock)
    return deliveries.rows()


def _without_hosts(output: PhysicalPlan) -> Endpoints:
    """Return endpoints by which all streams of an output are read from their files."""
    endpoints = Endpoints()
    for vertex in sorted(set(output.writers().values())):
        endpoints.note(Locate(vertex, 1, ()))
    return endpoints


def _stop(deliveries: Deliveries, limits: DeliveryLimits) -> None:
    deliveries.stop()
    deliveries.wait(limits.stop_wait_s)


class _Watch:
    """Checks whether a job still runs, and whether it was changed."""

    def __init__(self, root: JobRoot, clock: Clock) -> None:
        self._root, self._clock = root, clock
        #: Set once the job has ended.
        self.is_over = threading.Event()
        self._state = ""
        #: By file: since when it cannot be read, monotonic s.
        self._failing_s: dict[str, float] = {}

    def note_end(self) -> None:
        """Set ``is_over`` if the job has ended.

        Raises:
            OperatingError: the root could not be read for STORE_WAIT_S.
        """
        if self.is_over.is_set():
            return
        now_us = self._clock.now_us()
        state = self._read("status", lambda: shown_status(self._root, now_us)["state"])
        if state is not None and state not in OPEN_STATES:
            self._state = state
            self.is_over.set()

    def present_plan(self, plan: PhysicalPlan) -> PhysicalPlan | None:
        """Return the present plan of the job: ``plan`` itself if it is equal.

        None while the root cannot be read, or while a change is being written. With another plan
        the job may run again, even if its former job manager is dead.

        Raises:
            OperatingError: the plan was unknown for STORE_WAIT_S.
        """

        def read() -> PhysicalPlan:
            now = self._root.settings().get("plan", plan.plan_hash)
            found = plan if now == plan.plan_hash else self._root.read_plan()
            if found is None or found.plan_hash != now:
                root, reason = display_uri(self._root.uri), "its plan is being replaced"
                if self._state == INTERRUPTED:
                    resume = f"jobmanager resume {root} completes the change"
                    reason = f"its job manager died while it replaced the plan; {resume}"
                raise StoreError(root, reason)
            return found

        present = self._read("plan", read)
        if present is not None and present is not plan:
            self.is_over.clear()
        return present

    def _read(self, name: str, read: Callable[[], T]) -> T | None:
        now_s = self._clock.monotonic_s()
        try:
            found = read()
        except OperatingError as error:
            if name not in self._failing_s:
                self._failing_s[name] = now_s
                _log.warning("the root cannot be read; trying again: %s", error)
            if now_s - self._failing_s[name] >= STORE_WAIT_S:
                raise
            return None
        self._failing_s.pop(name, None)
        return found


def _record_positions(root: JobRoot, deliveries: Deliveries, clock: Clock) -> float:
    """Record the positions of the deliveries in the root. Return the present time, s."""
    for row in deliveries.rows():
        with contextlib.suppress(OperatingError):  # recorded again after TELL_EVERY_S
            report_position(
                root.store, row["delivery"], row["partition"], row["delivered_seq"], clock.now_us()
            )
    return clock.monotonic_s()
