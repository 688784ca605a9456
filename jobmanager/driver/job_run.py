"""The run of a job in this process: its thread, its legs, and its status.

A *leg* is the run of a job from one change to the next. The API's handle is
:class:`jobmanager.driver.job.Job`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from jobmanager.delivery.publishing import publish
from jobmanager.driver.input_positions import CHANGING
from jobmanager.driver.job_output import rows_of_outputs
from jobmanager.state.health import CHANGE, HealthBook
from jobmanager.state.state_size import StateSizes
from jobmanager.storage.output_claim import complete_output, tidy_output
from jobmanager.storage.ownership import give_back
from jobmanager.storage.root import CANCEL, RETRY, STOP, display_uri
from planner.physical.layout import key_shares
from rstream.clock import SystemClock
from rstream.errors import OperatingError

if TYPE_CHECKING:
    from jobmanager.driver.driver import Driver
    from jobmanager.driver.job_deliveries import JobDeliveries
    from jobmanager.driver.notes import Notes
    from jobmanager.storage.root import JobRoot
    from planner.physical.plan import PhysicalPlan
    from rvertex.host.executor import Executor

StatusCallback = Callable[[dict[str, Any]], None]
_REPORT_EVERY_S = 1.0


class Beside(Protocol):
    """Work for a job that runs in parallel with its driver."""

    @property
    def notes(self) -> Sequence[str]:
        """Messages for users about this work."""

    def start(self) -> None:
        """Start the work, before the driver starts."""

    def stop(self, state: str) -> None:
        """End the work, after driver and deliveries. ``state``: the final state of the job."""


@dataclass(frozen=True)
class Leg:
    """The parts that run a job from one change to the next. ``on_end`` gets the final state.

    ``is_at_cut``: this leg follows a change that was carried out in this process.
    """

    plan: PhysicalPlan
    driver: Driver
    executor: Executor
    deliveries: JobDeliveries
    beside: Sequence[Beside]
    is_resumed: bool
    on_end: Callable[[str], None]
    is_at_cut: bool = False


Follow = Callable[[Leg, str], "Leg | None"]


class JobRun:
    """Runs the legs of a job in a thread. ``status``: the latest status.

    ``notes``: for users, as fields of the status. ``ended``: set when the thread ends. Joining the
    thread would not work: after an interrupted ``Thread.join``, Python treats the thread as ended.
    ``crash``: the error that ended it.
    """

    def __init__(
        self,
        root: JobRoot,
        plan: PhysicalPlan,
        job_id: str,
        notes: Notes,
        on_status: StatusCallback | None = None,
        created_s: float = 0.0,
        delivers_as: str = "",
    ) -> None:
        self.root, self.plan, self.job_id = root, plan, job_id
        #: The id under which destinations know the deliveries of the job.
        self.delivers_as = delivers_as or job_id
        self.on_status = on_status
        self.notes = notes.to_json()
        self.status: dict[str, Any] = {"job": root.name, "state": "starting", "error": ""}
        self.status |= self.notes
        self.ended = threading.Event()
        self.crash: BaseException | None = None
        self.driver: Driver | None = None
        self.deliveries: JobDeliveries | None = None
        #: Whether a change is in progress. Then the job continues after its driver has stopped.
        self.is_changing = False
        self.changes_tried = 0
        #: The user's last request. It is repeated to the next driver, because the previous driver
        #: may have ended for a change without handling it.
        self.wish: Callable[[Driver], None] | None = None
        self._clock, self._created_s = SystemClock(), created_s
        #: When this process started the first vertex. A change does not reset it.
        self._started_s: float | None = None
        self._beside: Sequence[Beside] = ()
        self._leg: Leg | None = None
        #: The status as the driver computes it, without deliveries.
        self._computed: dict[str, Any] = {}
        self._key_shares: dict[str, dict[str, float]] = {}
        self._health, self._sizes = HealthBook(), StateSizes()
        self._reported_s = self._clock.monotonic_s()
        #: Whether the complete result is published, or need not be published.
        self._is_published = plan.publishing is None

    @classmethod
    def over(
        cls, root: JobRoot, plan: PhysicalPlan, status: dict[str, Any], notes: Notes
    ) -> JobRun:
        """Return the run of a job that has finished earlier."""
        run = cls(root, plan, root.settings()["id"], notes)
        run.status = status | run.notes
        run.ended.set()
        return run

    def start(self, leg: Leg, follow: Follow) -> None:
        """Start the job's thread with a first leg.

        ``follow`` is called with a leg and its final state. It returns the next leg, or None if the
        job ends.
        """

        def body() -> None:
            try:
                self._run(leg, follow)
            except BaseException as error:
                self._note_crash(error)
            finally:
                self._end()

        self._take_up(leg)
        threading.Thread(target=body, name=f"driver-{self.root.name}", daemon=True).start()

    def begin_change(self) -> None:
        self.is_changing = True

    def _take_up(self, leg: Leg) -> None:
        self.driver, self.deliveries, self._beside = leg.driver, leg.deliveries, leg.beside
        self._leg, self.plan = leg, leg.plan
        self._key_shares = key_shares(leg.plan)
        if self.wish is not None:
            self.wish(leg.driver)
        leg.driver.on_retry = leg.deliveries.retry

    def _run(self, leg: Leg, follow: Follow) -> None:
        """Run one leg after another, with a change between them."""
        while True:  # ends after a leg without a pending change
            try:
                leg.deliveries.start()
                for one in leg.beside:
                    one.start()
            except BaseException:
                leg.driver.dismiss_hosts()
                raise
            leg.driver.run(resumed=leg.is_resumed, is_at_cut=leg.is_at_cut)
            leg.on_end(self._computed["state"])
            next_leg = follow(leg, self._computed["state"])
            if next_leg is None:
                break
            leg = next_leg
            self._take_up(leg)
        self._finish(leg.driver, leg.deliveries)

    def deliver_rest(self, leg: Leg) -> bool:
        """Deliver all written rows before a change. Return whether all were delivered."""
        tidy_output(leg.plan)
        leg.deliveries.drain(self.report_again)
        for one in leg.beside:
            one.stop(CHANGING)
        leg.deliveries.stop()
        return not leg.deliveries.is_cancelled

    def _end(self) -> None:
        """End the parallel work. Threads in :meth:`wait` return even if a step fails."""
        leg = self._leg
        assert leg is not None
        try:
            with contextlib.ExitStack() as closing:  # stops them in reverse order
                closing.callback(give_back, self.root)
                closing.callback(leg.executor.release)
                closing.callback(leg.driver.log.close, flush=False)
                for one in leg.beside:
                    closing.callback(one.stop, str(self.status["state"]))
                closing.callback(leg.deliveries.stop)
        except BaseException as error:
            self._note_crash(error)
        finally:
            self.ended.set()

    def _note_crash(self, error: BaseException) -> None:
        self.crash = error
        self.status = {**self.status, "state": "failed", "error": str(error)}
        self.root.record_failure(str(error), self._clock.now_us())

    def take_status(self, status: dict[str, Any]) -> None:
        """Keep the driver's status, complete it with the job's own fields, write it to the root."""
        assert self.driver is not None
        assert self.deliveries is not None
        self._computed = status
        now_s = self._clock.monotonic_s()
        self._started_s = self._started_s or self.driver.started_s
        started_s = self._started_s or now_s
        outputs = rows_of_outputs(self.plan, status["vertices"])
        counted = {"outputs": outputs, "events_out": sum(row["events_out"] for row in outputs)}
        shown = {
            "job": self.root.name,
            **self._until_published({**status, **self.deliveries.view(status)}),
            **(counted if outputs else {}),
            "state_sizes": self._sizes.look(
                self.plan.vertices, status["vertices"], self._clock.now_us()
            ),
            "key_shares": self._key_shares,
            # A job that is resumed after its last vertex has finished may end before its driver has
            # started.
            "elapsed_s": max(0.0, round((self.driver.ended_s or now_s) - started_s, 3)),
            "startup_s": round(started_s - self._created_s, 3),
            "root": display_uri(self.root.uri),
            "output": display_uri(self.plan.output),
            **self.notes,
            "notes": list(
                dict.fromkeys([*self.notes["notes"], *(n for b in self._beside for n in b.notes)])
            ),
        }
        self.status = {**shown, **self._health.look(shown, self._clock.now_us())}
        # Write it before the callback, which then finds this status or a later one in the root
        try:
            self.root.write_status(self.status)
        finally:  # call the callback even if the store cannot be reached
            if self.on_status is not None:
                self.on_status(dict(self.status))

    def _until_published(self, status: dict[str, Any]) -> dict[str, Any]:
        """Return the status, with "running" for "finished" until the result is published."""
        is_over = self._is_published or status["state"] != "finished"
        if self.is_changing and status["state"] == "stopped":
            return {**status, "state": "running", "waiting": CHANGE}
        return status if is_over else {**status, "state": "running"}

    def _finish(self, driver: Driver, deliveries: JobDeliveries) -> None:
        if self._computed["state"] == "finished":
            complete_output(self.plan, self.status)
            for output in self.plan.of_outputs:
                publish(output, self.job_id, self._report_if_due)
            self._is_published = True
            deliveries.finish(self.report_again)
        elif self._computed["state"] == "stopped" and driver.stops_at_end:
            tidy_output(self.plan)
            deliveries.drain(self.report_again)
        else:
            deliveries.stop()
        if self.plan.deliveries or self.plan.publishing is not None:
            self.report_again()

    def _report_if_due(self) -> None:
        """Write a status if one is due, so that other processes see that this one is alive."""
        if self._clock.monotonic_s() >= self._reported_s + _REPORT_EVERY_S:
            self._reported_s = self._clock.monotonic_s()
            self.report_again()

    def report_again(self) -> None:
        """Write the status with the present deliveries. End them if a user has requested that.

        Raises:
            JobRunningError: another job manager has taken over.
        """
        with contextlib.suppress(OperatingError):  # the next tick, or resume, tries again
            self.root.check_owner()
            requests = {*self.root.requests()}
            if self.deliveries is not None and {CANCEL, STOP} & requests:
                self.deliveries.cancel()
            if self.deliveries is not None and RETRY in requests:
                self.root.forget_request(RETRY)
                self.deliveries.retry()
            self.take_status({**self._computed, "written_us": self._clock.now_us()})
