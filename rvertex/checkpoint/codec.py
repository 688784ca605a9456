"""Encodes snapshots: a manifest, and the parts of the state that are stored beside it.

Layout of a manifest: magic, length of the header, msgpack header, Arrow IPC streams of small pieces
one after another, blake2b-128 of all preceding bytes. The header lists the pieces of each table
(:mod:`rvertex.checkpoint.chunks`) in order: an inline piece by offset and length, a part by name,
size and digest. A part is one IPC stream, and the CRC-32 of each of its blocks. It is uploaded once
per instance and named by every checkpoint that contains it. Its name includes the checkpoint that
uploaded it, so the name of a deleted part is never used again.

Invariants: (1) a decoded snapshot equals the encoded one, except for the chunks of its tables; (2)
damaged bytes are detected in the manifest and in every part, and the error names the file; (3) a
snapshot is rejected if the meaning of its vertex's state has changed (``state_schema``), or if its
format is newer than this release or too old. An older checkpoint would be no help, because all
checkpoints of the job have the same problem. In the header, a missing field takes its default and
an unknown field is ignored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from rvertex.checkpoint.chunks import (
    KnownPieces,
    Piece,
    decoded,
    encoded,
    encoded_bytes,
    nothing_known,
    piece_of,
)
from rvertex.checkpoint.header import (
    CHECKSUM_BYTES,
    DECODER,
    ENCODER,
    Header,
    Inline,
    MappedPart,
    Part,
    Replay,
    State,
    checksum,
    with_block_crcs,
)
from rvertex.errors import CheckpointFormatError, CorruptCheckpointError, SnapshotSchemaError
from rvertex.operators.protocol import OperatorState
from rvertex.state.unverified import Unverified
from rvertex.vertex.spec import ReplayFrom, Snapshot, VertexId

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

#: The format of manifests. Increase the number when the previous release would misread the layout
#: or the state of an operator.
MAGIC = b"SSCKPT06"
#: Oldest format that can be read: the format of two minor releases ago.
OLDEST = 6
_NUMBER_BYTES = 2
#: A piece up to this size, in bytes, is stored inside the manifest.
INLINE_BYTES_MAX = 64 << 10
#: Number of parts that are read concurrently.
_FETCHED_PARTS = 32
_LENGTH_BYTES = 8

#: Identifies a table of a snapshot: index of the operator's state, and name of the table.
TableKey = tuple[int, str]


@dataclass(frozen=True, slots=True)
class WrittenCheckpoint:
    """The files of a checkpoint. ``obsolete``: parts that no checkpoint names."""

    parts: tuple[str, ...]
    size_bytes: int
    uploaded_bytes: int
    obsolete: tuple[str, ...]


class CheckpointWriter:
    """Writes the checkpoints of one instance; each uploads only the pieces that are new.

    It keeps the tables of the last checkpoint in memory. A state shares its data with snapshots, so
    this only costs the memory of data that was replaced since.
    """

    def __init__(
        self, folder: str, epoch: int, *, inline_bytes_max: int = INLINE_BYTES_MAX
    ) -> None:
        """Write below ``folder``, the folder of the vertex's checkpoints in the job's root."""
        self._folder = folder
        self._epoch = epoch
        self._inline_bytes_max = inline_bytes_max
        self._tables: dict[TableKey, KnownPieces[Part]] = {}
        self._parts: dict[bytes, Part] = {}
        #: Parts of failed checkpoints that no stored checkpoint names, for reuse.
        self._spare: dict[bytes, Part] = {}
        self._unverified = Unverified()

    def adopt(self, loaded: LoadedCheckpoint) -> None:
        """Continue after the checkpoint ``loaded``, whose parts are not written again."""
        self._unverified = loaded.unverified
        for key, (schema, pieces) in loaded.tables.items():
            self._tables[key] = nothing_known(schema).with_pieces(pieces)
            self._parts |= {p.place.digest: p.place for p in pieces if p.place is not None}

    def write(
        self, snapshot: Snapshot, count: int, put: Callable[[str, pa.Buffer | bytes], None]
    ) -> Generator[None, None, WrittenCheckpoint]:
        """Store a checkpoint: one part per step, the manifest last.

        An exception of ``put`` ends the generator; the next checkpoint reuses the parts that were
        stored.
        """
        tables: dict[TableKey, KnownPieces[Part]] = {}
        named: dict[bytes, Part] = {}
        body = _Body(snapshot)
        uploaded = 0
        for number, state in enumerate(snapshot.states):
            body.begin_state(state.header)
            for name, table in state.tables.items():
                key = (number, name)
                known = self._tables.get(key) or nothing_known(table.schema)
                pieces, cutting = known.cut(table)
                placed: list[Piece[Part]] = []
                body.begin_table(name, table.schema)
                for piece in pieces:
                    part = piece.place
                    if part is None:
                        for chunk in piece.chunks:
                            self._unverified.verify(chunk)
                        batch = piece.batch()
                        if (size := encoded_bytes(batch)) <= self._inline_bytes_max:
                            body.add_inline(encoded(batch))
                            continue
                        data = with_block_crcs(batch, size)
                        digest = checksum(data)
                        part = self._parts.get(digest) or self._spare.get(digest)
                        if part is None:
                            part = self._put(data, digest, count, put)
                            uploaded += part.size_bytes
                        yield
                    body.add_part(part)
                    named[part.digest] = part
                    placed.append(piece.stored_at(part))
                tables[key] = cutting.with_pieces(placed)
        manifest = body.manifest()
        put(checkpoint_path(self._folder, self._epoch, count), manifest)
        obsolete = tuple(p.path for d, p in self._spare.items() if d not in named)
        self._tables, self._parts, self._spare = tables, named, {}
        size = sum(p.size_bytes for p in named.values()) + len(manifest)
        paths = tuple(p.path for p in named.values())
        return WrittenCheckpoint(paths, size, uploaded + len(manifest), obsolete)

    def _put(
        self,
        data: pa.Buffer,
        digest: bytes,
        count: int,
        put: Callable[[str, pa.Buffer | bytes], None],
    ) -> Part:
        path = f"{self._folder}/parts/{self._epoch:08d}-{count:06d}-{digest.hex()}"
        put(path, data)
        part = self._spare[digest] = Part.of(path, data, digest)
        return part


@dataclass(frozen=True, slots=True)
class LoadedCheckpoint:
    """A decoded snapshot, and the pieces of its tables that are parts."""

    snapshot: Snapshot
    tables: dict[TableKey, tuple[pa.Schema, list[Piece[Part]]]]
    #: The mapped parts of the checkpoint. Verify their values before you use them.
    unverified: Unverified = field(default_factory=Unverified)


def checkpoint_path(folder: str, epoch: int, count: int) -> str:
    """Return the path of a checkpoint below the job's root."""
    return f"{folder}/{epoch:08d}-{count:06d}.ckpt"


def epoch_of(path: str) -> int | None:
    """Return the epoch of the instance that stored a checkpoint or part; None: another path."""
    number = path.rpartition("/")[2].removeprefix(".").partition("-")[0]
    return int(number) if number.isdecimal() else None


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Encode the snapshot as one blob without parts; linear in its state."""
    body = _Body(snapshot)
    for state in snapshot.states:
        body.begin_state(state.header)
        for name, table in state.tables.items():
            body.begin_table(name, table.schema)
            for batch in table.to_batches():
                body.add_inline(encoded(batch))
    return body.manifest()


def decode_snapshot(data: bytes, *, name: str, state_schema: str) -> Snapshot:
    """Decode a blob without parts. Raises as :func:`load_checkpoint`."""
    return load_checkpoint(data, name=name, state_schema=state_schema, fetch=_no_parts).snapshot


def load_checkpoint(
    data: bytes,
    *,
    name: str,
    state_schema: str,
    fetch: Callable[[Sequence[str]], Sequence[bytes | pa.Buffer | None]],
    place: Callable[[bytes | pa.Buffer, int], bytes | pa.Buffer] = lambda blob, _: blob,
    verifies_later: bool = False,
) -> LoadedCheckpoint:
    """Decode the snapshot whose manifest is ``data``, read from the checkpoint ``name``.

    ``fetch`` reads several parts, and returns None for a missing part. ``place`` is called with
    each part and the size of all parts; it returns the same bytes, possibly mapped from a disk.
    ``verifies_later``: the caller verifies the values of mapped parts before it uses them.

    Raises:
        CorruptCheckpointError: the manifest or a part is damaged, or a part is missing.
        CheckpointFormatError: a release with another format wrote them.
        SnapshotSchemaError: the checkpoint belongs to another plan.
    """
    header, inline = _open(data, name)
    if header.state_schema != state_schema:
        raise SnapshotSchemaError(name, header.state_schema, state_schema)
    unverified = Unverified()
    later = unverified if verifies_later else None
    parts = _fetch_parts(header, name, fetch, place, later)
    states: list[OperatorState] = []
    stored: dict[TableKey, tuple[pa.Schema, list[Piece[Part]]]] = {}
    for number, state in enumerate(header.states):
        tables: dict[str, pa.Table] = {}
        for table_name, (schema_bytes, entries) in state.tables.items():
            schema = pa.ipc.read_schema(pa.py_buffer(schema_bytes))
            batches: list[pa.RecordBatch] = []
            pieces: list[Piece[Part]] = []
            for entry in entries:
                if isinstance(entry, Inline):
                    batches.append(decoded(inline[entry.offset : entry.offset + entry.size_bytes]))
                    continue
                part, blob = parts[entry.path]
                batches.append(decoded(memoryview(blob)))
                pieces.append(piece_of(batches[-1], part, part.size_bytes))
            tables[table_name] = pa.Table.from_batches(batches, schema)
            stored[number, table_name] = schema, pieces
        states.append(OperatorState(state.header, tables))
    return LoadedCheckpoint(_snapshot(header, tuple(states)), stored, unverified)


def read_header(data: bytes, name: str) -> Header:
    """Decode the header of the manifest ``data``, read from the checkpoint ``name``.

    Raises:
        CorruptCheckpointError: the bytes are damaged.
        CheckpointFormatError: a release with another format wrote them.
    """
    return _open(data, name)[0]


def parts_bytes(data: bytes, name: str) -> int:
    """Return the bytes of all parts of a checkpoint. Raises as :func:`read_header`."""
    return sum(part.size_bytes for part in _parts_of(read_header(data, name)).values())


class _Body:
    """A manifest under construction."""

    def __init__(self, snapshot: Snapshot) -> None:
        replay = snapshot.replay_from
        assert replay is None or not replay.input_state.tables, "positions have no tables"
        self._entries: list[Inline | Part] = []
        self._blobs: list[pa.Buffer] = []
        self._offset = 0
        self._header = Header(
            vertex=snapshot.vertex,
            state_schema=snapshot.state_schema,
            inputs=snapshot.inputs,
            outputs=snapshot.outputs,
            digests=snapshot.digests,
            states=[],
            events_in=snapshot.events_in,
            events_out=snapshot.events_out,
            is_final=snapshot.is_final,
            replay_from=None
            if replay is None
            else Replay(replay.inputs, replay.input_state.header),
        )

    def begin_state(self, header: dict[str, Any]) -> None:
        self._header.states.append(State(header, {}))

    def begin_table(self, name: str, schema: pa.Schema) -> None:
        self._entries = []
        schema_bytes = schema.serialize().to_pybytes()
        self._header.states[-1].tables[name] = schema_bytes, self._entries

    def add_inline(self, data: pa.Buffer) -> None:
        self._entries.append(Inline(self._offset, data.size))
        self._blobs.append(data)
        self._offset += data.size

    def add_part(self, part: Part) -> None:
        self._entries.append(part)

    def manifest(self) -> bytes:
        header = ENCODER.encode(self._header)
        length = len(header).to_bytes(_LENGTH_BYTES, "little")
        body = b"".join([MAGIC, length, header, *self._blobs])
        return body + checksum(body)


def _open(data: bytes, name: str) -> tuple[Header, memoryview]:
    """Return the header and the inline pieces of a manifest."""
    view = memoryview(data)
    start = len(MAGIC) + _LENGTH_BYTES
    magic = bytes(view[: len(MAGIC)])
    if len(data) < start + CHECKSUM_BYTES or not magic.startswith(MAGIC[:-_NUMBER_BYTES]):
        raise CorruptCheckpointError(name, "it has another format")
    if checksum(view[:-CHECKSUM_BYTES]) != bytes(view[-CHECKSUM_BYTES:]):
        raise CorruptCheckpointError(name, "its checksum does not match")
    if not _is_read(magic):
        raise CheckpointFormatError(name, magic.decode(errors="replace"), MAGIC.decode())
    length = int.from_bytes(view[len(MAGIC) : start], "little")
    try:
        header = DECODER.decode(view[start : start + length])
    except msgspec.DecodeError as error:
        raise CorruptCheckpointError(name, f"its header: {error}") from error
    return header, view[start + length : -CHECKSUM_BYTES]


def _is_read(magic: bytes) -> bool:
    """Return whether this release can read manifests with this magic."""
    number, newest = magic[-_NUMBER_BYTES:], int(MAGIC[-_NUMBER_BYTES:])
    return number.isdigit() and OLDEST <= int(number) <= newest


def _fetch_parts(
    header: Header,
    name: str,
    fetch: Callable[[Sequence[str]], Sequence[bytes | pa.Buffer | None]],
    place: Callable[[bytes | pa.Buffer, int], bytes | pa.Buffer],
    unverified: Unverified | None,
) -> dict[str, tuple[Part, bytes | pa.Buffer]]:
    wanted = _parts_of(header)
    fetched: dict[str, tuple[Part, bytes | pa.Buffer]] = {}
    size, paths = sum(part.size_bytes for part in wanted.values()), list(wanted)
    for at in range(0, len(paths), _FETCHED_PARTS):
        together = paths[at : at + _FETCHED_PARTS]
        for path, blob in zip(together, fetch(together), strict=True):
            part = wanted[path]
            if blob is None:
                raise CorruptCheckpointError(name, f"its part {path} is gone")
            if unverified is not None and isinstance(blob, pa.Buffer) and part.head_bytes:
                part.require_head(blob, name)
                mapped = MappedPart(part, blob, name)
                unverified.add(blob, mapped.block_bytes, mapped.check)
            else:
                part.require(blob, name)
            fetched[path] = part, place(blob, size)
    return fetched


def _parts_of(header: Header) -> dict[str, Part]:
    return {
        entry.path: entry
        for state in header.states
        for _, entries in state.tables.values()
        for entry in entries
        if isinstance(entry, Part)
    }


def _snapshot(header: Header, states: tuple[OperatorState, ...]) -> Snapshot:
    replay = header.replay_from
    return Snapshot(
        vertex=VertexId(header.vertex),
        state_schema=header.state_schema,
        inputs=header.inputs,
        outputs=header.outputs,
        digests=header.digests,
        states=states,
        events_in=header.events_in,
        events_out=header.events_out,
        is_final=header.is_final,
        replay_from=None
        if replay is None
        else ReplayFrom(replay.inputs, OperatorState(replay.header)),
    )


def _no_parts(paths: Sequence[str]) -> Sequence[bytes | None]:
    return [None for _ in paths]
