"""Inputs of a replayed vertex: the files of a source, or a retained stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rstream.items.batch import Items
from rstream.items.dictionaries import as_declared
from rstream.log.reader import SegmentCursor
from rvertex.sources.readers import open_reader

if TYPE_CHECKING:
    import pyarrow as pa

    from rstream.log.durable import DurableLog
    from rvertex.sources.readers import SourceReader
    from rvertex.sources.spec import SourcePartition

#: Items that a vertex takes at a time, as hosts read them.
STEP_ROWS = 65_536


class Feed(Protocol):
    """One input of a vertex."""

    def read(self, seq: int, rows_max: int) -> Items | None:
        """Return items from ``seq`` on, at least one and at most ``rows_max``.

        None: no more follow.
        """

    def close(self) -> None:
        """Release files; idempotent."""


class SourceFeed:
    """The rows of a source partition, read forward."""

    def __init__(self, partition: SourcePartition) -> None:
        self._partition = partition
        self._reader: SourceReader | None = None
        #: Rows that were read from a file, but not returned yet.
        self._rest: Items | None = None

    def read(self, seq: int, rows_max: int) -> Items | None:
        """Implement :class:`Feed`."""
        if self._reader is None:
            self._reader = open_reader(self._partition, seq)
        if self._rest is None or self._rest.next_seq <= seq:
            batch = self._reader.read_next(STEP_ROWS)
            if batch is None:
                return None
            self._rest = Items(seq, batch)
        self._rest = self._rest.from_seq(seq)
        return self._rest.head(rows_max)

    def close(self) -> None:
        """Implement :class:`Feed`."""
        if self._reader is not None:
            self._reader.close()


class StreamFeed:
    """The durable items of a stream."""

    def __init__(self, log: DurableLog, schema: pa.Schema) -> None:
        """Read a stream whose items have this schema."""
        self._cursor, self._schema = SegmentCursor(log), schema

    def read(self, seq: int, rows_max: int) -> Items | None:
        """Implement :class:`Feed`."""
        items = self._cursor.read(seq, rows_max)
        if items is None:
            return None
        return Items(items.first_seq, as_declared(items.batch, self._schema))

    def close(self) -> None:
        """Implement :class:`Feed`."""
        self._cursor.close()
