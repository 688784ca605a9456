"""The files of a log beside its segments: its declaration, its commits and its bases.

``_log/commit-<number>-<first seq>`` contains the rows of one or more appends as an Arrow IPC
stream, and a header with the changes of producers. ``_log/base-<number>-<end>`` records that all
commits below ``number`` are in segments, which end at seq ``end``, with the table of producers up
to there. A commit below the newest base is ignored.

Invariants: (1) a commit is created exclusively, so a single writer owns each number; its first seq
follows from the commits before it; (2) commit numbers are dense from the newest base on; (3) each
file contains its checksum.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgpack
import pyarrow as pa

from rstream.errors import CorruptLogError, LogSchemaError, NoLogError, UsageError
from rstream.format.codec import kept_type
from rstream.format.table import TIME_TYPE, TableForm
from rstream.intake.producers import Change, ProducerTable
from rstream.items.batch import item_schema
from rstream.items.dictionaries import remembered_by_schema

if TYPE_CHECKING:
    from rstream.store.protocol import BlobStore

FOLDER = "_log"
DECLARATION = "_log.json"
LOG_FORMAT = 1
#: Oldest format that can be read. Logs outlive jobs, so this does not depend on the release.
OLDEST_LOG_FORMAT = 1
#: The column with the arrival time of each row.
ARRIVAL = "received_at"
#: A row's lifetime is the microsecond of its arrival.
FORM = TableForm(ARRIVAL, None, 1)
_COMMIT, _BASE, _WRITER = "commit", "base", "writer"
_CHECKSUM_BYTES = 16
_NUMBER_DIGITS, _SEQ_DIGITS = 16, 20


@dataclass(frozen=True, slots=True)
class Commit:
    """Rows that were appended atomically."""

    number: int
    first_seq: int
    #: Epoch of the writer; and the writer's token, which identifies it within the epoch.
    epoch: int
    token: int
    #: Wall time of the commit, us; never less than the time of the previous commit.
    time_us: int
    #: Whether a segment ends with this commit.
    is_cut: bool
    #: When a segment ends, producers are forgotten that have been silent for this long, us.
    silence_us: int
    changes: tuple[Change, ...]
    rows: pa.RecordBatch

    @property
    def next_seq(self) -> int:
        return self.first_seq + int(self.rows.num_rows)

    @property
    def name(self) -> str:
        return commit_name(self.number, self.first_seq)


@dataclass(frozen=True, slots=True)
class Base:
    """State of the log up to a commit. ``number``: the first commit that is not in a segment."""

    number: int
    next_seq: int
    epoch: int
    time_us: int
    producers: ProducerTable

    @property
    def name(self) -> str:
        return f"{FOLDER}/{_BASE}-{self.number:0{_NUMBER_DIGITS}d}-{self.next_seq:0{_SEQ_DIGITS}d}"


@dataclass(frozen=True, slots=True)
class Listing:
    """The files below ``_log`` as pairs (number, second number of the name), ascending."""

    bases: tuple[tuple[int, int], ...]
    commits: tuple[tuple[int, int], ...]
    #: Epoch and token of each writer.
    writers: tuple[tuple[int, int], ...]

    @property
    def base(self) -> tuple[int, int]:
        """The newest base: its commit number and its end seq."""
        return self.bases[-1]

    def live(self) -> list[tuple[int, int]]:
        """Return the commits that are not in a segment: number and first seq."""
        return [commit for commit in self.commits if commit[0] >= self.base[0]]


def commit_name(number: int, first_seq: int) -> str:
    """Return the path of a commit."""
    return f"{FOLDER}/{_COMMIT}-{number:0{_NUMBER_DIGITS}d}-{first_seq:0{_SEQ_DIGITS}d}"


def base_name(number: int, next_seq: int) -> str:
    """Return the path of a base."""
    return Base(number, next_seq, 0, 0, ProducerTable()).name


def writer_name(epoch: int, token: int) -> str:
    """Return the path of a writer's file; it exists until a later writer opens the log."""
    return f"{FOLDER}/{_WRITER}-{epoch:0{_NUMBER_DIGITS}d}-{token:0{_SEQ_DIGITS}d}"


def list_log(store: BlobStore) -> Listing:
    """List the files of the log."""
    by_kind: dict[str, list[tuple[int, ...]]] = {_BASE: [], _COMMIT: [], _WRITER: []}
    for path in store.list(FOLDER):
        kind, _, rest = path.rpartition("/")[2].partition("-")
        if kind in by_kind and rest.replace("-", "").isdigit():
            by_kind[kind].append(tuple(int(part) for part in rest.split("-")))
    pairs = {kind: tuple((n[0], n[-1]) for n in sorted(by_kind[kind])) for kind in by_kind}
    return Listing(pairs[_BASE], pairs[_COMMIT], pairs[_WRITER])


def pack_commit(commit: Commit) -> bytes:
    """Encode a commit."""
    header = {
        "format": LOG_FORMAT,
        "number": commit.number,
        "seq": commit.first_seq,
        "epoch": commit.epoch,
        "token": commit.token,
        "time": commit.time_us,
        "cut": commit.is_cut,
        "silence": commit.silence_us,
        "producers": [
            [c.producer, c.epoch, c.number, c.first_seq, c.last_seq] for c in commit.changes
        ],
    }
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, commit.rows.schema) as writer:
        if commit.rows.num_rows:
            writer.write_batch(commit.rows)
    return _sealed(msgpack.packb([header, sink.getvalue().to_pybytes()]))


def unpack_commit(name: str, data: bytes) -> Commit:
    """Decode the result of :func:`pack_commit`.

    Raises:
        CorruptLogError: the bytes are damaged.
    """
    header, rows = _unpacked(name, data)
    table = pa.ipc.open_stream(pa.py_buffer(rows)).read_all().combine_chunks()
    batches = table.to_batches()
    commit = Commit(
        number=int(header["number"]),
        first_seq=int(header["seq"]),
        epoch=int(header["epoch"]),
        token=int(header["token"]),
        time_us=int(header["time"]),
        is_cut=bool(header["cut"]),
        silence_us=int(header["silence"]),
        changes=tuple(
            Change(str(p), int(epoch), number, int(first_seq), int(last_seq))
            for p, epoch, number, first_seq, last_seq, *_ in header["producers"]
        ),
        rows=batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema),
    )
    if commit.name != name:
        raise CorruptLogError(name, f"it contains {commit.name}")
    return commit


def pack_base(base: Base) -> bytes:
    """Encode a base."""
    header = {
        "format": LOG_FORMAT,
        "epoch": base.epoch,
        "time": base.time_us,
        "producers": base.producers.pack(),
    }
    return _sealed(msgpack.packb([header, b""]))


def read_base(store: BlobStore, number: int, next_seq: int) -> Base:
    """Read and decode a base. Raises FileNotFoundError, CorruptLogError."""
    name = base_name(number, next_seq)
    header, _ = _unpacked(name, store.get(name))
    table = ProducerTable.unpack(header["producers"])
    return Base(number, next_seq, int(header["epoch"]), int(header["time"]), table)


def declare(store: BlobStore, schema: pa.Schema | None) -> pa.Schema:
    """Create a log with columns ``schema`` unless it exists; return its columns.

    ``schema`` None: the log must exist.

    Raises:
        NoLogError: it does not exist. LogSchemaError: it has other columns.
        UsageError: a log cannot have these columns.
    """
    if schema is not None:
        schema = schema.remove_metadata()
        if not schema.names or ARRIVAL in schema.names or len({*schema.names}) < len(schema.names):
            raise UsageError(
                f"{store.uri}: the columns of a log need distinct names other than "
                f"{ARRIVAL!r}, which it adds; these are "
                f"{', '.join(schema.names) or 'none'}"
            )
        item_schema(schema)  # raises for names that are reserved
        if declared(store) is None:
            _check_kept(store, schema)
        encoded = base64.b64encode(schema.serialize().to_pybytes()).decode()
        document = {"format": LOG_FORMAT, "columns": _described(schema), "schema": encoded}
        store.put_new(DECLARATION, json.dumps(document, indent=1).encode())
    existing = declared(store)
    if existing is None:
        raise NoLogError(store.uri)
    if schema is not None and not existing.equals(schema):
        ours, theirs = (", ".join(_described(s)) for s in (existing, schema))
        raise LogSchemaError(store.uri, ours, theirs)
    return existing


def _check_kept(store: BlobStore, schema: pa.Schema) -> None:
    """Check that jobs can read the log's rows; a log may be older than this rule."""
    for field in schema:
        kept = kept_type(field.type)
        if kept != field.type:
            instead = "" if kept is None else f"; declare it as {kept}"
            raise UsageError(
                f"{store.uri}: column {field.name!r} is {field.type}, which streams "
                f"cannot store{instead}"
            )


def declared(store: BlobStore) -> pa.Schema | None:
    """Return the columns of the log in a folder; None if there is no log.

    Raises:
        CorruptLogError: its declaration cannot be read, or a later version wrote it.
    """
    try:
        document = json.loads(store.get(DECLARATION))
        if not OLDEST_LOG_FORMAT <= document["format"] <= LOG_FORMAT:
            raise CorruptLogError(
                f"{store.uri}/{DECLARATION}",
                f"format {document['format']}, this version reads {LOG_FORMAT}",
            )
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(document["schema"])))
    except FileNotFoundError:
        return None
    except MemoryError:
        raise
    except (ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise CorruptLogError(f"{store.uri}/{DECLARATION}", "it cannot be read") from error


def table_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns that readers get: the arrival time, then the declared columns."""
    return pa.schema([pa.field(ARRIVAL, TIME_TYPE), *schema])


@remembered_by_schema
def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """Return an empty batch of a log with these columns."""
    return pa.RecordBatch.from_pylist([], schema=schema)


def _described(schema: pa.Schema) -> list[str]:
    return [f"{f.name} {f.type}{'' if f.nullable else ' not null'}" for f in schema]


def _sealed(data: bytes) -> bytes:
    return data + _checksum(data)


def _unpacked(name: str, data: bytes) -> tuple[dict[str, Any], bytes]:
    body = data[:-_CHECKSUM_BYTES]
    if not body or _checksum(body) != data[-_CHECKSUM_BYTES:]:
        raise CorruptLogError(name, "its checksum does not match")
    header, rows, *_ = msgpack.unpackb(body)
    if not OLDEST_LOG_FORMAT <= header["format"] <= LOG_FORMAT:
        version = header["format"]
        raise CorruptLogError(name, f"format {version}, this version reads {LOG_FORMAT}")
    return header, rows


def _checksum(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_CHECKSUM_BYTES).digest()
