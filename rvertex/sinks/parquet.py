"""Delivers into a folder of Parquet tables; each commit with rows is a file, written atomically.

    part-<partition>-<delivery>-<number>.parquet     rows; its metadata has the progress after it
    _part-<partition>-<delivery>-<number>.json       note: progress without rows, after that file

The file numbers of a partition are dense, and each file is created exclusively, so only one writer
at a time can continue. A successor takes the next number with a file without rows that contains its
epoch. An older writer then cannot create that number and stops. Readers of the folder only find
rows. Several deliveries, also of several jobs, may share the folder.

Invariants: (1) the newest file and the newest note determine the progress, and all its rows are in
files up to that one; (2) a writer stores a note, then checks for a successor's file; a successor
creates its file, then reads the notes. So no note is missed.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from rstream.errors import StoreError
from rstream.store.blobs import open_store
from rvertex.sinks.errors import (
    DeliveryFencedError,
    DeliveryUnknownError,
    DestinationError,
    DestinationRefusedError,
)
from rvertex.sinks.protocol import DeliveryProgress

if TYPE_CHECKING:
    from rstream.store.protocol import BlobStore
    from rvertex.sinks.protocol import DeliveredRows
    from rvertex.sinks.spec import DeliveryPlace, ParquetSink

#: Key of the progress in a file's metadata.
KEY = "streamscope.delivery"
#: Rows that are encoded together, so that most rows are compressed before the commit.
ROW_GROUP_ROWS = 1 << 17
#: Most other writers that may open between listing the folder and creating the own file.
OPEN_TRIES_MAX = 100
#: Errors of disks and object stores that a retry does not fix. A full disk may be transient.
_REFUSED = re.compile(
    r"PermissionError|IsADirectoryError|NotADirectoryError|Read-only file system|AccessDenied"
    r"|Access Denied|Forbidden|NoSuchBucket|InvalidAccessKeyId|SignatureDoesNotMatch"
    r"|NoCredentialsError|File name too long"
)
_DIGITS = 8
_ID_BYTES = 6


class ParquetDestination:
    """One partition's files in the folder; see :class:`rvertex.sinks.protocol.Destination`."""

    def __init__(
        self, sink: ParquetSink, place: DeliveryPlace, store: BlobStore | None = None
    ) -> None:
        self._store = open_store(sink.path) if store is None else store
        self._name = f"Parquet folder {sink.path}"
        self._schema = place.schema
        self._delivery = f"{place.job}/{place.delivery}"
        mark = hashlib.blake2b(self._delivery.encode(), digest_size=_ID_BYTES).hexdigest()
        self._prefix = f"part-{place.partition}-{mark}-"
        self._epoch = 0
        #: Number of the newest file; None: not open.
        self._number: int | None = None
        self._progress: DeliveryProgress | None = None
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0
        self._file: _File | None = None

    def open(self, epoch: int) -> DeliveryProgress | None:
        """Create the next numbered file of the partition, so that no older writer can continue."""
        try:
            return self._open(epoch)
        except StoreError as error:
            self._refuse_if_for_good(error)
            raise

    def _open(self, epoch: int) -> DeliveryProgress | None:
        self.close()
        self._epoch = epoch
        for _ in range(OPEN_TRIES_MAX):
            number = self._newest()
            document = {} if number < 0 else self._read_document(number)
            if document.get("epoch", 0) > epoch:
                raise DeliveryFencedError(self._name, epoch)
            fence = _File(self._schema)
            document |= self._mark()
            if self._store.put_new(self._file_name(number + 1), fence.finish(document)):
                self._number = number + 1
                self._progress = self._newest_progress(document)
                return self._progress
        raise DestinationError(
            self._name, "other processes of this delivery open it again and again"
        )

    def write(self, rows: DeliveredRows) -> None:
        """Buffer the rows for the commit, compressed if they are many."""
        if not rows.table.num_rows:
            return
        self._batches.append(rows.table)
        self._rows += rows.table.num_rows
        if self._rows >= ROW_GROUP_ROWS:
            self._encode()

    def commit(self, progress: DeliveryProgress) -> None:
        """Write the rows as a file, or a note if there are none."""
        if self._number is None:
            raise DestinationError(self._name, "it is not open")
        self._encode()
        number, file = self._number, self._file
        self._number, self._file = None, None
        try:
            if file is not None:
                self._put(number + 1, file.finish(_document_of(progress) | self._mark()))
                self._store.delete(self._note_name(number))
                number += 1
            elif progress != self._progress:
                self._note(number, progress)
        except StoreError as error:
            self._refuse_if_for_good(error)
            raise DeliveryUnknownError(self._name, str(error)) from error
        self._number, self._progress = number, progress

    def _refuse_if_for_good(self, error: StoreError) -> None:
        if _REFUSED.search(error.reason):
            advice = "correct the path, or let the user of the job write there"
            raise DestinationRefusedError(self._name, error.reason, advice) from error

    def close(self) -> None:
        """Discard the rows that were not committed."""
        self._number, self._file = None, None
        self._batches, self._rows = [], 0

    def _encode(self) -> None:
        if not self._batches:
            return
        self._file = self._file or _File(self._schema)
        self._file.write(self._batches)
        self._batches, self._rows = [], 0

    def _put(self, number: int, data: pa.Buffer) -> None:
        if not self._store.put_new(self._file_name(number), data):
            raise DeliveryFencedError(self._name, self._epoch)

    def _note(self, number: int, progress: DeliveryProgress) -> None:
        self._store.put(self._note_name(number), json.dumps(_document_of(progress)).encode())
        if self._store.exists(self._file_name(number + 1)):
            raise DeliveryFencedError(self._name, self._epoch)

    def _newest(self) -> int:
        """Return the number of the newest file, -1 if there is none."""
        numbers = [-1]
        for name in self._store.list():
            digits = name.removeprefix(self._prefix).removesuffix(".parquet")
            if name == f"{self._prefix}{digits}.parquet" and digits.isdigit():
                numbers.append(int(digits))
        return max(numbers)

    def _read_document(self, number: int) -> dict[str, Any]:
        with self._store.open(self._file_name(number)) as file:
            metadata = pq.read_metadata(file).metadata
        document: dict[str, Any] = json.loads(metadata[KEY.encode()])
        return document

    def _newest_progress(self, document: dict[str, Any]) -> DeliveryProgress | None:
        """Return the progress in the newest file, or in a later note."""
        notes = [name for name in self._store.list() if name.startswith(f"_{self._prefix}")]
        documents = [document, *(json.loads(data) for data in self._store.get_many(notes) if data)]
        newest = max(documents, key=_next_seq)
        if _next_seq(newest) < 0:
            return None
        return DeliveryProgress(newest["next_seq"], bytes.fromhex(newest["digest"]))

    def _mark(self) -> dict[str, Any]:
        """Return a mark that identifies this writer's files."""
        return {"delivery": self._delivery, "epoch": self._epoch, "writer": uuid.uuid4().hex}

    def _file_name(self, number: int) -> str:
        return f"{self._prefix}{number:0{_DIGITS}d}.parquet"

    def _note_name(self, number: int) -> str:
        return f"_{self._prefix}{number:0{_DIGITS}d}.json"


class _File:
    """A Parquet file that is encoded in memory."""

    def __init__(self, schema: pa.Schema) -> None:
        self._sink = pa.BufferOutputStream()
        self._writer = pq.ParquetWriter(self._sink, schema, compression="zstd")

    def write(self, batches: list[pa.RecordBatch]) -> None:
        self._writer.write_table(pa.Table.from_batches(batches))

    def finish(self, document: dict[str, Any]) -> pa.Buffer:
        self._writer.add_key_value_metadata({KEY: json.dumps(document)})
        self._writer.close()
        return self._sink.getvalue()


def _document_of(progress: DeliveryProgress) -> dict[str, Any]:
    return {"next_seq": progress.next_seq, "digest": progress.digest.hex()}


def _next_seq(document: dict[str, Any]) -> int:
    return int(document.get("next_seq", -1))


open_destination = ParquetDestination
