"""Skips values in one Avro record, a value at a time: for records with very many elements.

Skipping the same field of all records at once costs some calls of numpy per field. So a few records
whose arrays have many more elements than the others are skipped here. Both ways accept the same
bytes, as a test checks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from rvertex.sources.logs.decode.avro_schema import full_name

if TYPE_CHECKING:
    from collections.abc import Callable

    Skip: TypeAlias = Callable[["OneRecord"], None]

_MASK = (1 << 64) - 1
_LAST_SHIFT = 63


class Malformed(Exception):  # noqa: N818 - never seen by users
    """The bytes are no value of the type."""


class OneRecord:
    """A position in one record; ``data[at:end]`` has not been skipped yet."""

    __slots__ = ("at", "data", "end", "level", "without_bytes")

    def __init__(self, data: bytes, at: int, end: int, level: int, without_bytes: int) -> None:
        self.data, self.at, self.end, self.level = data, at, end, level
        #: Number of elements without bytes so far.
        self.without_bytes = without_bytes

    def number(self) -> int:
        """Read a number.

        Raises:
            Malformed: there is no number.
        """
        data, at = self.data, self.at
        value = shift = 0
        while True:  # ends: after ten bytes, or at the zeros after the last record
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte <= 0x7F:
                break
            if shift == _LAST_SHIFT:
                raise Malformed
            shift += 7
        if at > self.end:
            raise Malformed
        self.at = at
        value &= _MASK
        return (value >> 1) ^ -(value & 1)

    def advance(self, length: int) -> None:
        """Skip bytes.

        Raises:
            Malformed: the record has fewer bytes left.
        """
        if not 0 <= length <= self.end - self.at:
            raise Malformed
        self.at += length


class Skips:
    """Makes the functions that skip a value of a type."""

    def __init__(
        self,
        resolved: Callable[[Any, str], tuple[Any, str]],
        is_empty: Callable[[Any, str], bool],
        sizes: dict[str, int],
        levels_max: int,
        without_bytes_max: int,
    ) -> None:
        self._resolved, self._is_empty, self._sizes = resolved, is_empty, sizes
        self._levels_max, self._without_bytes_max = levels_max, without_bytes_max
        self._records: dict[str, list[Skip]] = {}

    def of(self, kind: Any, space: str) -> Skip:
        """Return a function that skips a value of this type, or raises :class:`Malformed`."""
        kind, space = self._resolved(kind, space)
        if isinstance(kind, list):
            return _branch([self.of(one, space) for one in kind])
        name = kind["type"]
        if name in ("record", "error"):
            return self._record(kind, space)
        if name in ("array", "map"):
            return self._blocks(kind, space)
        if name == "enum":
            return _between(0, len(kind["symbols"]))
        if name == "int":
            return _between(-(2**31), 2**31)
        if name == "long":
            return _between(-(2**63), 2**63)
        if name in ("string", "bytes"):
            return _text
        if name == "boolean":
            return _boolean
        size = int(kind["size"] if name == "fixed" else self._sizes[name])
        return lambda one: one.advance(size)

    def entry(self, kind: Any, space: str) -> Skip:
        """Return a function that skips an entry of a map: its key, then its value."""
        value = self.of(kind, space)

        def skip(one: OneRecord) -> None:
            _text(one)
            value(one)

        return skip

    def _record(self, kind: Any, space: str) -> Skip:
        name = full_name(kind, space)
        fields = self._records.get(name)
        if fields is None:
            # Register it before its fields, since a field may contain the record itself
            fields = self._records[name] = []
            fields += [self.of(field["type"], space) for field in kind["fields"]]
        levels_max = self._levels_max

        def skip(one: OneRecord) -> None:
            one.level += 1
            if one.level > levels_max:
                raise Malformed
            for field in fields:
                field(one)
            one.level -= 1

        return skip

    def _blocks(self, kind: Any, space: str) -> Skip:
        is_map = kind["type"] == "map"
        inner = kind["values" if is_map else "items"]
        if not is_map and self._is_empty(inner, space):
            return self._blocks_without_bytes
        item = self.entry(inner, space) if is_map else self.of(inner, space)

        def skip(one: OneRecord) -> None:
            while count := _count(one):  # ends: each round skips one or more bytes
                if count > one.end - one.at:
                    raise Malformed
                for _ in range(count):
                    item(one)

        return skip

    def _blocks_without_bytes(self, one: OneRecord) -> None:
        while count := _count(one):  # ends: each round skips one or more bytes
            one.without_bytes += count
            if one.without_bytes > self._without_bytes_max:
                raise Malformed


def _count(one: OneRecord) -> int:
    """Return the number of elements of the next block; 0 after the last block."""
    count = one.number()
    if count < 0:
        one.number()  # a block with a negative count also has its size in bytes
        count = -count
        if count == 1 << 63:
            raise Malformed
    return count


def _branch(branches: list[Skip]) -> Skip:
    def skip(one: OneRecord) -> None:
        k = one.number()
        if not 0 <= k < len(branches):
            raise Malformed
        branches[k](one)

    return skip


def _between(low: int, high: int) -> Skip:
    def skip(one: OneRecord) -> None:
        if not low <= one.number() < high:
            raise Malformed

    return skip


def _text(one: OneRecord) -> None:
    one.advance(one.number())


def _boolean(one: OneRecord) -> None:
    one.advance(1)
    if one.data[one.at - 1] > 1:
        raise Malformed
