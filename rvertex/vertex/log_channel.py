"""One log partition of a source vertex: its rows and entries in order, its buffer, its frontier.

Rows and entries form one sequence: an entry stands before the first row at its position or beyond.
Whatever is offered is cut there, so lateness and frontier follow from the sequence alone.
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
    """The rows of one partition from its first position on."""

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
        #: What the clock said, us, and up to which position that decides: of entries in effect.
        self.clocks: list[list[int]] = []
        #: Whether the partition appeared after the job was planned.
        self.is_added = False
        #: The next position to offer.
        self.position = unit.first_seq
        #: How many entries have taken effect.
        self.entries = 0
        self.is_ended = False
        self.dead_rows = 0
        #: Positions that the log no longer had.
        self.lost_positions = 0
        #: Entries that are durable and stand further on.
        self._pending: deque[LogEntry] = deque()
        #: Late and undecodable rows that were not taken, by what they met: the frontier.
        self.late: list[pa.RecordBatch] = []
        self.dead: list[pa.RecordBatch] = []
        #: Where a replay ends: a position, and a number of entries.
        self.stop: tuple[int, int] | None = None

    @property
    def is_awaited(self) -> bool:
        """Whether it was added, and no entry says yet from which time on it takes part."""
        return self.is_added and self.entries == 0

    @property
    def has_pending(self) -> bool:
        """Whether there are entries that have not taken effect."""
        return bool(self._pending)

    @property
    def is_stopped(self) -> bool:
        """Whether a replay has come to its end."""
        return self.stop is not None and self.position == self.stop[0]

    @property
    def limit(self) -> int | None:
        """Rows from here on are not to be offered now."""
        return self.stop[0] if self.stop is not None else self._until

    def decide(self, entry: LogEntry) -> None:
        """An entry that is durable; those that have taken effect are passed over."""
        if entry.index < self.entries + len(self._pending):
            return
        assert entry.index == self.entries + len(self._pending), (entry, self.entries)
        self._pending.append(entry)

    def lacks_clock(self, rows: LogRows) -> bool:
        """Whether one of the rows is ahead, and no entry says by which clock that is decided."""
        return self._early is not None and self._early.lack(rows, self._known_clocks())

    def clock_entry(self, partition: int, index: int, now_us: int, until: int) -> LogEntry:
        """The entry that decides which rows up to ``until`` are too far ahead."""
        position = max(self.position, *(e.position for e in self._pending), 0)
        last_us = self._known_clocks()[-1][0]
        return LogEntry("clock", partition, index, position, max(now_us, last_us), until)

    def _known_clocks(self) -> list[list[int]]:
        """Those in effect and those that are durable: rows ask up to where a clock decides."""
        pending = [[e.time, e.until] for e in self._pending if e.kind == "clock"]
        return [*self.clocks, *pending] or [NO_CLOCK]

    def offer(self, rows: LogRows) -> None:
        """The next rows, up to ``rows.next_position``."""
        assert rows.next_position >= self.position, (rows.next_position, self.position)
        assert self.stop is None or rows.next_position <= self.stop[0], (rows, self.stop)
        while not self.is_ended:  # ends: each pass takes an entry, or all that is left
            at = self._next_cut(rows.next_position)
            self._take(rows.before(at))
            self.position = max(self.position, at)
            self.apply_due()
            if at >= rows.next_position or self.position >= rows.next_position:
                return
            rows = rows.beyond(self.position)

    def end(self) -> None:
        """No row follows, nor any entry."""
        self.is_ended = True
        self.reorder.end()

    def apply_due(self) -> None:
        """Let entries take effect that stand at the position that was reached."""
        while self._pending and self._pending[0].position <= self.position:
            if self.is_ended or self._is_at_last_entry():
                break
            self._apply(self._pending.popleft())
        if self._until is not None and self.position >= self._until and not self.is_ended:
            self.end()

    def progress(self, partition: int, facts: PartitionFacts, **seen: Any) -> LogProgress:
        """Where the partition stands; ``seen``: what only the host knows."""
        return LogProgress(
            partition=partition,
            position=facts.position,
            frontier=facts.frontier,
            max_vs=self.reorder.max_vs,
            lost=self.lost_positions,
            dead=self.dead_rows,
            rows_frontier=facts.rows_frontier,
            **seen,
        )

    def snapshot(self) -> dict[str, Any]:
        """The books, without the rows that wait."""
        return {name: getattr(self, name) for name in _BOOKS}

    def load(self, books: dict[str, Any], reorder: OperatorState) -> None:
        """Continue from a snapshot; entries are to be told anew."""
        for name in _BOOKS:
            setattr(self, name, books[name])
        self.reorder.load(reorder)
        self._pending.clear()
        self.late, self.dead, self.stop = [], [], None

    def _next_cut(self, next_position: int) -> int:
        """Where the next entry stands, or the end of what there is."""
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
                pass  # its rows follow

    def _take(self, rows: LogRows) -> None:
        """Rows between which no entry stands; each dead one meets the frontier at its place."""
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
        if self.reorder.is_ended:  # a stream has its end in itself
            self.is_ended = True

    def _take_dead(self, dead: pa.RecordBatch) -> None:
        self.dead_rows += dead.num_rows
        self.dead.append(dead_letters(dead, self.reorder.frontier))


def taken_below(waiting: list[pa.RecordBatch], frontier: int | None) -> Sequence[pa.RecordBatch]:
    """Remove the rows that met a frontier below this one (None: all); they grow along the list."""
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
