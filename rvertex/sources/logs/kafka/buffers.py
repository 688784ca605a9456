"""What was fetched of one partition and not read yet.

The fetching thread puts pieces in, the vertex's thread takes rows out; both hold the lock of
:class:`rvertex.sources.logs.kafka.reader.KafkaLog`.

Invariants: (1) ``given <= fetched``; (2) pieces follow each other without a hole: each says where
the next one begins.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from rvertex.sources.logs.protocol import joined_rows

if TYPE_CHECKING:
    from rstream.errors import StreamEngineError
    from rvertex.sources.logs.protocol import LogRows

#: A partition with so much in its buffer is not fetched, until half of it was read.
BUFFERED_ROWS_MAX = 64_000
BUFFERED_BYTES_MAX = 16 << 20


class PartitionBuffer:
    """The pieces of one partition, in order."""

    def __init__(self, partition: int, position: int, until: int | None) -> None:
        #: The log's number of the partition.
        self.partition = partition
        self.until = until
        #: Next position to give, and to fetch.
        self.given = self.fetched = position
        #: What reading ends with, once all pieces were given.
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
        """Nothing more is to be fetched."""
        return self.error is not None or (self.until is not None and self.fetched >= self.until)

    def put(self, rows: LogRows) -> None:
        """The next piece; what was fetched already, or lies behind the end, is left out."""
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
        """The next rows; rows that share a position stay together.

        Raises:
            StreamEngineError: all pieces were given, and this is what comes next.
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
        """The rows and the pieces behind them that fit: who is behind takes larger steps."""
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
        """Drop what was fetched, and go on at ``position``."""
        self._pieces.clear()
        self._rows = self._bytes = 0
        self.given = self.fetched = position
        self.error = None


def _bytes_of(rows: LogRows) -> int:
    origins = 0 if rows.origins is None else rows.origins.nbytes
    return int(rows.batch.nbytes + origins)


def _cut(rows: LogRows, rows_max: int) -> int | None:
    """Where to cut so that at most ``rows_max`` rows are before it, if a cut is needed."""
    if rows.batch.num_rows <= rows_max:
        return None
    position = int(rows.positions[rows_max])
    if position > rows.positions[0]:
        return position
    after = int(rows.positions.searchsorted(position, side="right"))
    return int(rows.positions[after]) if after < len(rows.positions) else None
