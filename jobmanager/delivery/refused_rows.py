"""Dead letters of a delivery: rows that the destination refused, with its reason.

    refused/<delivery>/<partition>-<seq>.arrow     one row

A row is either at the destination or here. It is stored here before a commit passes it, and a row
that is stored here is never sent again, also not after a restart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from jobmanager.delivery.claim import folder_name

if TYPE_CHECKING:
    from rstream.store.protocol import BlobStore

FOLDER = "refused"
_SUFFIX = ".arrow"
_DIGITS = 20
#: Columns beside those of the row.
_ADDED = pa.schema(
    [
        ("_partition", pa.int32()),
        ("_seq", pa.int64()),
        ("_is_end", pa.bool_()),
        ("_refused_at", pa.timestamp("us", "UTC")),
        ("_reason", pa.string()),
    ]
)


class RefusedRows:
    """The dead letters of one partition of a delivery."""

    def __init__(self, store: BlobStore, delivery: str, partition: int) -> None:
        """``store``: that of the job's root."""
        self._store, self._partition = store, partition
        self._folder = f"{FOLDER}/{folder_name(delivery)}"
        self.seqs: set[int] = set()

    def load(self) -> None:
        """Read which rows are here, whoever stored them."""
        self.seqs = {seq for partition, seq in _names(self._store, self._folder)
                     if partition == self._partition}  # fmt: skip

    def add(self, seq: int, row: pa.RecordBatch, reason: str, *, is_end: bool, now_us: int) -> None:
        """Store a row, durably."""
        assert row.num_rows == 1, row.num_rows
        added = [self._partition, seq, is_end, now_us, reason]
        columns = [pa.array([v], f.type) for v, f in zip(added, _ADDED, strict=True)]
        table = pa.Table.from_arrays([*row.columns, *columns], schema=_schema(row.schema))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        name = f"{self._folder}/{self._partition}-{seq:0{_DIGITS}d}{_SUFFIX}"
        self._store.put(name, sink.getvalue().to_pybytes())
        self.seqs.add(seq)


def read_refused(store: BlobStore, delivery: str, schema: pa.Schema) -> pa.Table:
    """The dead letters of a delivery, by partition and sequence number.

    ``schema``: the columns of delivered rows; ``_partition``, ``_seq``, ``_is_end`` (the row had
    arrived and its end was refused), ``_refused_at`` and ``_reason`` follow.
    """
    folder = f"{FOLDER}/{folder_name(delivery)}"
    files = [
        f"{folder}/{partition}-{seq:0{_DIGITS}d}{_SUFFIX}"
        for partition, seq in sorted(_names(store, folder))
    ]
    tables = [pa.ipc.open_file(store.get(name)).read_all() for name in files]
    whole = _schema(schema)
    return pa.concat_tables([whole.empty_table(), *(t.cast(whole) for t in tables)])


def has_refused(store: BlobStore, delivery: str) -> bool:
    """Whether any row of this delivery is in its dead letters."""
    return bool(store.list(f"{FOLDER}/{folder_name(delivery)}"))


def _schema(row: pa.Schema) -> pa.Schema:
    return pa.schema([*row, *_ADDED])


def _names(store: BlobStore, folder: str) -> list[tuple[int, int]]:
    """Partition and sequence number of each file."""
    found = []
    for path in store.list(folder):
        partition, _, seq = path.rpartition("/")[2].removesuffix(_SUFFIX).partition("-")
        if path.endswith(_SUFFIX) and partition.isdecimal() and seq.isdecimal():
            found.append((int(partition), int(seq)))
    return found
