"""Reading the answer of a job: that of its only output, or that of one of several."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from jobmanager.delivery.answer import ROWS, Answer, alive, check_rows
from jobmanager.driver.lost_rows import lost_lines
from jobmanager.storage.root import display_uri
from planner.durations import time_us

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from jobmanager.driver.job import Job
    from jobmanager.driver.subscription import Subscription
    from planner.durations import Time
    from planner.physical.plan import PhysicalPlan


class Readable(ABC):
    """What can be done with an output, whoever has it."""

    @property
    @abstractmethod
    def _job(self) -> Job:
        """The job that writes it."""

    @property
    @abstractmethod
    def _plan(self) -> PhysicalPlan:
        """The plan, as this output has it. Raises UnknownOutputError if there are several."""

    def subscribe(
        self, *, start: Mapping[int, int] | None = None, progress: bool = False
    ) -> Subscription:
        """The output as it becomes visible, from what is kept on: an iterator of Arrow batches.

        It goes on through failures without gap or repeat, and ends with the job; of a job that has
        ended it gives what is durable. ``start``: by partition, the seq to begin with
        (``positions`` of an earlier subscription). ``progress``: CTIs too.
        """
        return self._job._subscribed(self._plan, start or {}, progress=progress)

    def to_batches(self, *, wait: bool = True) -> Iterator[pa.RecordBatch]:
        """The answer in pieces that are read as they are asked for; see :meth:`to_arrow`."""
        return self._answer(wait=wait).batches()

    def to_arrow(self, *, wait: bool = True) -> pa.Table:
        """The answer as a table, with the columns and rows of :meth:`Stream.to_parquet`.

        It waits until the job has ended. ``wait=False``: what is durable by now, of a job that runs
        a little more with each call. Rows are those of one partition after the other.

        Raises:
            JobFailedError: the job has failed.
            UnknownOutputError: the job has several outputs; :attr:`Job.outputs` has each.
        """
        return self._answer(wait=wait).to_arrow()

    def to_pandas(self, *, wait: bool = True) -> Any:
        """The answer as a DataFrame of pandas; see :meth:`to_arrow`."""
        return self._answer(wait=wait).to_pandas()

    def to_polars(self, *, wait: bool = True) -> Any:
        """The answer as a DataFrame of Polars; see :meth:`to_arrow`."""
        return self._answer(wait=wait).to_polars()

    def to_spark(self, *, wait: bool = True) -> Any:
        """The answer as a DataFrame of the Spark session that is active; see :meth:`to_arrow`."""
        return self._answer(wait=wait).to_spark()

    def show(self, rows: int = ROWS, *, wait: bool = True) -> None:
        """Print the first rows of the answer, in order of time.

        Rows that are late or bad, and that there are more, are told on stderr. For ``wait`` see
        :meth:`to_arrow`; ``jobmanager show`` does not wait.

        Raises:
            JobFailedError: the job has failed.
        """
        check_rows("show", rows)
        answer = self._answer(wait=wait)
        folder = display_uri(self._plan.output)
        more = f"There are more: show(rows=...), to_arrow(), or the files of {folder}"
        answer.show(rows, lost_lines(self._job.status()), more)

    def table(self, at: Time | None = None) -> pa.Table:
        """The rows of the answer that are alive; see :func:`jobmanager.read_table`."""
        return alive(self._plan, None if at is None else time_us(at, what="at"))

    def _answer(self, *, wait: bool) -> Answer:
        plan = self._plan
        if wait:
            self._job.wait()
        return Answer(plan)


class JobOutput(Readable):
    """One of several outputs of a job."""

    def __init__(self, job: Job, name: str) -> None:
        self._writer, self.name = job, name

    @property
    def _job(self) -> Job:
        return self._writer

    @property
    def _plan(self) -> PhysicalPlan:
        return self._writer.plan.output_named(self.name)

    @property
    def folder(self) -> str:
        """Where its files are."""
        return display_uri(self._plan.output)

    def __repr__(self) -> str:
        return f"JobOutput({self.name!r}, {self.folder!r})"


def rows_of_outputs(plan: PhysicalPlan, vertices: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For statuses: a row for each of several outputs; JSON types. ``vertices``: their rows."""
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
