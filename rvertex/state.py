"""Canonical bytes of a snapshot, with a checksum and the schema tag of its vertex.

Layout: magic, length of the header, msgpack header, Arrow IPC streams of the state tables one
after another, blake2b-128 of all that precedes. The header names each table by offset and length.

Invariants: (1) ``decode(encode(s)) == s``; (2) bytes that were cut or changed are refused by name;
(3) a snapshot of a vertex that has since changed its meaning is refused (``state_schema``).
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgpack
import pyarrow as pa

from rvertex.errors import CorruptCheckpointError, SnapshotSchemaError
from rvertex.operators.protocol import OperatorState
from rvertex.types import Snapshot, VertexId

MAGIC = b"SSCKPT01"
_LENGTH_BYTES = 8
_CHECKSUM_BYTES = 16


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """The snapshot as bytes; linear in its state, so it belongs in a background thread."""
    blobs: list[bytes] = []
    offset = 0
    states: list[dict[str, Any]] = []
    for state in snapshot.states:
        tables: dict[str, list[int]] = {}
        for name, table in state.tables.items():
            blob = _table_bytes(table)
            tables[name] = [offset, len(blob)]
            blobs.append(blob)
            offset += len(blob)
        states.append({"header": state.header, "tables": tables})
    header = msgpack.packb(
        {
            "vertex": snapshot.vertex,
            "state_schema": snapshot.state_schema,
            "inputs": list(snapshot.inputs),
            "outputs": list(snapshot.outputs),
            "digests": list(snapshot.digests),
            "events_in": snapshot.events_in,
            "events_out": snapshot.events_out,
            "is_final": snapshot.is_final,
            "states": states,
        }
    )
    body = b"".join([MAGIC, len(header).to_bytes(_LENGTH_BYTES, "little"), header, *blobs])
    return body + _checksum(body)


def decode_snapshot(data: bytes, *, name: str, state_schema: str) -> Snapshot:
    """The snapshot in ``data``, which was read from the checkpoint ``name``.

    Raises:
        CorruptCheckpointError: the bytes are not what was written.
        SnapshotSchemaError: the checkpoint belongs to another plan.
    """
    view = memoryview(data)
    start = len(MAGIC) + _LENGTH_BYTES
    if len(data) < start + _CHECKSUM_BYTES or bytes(view[: len(MAGIC)]) != MAGIC:
        raise CorruptCheckpointError(name, "it is not a checkpoint")
    if _checksum(view[:-_CHECKSUM_BYTES]) != bytes(view[-_CHECKSUM_BYTES:]):
        raise CorruptCheckpointError(name, "its checksum does not match")
    length = int.from_bytes(view[len(MAGIC) : start], "little")
    header = msgpack.unpackb(view[start : start + length], strict_map_key=False)
    if header["state_schema"] != state_schema:
        raise SnapshotSchemaError(name, header["state_schema"], state_schema)
    blobs = view[start + length : -_CHECKSUM_BYTES]
    states = tuple(
        OperatorState(
            s["header"],
            {k: _table(blobs[lo : lo + size]) for k, (lo, size) in s["tables"].items()},
        )
        for s in header["states"]
    )
    return Snapshot(
        vertex=VertexId(header["vertex"]),
        state_schema=header["state_schema"],
        inputs=tuple(header["inputs"]),
        outputs=tuple(header["outputs"]),
        digests=tuple(header["digests"]),
        states=states,
        events_in=header["events_in"],
        events_out=header["events_out"],
        is_final=header["is_final"],
    )


def _table_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _table(data: memoryview) -> pa.Table:
    return pa.ipc.open_stream(pa.py_buffer(data)).read_all()


def _checksum(data: bytes | memoryview) -> bytes:
    return hashlib.blake2b(data, digest_size=_CHECKSUM_BYTES).digest()
