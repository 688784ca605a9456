"""The :class:`Job` of the API, with which users follow, read and stop a job."""

from __future__ import annotations

from operator import methodcaller
from typing import TYPE_CHECKING, Any

from jobmanager.delivery.output_tap import Endpoints
from jobmanager.driver.input_positions import check_can_finish
from jobmanager.driver.job_output import JobOutput, Readable
from jobmanager.driver.report import status_html
from jobmanager.driver.subscription import Subscription
from jobmanager.errors import JobFailedError, as_job_failure
from jobmanager.storage.root import display_uri
from rstream.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobmanager.driver.job_run import JobRun
    from planner.physical.plan import PhysicalPlan

#: A wait is divided into slices of this length, s. An interrupt that arrives as a slice begins is
#: noticed at the end of the slice.
_WAIT_SLICE_S = 0.5


class Job(Readable):
    """A job that runs in the background of this process."""

    def __init__(self, run: JobRun) -> None:
        self.root = display_uri(run.root.uri)
        self._run = run

    @property
    def plan(self) -> PhysicalPlan:
        """The plan. A change of the job replaces it."""
        return self._run.plan

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
        """Return the status as HTML, for notebooks."""
        return status_html(self.status())

    def status(self) -> dict[str, Any]:
        """Return the latest status; see ``jobmanager status``."""
        return dict(self._run.status)

    def cancel(self) -> None:
        """Request the job to end. :meth:`wait` returns when it has ended.

        The call has no effect on a job that has ended.
        """
        self._run.wish = methodcaller("cancel")
        if self._run.driver is not None:
            self._run.driver.cancel()
        if self._run.deliveries is not None:
            self._run.deliveries.cancel()

    def stop(self, *, finish: bool = False) -> None:
        """Request the job to stop. :meth:`wait` returns when it has. ``resume`` continues it.

        The vertices take a last checkpoint, and their output becomes durable. ``finish``: all
        sources end at the present ends of their logs, so windows close and the job finishes.

        Raises:
            CannotFinishError: a source is bounded and ends only with its input.
        """
        if finish:
            check_can_finish(self.plan, self.root)
        run = self._run
        run.wish = methodcaller("finish" if finish else "stop")
        if run.driver is not None:
            run.wish(run.driver)
        if run.deliveries is not None and run.driver is not None and run.driver.ended_s:
            run.deliveries.cancel()  # only the deliveries still run

    def retry_deliveries(self) -> None:
        """Restart failed deliveries, and let waiting deliveries try at once."""
        if self._run.deliveries is not None:
            self._run.deliveries.retry()

    def _subscribed(
        self, plan: PhysicalPlan, start: Mapping[int, int], *, progress: bool
    ) -> Subscription:
        """Open a subscription to the output of ``plan``."""
        while (deliveries := self._run.deliveries) is not None:
            with deliveries.opening() as opening:
                subscription = self._subscription(plan, start, opening.kept_from, progress=progress)
                opening.keep_for(subscription)
            if deliveries is self._run.deliveries:
                return subscription
            subscription.close()  # a change has replaced the deliveries meanwhile
        return self._subscription(plan, start, {}, progress=progress)

    def _subscription(
        self,
        plan: PhysicalPlan,
        start: Mapping[int, int],
        kept_from: Mapping[int, int],
        *,
        progress: bool,
    ) -> Subscription:
        driver = self._run.driver
        return Subscription(
            plan,
            endpoints=Endpoints() if driver is None else driver.endpoints,
            secret="" if driver is None else driver.secret,
            has_ended=self._run.ended.is_set,
            raise_failure=lambda: self.wait(0),
            start=start,
            kept_from=kept_from,
            progress=progress,
            present=lambda: self.plan,
        )

    def wait(self, timeout_s: float | None = None) -> dict[str, Any]:
        """Wait until the job has ended. Return its last status.

        Raises:
            JobFailedError: the job failed; ``jobmanager resume`` can continue it.
            TimeoutError: the job is still running after ``timeout_s``.
        """
        clock = SystemClock()
        ends_s = None if timeout_s is None else clock.monotonic_s() + timeout_s
        slice_s = _WAIT_SLICE_S if timeout_s is None else min(_WAIT_SLICE_S, timeout_s)
        while not self._run.ended.wait(slice_s):
            if ends_s is not None and clock.monotonic_s() >= ends_s:
                raise TimeoutError(f"job {self._run.root.name} still runs after {timeout_s} s")
        if self._run.crash is not None:
            raise as_job_failure(self._run.root.name, self._run.crash)
        if self._run.status["state"] == "failed":
            raise JobFailedError(self._run.root.name, self._run.status["error"])
        return self.status()
