"""Reads the current rows of a stream step by step, and stores copies of them.

A row is current (alive) at T if it started at T or before and has not ended by T.
:class:`CurrentRows` reads a stream from its start, or from a copy, and drops rows that have ended.
So memory contains the current rows and one step of reading. A copy at seq s replaces all items
below s: the copy and the items from s on determine the current rows.

Invariants: (1) rows are in order of start, with rows of a copy first; (2) a row is kept until its
end is at or before ``reached``, because its end edge may still arrive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import pyarrow as pa

from rstream.items.batch import CTI, KIND, VE, VS, int64_column, kinds, only_events
from rstream.items.edges import paired
from rstream.log.reader import open_reader
from rstream.types import MIN_TIME

if TYPE_CHECKING:
    from rstream.log.reader import SegmentReader
    from rstream.store.protocol import BlobStore

#: Folder of the copies below a job's root. It has a folder for each stream.
TABLE = "table"
#: Number of rows that are read before rows that have ended are dropped.
_STEP_ROWS = 1 << 18
_SUFFIX = ".arrow"
_REACHED = b"reached"


class CurrentRows:
    """The current rows of one stream, up to the last item that was read."""

    def __init__(self, rows: pa.Table | None = None, seq: int = 0, reached: int = MIN_TIME) -> None:
        #: Columns ``_vs, _ve, payload``; None: the stream had no durable items.
        self.rows = rows
        #: The next item to read.
        self.seq = seq
        #: The last CTI read.
        self.reached = reached

    def advance(
        self,
        stream: str | BlobStore,
        *,
        upto_seq: int | None = None,
        at_us: int | None = None,
    ) -> None:
        """Read up to the durable end, to item ``upto_seq``, or to time ``at_us``.

        After a read to ``at_us`` only the rows current at that time remain, so reading cannot
        continue.

        Raises:
            SequenceDiscardedError: the next item was deleted.
        """
        before = self.rows, self.seq, self.reached
        reader = open_reader(stream, self.seq)
        try:
            self._read(reader, upto_seq, at_us)
        except BaseException:
            self.rows, self.seq, self.reached = before
            raise
        finally:
            reader.close()

    def _read(self, reader: SegmentReader, upto_seq: int | None, at_us: int | None) -> None:
        step: list[pa.RecordBatch] = []
        if reader.read_schema() is None:
            return
        while upto_seq is None or self.seq < upto_seq:
            items = reader.read_next()
            if items is None:
                break
            batch = items.batch
            if upto_seq is not None:
                batch = batch.slice(0, upto_seq - items.first_seq)
            self.seq = items.first_seq + batch.num_rows
            step.append(self._taken(batch, at_us))
            if sum(some.num_rows for some in step) > _STEP_ROWS:
                self._settle(step, at_us)
                step = []
            if at_us is not None and self.reached > at_us:
                break
        self._settle(step, at_us)

    def _taken(self, batch: pa.RecordBatch, at_us: int | None) -> pa.RecordBatch:
        """Return the events of ``batch`` that start in time."""
        ctis = int64_column(batch, VS)[kinds(batch) == CTI]
        self.reached = int(ctis[-1]) if len(ctis) else self.reached
        if at_us is not None:
            batch = batch.slice(0, int(int64_column(batch, VS).searchsorted(at_us, "right")))
        return only_events(batch) if len(ctis) else batch.drop_columns([KIND])

    def _settle(self, step: list[pa.RecordBatch], at_us: int | None) -> None:
        """Pair the starts and ends of a step, and drop rows that have ended."""
        if not step:
            return
        tables = [] if self.rows is None else [self.rows]
        tables += [pa.Table.from_batches([batch]) for batch in step]
        # a change of the job may have added columns
        table = paired(pa.concat_tables(tables, promote_options="default"))
        time = self.reached if at_us is None else min(self.reached, at_us + 1)
        self.rows = table.filter(pa.array(table.column(VE).to_numpy() >= time)).combine_chunks()

    def alive(self, at_us: int) -> pa.Table | None:
        """Return the rows that are current at ``at_us``; None: nothing is durable yet."""
        if self.rows is None:
            return None
        starts, ends = (self.rows.column(name).to_numpy() for name in (VS, VE))
        return self.rows.filter(pa.array((starts <= at_us) & (at_us < ends)))


class RowCopies:
    """The stored copies of one stream's current rows; only the newest is used."""

    def __init__(self, store: BlobStore, stream: str) -> None:
        """Use the store of the job's root."""
        self._store = store.child(f"{TABLE}/{quote(stream, safe='')}")

    def newest(self) -> CurrentRows | None:
        """Return the newest copy, from which reading continues; None: there is no copy.

        Raises:
            FileNotFoundError: it was replaced by a newer copy after the listing.
        """
        names = self._names()
        if not names:
            return None
        with pa.ipc.open_file(pa.BufferReader(self._store.get(names[-1]))) as reader:
            rows = reader.read_all()
        reached = int(rows.schema.metadata[_REACHED])
        return CurrentRows(
            rows.replace_schema_metadata(None), int(names[-1].removesuffix(_SUFFIX)), reached
        )

    def put(self, current: CurrentRows) -> None:
        """Store a copy durably, and delete the older copies."""
        assert current.rows is not None
        rows = current.rows.replace_schema_metadata({_REACHED: str(current.reached)})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, rows.schema) as writer:
            writer.write_table(rows)
        name = f"{current.seq:020d}{_SUFFIX}"
        self._store.put(name, sink.getvalue())
        for older in self._names():
            if older < name:
                self._store.delete(older)

    def _names(self) -> list[str]:
        return sorted(name for name in self._store.list("") if name.endswith(_SUFFIX))
