"""The :class:`Job` of the API: runs a driver in a thread; has the status and waits for the end."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Protocol

from jobmanager.delivery.output_tap import Endpoints
from jobmanager.delivery.publishing import publish
from jobmanager.driver.input_positions import check_can_finish
from jobmanager.driver.job_output import JobOutput, Readable, rows_of_outputs
from jobmanager.driver.notes import Notes
from jobmanager.driver.report import status_html
from jobmanager.driver.subscription import Subscription
from jobmanager.errors import JobFailedError, as_job_failure
from jobmanager.state.health import HealthBook
from jobmanager.state.state_size import StateSizes
from jobmanager.storage.output_claim import complete_output, tidy_output
from jobmanager.storage.ownership import give_back
from jobmanager.storage.root import CANCEL, RETRY, STOP, display_uri
from rstream.clock import SystemClock
from rstream.errors import OperatingError

if TYPE_CHECKING:
    from jobmanager.driver.driver import Driver
    from jobmanager.driver.job_deliveries import JobDeliveries
    from jobmanager.storage.root import JobRoot
    from planner.physical.plan import PhysicalPlan
    from rvertex.host.executor import Executor

StatusCallback = Callable[[dict[str, Any]], None]
#: A wait is divided into slices of this length. An interrupt that arrives as a slice begins is
#: noticed at the end of the slice.
_WAIT_SLICE_S = 0.5
_REPORT_EVERY_S = 1.0


class Beside(Protocol):
    """Work for a job that runs beside its driver."""

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


class Job(Readable):
    """A job that runs in the background of this process."""

    def __init__(
        self,
        root: JobRoot,
        plan: PhysicalPlan,
        on_status: StatusCallback | None,
        *,
        job_id: str,
        status: dict[str, Any] | None = None,
        created_s: float = 0.0,
        notes: Notes | None = None,
    ) -> None:
        self.root = display_uri(root.uri)
        self.plan = plan
        self._root, self._job_id = root, job_id
        self._on_status = on_status
        self._status = status or {"job": root.name, "state": "starting", "error": ""}
        self._notes = (notes or Notes()).to_json()
        self._status |= self._notes
        self._clock = SystemClock()
        self._created_s = created_s
        #: Set when the thread ends. A join would not do: after an interrupted ``Thread.join``,
        #: Python treats the thread as ended.
        self._ended = threading.Event()
        if status is not None:
            self._ended.set()
        self._driver: Driver | None = None
        self._deliveries: JobDeliveries | None = None
        self._beside: Sequence[Beside] = ()
        self._leg: Leg | None = None
        #: Whether a change is under way. Then the job continues after its driver has stopped.
        self._is_changing = False
        self._changes_tried = 0
        #: The user's last request. It is repeated to the next driver, because the one before may
        #: have ended for a change without handling it.
        self._wish: Callable[[Driver], None] | None = None
        #: The driver's own view, without deliveries.
        self._computed: dict[str, Any] = {}
        self._health, self._sizes = HealthBook(), StateSizes()
        self._reported_s = self._clock.monotonic_s()
        #: Whether the complete result is published, or need not be.
        self._is_published = plan.publishing is None
        self._crash: BaseException | None = None

    @property
    def output(self) -> str:
        """The folder of the first output."""
        return display_uri(self.plan.output)

    @property
    def outputs(self) -> dict[str, JobOutput]:
        """The outputs by name. A job with one query has one output, named ``output``."""
        return {output.name: JobOutput(self, output.name) for output in self.plan.of_outputs}

    @property
    def _job(self) -> Job:
        return self

    @property
    def _plan(self) -> PhysicalPlan:
        return self.plan.output_named(None)

    def _repr_html_(self) -> str:
        """The status, as notebooks show it."""
        return status_html(self.status())

    def status(self) -> dict[str, Any]:
        """The latest status; see ``jobmanager status``."""
        return dict(self._status)

    def cancel(self) -> None:
        """Request the job to end. :meth:`wait` returns when it has ended.

        The call has no effect on a job that has ended.
        """
        self._wish = methodcaller("cancel")
        if self._driver is not None:
            self._driver.cancel()
        if self._deliveries is not None:
            self._deliveries.cancel()

    def stop(self, *, finish: bool = False) -> None:
        """Request the job to stop. :meth:`wait` returns when it has. ``resume`` continues it.

        The vertices take a last checkpoint, and their output becomes durable. ``finish``: all
        sources end at the present ends of their logs, so windows close and the job finishes.

        Raises:
            CannotFinishError: a source is bounded and ends only with its input.
        """
        if finish:
            check_can_finish(self.plan, self.root)
        self._wish = methodcaller("finish" if finish else "stop")
        if self._driver is not None:
            self._wish(self._driver)
        if self._deliveries is not None and self._driver is not None and self._driver.ended_s:
            self._deliveries.cancel()  # only the deliveries still run

    def retry_deliveries(self) -> None:
        """Restart failed deliveries, and let waiting deliveries try at once."""
        if self._deliveries is not None:
            self._deliveries.retry()

    def _subscribed(
        self, plan: PhysicalPlan, start: Mapping[int, int], *, progress: bool
    ) -> Subscription:
        """Open a subscription to the output of ``plan``."""
        if self._deliveries is None:
            return self._subscription(plan, start, {}, progress=progress)
        with self._deliveries.opening() as opening:
            subscription = self._subscription(plan, start, opening.kept_from, progress=progress)
            opening.keep_for(subscription)
        return subscription

    def _subscription(
        self,
        plan: PhysicalPlan,
        start: Mapping[int, int],
        kept_from: Mapping[int, int],
        *,
        progress: bool,
    ) -> Subscription:
        driver = self._driver
        return Subscription(
            plan,
            endpoints=Endpoints() if driver is None else driver.endpoints,
            secret="" if driver is None else driver.secret,
            has_ended=self._ended.is_set,
            raise_failure=lambda: self.wait(0),
            start=start,
            kept_from=kept_from,
            progress=progress,
        )

    def wait(self, timeout_s: float | None = None) -> dict[str, Any]:
        """Wait until the job has ended. Return its last status.

        Raises:
            JobFailedError: the job failed; ``jobmanager resume`` can continue it.
            TimeoutError: the job is still running after ``timeout_s``.
        """
        ends_s = None if timeout_s is None else self._clock.monotonic_s() + timeout_s
        slice_s = _WAIT_SLICE_S if timeout_s is None else min(_WAIT_SLICE_S, timeout_s)
        while not self._ended.wait(slice_s):
            if ends_s is not None and self._clock.monotonic_s() >= ends_s:
                raise TimeoutError(f"job {self._root.name} still runs after {timeout_s} s")
        if self._crash is not None:
            raise as_job_failure(self._root.name, self._crash)
        if self._status["state"] == "failed":
            raise JobFailedError(self._root.name, self._status["error"])
        return self.status()

    def _start(self, leg: Leg, follow: Follow) -> None:
        """Start the job's thread with a first leg.

        ``follow``: called with a leg and its final state; returns the next leg, or None if the job
        ends.
        """

        def body() -> None:
            try:
                self._run(leg, follow)
            except BaseException as error:
                self._note_crash(error)
            finally:
                self._end()

        self._take_up(leg)
        threading.Thread(target=body, name=f"driver-{self._root.name}", daemon=True).start()

    def _begin_change(self) -> None:
        self._is_changing = True

    def _take_up(self, leg: Leg) -> None:
        self._driver, self._deliveries, self._beside = leg.driver, leg.deliveries, leg.beside
        self._leg, self.plan = leg, leg.plan
        if self._wish is not None:
            self._wish(leg.driver)
        leg.driver.on_retry = leg.deliveries.retry

    def _run(self, leg: Leg, follow: Follow) -> None:
        """Run one leg after another, with a change between them."""
        while True:  # ends after a leg without a pending change
            leg.deliveries.start()
            for one in leg.beside:
                one.start()
            leg.driver.run(resumed=leg.is_resumed, is_at_cut=leg.is_at_cut)
            leg.on_end(self._computed["state"])
            next_leg = follow(leg, self._computed["state"])
            if next_leg is None:
                break
            leg = next_leg
            self._take_up(leg)
        self._finish(leg.driver, leg.deliveries)

    def _deliver_rest(self, leg: Leg) -> bool:
        """Deliver all written rows before a change. Return whether that was completed."""
        tidy_output(leg.plan)
        leg.deliveries.drain(self._report_again)
        for one in leg.beside:
            one.stop("stopped")
        leg.deliveries.stop()
        return not leg.deliveries.is_cancelled

    def _end(self) -> None:
        """End the work beside the driver. Threads in :meth:`wait` return even if a step fails."""
        leg = self._leg
        assert leg is not None
        try:
            with contextlib.ExitStack() as closing:  # stops them in reverse order
                closing.callback(give_back, self._root)
                closing.callback(leg.executor.release)
                for one in leg.beside:
                    closing.callback(one.stop, str(self._status["state"]))
                closing.callback(leg.deliveries.stop)
        except BaseException as error:
            self._note_crash(error)
        finally:
            self._ended.set()

    def _note_crash(self, error: BaseException) -> None:
        self._crash = error
        self._status = {**self._status, "state": "failed", "error": str(error)}
        self._root.record_failure(str(error), self._clock.now_us())

    def _take_status(self, status: dict[str, Any]) -> None:
        """Keep the driver's status, complete it with the job's own fields, write it to the root."""
        assert self._driver is not None
        assert self._deliveries is not None
        self._computed = status
        now_s = self._clock.monotonic_s()
        started_s = self._driver.started_s or now_s
        outputs = rows_of_outputs(self.plan, status["vertices"])
        counted = {"outputs": outputs, "events_out": sum(row["events_out"] for row in outputs)}
        shown = {
            "job": self._root.name,
            **self._until_published({**status, **self._deliveries.view(status)}),
            **(counted if outputs else {}),
            "state_sizes": self._sizes.look(
                self.plan.vertices, status["vertices"], self._clock.now_us()
            ),
            # A job that is resumed after its last vertex may end before its driver has started.
            "elapsed_s": max(0.0, round((self._driver.ended_s or now_s) - started_s, 3)),
            "startup_s": round(started_s - self._created_s, 3),
            "root": self.root,
            "output": self.output,
            **self._notes,
            "notes": [*self._notes["notes"], *(n for one in self._beside for n in one.notes)],
        }
        self._status = {**shown, **self._health.look(shown, self._clock.now_us())}
        try:  # before the callback, which then finds this status or a later one in the root
            self._root.write_status(self._status)
        finally:  # also while the store is away
            if self._on_status is not None:
                self._on_status(self.status())

    def _until_published(self, status: dict[str, Any]) -> dict[str, Any]:
        """Return the status, with "running" for "finished" until the result is published."""
        is_over = self._is_published or status["state"] != "finished"
        if self._is_changing and status["state"] == "stopped":
            return {**status, "state": "running", "waiting": "a change of the job"}
        return status if is_over else {**status, "state": "running"}

    def _finish(self, driver: Driver, deliveries: JobDeliveries) -> None:
        if self._computed["state"] == "finished":
            complete_output(self.plan, self._status)
            for output in self.plan.of_outputs:
                publish(output, self._job_id, self._report_if_due)
            self._is_published = True
            deliveries.finish(self._report_again)
        elif self._computed["state"] == "stopped" and driver.stops_at_end:
            tidy_output(self.plan)
            deliveries.drain(self._report_again)
        else:
            deliveries.stop()
        if self.plan.deliveries or self.plan.publishing is not None:
            self._report_again()

    def _report_if_due(self) -> None:
        """Write a status if it is due, so that other processes see that this one is alive."""
        if self._clock.monotonic_s() >= self._reported_s + _REPORT_EVERY_S:
            self._reported_s = self._clock.monotonic_s()
            self._report_again()

    def _report_again(self) -> None:
        """Write the status with the present deliveries. End them if a user has requested that.

        Raises:
            JobRunningError: another job manager has taken over.
        """
        with contextlib.suppress(OperatingError):  # the next tick, or resume, tries again
            self._root.check_owner()
            requests = {*self._root.requests()}
            if self._deliveries is not None and {CANCEL, STOP} & requests:
                self._deliveries.cancel()
            if self._deliveries is not None and RETRY in requests:
                self._root.forget_request(RETRY)
                self._deliveries.retry()
            self._take_status({**self._computed, "written_us": self._clock.now_us()})
