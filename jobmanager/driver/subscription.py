"""Subscriptions: the output of a job as it becomes visible, before it is durable.

A :class:`Subscription` reads every sink stream from the memory of the host that writes it, over the
same connections as a vertex. It reads Parquet if that memory no longer has the items. The driver
reports the addresses of hosts through :class:`Endpoints`.

Invariants: (1) the items of each partition arrive in order of seq, without gaps or repeats, even if
the writing process is replaced: a new reader starts at the next seq, and recomputed items are
equal; (2) a slow subscriber does not block the job: its buffers are bounded, and beyond them it
reads Parquet; (3) it ends with the job; (4) after a change of the job, it reads the streams of the
new plan, and rows that a rollback removed are an error. Source: StreamScope NSDI'16, "register".
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa

from jobmanager.delivery.output_tap import LOOK_INTERVAL_S, OutputTap, first_kept
from jobmanager.delivery.wiring import ThreadWiring
from rstream.errors import OutputTakenBackError
from rstream.items.batch import EVENT, KIND, SEQ, VE, VS, int64_column, kinds
from rstream.items.edges import is_end
from rstream.store.fences import fences_in
from rvertex.sinks.protocol import DELETE, INSERT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jobmanager.delivery.output_tap import Endpoints
    from planner.physical.plan import PhysicalPlan
    from rstream import Items

PARTITION, OP = "partition", "_op"


class Subscription:
    """An iterator over the output's batches. Close it, or use it in a ``with`` block.

    All rows of a batch are from one partition. Columns: ``partition`` int32, ``_seq``, ``_vs``,
    ``_ve`` and those of the query. With ``progress`` the batches include CTIs (watermarks), with
    ``_kind`` 1. If rows arrive when they begin, a column ``_op`` follows ``_ve``: ``+I`` for a row
    that begins, ``-D`` for a row that began at ``_ve`` and ends at ``_vs``.
    """

    def __init__(
        self,
        plan: PhysicalPlan,
        *,
        endpoints: Endpoints,
        secret: str,
        has_ended: Callable[[], bool],
        raise_failure: Callable[[], object],
        start: Mapping[int, int],
        kept_from: Mapping[int, int],
        progress: bool,
        present: Callable[[], PhysicalPlan] | None = None,
    ) -> None:
        """Start to read the output at the seqs ``start``, one per partition.

        ``kept_from``: per partition a seq; items below it may be deleted at any time. ``present``:
        returns the job's plan, which a change replaces, with all outputs.
        """
        self._wake, self._endpoints, self._secret = threading.Event(), endpoints, secret
        self._output, self._present = plan.name, present or (lambda: plan)
        self._plan = self._present()  # read once: a later change is followed
        self._taps: dict[int, OutputTap] = {}
        self._attach(self._plan.output_named(self._output), start, kept_from)
        self._has_ended = has_ended
        self._raise_failure = raise_failure
        self._progress = progress
        self._turn = 0
        self.is_open = True
        endpoints.listen(id(self), self._wake.set)

    def _attach(
        self, plan: PhysicalPlan, start: Mapping[int, int], kept_from: Mapping[int, int]
    ) -> None:
        """Read the streams of ``plan``, and close the taps so far."""
        writers, wiring, taps = plan.writers(), ThreadWiring(), dict[int, OutputTap]()
        for k, (stream, uri) in zip(plan.partitions, plan.sink_streams(), strict=True):
            if k in self._taps and self._taps[k].is_over:
                taps[k] = self._taps[k]
                continue
            oldest = max(first_kept(wiring.open_store(uri)), kept_from.get(k, 0))
            place = writers[stream], stream, uri, start.get(k, oldest)
            taps[k] = OutputTap(*place, self._endpoints, self._secret, self._wake.set, wiring)
        for tap in self._taps.values():
            tap.close()
        self._taps, self._has_edges = taps, plan.changes is not None

    def _follow(self) -> None:
        """Continue with the streams of the job's present plan.

        Raises:
            OutputTakenBackError: a rollback has removed rows that were read.
            UnknownOutputError: a change has removed the output; each later call raises it, too.
        """
        plan = self._present()
        if plan is self._plan:
            return
        output = plan.output_named(self._output)
        former, self._plan, start = self._plan, plan, self.positions
        edges = [edge for vertex in former.vertices for edge in vertex.outputs if edge.is_sink]
        generation = max(edge.generation for edge in edges)
        removed: dict[str, int] = {}
        for k, (stream, uri) in zip(output.partitions, output.sink_streams(), strict=True):
            fences = fences_in(ThreadWiring().open_store(uri).list()) if k in start else []
            ends = [fence.seq for fence in fences if fence.generation > generation]
            if ends and min(ends) < start[k]:
                removed[stream] = start[k] = min(ends)
                self._taps[k].seek(start[k])
        gone = start.keys() - set(output.partitions)
        removed |= {self._taps[k].stream: 0 for k in sorted(gone) if start[k]}
        self._attach(output, start, {})
        for stream, seq in removed.items():
            raise OutputTakenBackError(stream, seq)

    @property
    def positions(self) -> dict[int, int]:
        """Next seq per partition. Pass it as ``start=`` to a subscription that continues here."""
        return {k: tap.next_seq for k, tap in self._taps.items()}

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        """Wait for the next batch.

        Raises:
            StopIteration: the output is complete, or the job was cancelled.
            OutputTakenBackError: a rollback has removed rows that were read; the next call returns
                the rows that follow instead.
            UnknownOutputError: a change of the job has removed this output.
            JobFailedError: the job failed; all durable rows were returned before.
        """
        while True:  # the subscription ends with the job
            self._wake.clear()
            has_ended = self._has_ended()
            self._follow()  # after the check: a job that has ended has its last plan
            if self._is_over():
                break
            before = self.positions
            batch = self._next_ready(has_ended)
            if self._present() is not self._plan:  # it may have read rows of the new plan
                self._seek(before)
                continue
            if batch is not None:
                return batch
            if has_ended:
                break
            self._wake.wait(LOOK_INTERVAL_S)
        self.close()
        if not self._is_over():
            self._raise_failure()
        raise StopIteration

    def close(self) -> None:
        """Stop reading."""
        self.is_open = False
        self._endpoints.listen(id(self), None)
        for tap in self._taps.values():
            tap.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _seek(self, positions: Mapping[int, int]) -> None:
        """Return to these positions. Taps that have not moved since may be over, and stay so."""
        for k, tap in self._taps.items():
            if tap.next_seq != positions[k]:
                tap.seek(positions[k])

    def _is_over(self) -> bool:
        return all(tap.is_over for tap in self._taps.values())

    def _next_ready(self, has_ended: bool) -> pa.RecordBatch | None:
        """Return a batch of a partition that has one.

        Partitions take turns, so none waits forever.
        """
        numbers, edges = list(self._taps), self._has_edges
        turns = ((self._turn + i) % len(numbers) for i in range(len(numbers)))
        for turn, k in ((turn, numbers[turn]) for turn in turns):
            while (items := self._taps[k].read(has_ended)) is not None:
                batch = _delivered(k, items, progress=self._progress, has_edges=edges)
                if batch.num_rows:
                    self._turn = turn + 1
                    return batch
        return None


def _delivered(partition: int, items: Items, *, progress: bool, has_edges: bool) -> pa.RecordBatch:
    """Convert items to a batch with the columns for subscribers."""
    batch, n = items.batch, items.batch.num_rows
    is_event = kinds(batch) == EVENT
    if has_edges:
        batch = batch.add_column(batch.schema.get_field_index(VE) + 1, OP, _ops(batch, is_event))
    seq = pa.array(np.arange(items.first_seq, items.next_seq))
    numbered = batch.add_column(0, SEQ, seq)
    numbered = numbered.add_column(0, PARTITION, pa.array(np.full(n, partition, np.int32)))
    if progress:
        return numbered
    events = numbered if is_event.all() else numbered.filter(pa.array(is_event))
    return events.drop_columns([KIND])


def _ops(batch: pa.RecordBatch, is_event: np.ndarray) -> pa.Array:
    """Return the column ``_op``: per item, how its row changes; null for CTIs."""
    ends = is_end(int64_column(batch, VS), int64_column(batch, VE))
    return pa.array([INSERT, DELETE]).take(pa.array(ends.astype(np.int8), mask=~is_event))
