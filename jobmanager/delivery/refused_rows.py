"""Dead letters of a delivery: rows that the destination rejected, with its reason.

    refused/<delivery>/<partition>-<seq>-<row>.arrow     one row; <row>: the hash of a beginning
    refused/<delivery>/<partition>-<seq>-<row>.end       the end of a row whose beginning is here

Each row is either at the destination or a dead letter. A dead letter is stored before the next
commit moves the delivery's position past the row. So neither the row nor its end is sent again,
even after a restart.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa

from jobmanager.delivery.claim import folder_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rstream.store.protocol import BlobStore

FOLDER = "refused"
_SUFFIX, _END = ".arrow", ".end"
_DIGITS = 20
_FILE = re.compile(r"(\d+)-(\d+)(?:-(\d+))?(\.\w+)")
#: Columns of a dead letter in addition to the columns of the row.
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
        """Store below the job's root, whose store is ``store``."""
        self._store, self._partition = store, partition
        self._ends = 0
        self._folder = f"{FOLDER}/{folder_name(delivery)}"
        self.seqs: set[int] = set()
        #: Per row hash: the number of dead letters whose end has not arrived.
        self._begun: Counter[int] = Counter()

    @property
    def rows(self) -> int:
        """The number of dead letters."""
        return len(self.seqs) - self._ends

    def load(self) -> None:
        """Read the list of dead letters, which earlier processes may have stored."""
        self.seqs, self._begun, self._ends = set(), Counter(), 0
        for suffix in (_SUFFIX, _END):
            for partition, seq, row_hash in _names(self._store, self._folder, suffix):
                if partition == self._partition:
                    self._note(seq, row_hash, suffix)

    def begun(self, hashes: Sequence[int]) -> list[int]:
        """Return the indices in ``hashes`` of ends whose beginnings are dead letters."""
        left = self._begun.copy()
        names = []
        for place, row_hash in enumerate(hashes):
            if left[row_hash] > 0:
                left[row_hash] -= 1
                names.append(place)
        return names

    def add_end(self, seq: int, row_hash: int) -> None:
        """Store durably that the end of a dead letter is left out, too."""
        self._store.put(self._name(seq, row_hash, _END), b"")
        self._note(seq, row_hash, _END)

    def _name(self, seq: int, row_hash: int | None, suffix: str) -> str:
        of_row = "" if row_hash is None else f"-{row_hash:0{_DIGITS}d}"
        return f"{self._folder}/{self._partition}-{seq:0{_DIGITS}d}{of_row}{suffix}"

    def _note(self, seq: int, row_hash: int | None, suffix: str) -> None:
        self.seqs.add(seq)
        self._ends += suffix == _END
        if row_hash is not None:
            self._begun[row_hash] += 1 if suffix == _SUFFIX else -1

    def add(
        self,
        seq: int,
        row: pa.RecordBatch,
        reason: str,
        *,
        is_end: bool,
        now_us: int,
        begins: int | None = None,
    ) -> None:
        """Store a row, durably.

        ``begins``: the row's hash, if the row begins and its end may follow later.
        """
        assert row.num_rows == 1, row.num_rows
        added = [self._partition, seq, is_end, now_us, reason]
        columns = [pa.array([v], f.type) for v, f in zip(added, _ADDED, strict=True)]
        table = pa.Table.from_arrays([*row.columns, *columns], schema=_schema(row.schema))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        self._store.put(self._name(seq, begins, _SUFFIX), sink.getvalue().to_pybytes())
        self._note(seq, begins, _SUFFIX)


def read_refused(store: BlobStore, delivery: str, schema: pa.Schema) -> pa.Table:
    """Return the dead letters of a delivery, ordered by partition and sequence number.

    ``schema``: the row columns of the result if there are no dead letters. Otherwise rows have the
    columns with which they were rejected (changes have ``op`` first). Added columns follow:
    ``_partition``, ``_seq``, ``_is_end`` (the row was delivered, but its end was rejected),
    ``_refused_at`` and ``_reason``.
    """
    paths = _paths(store, f"{FOLDER}/{folder_name(delivery)}", _SUFFIX)
    files = [path for _, path in sorted((place[:2], path) for path, place in paths.items())]
    tables = [pa.ipc.open_file(store.get(name)).read_all() for name in files]
    return pa.concat_tables(tables or [_schema(schema).empty_table()], promote_options="permissive")


def has_refused(store: BlobStore, delivery: str) -> bool:
    """Return whether this delivery has dead letters."""
    return bool(store.list(f"{FOLDER}/{folder_name(delivery)}"))


def _schema(row: pa.Schema) -> pa.Schema:
    return pa.schema([*row, *_ADDED])


def _names(store: BlobStore, folder: str, suffix: str) -> Iterable[tuple[int, int, int | None]]:
    """Yield partition, sequence number and row hash of each file."""
    return _paths(store, folder, suffix).values()


def _paths(store: BlobStore, folder: str, suffix: str) -> dict[str, tuple[int, int, int | None]]:
    paths = {}
    for path in store.list(folder):
        match = _FILE.fullmatch(path.rpartition("/")[2])
        if match is not None and match[4] == suffix:
            row_hash = None if match[3] is None else int(match[3])
            paths[path] = int(match[1]), int(match[2]), row_hash
    return paths


def copy_refused(source: BlobStore, target: BlobStore, delivery: str) -> None:
    """Copy the dead letters of a delivery to the root of an exported job."""
    for path in source.list(f"{FOLDER}/{folder_name(delivery)}"):
        target.put(path, source.get(path))
