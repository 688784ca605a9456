"""Aggregation by window at the window's end, over all rows of the window.

It is used if a row may be in many windows: for interval events, and for panes that form hopping
windows. Rows are buffered until the last of their windows closes. A closing window gathers its rows
in row order. Windows that close together are aggregated in one pass, or by sliding
(:mod:`rvertex.operators.windows.sliding`) if that is possible and faster.

Invariants: (1) windows below ``_open`` have been emitted, and rows in no other window are dropped;
(2) no pair (row, window) is processed twice. So the time is at most rows x windows, and a step that
closes no window takes time in its new rows; (3) results are sorted by (window, key), and their
lifetime is the window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from rstream.items.batch import VE, VS, int64_column
from rstream.items.dictionaries import as_declared, batch_bytes, join_batches
from rstream.types import INF_TIME
from rvertex.errors import UnboundedLifetimeError
from rvertex.events.group_scan import heads_of
from rvertex.events.reorder_buffer import concatenated
from rvertex.events.run import Run, concat, growing, pieces_of
from rvertex.operators.protocol import OperatorState
from rvertex.operators.windows.grouping import Grouping, closed_groups
from rvertex.state.key_runs import KeyRuns, blocks_of, in_key_order, key_ranges, sorted_runs
from rvertex.state.memory import UNLIMITED, held_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from rvertex.operators.windows.arithmetic import Windows
    from rvertex.operators.windows.sliding import SlidingWindows
    from rvertex.state.key_runs import SortedRun
    from rvertex.state.memory import StateMemory

WINDOWS_PER_EVENT_MAX = 1_000_000
#: Most pairs (row, window) aggregated in one pass. If there are more, windows are closed in parts.
_PAIRS_MAX = 1 << 22
#: If at least this many rows arrive sorted by key, they are aggregated in ranges of keys of about
#: the second number of rows.
_LONG_ROWS, _RANGE_ROWS = 1 << 18, 1 << 17
#: For at least this many rows, checking whether all are in one window saves time.
_MANY_ROWS = 1 << 12


class FixedWindowAssigner(Protocol):
    """Computes the windows of a row, and when they close."""

    @property
    def windows(self) -> Windows:
        """The windows."""

    def spans(self, events: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
        """Return the first and last window of each row, int64[n]; no window if last < first."""

    def bounds(self, vs: np.ndarray, ve: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the same as :meth:`spans`, for lifetimes int64[n] of any length."""

    def open_at(self, time: int) -> int:
        """Return the first window that may still get rows if no row before ``time`` can follow."""

    def output_ctis(self, ctis: np.ndarray) -> np.ndarray:
        """Return the output CTI (watermark) for each of ``ctis``, non-decreasing."""


@dataclass(frozen=True, slots=True)
class ByOverlap:
    """A row is in every window that its lifetime overlaps."""

    windows: Windows

    def spans(self, events: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
        vs, ve = int64_column(events, VS), int64_column(events, VE)
        first, last = self.bounds(vs, ve)
        counts = last - first + 1
        bad = (ve == INF_TIME) | (counts > WINDOWS_PER_EVENT_MAX)
        if bad.any():
            row = int(bad.argmax())
            raise UnboundedLifetimeError(int(vs[row]), int(ve[row]), int(counts[row]))
        return first, last

    def bounds(self, vs: np.ndarray, ve: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.windows.first_window(vs), self.windows.last_window(ve)

    def open_at(self, time: int) -> int:
        return self.windows.open_at(time)

    def output_ctis(self, ctis: np.ndarray) -> np.ndarray:
        return self.windows.earliest_open(ctis)


@dataclass(frozen=True, slots=True)
class ByStart:
    """A row's lifetime is its window; for rows of a first phase, sorted by window start."""

    windows: Windows

    def spans(self, events: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
        return self.bounds(int64_column(events, VS), int64_column(events, VE))

    def bounds(self, vs: np.ndarray, ve: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        window = vs // self.windows.every
        return window, window

    def open_at(self, time: int) -> int:
        return -(-time // self.windows.every)

    def output_ctis(self, ctis: np.ndarray) -> np.ndarray:
        return ctis


class WindowGather:
    """Aggregates rows by window and key. ``finish``: computes payload columns from lanes."""

    def __init__(
        self,
        assigner: FixedWindowAssigner,
        grouping: Grouping,
        input_schema: pa.Schema,
        output_schema: pa.Schema,
        finish: Callable[[list[pa.Array]], list[pa.Array]],
        sliding: SlidingWindows | None = None,
    ) -> None:
        self._assigner = assigner
        self._grouping = grouping
        self._input_schema = input_schema
        self._output_schema = output_schema
        self._finish = finish
        #: Contains the earliest live rows while windows slide.
        self._sliding = sliding
        #: All other rows in an open window, in row order.
        self._live: list[pa.RecordBatch] = []
        #: Number of batches at the front that are on scratch; bytes of the other batches.
        self._spilled, self._live_bytes = 0, 0
        self._sliding_bytes = 0
        self._holder = UNLIMITED.holder()
        self._open = assigner.windows.lowest
        self._last_cti: int | None = None

    def use_memory(self, memory: StateMemory) -> None:
        """Implement :class:`rvertex.state.memory.SpillsState`."""
        self._holder = memory.holder()

    def process(self, ports: Sequence[Run]) -> Run:
        """Buffer the rows, and emit the windows that rows or CTIs close."""
        return concat([*self.process_in_pieces(ports)])

    def process_in_pieces(self, ports: Sequence[Run]) -> Iterator[Run]:
        """See :class:`EmitsInPieces`: windows with rows on scratch are emitted range by range."""
        (run,) = ports
        closed: Iterable[pa.RecordBatch] = ()
        is_large = self._is_large
        now: list[int] = [int(run.ctis[-1])] if len(run.ctis) else []
        if run.events.num_rows:
            first, last = self._assigner.spans(run.events)
            now.append(int(int64_column(run.events, VS)[-1]))
            needed = run.events.select(self._input_schema.names)
            self._live.append(_those(needed, last >= first))
            self._live_bytes += batch_bytes(self._live[-1])
        if now:
            closed = self._closed(self._assigner.open_at(max(now)))
        ctis = growing(self._assigner.output_ctis(run.ctis), self._last_cti)
        if len(ctis):
            self._last_cti = int(ctis[-1])
        if is_large or self._is_large or self._has_long_runs:
            yield from pieces_of(closed, ctis, self._output_schema)
        else:
            yield Run(concatenated([*closed], self._output_schema), ctis)
        self._keep_to_memory()

    @property
    def _is_large(self) -> bool:
        """Whether rows are on scratch, or are too many to be aggregated at once."""
        return self._spilled > 0 or self._holder.closes_in_pieces

    def held_tables(self) -> dict[str, pa.Table]:
        """Return the rows of open windows; see :class:`rvertex.operators.protocol.ShowsState`."""
        held = self._sliding.held() if self._sliding else []
        return {"window_rows": pa.Table.from_batches([*held, *self._live], self._input_schema)}

    def snapshot(self) -> OperatorState:
        """Return the live rows, by reference."""
        header = {"open": self._open, "last_cti": self._last_cti}
        return OperatorState(header, {"live": self.held_tables()["window_rows"]})

    def load(self, state: OperatorState) -> None:
        """Restore the live rows of ``state``."""
        self._open, self._last_cti = state.header["open"], state.header["last_cti"]
        self._live = state.tables["live"].to_batches()
        self._count_live()

    def _count_live(self) -> None:
        """Recompute which of the live rows are on scratch, and the bytes of the others."""
        self._spilled = 0
        while self._spilled < len(self._live) and self._holder.is_stored(self._live[self._spilled]):
            self._spilled += 1
        self._live_bytes = sum(map(batch_bytes, self._live[self._spilled :]))

    def _keep_to_memory(self) -> None:
        """Report the bytes of the live rows. If they exceed the budget, move them to scratch."""
        self._holder.used_bytes = self._live_bytes + self._sliding_bytes
        if not self._holder.must_spill:
            # Rows are written and read once, so a gather spills before it uses its whole share.
            if self._holder.is_crowded and self._live_bytes >= self._holder.run_bytes:
                self._store_live()
                self._holder.used_bytes = self._sliding_bytes
            return
        if self._sliding is not None and self._sliding_bytes:
            self._live[:0] = self._sliding.release()
            self._sliding_bytes = 0
            self._count_live()
        if self._live_bytes >= self._holder.run_bytes:
            self._store_live()
        self._holder.used_bytes = self._live_bytes

    def _store_live(self) -> None:
        """Move the live rows to scratch."""
        while self._spilled < len(self._live):  # ends: each round stores at least one batch
            end, nbytes = self._spilled, 0
            while end < len(self._live) and nbytes < self._holder.piece_bytes:
                nbytes += batch_bytes(self._live[end])
                end += 1
            rows = as_declared(join_batches(self._live[self._spilled : end]), self._input_schema)
            stored = self._holder.store(blocks_of(rows))
            self._live[self._spilled : end] = stored
            self._spilled += len(stored)
        self._live_bytes = 0

    def _closed(self, window: int) -> Iterator[pa.RecordBatch]:
        """Emit the windows below ``window``, and drop the rows that are in no later window."""
        window = min(window, self._assigner.windows.highest + 1)
        if window <= self._open:
            return
        if self._sliding is not None and not self._spilled:
            before, later = self._candidates(window)
            closed = self._sliding.close(before, self._open, window)
            if closed is not None:
                for number, keys, lanes in closed:
                    yield self._rows(np.full(len(lanes[0]), number), keys, lanes)
                self._go_on(window, later)
                self._sliding_bytes = held_bytes(self._sliding) if self._holder.may_spill else 0
                return
            self._live, self._sliding_bytes = [*self._sliding.release(), *later], 0
            self._count_live()
        out: list[pa.RecordBatch] = []
        if self._is_large and self._live_bytes:
            self._store_live()
        before, later = self._candidates(window)
        only = self._only_window(before, window)
        if only is not None and (self._spilled or self._has_long_runs):
            runs = sorted_runs(self._holder.read_once(before), self._grouping.names)
            if runs is not None:
                before.clear()
                yield from self._merged(runs, only)
                self._go_on(window, later)
                return
        if self._spilled:
            kept = yield from self._emitted_by_key(before, window)
            self._go_on(window, [*kept, *later])
            return
        rows = _joined(before, self._input_schema)
        self._live = []  # ``rows`` is a copy, so free the batches
        before.clear()
        if only is not None:
            windows = np.full(rows.num_rows, only)
            out.append(self._rows(*closed_groups(self._grouping, rows, windows, None)))
            rows = rows.slice(0, 0)
        elif rows.num_rows:
            first, last = self._assigner.spans(rows)
            self._emit(rows, np.maximum(first, self._open), last, window, out)
            rows = _those(rows, last >= window)
        self._go_on(window, ([rows] if rows.num_rows else []) + later)
        yield from out

    def _go_on(self, window: int, live: list[pa.RecordBatch]) -> None:
        """Set the first open window and the live rows."""
        self._live, self._open = live, window
        self._count_live()

    @property
    def _has_long_runs(self) -> bool:
        """Whether to aggregate by ranges of keys, because all rows do not fit into caches."""
        return self._sliding is None and sum(b.num_rows for b in self._live) >= _LONG_ROWS

    def _merged(self, runs: list[SortedRun], window: int) -> Iterator[pa.RecordBatch]:
        """Yield the groups of one window, one key range after another; ``runs``: its rows."""
        for batches, _ in self._holder.read_once(key_ranges(runs, _RANGE_ROWS)):
            if batches:
                events = self._holder.joined(batches)
                numbers = np.full(events.num_rows, window)
                yield self._rows(*closed_groups(self._grouping, events, numbers, None))

    def _emitted_by_key(
        self, before: list[pa.RecordBatch], window: int
    ) -> Generator[pa.RecordBatch, None, list[pa.RecordBatch]]:
        """Emit as :meth:`_emit`, window by window, for rows that may not fit into memory.

        Returns the rows that are in later windows, too.
        """
        spans = self._assigner.spans  # compute the spans again for each use, to save memory
        read_once = self._holder.read_once
        windows = sorted({w for rows in read_once(before) for w in _distinct(*spans(rows))})
        for closing in (w for w in windows if self._open <= w < window):
            runs = KeyRuns(self._grouping.names, self._holder)
            for rows in read_once(before):
                first, last = spans(rows)
                runs.add(_those(rows, (first <= closing) & (closing <= last)))
            for batches, _ in runs.pieces():
                if batches:
                    events = in_key_order(batches, self._grouping.names, self._holder)
                    numbers = np.full(events.num_rows, closing)
                    yield self._rows(*closed_groups(self._grouping, events, numbers, None))
        kept = (_those(rows, spans(rows)[1] >= window) for rows in read_once(before))
        return [rows for rows in kept if rows.num_rows]

    def _only_window(self, batches: list[pa.RecordBatch], until: int) -> int | None:
        """Return the only open window below ``until`` with rows, if it has all of them, or None.

        None also means unknown. Only many rows are checked, by the first and last start and the
        greatest end.
        """
        if sum(batch.num_rows for batch in batches) < _MANY_ROWS:
            return None
        begins = [int64_column(batches[0], VS)[0], int64_column(batches[-1], VS)[-1]]
        end = max(int64_column(b, VE).max() for b in self._holder.read_once(batches))
        bounds = self._assigner.bounds(np.array(begins), np.array([end, end]))
        distinct_windows = {int(window) for windows in bounds for window in windows}
        only = distinct_windows.pop()
        return only if not distinct_windows and self._open <= only < until else None

    def _candidates(self, window: int) -> tuple[list[pa.RecordBatch], list[pa.RecordBatch]]:
        """Return the live rows that may be in a window below ``window``, and the later rows."""
        windows = self._assigner.windows
        bound = np.int64((window - 1) * windows.every + windows.size)
        before, later = [], []
        for batch in self._holder.read_once(self._live):
            count = int(np.searchsorted(int64_column(batch, VS), bound))
            if count:
                before.append(batch.slice(0, count))
            if count < batch.num_rows:
                later.append(batch.slice(count))
        return before, later

    def _emit(
        self,
        rows: pa.RecordBatch,
        first: np.ndarray,
        last: np.ndarray,
        window: int,
        out: list[pa.RecordBatch],
    ) -> None:
        """Aggregate ``rows`` in their windows ``first`` to ``last`` that are below ``window``."""
        counts = np.maximum(np.minimum(last, window - 1) - first + 1, 0)
        pairs = int(counts.sum())
        if pairs == 0:
            return
        lowest = int(first[counts > 0].min())
        if pairs > _PAIRS_MAX and window - lowest > 1:
            middle = lowest + (min(window, int(last.max()) + 1) - lowest + 1) // 2
            self._emit(rows, first, last, middle, out)
            self._emit(rows, np.maximum(first, middle), last, window, out)
            return
        if pairs == len(counts) and bool((counts == 1).all()):
            out.append(self._rows(*closed_groups(self._grouping, rows, first, None)))
            return
        at = np.repeat(np.arange(len(counts)), counts)
        offset = np.arange(pairs) - np.repeat(np.cumsum(counts) - counts, counts)
        out.append(self._rows(*closed_groups(self._grouping, rows, first[at] + offset, at)))

    def _rows(
        self, windows: np.ndarray, keys: list[pa.Array], lanes: list[pa.Array]
    ) -> pa.RecordBatch:
        """Return result rows of groups, with their windows as lifetimes."""
        start = self._assigner.windows.start(windows)
        end = pa.array(start + self._assigner.windows.size)
        columns = [pa.array(start), end, *keys, *self._finish(lanes)]
        return pa.RecordBatch.from_arrays(columns, schema=self._output_schema)


def _joined(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    if not batches:
        return pa.RecordBatch.from_pylist([], schema)
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _distinct(first: np.ndarray, last: np.ndarray) -> set[int]:
    """Return the distinct windows with rows."""
    heads = heads_of(first, last)
    spans = dict.fromkeys(zip(first[heads].tolist(), last[heads].tolist(), strict=True))
    return {w for lo, hi in spans for w in range(lo, hi + 1)}


def _those(events: pa.RecordBatch, mask: np.ndarray) -> pa.RecordBatch:
    return events if mask.all() else events.filter(pa.array(mask))
