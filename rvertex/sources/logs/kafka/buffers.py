"""The rows of one partition that were fetched but not read yet.

The fetching thread appends pieces, the vertex's thread removes rows. Both hold the lock of
:class:`rvertex.sources.logs.kafka.reader.KafkaLog`.

Invariants: (1) ``given <= fetched``; (2) pieces are contiguous: each piece starts at the previous
one's ``next_position``.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from rvertex.sources.logs.protocol import joined_rows

if TYPE_CHECKING:
    from rstream.errors import StreamEngineError
    from rvertex.sources.logs.protocol import LogRows

#: A partition with this many buffered rows is not fetched until half of them were read.
BUFFERED_ROWS_MAX = 64_000
BUFFERED_BYTES_MAX = 16 << 20


class PartitionBuffer:
    """The pieces of one partition, in order of position."""

    def __init__(self, partition: int, position: int, until: int | None) -> None:
        #: Partition number in the topic.
        self.partition = partition
        self.until = until
        #: Next position that ``take`` returns, and next position to fetch.
        self.given = self.fetched = position
        #: The error to raise once all pieces were returned.
        self.error: StreamEngineError | None = None
        self.is_paused = False
        self._pieces: deque[LogRows] = deque()
        self._rows = self._bytes = 0

    @property
    def is_full(self) -> bool:
        return self._rows >= BUFFERED_ROWS_MAX or self._bytes >= BUFFERED_BYTES_MAX

    @property
    def is_half_empty(self) -> bool:
        return self._rows * 2 <= BUFFERED_ROWS_MAX and self._bytes * 2 <= BUFFERED_BYTES_MAX

    @property
    def is_done(self) -> bool:
        """Whether no more rows will be fetched."""
        return self.error is not None or (self.until is not None and self.fetched >= self.until)

    def put(self, rows: LogRows) -> None:
        """Append a piece, without rows that were fetched before or are beyond the end."""
        if rows.next_position <= self.fetched or self.is_done:
            return
        rows = rows.beyond(self.fetched)
        if self.until is not None:
            rows = rows.before(self.until)
        self.fetched = rows.next_position
        self._rows += rows.batch.num_rows
        self._bytes += _bytes_of(rows)
        self._pieces.append(rows)

    def take(self, rows_max: int) -> LogRows | None:
        """Remove and return the next rows; rows that share a position stay together.

        Raises:
            StreamEngineError: all pieces were returned, and the reader has failed.
        """
        if not self._pieces:
            if self.error is not None:
                raise self.error
            return None
        rows = self._pop()
        cut = _cut(rows, rows_max)
        if cut is not None:
            self._push_back(rows.beyond(cut))
            rows = rows.before(cut)
        else:
            rows = self._with_whole_pieces(rows, rows_max)
        self.given = rows.next_position
        return rows

    def _with_whole_pieces(self, rows: LogRows, rows_max: int) -> LogRows:
        """Append whole pieces that fit within ``rows_max``, so a slow vertex takes larger steps."""
        taken, left = [rows], rows_max - rows.batch.num_rows
        while self._pieces and self._pieces[0].batch.num_rows <= left:  # ends with the pieces
            taken.append(self._pop())
            left -= taken[-1].batch.num_rows
        return joined_rows(taken)

    def _pop(self) -> LogRows:
        rows = self._pieces.popleft()
        self._rows -= rows.batch.num_rows
        self._bytes -= _bytes_of(rows)
        return rows

    def _push_back(self, rows: LogRows) -> None:
        self._pieces.appendleft(rows)
        self._rows += rows.batch.num_rows
        self._bytes += _bytes_of(rows)

    def skip_to(self, position: int) -> None:
        """Drop all fetched rows and continue at ``position``."""
        self._pieces.clear()
        self._rows = self._bytes = 0
        self.given = self.fetched = position
        self.error = None


def _bytes_of(rows: LogRows) -> int:
    origins = 0 if rows.origins is None else rows.origins.nbytes
    return int(rows.batch.nbytes + origins)


def _cut(rows: LogRows, rows_max: int) -> int | None:
    """Return where to split so that at most ``rows_max`` rows precede; None: no split is needed."""
    if rows.batch.num_rows <= rows_max:
        return None
    position = int(rows.positions[rows_max])
    if position > rows.positions[0]:
        return position
    after = int(rows.positions.searchsorted(position, side="right"))
    return int(rows.positions[after]) if after < len(rows.positions) else None
