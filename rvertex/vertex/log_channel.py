"""One log partition of a source vertex: its rows, journal entries, reorder buffer and frontier.

An entry takes effect before the first row at its position or beyond. Each batch of rows is split at
the entries' positions. So lateness and frontier depend only on the order of rows and entries, not
on batch boundaries.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from rvertex.errors import LateRowError
from rvertex.events.delay_estimate import DelayEstimate
from rvertex.messages import LogProgress
from rvertex.sources.logs.entries import LogEntry
from rvertex.sources.logs.protocol import DEAD_POSITION
from rvertex.vertex.dead_letters import dead_letters
from rvertex.vertex.early_rows import NO_CLOCK, EarlyRows
from rvertex.vertex.reorder import FRONTIER, Reorder

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from rvertex.operators.protocol import OperatorState
    from rvertex.sources.logs.protocol import LogRows
    from rvertex.sources.spec import SourceSpec, Unit
    from rvertex.vertex.idle import PartitionFacts

_BOOKS = (
    "position",
    "entries",
    "is_ended",
    "dead_rows",
    "lost_positions",
    "clocks",
)


class LogChannel:
    """The rows of one partition, from the first position that the vertex reads."""

    def __init__(self, spec: SourceSpec, unit: Unit, *, sorts: bool) -> None:
        quantile = spec.delay_quantile
        self.reorder = Reorder(
            spec.schema,
            delay_us=spec.delay_us if quantile is None else DelayEstimate(quantile),
            late=spec.late,
            cti_every_us=spec.cti_every_us,
            keep=spec.keep,
            sorts=sorts,
            is_stream=spec.format == "rstream",
        )
        self._until = unit.until
        self._early = EarlyRows.of(spec, unit.stream)
        #: ``[time us, until]`` of the "clock" entries in effect. Each decides the rows before
        #: ``until``.
        self.clocks: list[list[int]] = []
        #: Whether the partition was created after the job was planned.
        self.is_added = False
        #: The next position to offer.
        self.position = unit.first_seq
        #: Number of entries that have taken effect.
        self.entries = 0
        self.is_ended = False
        self.dead_rows = 0
        #: Number of positions that the log had deleted before they were read.
        self.lost_positions = 0
        #: Durable entries whose position has not been reached yet.
        self._pending: deque[LogEntry] = deque()
        #: Late and undecodable rows that must be emitted, each with the frontier at its arrival.
        self.late: list[pa.RecordBatch] = []
        self.dead: list[pa.RecordBatch] = []
        #: Where a replay ends: the next position, and the number of entries in effect there.
        self.stop: tuple[int, int] | None = None

    @property
    def is_awaited(self) -> bool:
        """Whether it is an added partition whose first row's time no entry has set yet."""
        return self.is_added and self.entries == 0

    @property
    def has_pending(self) -> bool:
        """Whether there are durable entries that have not taken effect."""
        return bool(self._pending)

    @property
    def is_stopped(self) -> bool:
        """Whether a replay has reached its end."""
        return self.stop is not None and self.position == self.stop[0]

    @property
    def limit(self) -> int | None:
        """Return the position from which no row may be offered now; None: no limit."""
        return self.stop[0] if self.stop is not None else self._until

    def decide(self, entry: LogEntry) -> None:
        """Queue a durable entry. Skip an entry that already took effect."""
        if entry.index < self.entries + len(self._pending):
            return
        assert entry.index == self.entries + len(self._pending), (entry, self.entries)
        self._pending.append(entry)

    def lacks_clock(self, rows: LogRows) -> bool:
        """Return whether a row looks too early, and a new "clock" entry must decide it."""
        return self._early is not None and self._early.lack(rows, self._known_clocks())

    def clock_entry(self, partition: int, index: int, now_us: int, until: int) -> LogEntry:
        """Return a new "clock" entry that decides which rows before ``until`` are too early."""
        position = max(self.position, *(e.position for e in self._pending), 0)
        last_us = self._known_clocks()[-1][0]
        return LogEntry("clock", partition, index, position, max(now_us, last_us), until)

    def _known_clocks(self) -> list[list[int]]:
        """Return the clocks in effect, and the queued clocks, which decide later rows."""
        pending = [[e.time, e.until] for e in self._pending if e.kind == "clock"]
        return [*self.clocks, *pending] or [NO_CLOCK]

    def offer(self, rows: LogRows) -> None:
        """Process the next rows, up to ``rows.next_position``."""
        assert rows.next_position >= self.position, (rows.next_position, self.position)
        assert self.stop is None or rows.next_position <= self.stop[0], (rows, self.stop)
        while not self.is_ended:  # ends: each round takes an entry, or all remaining rows
            at = self._next_cut(rows.next_position)
            self._take(rows.before(at))
            self.position = max(self.position, at)
            self.apply_due()
            if at >= rows.next_position or self.position >= rows.next_position:
                return
            rows = rows.beyond(self.position)

    def end(self) -> None:
        """End the partition: no row and no entry follows."""
        self.is_ended = True
        self.reorder.end()

    def apply_due(self) -> None:
        """Apply the queued entries whose position has been reached."""
        while self._pending and self._pending[0].position <= self.position:
            if self.is_ended or self._is_at_last_entry():
                break
            self._apply(self._pending.popleft())
        if self._until is not None and self.position >= self._until and not self.is_ended:
            self.end()

    def progress(self, partition: int, facts: PartitionFacts, **host_fields: Any) -> LogProgress:
        """Return the partition's progress. ``host_fields``: fields that only the host knows."""
        return LogProgress(
            partition=partition,
            position=facts.position,
            frontier=facts.frontier,
            max_vs=self.reorder.max_vs,
            lost=self.lost_positions,
            dead=self.dead_rows,
            rows_frontier=facts.rows_frontier,
            **host_fields,
        )

    def snapshot(self) -> dict[str, Any]:
        """Return the scalar state, without the buffered rows."""
        return {name: getattr(self, name) for name in _BOOKS}

    def load(self, books: dict[str, Any], reorder: OperatorState) -> None:
        """Continue from a snapshot. The caller must pass later entries to :meth:`decide` again."""
        for name in _BOOKS:
            setattr(self, name, books[name])
        self.reorder.load(reorder)
        self._pending.clear()
        self.late, self.dead, self.stop = [], [], None

    def _next_cut(self, next_position: int) -> int:
        """Return the position of the next entry, at most ``next_position``."""
        cut = next_position
        if self._pending and not self._is_at_last_entry():
            cut = min(cut, self._pending[0].position)
        return cut if self._until is None else min(cut, max(self._until, self.position))

    def _is_at_last_entry(self) -> bool:
        return self.stop is not None and self.entries == self.stop[1]

    def _apply(self, entry: LogEntry) -> None:
        self.entries += 1
        match entry.kind:
            case "advance":
                self.reorder.advance(entry.time)
            case "lost":
                self.lost_positions += max(0, entry.until - self.position)
                self.position = max(self.position, entry.until)
            case "clock":
                left = [clock for clock in self.clocks if clock[1] > entry.position]
                self.clocks = [*left, [entry.time, entry.until]]
            case "end":
                self.end()
            case "file":
                pass  # the file's rows follow the entry

    def _take(self, rows: LogRows) -> None:
        """Process rows with no entry between them. A bad row gets the frontier at its position."""
        if self._early is not None:
            rows = self._early.set_aside(rows, self._known_clocks())
        if rows.dead is None or rows.dead.num_rows == 0:
            self._take_events(rows.batch, rows.positions)
            return
        places = rows.positions.searchsorted(rows.dead.column(DEAD_POSITION).to_numpy())
        starts = np.flatnonzero(np.append(True, places[1:] != places[:-1]))
        before = 0
        for first, end in zip(starts, [*starts[1:], len(places)], strict=True):
            at = int(places[first])
            self._take_events(rows.batch.slice(before, at - before), rows.positions[before:at])
            self._take_dead(rows.dead.slice(first, end - first))
            before = at
        self._take_events(rows.batch.slice(before), rows.positions[before:])

    def _take_events(self, batch: pa.RecordBatch, positions: np.ndarray) -> None:
        first = self.reorder.consumed
        try:
            late = self.reorder.offer(first, batch)
        except LateRowError as error:
            position = int(positions[error.row - first])
            raise LateRowError(position, error.vs, error.frontier) from error
        if late is not None:
            self.late.append(late)
        if self.reorder.is_ended:  # the rows contained the end of the stream, CTI(INF_TIME)
            self.is_ended = True

    def _take_dead(self, dead: pa.RecordBatch) -> None:
        self.dead_rows += dead.num_rows
        self.dead.append(dead_letters(dead, self.reorder.frontier))


def taken_below(waiting: list[pa.RecordBatch], frontier: int | None) -> Sequence[pa.RecordBatch]:
    """Remove and return side rows whose frontier is below ``frontier`` (None: all rows).

    Frontiers ascend in ``waiting``.
    """
    taken: list[pa.RecordBatch] = []
    if frontier is None:
        taken = waiting[:]
        waiting.clear()
        return taken
    while waiting:
        rows = int(waiting[0].column(FRONTIER).to_numpy().searchsorted(frontier))
        below, rest = waiting[0].slice(0, rows), waiting[0].slice(rows)
        if below.num_rows:
            taken.append(below)
        if rest.num_rows:
            waiting[0] = rest
            break
        waiting.pop(0)
    return taken
