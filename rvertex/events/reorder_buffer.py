"""A buffer of events that arrive in any order and are released in order of (vs, arrival).

Invariants: (1) every run is sorted by ``_vs``, events of equal ``_vs`` in order of arrival; (2) of
two events with equal ``_vs`` in different runs, the event in the earlier run arrived first, because
only the last run grows; (3) when a run was started, the previous run was more than twice as long,
so the number of runs is logarithmic; (4) pushing and taking cost time in the rows pushed and taken,
amortised (a logarithmic factor if the disorder is global, none if it is local). Theory: a
log-structured merge with one exception. A batch that continues the last run, or overlaps only its
end, is joined to that end, and the rest of the run is not touched.
"""

from __future__ import annotations

from collections import deque

import numpy as np
import pyarrow as pa

from rstream.items.batch import VS, int64_column
from rstream.items.dictionaries import join_batches
from rstream.types import INF_TIME
from rvertex.events.ordering import in_time_order

_GROWTH = 2
_ALONG_PART = 8
_RUNS_MAX = 64


class SortedRuns:
    """Buffers events of ``schema`` (with ``_vs``): pushed in arrival order, taken in time order."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._runs: list[_SortedRun] = []

    @property
    def rows(self) -> int:
        return sum(run.rows for run in self._runs)

    @property
    def runs(self) -> int:
        """Number of sorted runs that the next call of :meth:`take_below` must read."""
        return len(self._runs)

    def push(self, events: pa.RecordBatch) -> None:
        """Add ``events``, in any order, which arrived after all events in the buffer."""
        if events.num_rows == 0:
            return
        if not self._runs or not self._runs[-1].extend(events):
            self._runs.append(_SortedRun(SortedChunk(*in_time_order(events))))
        while len(self._runs) > 1 and self._runs[-2].rows <= _GROWTH * self._runs[-1].rows:
            last = self._runs.pop()
            self._runs[-1].absorb(last)

    def take_below(self, time: int) -> pa.RecordBatch:
        """Remove the events with ``vs < time`` and return them sorted by (vs, arrival)."""
        taken = [pieces for run in self._runs if (pieces := run.take_below(time))]
        self._runs = [run for run in self._runs if run.rows]
        if not taken:
            return empty_batch(self._schema)
        joined = _joined([piece for pieces in taken for piece in pieces])
        return joined if len(taken) == 1 else in_time_order(joined)[0]

    def table(self) -> pa.Table:
        """Return all events, by reference.

        Pushed into an empty buffer, they restore this buffer.
        """
        batches = [chunk.events for run in self._runs for chunk in run.chunks]
        return pa.Table.from_batches(batches, schema=self._schema)

    def check(self) -> None:
        """Assert the invariants; the time is linear."""
        for run in self._runs:
            vs = np.concatenate([chunk.vs for chunk in run.chunks])
            assert (vs[1:] >= vs[:-1]).all()
            assert run.rows == len(vs) > 0
        assert self.runs <= _RUNS_MAX, self.runs


class ArrivalOrder:
    """A buffer that does not sort: each take returns all events in order of arrival."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._batches: list[pa.RecordBatch] = []

    @property
    def rows(self) -> int:
        return sum(batch.num_rows for batch in self._batches)

    def push(self, events: pa.RecordBatch) -> None:
        """Append ``events``, which arrived after all others."""
        if events.num_rows:
            self._batches.append(events)

    def take_below(self, time: int) -> pa.RecordBatch:
        """Remove and return all events in order of arrival; ``time`` is ignored."""
        batches, self._batches = self._batches, []
        return _joined(batches) if batches else empty_batch(self._schema)

    def table(self) -> pa.Table:
        """Return all events, by reference."""
        return pa.Table.from_batches(self._batches, schema=self._schema)

    def check(self) -> None:
        """Do nothing: there is no invariant."""


class SortedChunk:
    """A sorted batch with its times as an array."""

    __slots__ = ("events", "vs")

    def __init__(self, events: pa.RecordBatch, vs: np.ndarray) -> None:
        self.events, self.vs = events, vs

    @classmethod
    def of(cls, events: pa.RecordBatch) -> SortedChunk:
        """Return events that are sorted as a chunk."""
        return cls(events, int64_column(events, VS))

    def part(self, lo: int, hi: int) -> SortedChunk:
        return SortedChunk(self.events.slice(lo, hi - lo), self.vs[lo:hi])


class _SortedRun:
    """Chunks that follow each other in time."""

    def __init__(self, chunk: SortedChunk) -> None:
        self.chunks = deque([chunk])
        self.rows = len(chunk.vs)

    def extend(self, events: pa.RecordBatch) -> bool:
        """Append ``events``, unless copying the rows that they overlap costs too much.

        They are sorted together with these rows, so each row is copied once. If few rows remain
        before these, they are joined too, so that a take reads a single chunk.
        """
        overlap = self._rows_after(int(int64_column(events, VS).min()), _GROWTH * events.num_rows)
        if overlap is None:
            return False
        if overlap:
            before = self.rows - overlap
            goes_along = before <= events.num_rows // _ALONG_PART
            cut = self._cut_end(self.rows if goes_along else overlap)
            events = _joined([*cut, events])
        chunk = SortedChunk(*in_time_order(events))
        self.chunks.append(chunk)
        self.rows += len(chunk.vs)
        return True

    def absorb(self, other: _SortedRun) -> None:
        """Merge a later run into this one; rows before all of it are not copied."""
        overlap = self._rows_after(int(other.chunks[0].vs[0]), self.rows)
        assert overlap is not None
        pieces = [*self._cut_end(overlap), *(chunk.events for chunk in other.chunks)]
        chunk = SortedChunk(*in_time_order(_joined(pieces)))
        self.chunks.append(chunk)
        self.rows += len(chunk.vs)

    def take_below(self, time: int) -> list[pa.RecordBatch]:
        taken: list[pa.RecordBatch] = []
        while self.chunks:
            chunk = self.chunks[0]
            rows = len(chunk.vs) if time == INF_TIME else int(chunk.vs.searchsorted(time))
            if rows:
                taken.append(chunk.events.slice(0, rows))
                self.rows -= rows
            if rows < len(chunk.vs):
                self.chunks[0] = chunk.part(rows, len(chunk.vs)) if rows else chunk
                break
            self.chunks.popleft()
        return taken

    def _rows_after(self, time: int, rows_max: int) -> int | None:
        """Return the number of rows with ``vs > time``; None if more than ``rows_max``."""
        rows = 0
        for chunk in reversed(self.chunks):
            first = int(chunk.vs.searchsorted(time, side="right"))
            rows += len(chunk.vs) - first
            if rows > rows_max:
                return None
            if first:
                break
        return rows

    def _cut_end(self, rows: int) -> list[pa.RecordBatch]:
        """Remove the last ``rows`` rows."""
        self.rows -= rows
        pieces: list[pa.RecordBatch] = []
        while rows:
            chunk = self.chunks.pop()
            keep = max(0, len(chunk.vs) - rows)
            if keep:
                self.chunks.append(chunk.part(0, keep))
                chunk = chunk.part(keep, len(chunk.vs))
            pieces.append(chunk.events)
            rows -= len(chunk.vs)
        return pieces[::-1]


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch of ``schema`` without rows."""
    columns = [pa.nulls(0, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def concatenated(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Join batches of ``schema``; the list may be empty."""
    if len(batches) == 1:
        return batches[0]
    return pa.concat_batches(batches) if batches else empty_batch(schema)


def _joined(pieces: list[pa.RecordBatch]) -> pa.RecordBatch:
    return join_batches(pieces)
