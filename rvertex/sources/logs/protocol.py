"""The interface of live logs for a source vertex: rows with positions, and the log's current end.

Invariants: (1) positions of a partition increase and may have gaps; (2) a log that is read again
from a position returns the same rows at the same positions; (3) the log itself reports the end of a
partition; it is never guessed from the time without rows. Source: ADR 32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.sources.logs.entries import LogEntry
    from rvertex.sources.versions import FileVersion

#: The column of bad rows with their positions.
DEAD_POSITION = "position"
#: Columns of dead letters with a row's origin: source, message key and message value.
ORIGIN = pa.schema([("source", pa.string()), ("key", pa.binary()), ("raw", pa.binary())])


@dataclass(frozen=True, slots=True)
class LogRows:
    """The next rows of one log partition.

    ``batch`` has the columns ``_vs, _ve`` and the payload, in log order, and may be empty.
    ``positions`` (int64) has the position of each row. ``next_position`` is greater than all of
    them. A position below it without a row is a gap, or a row that could not be decoded.
    """

    positions: np.ndarray
    batch: pa.RecordBatch
    next_position: int
    #: Rows of this range that could not be decoded, with the columns of ``bad_rows.DEAD``.
    dead: pa.RecordBatch | None = None
    #: The origin of each row of ``batch``, columns :data:`ORIGIN`. Only set if the source keeps
    #: rows that start too far in the future as dead letters.
    origins: pa.RecordBatch | None = None

    def before(self, position: int) -> LogRows:
        """Return the rows before ``position``. Their ``next_position`` is at most ``position``."""
        if self.next_position <= position:
            return self
        rows = int(self.positions.searchsorted(position))
        dead = self.dead
        if dead is not None:
            dead = dead.slice(0, int(_dead_positions(dead).searchsorted(position)))
        origins = None if self.origins is None else self.origins.slice(0, rows)
        return LogRows(self.positions[:rows], self.batch.slice(0, rows), position, dead, origins)

    def beyond(self, position: int) -> LogRows:
        """Return the rows at ``position`` or beyond."""
        rows = int(self.positions.searchsorted(position))
        dead = self.dead
        if dead is not None:
            dead = dead.slice(int(_dead_positions(dead).searchsorted(position)))
        origins = None if self.origins is None else self.origins.slice(rows)
        batch = self.batch.slice(rows)
        return LogRows(self.positions[rows:], batch, self.next_position, dead, origins)


def joined_rows(pieces: Sequence[LogRows]) -> LogRows:
    """Join pieces, each of which starts at the previous one's ``next_position``."""
    if len(pieces) == 1:
        return pieces[0]
    dead = [piece.dead for piece in pieces if piece.dead is not None]
    origins = [piece.origins for piece in pieces if piece.origins is not None]
    return LogRows(
        np.concatenate([piece.positions for piece in pieces]),
        pa.concat_batches([piece.batch for piece in pieces]),
        pieces[-1].next_position,
        pa.concat_batches(dead) if dead else None,
        pa.concat_batches(origins) if origins else None,
    )


def _dead_positions(dead: pa.RecordBatch) -> np.ndarray:
    positions: np.ndarray = dead.column(DEAD_POSITION).to_numpy()
    return positions


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The end of a partition, as the log reported it at ``reported_s`` (monotonic clock)."""

    position: int
    reported_s: float


class LogReader(Protocol):
    """Reads the partitions ``0..k-1`` of one source vertex; fetches in the background.

    The vertex's host calls it from one thread. Only ``close`` may block.
    """

    def read(self, partition: int, rows_max: int) -> LogRows | None:
        """Return the next 1 to ``rows_max`` rows, or a gap; None if there is nothing yet.

        Raises:
            SourceRowError: a row could not be decoded, and the source's ``on_error`` is "fail".
            LostInputError: the log no longer has the rows at the reader's position.
            StreamEngineError: the log reports an error that a retry does not fix.
        """

    def end(self, partition: int) -> LogEnd | None:
        """Return the log's last reported end, if ``read`` has returned all rows before it."""

    def closing_position(self, partition: int, since_s: float) -> int | None:
        """Return a position at which the partition can be ended now; None: not known yet.

        The log reported this end at ``since_s`` (monotonic clock) or later. So an instance that
        stopped reading before ``since_s`` has read no row from this position on.
        """

    def skip_to(self, partition: int, position: int) -> None:
        """Continue at ``position``; fetched rows before it are dropped."""

    def lag(self, partition: int) -> int | None:
        """Return the number of rows that ``read`` has not returned yet; None: unknown."""

    @property
    def log_partitions(self) -> int:
        """Number of partitions that the log has now; 0: unknown, or it never changes."""

    @property
    def wait_s(self) -> float | None:
        """Return the seconds until ``read`` is due.

        None: the reader wakes the host, or the time has passed.
        """

    @property
    def waiting(self) -> str:
        """What the reader waits for besides rows, such as an unreachable broker; "" if nothing."""

    def close(self) -> None:
        """Stop fetching; idempotent."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A complete file that no journal entry has added yet."""

    partition: int
    position: int
    path: str
    version: FileVersion


@runtime_checkable
class FileLog(Protocol):
    """A log that consists of files: it finds new files, and reads those that entries have added."""

    def found(self) -> Sequence[FoundFile]:
        """Return the files to add next, in this order; the same files until they are added."""

    def enter(self, entries: Sequence[LogEntry]) -> None:
        """Add the files of these "file" entries, which are durable; their rows follow."""

    def finish(self, since_s: float) -> bool:
        """Ignore files that are not complete now; return whether all complete files were added.

        A file is complete if two listings that began at ``since_s`` (monotonic clock) or later show
        the same version.
        """
