"""Mapped parts of a checkpoint whose bytes are verified when they are first read.

A restore maps its parts. To verify all bytes first takes time in proportion to the state, although
the first rows need little of it. So a part is divided into blocks. A reader calls
:meth:`Unverified.verify` before it reads rows of a batch, which verifies the blocks of these rows,
and a background thread verifies the rest.

Invariant: no byte of a part is used before its block was verified. A table whose reader does not
verify is verified as a whole before it is passed on.
"""

from __future__ import annotations

import bisect
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class _Part:
    """A mapped part. It stays mapped until all of it is verified."""

    data: pa.Buffer
    block_bytes: int
    #: Raises if a block (None: any) is damaged.
    check: Callable[[int | None], None]
    #: Which blocks are verified.
    done: np.ndarray

    def verify(self, first: np.ndarray, last: np.ndarray) -> None:
        """Verify the blocks with the bytes from ``first`` to ``last``, which are addresses."""
        low = (first - self.data.address) // self.block_bytes
        high = (last - self.data.address) // self.block_bytes
        needed = np.zeros(len(self.done), bool)
        needed[low] = needed[high] = True
        for k in np.flatnonzero(high - low > 1).tolist():
            needed[low[k] : high[k]] = True
        numbers = np.flatnonzero(needed & ~self.done).tolist()
        if 2 * len(numbers) > len(self.done):
            self.verify_all()
            return
        for number in numbers:
            self.check(number)  # without a lock: two threads may verify the same block
            self.done[number] = True

    def verify_all(self) -> None:
        """Verify all blocks together, which is faster than one by one."""
        self.check(None)
        self.done[:] = True


class EndOfName:
    """Contains all names of tables with this end, in any part of an operator's state."""

    def __init__(self, end: str) -> None:
        self._end = end

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.endswith(self._end)


class Unverified:
    """The parts that were not verified yet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: The address at which each part starts, sorted; and the parts by address.
        self._starts: list[int] = []
        self._parts: dict[int, _Part] = {}
        self._failure: Exception | None = None
        self._is_closed = False

    def __len__(self) -> int:
        """Return the number of blocks that were not verified."""
        with self._lock:
            return sum(int(np.count_nonzero(~part.done)) for part in self._parts.values())

    def add(self, data: pa.Buffer, block_bytes: int, check: Callable[[int | None], None]) -> None:
        """Add a part. ``check`` raises if the block with this number (None: any) is damaged."""
        blocks = -(-data.size // block_bytes)
        with self._lock:
            bisect.insort(self._starts, data.address)
            self._parts[data.address] = _Part(data, block_bytes, check, np.zeros(blocks, bool))

    def verify(self, batch: pa.RecordBatch, rows: np.ndarray | None = None) -> None:
        """Verify the blocks that contain these rows of the batch (None: all of its bytes).

        Raises as the checks of the parts.
        """
        if self._starts:
            for column in batch.columns:
                if rows is None:
                    self._verify_all_of(column)
                else:
                    self._verify_rows(column, rows)

    def verify_tables(self, tables: Mapping[str, pa.Table], reader: object) -> None:
        """Verify the tables that an operator loads.

        The attribute ``verified_when_read`` contains the names of tables that the operator itself
        verifies.
        """
        later = getattr(reader, "verified_when_read", ())
        for name, table in tables.items():
            if self._starts and name not in later:
                for batch in table.to_batches():
                    self.verify(batch)

    def verify_all(
        self, submit: Callable[[Callable[[], None]], object], after: Callable[[], None]
    ) -> None:
        """Verify all parts in the background, each in a task that ends with ``after``."""

        def task() -> None:
            with self._lock:
                if self._is_closed or not self._starts:
                    return
                start = self._starts[0]
                part = self._parts[start]
            try:
                part.verify_all()
            except Exception as error:  # the thread that reads the parts raises it
                self._failure = error
            else:
                with self._lock:
                    self._starts.remove(start)
                    del self._parts[start]
                submit(task)
            after()

        if self._starts:
            submit(task)

    def require_no_damage(self) -> None:
        """Raise what a check in the background raised."""
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Verify no further parts in the background."""
        self._is_closed = True

    def _verify_all_of(self, array: pa.Array) -> None:
        for buffer in array.buffers():
            if buffer is not None and buffer.size:
                bounds = np.array([buffer.address, buffer.address + buffer.size - 1])
                self._verify_bytes(bounds[:1], bounds[1:])

    def _verify_rows(self, array: pa.Array, rows: np.ndarray) -> None:
        kind, buffers, at = array.type, array.buffers(), rows + array.offset
        if pa.types.is_null(kind) or not len(at):
            return
        if buffers[0] is not None:
            self._verify_bytes(*_bits(buffers[0], at))
        if pa.types.is_boolean(kind):
            self._verify_bytes(*_bits(buffers[1], at))
        elif pa.types.is_primitive(kind):
            self._verify_bytes(*_items(buffers[1], at, kind.bit_width // 8))
        elif pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_list(kind):
            first, last = _items(buffers[1], at, 4)
            self._verify_bytes(first, last + 4)  # the next row's offset is the end
            offsets = np.frombuffer(buffers[1], np.int32)
            begin, count = offsets[at].astype(np.int64), offsets[at + 1] - offsets[at]
            if pa.types.is_list(kind):
                before = np.cumsum(count) - count
                children = np.repeat(begin - before, count) + np.arange(count.sum())
                self._verify_rows(array.values, children)
            elif (has := count > 0).any():
                first = buffers[2].address + begin[has]
                self._verify_bytes(first, first + count[has] - 1)
        else:
            self._verify_all_of(array)

    def _verify_bytes(self, first: np.ndarray, last: np.ndarray) -> None:
        """Verify bytes of one buffer, which is in one part or in none."""
        with self._lock:
            at = bisect.bisect_right(self._starts, int(first[0])) - 1
            part = self._parts[self._starts[at]] if at >= 0 else None
        if part is not None and first[0] < part.data.address + part.data.size:
            part.verify(first, last)


def _bits(buffer: pa.Buffer, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return (first := buffer.address + at // 8), first


def _items(buffer: pa.Buffer, at: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the addresses of the first and the last byte of items of this width."""
    first = buffer.address + at * width
    return first, first + (width - 1)
