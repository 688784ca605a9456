"""Divides the tables of a state into pieces, so that a checkpoint uploads only new pieces.

Theory of operation. A table is a list of immutable chunks. Consecutive chunks are joined into
pieces of at most :data:`PIECE_ROWS_MAX` rows and about :data:`PIECE_BYTES_MAX` bytes. A longer
chunk is divided at multiples of a fixed number of rows *of its buffers*, so rows dropped at its
front do not move the other boundaries. A chunk is identified by the addresses of its buffers (its
fingerprint). An address is only valid while its buffer exists, so a stored fingerprint also keeps
its chunk in memory (:class:`KnownPieces`).

Invariants: (1) the rows of the pieces, in order, equal the rows of the table; (2) two existing
chunks with equal fingerprints have the same rows; (3) pieces at the end of a table are merged like
the digits of a binary counter, so a table that grows row by row has logarithmically many small
pieces.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

PIECE_ROWS_MAX = 1 << 18
PIECE_BYTES_MAX = 4 << 20
#: Arrow's kernels warn about columns at unaligned addresses, and are slower on them.
_ALIGNMENT_BYTES = 8

#: Buffer addresses of a chunk and everything else that determines its rows, except the schema.
Fingerprint = tuple[Any, ...]
P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Piece(Generic[P]):
    """Consecutive chunks.

    ``place`` names the part or manifest that stores them; None: not stored yet.
    """

    chunks: tuple[pa.RecordBatch, ...]
    #: One fingerprint per chunk; empty if a chunk has none.
    prints: tuple[Fingerprint, ...]
    nbytes: int
    rows: int
    place: P | None

    def batch(self) -> pa.RecordBatch:
        """Return the rows as one batch."""
        return self.chunks[0] if len(self.chunks) == 1 else pa.concat_batches(self.chunks)

    def stored_at(self, place: P) -> Piece[P]:
        """Return the piece with the place where it is now stored."""
        return Piece(self.chunks, self.prints, self.nbytes, self.rows, place)


class KnownPieces(Generic[P]):
    """The stored pieces of one table in the last checkpoint; keeps them in memory."""

    def __init__(self, schema: pa.Schema, pieces: Sequence[Piece[P]], rows_max: int) -> None:
        self._schema = schema
        self._by_start = {p.prints[0]: p for p in pieces if p.prints and p.place is not None}
        self._rows_max = rows_max

    def cut(self, table: pa.Table) -> tuple[list[Piece[P]], KnownPieces[P]]:
        """Divide ``table`` into pieces; pieces that are stored already have their place.

        Also returns the object that divides the next table, to be used once all pieces are stored.
        """
        known = self._by_start if self._schema.equals(table.schema, check_metadata=True) else {}
        rows_max = self._chunk_rows(table)
        chunks = _chunks(table, rows_max)
        prints = [fingerprint(chunk) for chunk in chunks]
        pieces = _group(chunks, prints, known)
        _merge_end(pieces)
        return pieces, KnownPieces(table.schema, (), rows_max)

    def with_pieces(self, pieces: Sequence[Piece[P]]) -> KnownPieces[P]:
        """Return a :class:`KnownPieces` in which ``pieces`` are stored."""
        return KnownPieces(self._schema, pieces, self._rows_max)

    def _chunk_rows(self, table: pa.Table) -> int:
        """Return the rows per piece of a long chunk.

        A power of two that changes only when it is far from the best, so that boundaries stay.
        """
        row_bytes: int = max(table.nbytes // max(table.num_rows, 1), 1)
        fitting = max(min(PIECE_BYTES_MAX // row_bytes, PIECE_ROWS_MAX), 1)
        if max(fitting // 2, 1) <= self._rows_max <= fitting * 2:
            return self._rows_max
        return 1 << (fitting.bit_length() - 1)


def nothing_known(schema: pa.Schema) -> KnownPieces[Any]:
    """Return the :class:`KnownPieces` of a table that no checkpoint contains."""
    return KnownPieces(schema, (), 0)


def piece_of(chunk: pa.RecordBatch, place: P, nbytes: int) -> Piece[P]:
    """Return a stored piece of one chunk, whose values are not read."""
    print_ = fingerprint(chunk)
    return Piece((chunk,), (print_,) if print_ else (), nbytes, chunk.num_rows, place)


def fingerprint(chunk: pa.RecordBatch) -> Fingerprint | None:
    """Return the addresses of a chunk's buffers; None if a type in it does not expose them."""
    prints = [_array_print(column) for column in chunk.columns]
    return None if None in prints or not prints else (chunk.num_rows, *prints)


def _array_print(array: pa.Array) -> Fingerprint | None:
    kind = array.type
    if pa.types.is_dictionary(kind):
        parts = [_array_print(array.indices), _array_print(array.dictionary)]
        return None if None in parts else tuple(parts)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        values = _array_print(array.values)
        return None if values is None else (*_own_print(array, 2), values)
    is_flat = pa.types.is_primitive(kind) or pa.types.is_null(kind)
    is_bytes = pa.types.is_string(kind) or pa.types.is_binary(kind)
    is_bytes = is_bytes or pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    return _own_print(array, 3) if is_flat or is_bytes else None


def _own_print(array: pa.Array, buffers: int) -> Fingerprint:
    places = (b if b is None else (b.address, b.size) for b in array.buffers()[:buffers])
    return (array.offset, len(array), *places)


def _chunks(table: pa.Table, rows_max: int) -> list[pa.RecordBatch]:
    """Return the chunks of a table, none longer than ``rows_max``, none empty."""
    chunks: list[pa.RecordBatch] = []
    for batch in table.to_batches():
        rows = batch.num_rows
        if rows == 0:
            continue
        offset = batch.column(0).offset
        lo = 0
        while lo < rows:
            count = min(rows_max - (offset + lo) % rows_max, rows - lo)
            chunks.append(batch.slice(lo, count) if count < rows else batch)
            lo += count
    return chunks


def _group(
    chunks: list[pa.RecordBatch],
    prints: list[Fingerprint | None],
    known: dict[Fingerprint, Piece[P]],
) -> list[Piece[P]]:
    pieces: list[Piece[P]] = []
    lo = at = size = rows = 0
    while at < len(chunks):
        first = prints[at]
        old = None if first is None else known.get(first)
        if old is not None and tuple(prints[at : at + len(old.prints)]) == old.prints:
            pieces += _fresh(chunks[lo:at], prints[lo:at])
            pieces.append(old)
            at += len(old.prints)
            lo, size, rows = at, 0, 0
            continue
        chunk = chunks[at]
        if at > lo and (
            size + chunk.nbytes > PIECE_BYTES_MAX or rows + chunk.num_rows > PIECE_ROWS_MAX
        ):
            pieces += _fresh(chunks[lo:at], prints[lo:at])
            lo, size, rows = at, 0, 0
        size += chunk.nbytes
        rows += chunk.num_rows
        at += 1
    return pieces + _fresh(chunks[lo:], prints[lo:])


def _merge_end(pieces: list[Piece[P]]) -> None:
    """Join the last two pieces while the earlier one is at most twice as large as the last."""
    while len(pieces) > 1:
        a, b = pieces[-2:]
        too_large = a.nbytes + b.nbytes > PIECE_BYTES_MAX or a.rows + b.rows > PIECE_ROWS_MAX
        if too_large or a.nbytes > 2 * b.nbytes:
            return
        prints = (*a.prints, *b.prints) if a.prints and b.prints else ()
        chunks = (*a.chunks, *b.chunks)
        pieces[-2:] = [Piece(chunks, prints, a.nbytes + b.nbytes, a.rows + b.rows, None)]


def _fresh(chunks: list[pa.RecordBatch], prints: list[Fingerprint | None]) -> list[Piece[P]]:
    """Return a list with a new piece of these chunks; an empty list without chunks."""
    if not chunks:
        return []
    known_prints = tuple(p for p in prints if p is not None)
    size, rows = sum(c.nbytes for c in chunks), sum(c.num_rows for c in chunks)
    return [
        Piece(
            tuple(chunks),
            known_prints if len(known_prints) == len(chunks) else (),
            size,
            rows,
            None,
        )
    ]


def encoded(batch: pa.RecordBatch) -> pa.Buffer:
    """Return a batch as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    _write(sink, batch)
    return sink.getvalue()


def encoded_bytes(batch: pa.RecordBatch) -> int:
    """Return the size of the Arrow IPC stream of a batch."""
    sink = pa.MockOutputStream()
    _write(sink, batch)
    return int(sink.size())


def encode_into(buffer: pa.Buffer, batch: pa.RecordBatch) -> None:
    """Write a batch as an Arrow IPC stream to the start of a buffer."""
    _write(pa.FixedSizeBufferWriter(buffer), batch)


def _write(sink: pa.NativeFile, batch: pa.RecordBatch) -> None:
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)


def decoded(data: memoryview) -> pa.RecordBatch:
    """Return the batch of a stream, without a copy if possible."""
    return pa.ipc.open_stream(aligned(pa.py_buffer(data))).read_next_batch()


def aligned(data: pa.Buffer) -> pa.Buffer:
    """Return the bytes at an address that is aligned for Arrow; copied only if they are not."""
    if data.address % _ALIGNMENT_BYTES == 0:
        return data
    copy = pa.allocate_buffer(data.size)
    memoryview(copy)[:] = memoryview(data)
    return copy
