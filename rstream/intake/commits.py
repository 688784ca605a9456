"""The files of a log beside its segments: its declaration, its commits and its bases.

``_log/commit-<number>-<first seq>`` has the rows of one or more appends as an Arrow IPC stream, and
a header with what it says of producers. ``_log/base-<number>-<end>`` says that all commits below
``number`` lie in segments, which end at ``end``, with the table of producers at that place. A
commit below the newest base counts for nobody.

Invariants: (1) a commit is created exclusively, so one writer decides each number; its first seq
follows from the commits before it; (2) commits are dense from the newest base on; (3) each file
carries its checksum.
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
#: The oldest that is read: logs outlive jobs, so it does not follow releases.
OLDEST_LOG_FORMAT = 1
#: The column with the time of arrival.
ARRIVAL = "received_at"
#: Rows are alive from their arrival for a microsecond.
FORM = TableForm(ARRIVAL, None, 1)
_COMMIT, _BASE, _WRITER = "commit", "base", "writer"
_CHECKSUM_BYTES = 16
_NUMBER_DIGITS, _SEQ_DIGITS = 16, 20


@dataclass(frozen=True, slots=True)
class Commit:
    """What was appended in one act."""

    number: int
    first_seq: int
    #: Of the writer, and which one of that epoch it is.
    epoch: int
    token: int
    #: When it was made, us; never before the one before.
    time_us: int
    #: A segment ends with it.
    is_cut: bool
    #: How long a silent producer is remembered when this cut is made, us.
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
    """Everything below: ``number`` is the first commit that is not in a segment."""

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
    """The names below ``_log``, each by its number, in order."""

    bases: tuple[tuple[int, int], ...]
    commits: tuple[tuple[int, int], ...]
    #: Of writers: the epoch, and which one of that epoch it is.
    writers: tuple[tuple[int, int], ...]

    @property
    def base(self) -> tuple[int, int]:
        """The newest base: its number and its end."""
        return self.bases[-1]

    def live(self) -> list[tuple[int, int]]:
        """Commits that are not in a segment: number and first seq."""
        return [commit for commit in self.commits if commit[0] >= self.base[0]]


def commit_name(number: int, first_seq: int) -> str:
    """Where a commit lies."""
    return f"{FOLDER}/{_COMMIT}-{number:0{_NUMBER_DIGITS}d}-{first_seq:0{_SEQ_DIGITS}d}"


def base_name(number: int, next_seq: int) -> str:
    """Where a base lies."""
    return Base(number, next_seq, 0, 0, ProducerTable()).name


def writer_name(epoch: int, token: int) -> str:
    """What stands as long as no later writer has opened the log."""
    return f"{FOLDER}/{_WRITER}-{epoch:0{_NUMBER_DIGITS}d}-{token:0{_SEQ_DIGITS}d}"


def list_log(store: BlobStore) -> Listing:
    """What there is now."""
    found: dict[str, list[tuple[int, ...]]] = {_BASE: [], _COMMIT: [], _WRITER: []}
    for path in store.list(FOLDER):
        kind, _, rest = path.rpartition("/")[2].partition("-")
        if kind in found and rest.replace("-", "").isdigit():
            found[kind].append(tuple(int(part) for part in rest.split("-")))
    pairs = {kind: tuple((n[0], n[-1]) for n in sorted(found[kind])) for kind in found}
    return Listing(pairs[_BASE], pairs[_COMMIT], pairs[_WRITER])


def pack_commit(commit: Commit) -> bytes:
    """A commit as bytes."""
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
    """The commit that :func:`pack_commit` made these bytes of.

    Raises:
        CorruptLogError: they are not what was written.
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
        raise CorruptLogError(name, f"it holds {commit.name}")
    return commit


def pack_base(base: Base) -> bytes:
    """A base as bytes."""
    header = {
        "format": LOG_FORMAT,
        "epoch": base.epoch,
        "time": base.time_us,
        "producers": base.producers.pack(),
    }
    return _sealed(msgpack.packb([header, b""]))


def read_base(store: BlobStore, number: int, next_seq: int) -> Base:
    """A base. Raises FileNotFoundError, CorruptLogError."""
    name = base_name(number, next_seq)
    header, _ = _unpacked(name, store.get(name))
    table = ProducerTable.unpack(header["producers"])
    return Base(number, next_seq, int(header["epoch"]), int(header["time"]), table)


def declare(store: BlobStore, schema: pa.Schema | None) -> pa.Schema:
    """Declare a log, unless it is; its columns. ``schema`` None: it has to be.

    Raises:
        NoLogError: it is not. LogSchemaError: it is declared with other columns.
        UsageError: no log can have these columns.
    """
    if schema is not None:
        schema = schema.remove_metadata()
        if not schema.names or ARRIVAL in schema.names or len({*schema.names}) < len(schema.names):
            raise UsageError(
                f"{store.uri}: a log has columns, each with a name of its own, other than "
                f"{ARRIVAL!r}, which it adds; these are {', '.join(schema.names) or 'none'}"
            )
        item_schema(schema)  # refuses reserved names
        if declared(store) is None:
            _check_kept(store, schema)
        encoded = base64.b64encode(schema.serialize().to_pybytes()).decode()
        document = {"format": LOG_FORMAT, "columns": _described(schema), "schema": encoded}
        store.put_new(DECLARATION, json.dumps(document, indent=1).encode())
    found = declared(store)
    if found is None:
        raise NoLogError(store.uri)
    if schema is not None and not found.equals(schema):
        ours, theirs = (", ".join(_described(s)) for s in (found, schema))
        raise LogSchemaError(store.uri, ours, theirs)
    return found


def _check_kept(store: BlobStore, schema: pa.Schema) -> None:
    """A job can read what is in the log. One that is there already may be older than this rule."""
    for field in schema:
        kept = kept_type(field.type)
        if kept != field.type:
            instead = "" if kept is None else f"; declare it as {kept}"
            raise UsageError(
                f"{store.uri}: column {field.name!r} is {field.type}, which streams do not "
                f"keep{instead}"
            )


def declared(store: BlobStore) -> pa.Schema | None:
    """The columns of the log in a folder; None if there is none.

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
    """The columns that readers get: the time of arrival, then those that are declared."""
    return pa.schema([pa.field(ARRIVAL, TIME_TYPE), *schema])


@remembered_by_schema
def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """No rows of a log with these columns."""
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
        found = header["format"]
        raise CorruptLogError(name, f"format {found}, this version reads {LOG_FORMAT}")
    return header, rows


def _checksum(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_CHECKSUM_BYTES).digest()
