"""Reads the outputs of a job: tables, first rows, live rows, subscriptions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

from jobmanager.delivery.answer import ROWS, Answer, alive, check_rows
from jobmanager.driver.lost_rows import lost_lines
from jobmanager.storage.root import display_uri
from planner.durations import time_us

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from jobmanager.driver.subscription import Subscription
    from planner.durations import Time
    from planner.physical.plan import PhysicalPlan


class Writer(Protocol):
    """The job that writes an output."""

    @property
    def plan(self) -> PhysicalPlan:
        """The plan of the job."""

    def status(self) -> dict[str, Any]:
        """Return the latest status."""

    def wait(self, timeout_s: float | None = None) -> dict[str, Any]:
        """Wait until the job has ended."""

    def _subscribed(
        self, plan: PhysicalPlan, start: Mapping[int, int], *, progress: bool
    ) -> Subscription:
        """Open a subscription to the output of ``plan``."""


class Readable(ABC):
    """Methods that read an output."""

    @property
    @abstractmethod
    def _job(self) -> Writer:
        """The job that writes the output."""

    @property
    @abstractmethod
    def _plan(self) -> PhysicalPlan:
        """The plan with this output only. Raises UnknownOutputError if the job has several."""

    def subscribe(
        self, *, start: Mapping[int, int] | None = None, progress: bool = False
    ) -> Subscription:
        """Iterate over the output as it becomes visible, in Arrow batches.

        It starts with the oldest rows that retention keeps. Failures cause no gap and no repeat.
        The iterator ends with the job. If the job has ended, it returns the durable rows.
        ``start``: per partition, the first seq to read (``positions`` of an earlier subscription).
        ``progress``: also return CTIs (watermarks).
        """
        return self._job._subscribed(self._plan, start or {}, progress=progress)

    def to_batches(self, *, wait: bool = True) -> Iterator[pa.RecordBatch]:
        """Iterate over the result, which is read batch by batch; see :meth:`to_arrow`."""
        return self._answer(wait=wait).batches()

    def to_arrow(self, *, wait: bool = True) -> pa.Table:
        """Return the result as a table, with the columns and rows of :meth:`Stream.to_parquet`.

        The call waits until the job has ended. ``wait=False``: return the rows that are durable
        now. Rows are ordered by partition.

        Raises:
            JobFailedError: the job has failed.
            UnknownOutputError: the job has several outputs; read one of :attr:`Job.outputs`.
        """
        return self._answer(wait=wait).to_arrow()

    def to_pandas(self, *, wait: bool = True) -> Any:
        """Return the result as a DataFrame of pandas; see :meth:`to_arrow`."""
        return self._answer(wait=wait).to_pandas()

    def to_polars(self, *, wait: bool = True) -> Any:
        """Return the result as a DataFrame of Polars; see :meth:`to_arrow`."""
        return self._answer(wait=wait).to_polars()

    def to_spark(self, *, wait: bool = True) -> Any:
        """Return the result as a DataFrame of the active Spark session; see :meth:`to_arrow`."""
        return self._answer(wait=wait).to_spark()

    def show(self, rows: int = ROWS, *, wait: bool = True) -> None:
        """Print the first rows of the result, in order of time.

        stderr reports late and bad rows, and whether the result has more rows. For ``wait`` see
        :meth:`to_arrow`. The command ``jobmanager show`` does not wait.

        Raises:
            JobFailedError: the job has failed.
        """
        check_rows("show", rows)
        answer = self._answer(wait=wait)
        folder = display_uri(self._plan.output)
        more = f"There are more: show(rows=...), to_arrow(), or the files of {folder}"
        answer.show(rows, lost_lines(self._job.status()), more)

    def table(self, at: Time | None = None) -> pa.Table:
        """Return the rows of the result that are alive; see :func:`jobmanager.read_table`."""
        return alive(self._plan, None if at is None else time_us(at, what="at"))

    def _answer(self, *, wait: bool) -> Answer:
        plan = self._plan
        if wait:
            self._job.wait()
        return Answer(plan)


class JobOutput(Readable):
    """One output of a job, selected by its name."""

    def __init__(self, job: Writer, name: str) -> None:
        self._writer, self.name = job, name

    @property
    def _job(self) -> Writer:
        return self._writer

    @property
    def _plan(self) -> PhysicalPlan:
        return self._writer.plan.output_named(self.name)

    @property
    def folder(self) -> str:
        """The folder with the files of this output."""
        return display_uri(self._plan.output)

    def __repr__(self) -> str:
        return f"JobOutput({self.name!r}, {self.folder!r})"


def rows_of_outputs(plan: PhysicalPlan, vertices: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the status row of each output; no rows if there is only one output.

    ``vertices``: the status rows of the vertices.
    """
    plans = plan.of_outputs
    return [_row(output, vertices) for output in plans] if len(plans) > 1 else []


def _row(output: PhysicalPlan, vertices: list[dict[str, Any]]) -> dict[str, Any]:
    writers = {output.writers()[stream] for stream, _ in output.sink_streams()}
    rows = [row for row in vertices if row["vertex"] in writers]
    return {
        "output": output.name,
        "folder": display_uri(output.output),
        "state": "finished" if all(row["state"] == "finished" for row in rows) else "running",
        "events_out": sum(row["events_out"] for row in rows),
        "cti_us": min((row["cti_us"] for row in rows), default=0),
    }
