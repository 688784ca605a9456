"""Subscriptions: the output of a job as it becomes visible, before it is durable.

A :class:`Subscription` reads every sink stream from the memory of the host that writes it, over the
same connections as a vertex. It reads Parquet if that memory no longer has the items. The driver
reports the addresses of hosts through :class:`Endpoints`.

Invariants: (1) the items of each partition arrive in order of seq, without gaps or repeats, even if
the writing process is replaced: a new reader starts at the next seq, and recomputed items are
equal; (2) a slow subscriber does not block the job: its buffers are bounded, and beyond them it
reads Parquet; (3) it ends with the job. Source: StreamScope NSDI'16, "register".
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa

from jobmanager.delivery.output_tap import LOOK_INTERVAL_S, OutputTap, first_kept
from jobmanager.delivery.wiring import ThreadWiring
from rstream.items.batch import EVENT, KIND, SEQ, VE, VS, int64_column, kinds
from rstream.items.edges import is_end
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
    ) -> None:
        """Start to read the output at the seqs ``start``, one per partition.

        ``kept_from``: per partition a seq; items below it may be deleted at any time.
        """
        self._wake = threading.Event()
        writers, wiring = plan.writers(), ThreadWiring()
        self._taps = [
            OutputTap(
                writers[stream],
                stream,
                uri,
                start[k]
                if k in start
                else max(first_kept(wiring.open_store(uri)), kept_from.get(k, 0)),
                endpoints,
                secret,
                self._wake.set,
                wiring,
            )
            for k, (stream, uri) in zip(plan.partitions, plan.sink_streams(), strict=True)
        ]
        self._numbers = plan.partitions
        self._endpoints = endpoints
        self._has_ended = has_ended
        self._raise_failure = raise_failure
        self._progress = progress
        self._has_edges = plan.changes is not None
        self._turn = 0
        self.is_open = True
        endpoints.listen(id(self), self._wake.set)

    @property
    def positions(self) -> dict[int, int]:
        """Next seq per partition. Pass it as ``start=`` to a subscription that continues here."""
        pairs = zip(self._numbers, self._taps, strict=True)
        return {k: tap.next_seq for k, tap in pairs}

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        """Wait for the next batch.

        Raises:
            StopIteration: the output is complete, or the job was cancelled.
            JobFailedError: the job failed; all durable rows were returned before.
        """
        while not self._is_over():  # the subscription ends with the job
            self._wake.clear()
            has_ended = self._has_ended()
            batch = self._next_ready(has_ended)
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
        for tap in self._taps:
            tap.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _is_over(self) -> bool:
        return all(tap.is_over for tap in self._taps)

    def _next_ready(self, has_ended: bool) -> pa.RecordBatch | None:
        """Return a batch of a partition that has one.

        Partitions take turns, so none waits forever.
        """
        n = len(self._taps)
        for k in ((self._turn + i) % n for i in range(n)):
            while (items := self._taps[k].read(has_ended)) is not None:
                number, edges = self._numbers[k], self._has_edges
                batch = _delivered(number, items, progress=self._progress, has_edges=edges)
                if batch.num_rows:
                    self._turn = k + 1
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
