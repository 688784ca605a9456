"""The input side of a source vertex that reads a live log: one channel for each log partition.

Each partition has its own reorder buffer, delay and frontier (:mod:`rvertex.vertex.log_channel`).
``bound`` is the least frontier. A release contains all events below ``bound`` in the order (vs,
partition, position), and every distinct CTI time ``<= bound`` of all partitions. It also contains
the events at ``bound`` of the first partition with that frontier and of the partitions before it,
because any later event at ``bound`` sorts after these. Late and undecodable rows are released by
the same rule, in the order (frontier at their arrival, partition, position).

The input positions of the vertex, for k partitions, are the next position of each, then the number
of journal entries (:mod:`rvertex.sources.logs.entries`) of each that took effect.

A partition that was *added* after the job was planned is ignored until its first entry. This entry
promises, from the partition's first row on, a time above everything released before. So a vertex
that is recomputed from any snapshot releases the same rows below that time.

Invariants: (1) the concatenation of all releases is a function of the rows of the log and its
entries. It does not depend on batch boundaries or on the order in which partitions were polled;
(2) offered rows are part of the state; (3) with one partition the releases equal those of
:class:`rvertex.vertex.source_input.SourceInput`; (4) :meth:`LogInput.wants` is always true for the
partition with the least frontier. Source: ADR 32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rstream.items.batch import empty_events, event_schema
from rstream.items.dictionaries import as_declared, join_batches, plain_schema
from rstream.types import INF_TIME, MIN_TIME
from rvertex.events.ordering import in_time_order, stable_order
from rvertex.events.reorder_buffer import empty_batch
from rvertex.events.run import Run
from rvertex.events.side_output import DEAD_LETTERS, LATE
from rvertex.operators.composite_state import joined_states, part_state
from rvertex.sources.logs.entries import LogEntry, decode_entries, encode_entries
from rvertex.sources.logs.protocol import LogRows
from rvertex.vertex.dead_letters import dead_letter_payload
from rvertex.vertex.lateness_counts import LatenessCounts
from rvertex.vertex.log_channel import LogChannel, taken_below
from rvertex.vertex.reorder import FRONTIER, late_payload
from rvertex.vertex.spec import Position

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rstream.items.batch import Items
    from rvertex.operators.protocol import OperatorState
    from rvertex.sources.spec import SourcePartition

_FILES, _ENTRY, _BLOB = "files", "entry", "blob"
_FILES_SCHEMA = pa.schema([(_ENTRY, pa.binary())])


class LogInput:
    """The log partitions ``0..k-1`` as the only input of a vertex."""

    def __init__(
        self, partition: SourcePartition, *, sides: Sequence[str], pending_rows_max: int
    ) -> None:
        """Read ``partition``. ``sides``: names of its side outputs, first the late rows'.

        ``pending_rows_max``: most rows of a partition that are buffered to wait for slower ones.
        """
        spec = partition.spec
        assert spec.live is not None, spec.path
        assert partition.units, spec.path
        self.payload: pa.Schema = spec.schema
        self._late_payload = late_payload(plain_schema(spec.row_schema))
        self._skew_us = spec.live.skew_us
        self._pending_rows_max = pending_rows_max
        self._keeps_late = any(name.startswith(LATE) for name in sides)
        self._keeps_dead = any(name.startswith(DEAD_LETTERS) for name in sides)
        units = partition.log_units
        sorts = spec.sorts or len(units) > 1
        self.channels = [LogChannel(spec, unit, sorts=sorts) for unit in units]
        for channel in self.channels[len(partition.units) :]:
            channel.is_added = True
        for channel in self.channels:
            channel.apply_due()
        #: "file" entries that took effect, one batch per snapshot.
        self._files = pa.Table.from_batches([], schema=_FILES_SCHEMA)
        self._fresh_files: list[LogEntry] = []
        #: Per journal blob: each partition's number of entries up to the blob's end.
        self._blobs: dict[int, list[int]] = {}
        self._next_blob = 0
        #: The last CTI that was released.
        self._last_cti: int = MIN_TIME

    # ---- positions

    @property
    def consumed(self) -> tuple[int, ...]:
        """Next position of each partition, and then the number of entries in effect of each."""
        positions = [channel.position for channel in self.channels]
        return (*positions, *(channel.entries for channel in self.channels))

    @property
    def read_positions(self) -> tuple[int, ...]:
        """Equals :attr:`consumed`, since no rows are read ahead."""
        return self.consumed

    @property
    def bound(self) -> int:
        """The least frontier."""
        return min(self._frontiers())

    @property
    def is_ended(self) -> bool:
        """Whether all partitions have ended."""
        return all(channel.is_ended for channel in self.channels)

    def wants(self, channel: int) -> bool:
        """Return whether a partition needs more rows: it has not ended and is not far ahead."""
        own = self.channels[channel]
        if own.is_ended or own.is_stopped or own.is_awaited:
            return False
        bound = self.bound
        if len(self.channels) == 1 or own.reorder.frontier == bound:
            return True
        if own.reorder.rows_held >= self._pending_rows_max:
            return False
        return self._skew_us is None or own.reorder.frontier - bound <= self._skew_us

    # ---- input

    def offer(self, channel: int, items: Items | LogRows) -> None:
        """Process the next rows of a partition."""
        assert isinstance(items, LogRows), items
        self.channels[channel].offer(items)

    def decide(self, entries: Iterable[LogEntry], blob: int = 0) -> None:
        """Queue durable entries. Skip entries that already took effect.

        ``blob``: number of the journal blob that contains the entries.
        """
        for entry in entries:
            counts = self._blobs.setdefault(blob, [0] * len(self.channels))
            counts[entry.partition] = max(counts[entry.partition], entry.index + 1)
            channel = self.channels[entry.partition]
            if entry.kind == "file" and entry.index >= channel.entries:
                self._fresh_files.append(entry)
            channel.decide(entry)
            channel.apply_due()
        self._next_blob = max(self._next_blob, blob + 1)

    @property
    def first_blob(self) -> int:
        """Return the first journal blob with an entry that has not taken effect."""
        done = [channel.entries for channel in self.channels]
        for blob, counts in list(self._blobs.items()):
            if any(count > here for count, here in zip(counts, done, strict=True)):
                return blob
            del self._blobs[blob]
        return self._next_blob

    def end(self) -> None:
        """End all partitions."""
        for channel in self.channels:
            channel.end()

    # ---- output

    def release(self) -> list[Run] | None:
        """Return the rows whose order is final, as the run of the only port."""
        if len(self.channels) == 1:
            reorder = self.channels[0].reorder
            run = reorder.release()
            self._last_cti = reorder.last_cti
            return None if run is None else [run]
        bound = self.bound
        events: list[pa.RecordBatch] = []
        ctis: list[np.ndarray] = []
        for channel, below in zip(self.channels, self._released_below(), strict=True):
            run = channel.reorder.release_below(INF_TIME if below is None else below, bound)
            events += [run.events] if run.events.num_rows else []
            ctis.append(run.ctis)
        times = np.unique(np.concatenate(ctis))
        times = times[times.searchsorted(self._last_cti, side="right") :]
        if len(times):
            self._last_cti = int(times[-1])
        if not events and not len(times):
            return None
        schema = event_schema(self.payload)
        joined = in_time_order(join_batches(events))[0] if events else empty_batch(schema)
        return [Run(joined, times)]

    def drain_side_outputs(self) -> list[pa.RecordBatch]:
        """Return the late and the undecodable rows since the last call."""
        bounds = self._released_below()
        late = [taken_below(c.late, b) for c, b in zip(self.channels, bounds, strict=True)]
        dead = [taken_below(c.dead, b) for c, b in zip(self.channels, bounds, strict=True)]
        sides = []
        if self._keeps_late:
            sides.append(_in_order_met(late, self._late_payload))
        if self._keeps_dead:
            sides.append(_in_order_met(dead, dead_letter_payload()))
        return sides

    def _released_below(self) -> list[int | None]:
        """Return, per partition, the time below which all its rows are final.

        None: all rows are.
        """
        bound = self.bound
        if bound == INF_TIME or len(self.channels) == 1:
            return [None] * len(self.channels)
        first = self._frontiers().index(bound)
        return [bound + 1 if k <= first else bound for k in range(len(self.channels))]

    def _frontiers(self) -> list[int]:
        """Return the frontier per partition; INF_TIME for an added partition without an entry.

        So no other partition waits for it.
        """
        return [INF_TIME if c.is_awaited else c.reorder.frontier for c in self.channels]

    # ---- state

    def scalars(self) -> OperatorState:
        """Return the state without the buffered rows."""
        states = {str(k): c.reorder.scalars() for k, c in enumerate(self.channels)}
        return joined_states(states, self._header(), self._own_tables())

    def snapshot(self) -> OperatorState:
        """Return the buffers, and the side rows that wait for a slower partition."""
        states = {str(k): c.reorder.snapshot() for k, c in enumerate(self.channels)}
        tables = self._own_tables()
        for k, channel in enumerate(self.channels):
            for name, rows in ((LATE, channel.late), (DEAD_LETTERS, channel.dead)):
                if rows:
                    tables[f"{name}.{k}"] = pa.Table.from_batches(rows)
        return joined_states(states, {**self._header(), _BLOB: self.first_blob}, tables)

    def load(self, state: OperatorState, consumed: tuple[int, ...]) -> None:
        """Continue from a snapshot. The caller must pass later entries to :meth:`decide` again."""
        books = state.header["books"]
        known = self.channels[: len(books)]  # further partitions were added after the snapshot
        for k, channel in enumerate(known):
            channel.load(books[k], part_state(state, str(k)))
            if f"{LATE}.{k}" in state.tables:
                channel.late = state.tables[f"{LATE}.{k}"].to_batches()
            if f"{DEAD_LETTERS}.{k}" in state.tables:
                channel.dead = state.tables[f"{DEAD_LETTERS}.{k}"].to_batches()
        self._last_cti = state.header["last_cti"]
        self._files = state.tables.get(_FILES, self._files)
        self._fresh_files = []
        self._blobs, self._next_blob = {}, state.header.get(_BLOB, 0)
        restored = *(c.position for c in known), *(c.entries for c in known)
        assert restored == consumed, (restored, consumed)

    def files(self) -> list[LogEntry]:
        """Return all "file" entries that took effect or are queued."""
        applied = [decode_entries(row)[0] for row in self._files.column(_ENTRY).to_pylist()]
        return [*applied, *self._fresh_files]

    def _header(self) -> dict[str, Any]:
        return {
            "books": [channel.snapshot() for channel in self.channels],
            "last_cti": self._last_cti,
        }

    def _own_tables(self) -> dict[str, pa.Table]:
        """Move the files that took effect into the table that snapshots share."""
        in_force = [e for e in self._fresh_files if e.index < self.channels[e.partition].entries]
        if in_force:
            self._fresh_files = [e for e in self._fresh_files if e not in in_force]
            rows = pa.table({_ENTRY: [encode_entries([e]) for e in in_force]}, schema=_FILES_SCHEMA)
            self._files = pa.concat_tables([self._files, rows]).combine_chunks()
        return {_FILES: self._files} if self._files.num_rows else {}

    @property
    def position(self) -> Position:
        """Positions, greatest time and last CTI after a release."""
        times = [max(c.reorder.max_vs, c.reorder.last_cti) for c in self.channels]
        return Position(self.consumed, max(times), self._last_cti)

    def replay(self, state: OperatorState, inputs: tuple[int, ...], until: tuple[int, ...]) -> None:
        """Continue at ``inputs`` and read exactly the rows and entries before ``until``."""
        self.load(state, inputs)
        k = len(self.channels)
        for channel, position, entries in zip(self.channels, until[:k], until[k:], strict=True):
            channel.stop = position, entries

    @property
    def stops(self) -> tuple[int | None, ...]:
        """Per partition, the position at which a replay ends; None: no limit."""
        return tuple(None if c.stop is None else c.stop[0] for c in self.channels)

    def resume(self) -> None:
        """End the replay, and read without a limit."""
        for channel in self.channels:
            channel.stop = None
            channel.apply_due()

    # ---- counters

    @property
    def late_events(self) -> int:
        """Number of late rows so far, dropped or adjusted."""
        return sum(c.reorder.late_dropped + c.reorder.late_adjusted for c in self.channels)

    @property
    def late_dropped(self) -> int:
        """Number of late rows so far that were dropped."""
        return sum(channel.reorder.late_dropped for channel in self.channels)

    @property
    def dead_rows(self) -> int:
        """Number of rows so far that could not be decoded."""
        return sum(channel.dead_rows for channel in self.channels)

    @property
    def lateness(self) -> bytes:
        """Histogram of how late rows were so far, encoded."""
        counts = LatenessCounts()
        for channel in self.channels:
            counts = counts.merged(channel.reorder.lateness)
        return counts.to_bytes()

    @property
    def passed_over(self) -> int:
        """Number of events so far that the source's filter dropped."""
        return sum(channel.reorder.passed_over for channel in self.channels)

    @property
    def max_vs(self) -> int:
        """Greatest ``vs`` offered so far, us."""
        return max(channel.reorder.max_vs for channel in self.channels)


def _in_order_met(taken: Sequence[Sequence[pa.RecordBatch]], payload: pa.Schema) -> pa.RecordBatch:
    """Merge side rows of the partitions by the frontier at their arrival."""
    pieces = [batch for batches in taken for batch in batches]
    if not pieces:
        return empty_events(payload)
    joined = join_batches(pieces)
    order = stable_order(joined.column(FRONTIER).to_numpy())
    return as_declared(
        joined if order is None else joined.take(pa.array(order)), event_schema(payload)
    )
