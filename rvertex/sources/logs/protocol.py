"""What a live log gives to a source vertex: rows with positions, and where the log says it ends.

Invariants: (1) positions of a partition grow, and may have gaps; (2) a log that is read again from
a position gives the same rows with the same positions; (3) only the log says where it ends. Source:
ADR 32.
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

#: The column of bad rows that says where they stand.
DEAD_POSITION = "position"
#: Where a row comes from, as dead letters have it.
ORIGIN = pa.schema([("source", pa.string()), ("key", pa.binary()), ("raw", pa.binary())])


@dataclass(frozen=True, slots=True)
class LogRows:
    """The next rows of one log partition.

    ``batch`` has the columns ``_vs, _ve`` and the payload, in the order of the log; ``positions``
    (int64) says where each row stands. The partition goes on at ``next_position``, which lies past
    all positions: what lies between without a row is a gap (or a row that could not be decoded).
    ``batch`` may be empty.
    """

    positions: np.ndarray
    batch: pa.RecordBatch
    next_position: int
    #: Rows of that range that could not be decoded, with the columns of ``bad_rows.DEAD``.
    dead: pa.RecordBatch | None = None
    #: With the columns :data:`ORIGIN`, a row for each of ``batch``: of sources that keep rows which
    #: are too far ahead.
    origins: pa.RecordBatch | None = None

    def before(self, position: int) -> LogRows:
        """What stands before ``position``, which becomes the next one if it was passed."""
        if self.next_position <= position:
            return self
        rows = int(self.positions.searchsorted(position))
        dead = self.dead
        if dead is not None:
            dead = dead.slice(0, int(_dead_positions(dead).searchsorted(position)))
        origins = None if self.origins is None else self.origins.slice(0, rows)
        return LogRows(self.positions[:rows], self.batch.slice(0, rows), position, dead, origins)

    def beyond(self, position: int) -> LogRows:
        """What stands at ``position`` or behind it."""
        rows = int(self.positions.searchsorted(position))
        dead = self.dead
        if dead is not None:
            dead = dead.slice(int(_dead_positions(dead).searchsorted(position)))
        origins = None if self.origins is None else self.origins.slice(rows)
        batch = self.batch.slice(rows)
        return LogRows(self.positions[rows:], batch, self.next_position, dead, origins)


def joined_rows(pieces: Sequence[LogRows]) -> LogRows:
    """Pieces that follow each other without a hole, as one."""
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
    """At ``seen_s`` (monotonic clock) the log said that the partition ends at ``position``."""

    position: int
    seen_s: float


class LogReader(Protocol):
    """Reads the partitions ``0..k-1`` of one source vertex; fetches in the background.

    The vertex's host calls it from one thread. No call but ``close`` waits.
    """

    def read(self, partition: int, rows_max: int) -> LogRows | None:
        """The next 1 to ``rows_max`` rows, or a gap; None if there is nothing yet.

        Raises:
            SourceRowError: a row could not be decoded, and the source's ``on_error`` is "fail".
            LostInputError: the log no longer has the rows at the reader's position.
            StreamEngineError: the log answers in a way that waiting does not mend.
        """

    def end(self, partition: int) -> LogEnd | None:
        """What the log last said of its end, if all rows before it were given by ``read``."""

    def closing_position(self, partition: int, since_s: float) -> int | None:
        """Where a partition may end that is to end now; None: it is not known yet.

        The log has said so at ``since_s`` (monotonic clock) or later: whoever read the partition
        before that time has read no row from there on.
        """

    def skip_to(self, partition: int, position: int) -> None:
        """Go on at ``position``; what was fetched before it is dropped."""

    def lag(self, partition: int) -> int | None:
        """Rows between what ``read`` gave and the log's end, as far as known."""

    @property
    def log_partitions(self) -> int:
        """How many partitions the whole log has by now; 0: that is not known, or never changes."""

    @property
    def waiting(self) -> str:
        """What the reader waits for besides rows, such as a broker that is away; "" if nothing."""

    def close(self) -> None:
        """Stop fetching; idempotent."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that is complete, and that no entry has named yet."""

    partition: int
    position: int
    path: str
    version: FileVersion


@runtime_checkable
class FileLog(Protocol):
    """A log reader whose log is a list of files: it finds them, and reads those it was given."""

    def found(self) -> Sequence[FoundFile]:
        """Files to be entered next, in this order; the same until they are."""

    def enter(self, entries: Sequence[LogEntry]) -> None:
        """These "file" entries are durable: their rows follow."""
