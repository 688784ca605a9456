"""Decodes many Avro records at once: their bytes as one block of a container file.

A block does not contain the ends of its records, so a record that is too short would consume bytes
of the next one. The decoder panics on some malformed records, and accepts others. So the bytes of
each record are checked first. The check skips the same field of all records at once, with one
position per record.
"""

from __future__ import annotations

import io
import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from rvertex.sources.logs.decode.avro_one import Malformed, OneRecord, Skips
from rvertex.sources.logs.decode.avro_schema import full_name, space_within
from rvertex.sources.logs.decode.decoded import Bad, Refused, conformed

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from rvertex.sources.logs.decode.avro_one import Skip
    from rvertex.sources.logs.decode.avro_schema import AvroSchema

#: Most elements without bytes (such as null) in arrays of one message. The length of the message
#: does not bound their number.
ELEMENTS_WITHOUT_BYTES_MAX = 1_000
#: Most levels of nested records in one message: fastavro crashes the process at a few thousand.
LEVELS_MAX = 100
#: Elements of arrays are skipped row by row if there are at most this many rows, else for all rows
#: at once.
ONE_BY_ONE_MAX = 64
_COUNT = "__count"
_SYNC = bytes(range(16))
_MASK = (1 << 64) - 1
_VARINT_BYTES_MAX = 10
_SIZES = {"boolean": 1, "float": 4, "double": 8, "null": 0}
_SIMPLE = ("int", "long", "string", "bytes")
_BLOCKS = ("array", "map")
_RECORDS = ("record", "error")
_NAMED = (*_RECORDS, "enum", "fixed")


class AvroBlocks:
    """Decodes records of one writer's schema to the columns of ``schema``."""

    def __init__(self, writer: AvroSchema, schema: pa.Schema) -> None:
        import polars  # fails now if polars is missing, not at the first message

        del polars
        self._schema = schema
        self._writer = writer
        # A column for the number of rows, in case no other column is read.
        count = {"name": _COUNT, "type": "boolean"}
        text = json.dumps({**writer, "fields": [*writer["fields"], count]}).encode()
        meta = {b"avro.schema": text, b"avro.codec": b"null"}
        entries = [_bytes(name) + _bytes(value) for name, value in meta.items()]
        self._head = b"Obj\x01" + _long(len(entries)) + b"".join(entries) + _long(0) + _SYNC

    def are_bad(self, bodies: Sequence[bytes]) -> np.ndarray:
        """Return which bodies are not such a record, bool[n]."""
        return malformed(bodies, self._writer)

    def read(self, bodies: Sequence[bytes]) -> pa.RecordBatch:
        """Return a row per body.

        Raises:
            Refused: one or more bodies are not such a record.
        """
        import polars
        from polars.exceptions import PanicException, PolarsError

        if self.are_bad(bodies).any():  # polars would panic, or accept a wrong union branch
            raise Refused
        data = b"\0".join([*bodies, b""])
        block = b"".join([self._head, _long(len(bodies)), _long(len(data)), data, _SYNC])
        try:
            table = polars.read_avro(io.BytesIO(block)).to_arrow()
        except (PolarsError, PanicException, OSError, ValueError) as error:
            raise Refused from error
        if table.num_rows != len(bodies):
            raise Refused
        rows = conformed(table, self._schema)
        if isinstance(rows, Bad):
            raise Refused(str(rows))
        return rows


def _bytes(data: bytes) -> bytes:
    return _long(len(data)) + data


def _long(value: int) -> bytes:
    """Encode a number as Avro does: zigzag, seven bits per byte."""
    left = ((value << 1) ^ (value >> 63)) & _MASK
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def malformed(bodies: Sequence[bytes], writer: AvroSchema) -> np.ndarray:
    """Return which bodies are not exactly one record, bool[n].

    Whether text is UTF-8 is not checked.
    """
    walk = _Walk(bodies, writer)
    walk.skip(writer, np.arange(len(bodies)), "")
    is_malformed: np.ndarray = walk.is_bad | (walk.at != walk.ends)
    return is_malformed


def has_elements_without_bytes(writer: AvroSchema) -> bool:
    """Return whether records may have arrays whose elements have no bytes."""
    return _Walk([], writer).has_elements_without_bytes


class _Walk:
    """A position in each of many records."""

    def __init__(self, bodies: Sequence[bytes], writer: AvroSchema) -> None:
        lengths = np.fromiter(map(len, bodies), np.int64, len(bodies))
        self._bytes = b"".join(bodies) + bytes(_VARINT_BYTES_MAX)
        self._data = np.frombuffer(self._bytes, np.uint8)
        self.ends = np.cumsum(lengths)
        #: Position of the first byte of each record that was not skipped yet; int64[n].
        self.at = self.ends - lengths
        self.is_bad = np.zeros(len(bodies), np.bool_)
        #: Number of elements without bytes in each record so far.
        self._without_bytes = np.zeros(len(bodies), np.int64)
        self._level = 0
        self._named: dict[str, tuple[Any, str]] = {}
        #: Types of the elements of arrays, with their namespaces.
        self._elements: list[tuple[Any, str]] = []
        self._define(writer, "")
        self._skips = Skips(
            self._resolved, self._is_empty, _SIZES, LEVELS_MAX, ELEMENTS_WITHOUT_BYTES_MAX
        )

    @property
    def has_elements_without_bytes(self) -> bool:
        return any(self._is_empty(kind, space) for kind, space in self._elements)

    def skip(self, kind: Any, rows: np.ndarray, space: str) -> None:
        """Skip a value of this type in each of the rows. ``space``: the namespace of names."""
        rows = rows[~self.is_bad[rows]]
        if not len(rows):
            return
        kind, space = self._resolved(kind, space)
        if isinstance(kind, list):
            self._skip_union(kind, rows, space)
            return
        name = kind["type"]
        if name in _RECORDS:
            self._level += 1
            self.is_bad[rows] |= self._level > LEVELS_MAX
            for field in kind["fields"]:
                self.skip(field["type"], rows, space)
            self._level -= 1
        elif name in _BLOCKS:
            self._skip_blocks(kind, rows, space)
        elif name == "enum":
            at = self._number(rows)
            self.is_bad[rows] |= (at < 0) | (at >= len(kind["symbols"]))
        elif name == "int":
            value = self._number(rows)
            self.is_bad[rows] |= (value < -(2**31)) | (value >= 2**31)
        elif name == "long":
            self._number(rows)
        elif name in ("string", "bytes"):
            self._advance(rows, self._number(rows))
        else:
            size = kind["size"] if name == "fixed" else _SIZES[name]
            self._advance(rows, np.full(len(rows), size, np.int64))
            if name == "boolean":
                rows = rows[~self.is_bad[rows]]
                self.is_bad[rows] |= self._data[self.at[rows] - 1] > 1

    def _resolved(self, kind: Any, space: str) -> tuple[Any, str]:
        """Return a union, or a type as an object, and the namespace within it."""
        while not isinstance(kind, list):  # ends: each round follows a name or opens an object
            if isinstance(kind, str):
                named = self._named.get(f"{space}.{kind}") or self._named.get(kind)
                if named is None:
                    return {"type": kind}, space
                return named
            if "name" in kind and isinstance(kind["type"], str) and kind["type"] in _NAMED:
                return kind, space_within(kind, space)
            if isinstance(kind["type"], str) and kind["type"] in (*_SIZES, *_SIMPLE, *_BLOCKS):
                return kind, space
            kind = kind["type"]
        return kind, space

    def _define(self, kind: Any, space: str) -> None:
        """Record the types that have a name."""
        if isinstance(kind, list):
            for member in kind:
                self._define(member, space)
        elif isinstance(kind, dict):
            if kind["type"] in _NAMED:
                full, space = full_name(kind, space), space_within(kind, space)
                self._named[full] = kind, space
            if kind["type"] == "array":
                self._elements.append((kind["items"], space))
            fields = (field["type"] for field in kind.get("fields", ()))
            self._define([kind.get("items"), kind.get("values"), *fields, kind["type"]], space)

    def _is_empty(self, kind: Any, space: str, within: tuple[str, ...] = ()) -> bool:
        """Return whether values of a type have no bytes.

        ``within``: the records that contain it.
        """
        kind, space = self._resolved(kind, space)
        if isinstance(kind, list):
            return False
        if kind["type"] in _RECORDS:
            name = full_name(kind, space)
            inner = (field["type"] for field in kind["fields"])
            return name not in within and all(
                self._is_empty(one, space, (*within, name)) for one in inner
            )
        return bool(kind["type"] == "null" or kind.get("size") == 0)

    def _skip_union(self, kinds: list[Any], rows: np.ndarray, space: str) -> None:
        branch = self._number(rows)
        self.is_bad[rows] |= (branch < 0) | (branch >= len(kinds))
        for k, kind in enumerate(kinds):
            self.skip(kind, rows[branch == k], space)

    def _skip_blocks(self, kind: Any, rows: np.ndarray, space: str) -> None:
        is_map = kind["type"] == "map"
        inner = kind["values" if is_map else "items"]
        is_empty = not is_map and self._is_empty(inner, space)
        while len(rows):  # ends: each round skips one or more bytes of each row
            rows, count = self._good(rows, self._number(rows))
            # A block with a negative count also has its size in bytes
            self._number(rows[count < 0])
            count = np.abs(count)
            if is_empty:
                most = ELEMENTS_WITHOUT_BYTES_MAX - self._without_bytes[rows]
            else:  # an element has one or more bytes
                most = self.ends[rows] - self.at[rows]
            self.is_bad[rows] |= (count < 0) | (count > most)
            rows, count = self._good(rows, count)
            if is_empty:
                self._without_bytes[rows] += count
            rows, count = rows[count > 0], count[count > 0]
            if not is_empty:
                self._skip_elements(inner, rows, count, space, is_map=is_map)
            rows = rows[~self.is_bad[rows]]

    def _skip_elements(
        self, inner: Any, rows: np.ndarray, count: np.ndarray, space: str, *, is_map: bool
    ) -> None:
        """Skip ``count`` elements in each of the rows.

        In a map, skip the key before each element.
        """
        kind, _ = self._resolved(inner, space)
        if not is_map and not isinstance(kind, list):
            name = kind["type"]
            if name == "long":
                self._skip_longs(rows, count)
                return
            if name == "fixed" or (name in _SIZES and name != "boolean"):
                self._advance(rows, count * (kind["size"] if name == "fixed" else _SIZES[name]))
                return
        k = 0
        while len(rows) > ONE_BY_ONE_MAX:  # ends: rows without further elements are removed
            if is_map:
                self._advance(rows, self._number(rows))
            self.skip(inner, rows, space)
            k += 1
            is_left = (count > k) & ~self.is_bad[rows]
            rows, count = rows[is_left], count[is_left]
        if len(rows):
            item = self._skips.entry(inner, space) if is_map else self._skips.of(inner, space)
            for row, left in zip(rows.tolist(), (count - k).tolist(), strict=True):
                self._skip_in_one(item, row, left)

    def _skip_longs(self, rows: np.ndarray, count: np.ndarray) -> None:
        """Skip numbers: each ends with the next byte below 128."""
        lasts, too_long = self._number_ends
        first = np.searchsorted(lasts, self.at[rows])
        last = first + count - 1
        is_bad = last >= len(lasts)
        last = np.minimum(last, len(lasts) - 1)
        is_bad |= lasts[last] >= self.ends[rows]
        is_bad |= lasts[first] - self.at[rows] >= _VARINT_BYTES_MAX
        is_bad |= too_long[last] > too_long[first]
        self.is_bad[rows] |= is_bad
        self.at[rows] = np.where(is_bad, self.at[rows], lasts[last] + 1)

    @cached_property
    def _number_ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Return each number's last byte, and how many numbers up to it are too long."""
        lasts = np.flatnonzero(self._data <= 0x7F)
        return lasts, np.cumsum(np.diff(lasts, prepend=-1) > _VARINT_BYTES_MAX)

    def _skip_in_one(self, item: Skip, row: int, count: int) -> None:
        without_bytes = int(self._without_bytes[row])
        one = OneRecord(
            self._bytes, int(self.at[row]), int(self.ends[row]), self._level, without_bytes
        )
        try:
            for _ in range(count):
                item(one)
        except Malformed:
            self.is_bad[row] = True
        self.at[row], self._without_bytes[row] = one.at, one.without_bytes

    def _good(self, rows: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        is_good = ~self.is_bad[rows]
        return rows[is_good], values[is_good]

    def _advance(self, rows: np.ndarray, lengths: np.ndarray) -> None:
        left = self.ends[rows] - self.at[rows]
        is_bad = (lengths < 0) | (lengths > left)
        self.is_bad[rows] |= is_bad
        self.at[rows] += np.where(is_bad, 0, lengths)

    def _number(self, rows: np.ndarray) -> np.ndarray:
        """Read a number in each of the rows, int64[n]; 0 where there is none."""
        value = np.zeros(len(rows), np.uint64)
        at = self.at[rows]
        goes_on = np.ones(len(rows), np.bool_)
        for k in range(_VARINT_BYTES_MAX):
            byte = self._data[np.minimum(at, len(self._data) - 1)]
            part = (byte & 0x7F).astype(np.uint64) << np.uint64(7 * k)
            value |= np.where(goes_on, part, np.uint64(0))
            at = at + goes_on
            goes_on &= byte > 0x7F
            if not goes_on.any():
                break
        is_bad = goes_on | (at > self.ends[rows])
        self.is_bad[rows] |= is_bad
        self.at[rows] = np.where(is_bad, self.at[rows], at)
        signed = (value >> np.uint64(1)).astype(np.int64) ^ -(value & np.uint64(1)).astype(np.int64)
        return np.where(is_bad, 0, signed)
