"""Mapped parts of a checkpoint whose bytes are verified when they are first read.

A restore maps its parts. To verify all bytes first takes time in proportion to the state, although
the first rows need little of it. So a reader calls :meth:`Unverified.verify` before it reads a
batch, and a background thread verifies the rest.

Invariant: no value of a part is used before the whole part was verified. A table whose reader does
not verify is verified as a whole before it is passed on.
"""

from __future__ import annotations

import bisect
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa


class Unverified:
    """The parts that were not verified yet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: The address at which each part starts, sorted; by address the part and its check.
        self._starts: list[int] = []
        self._parts: dict[int, tuple[pa.Buffer, Callable[[], None]]] = {}
        self._failure: Exception | None = None
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._parts)

    def add(self, data: pa.Buffer, check: Callable[[], None]) -> None:
        """Add a part. ``check`` raises if its bytes are damaged."""
        with self._lock:
            bisect.insort(self._starts, data.address)
            self._parts[data.address] = data, check  # the part stays mapped until it is verified

    def verify(self, batch: pa.RecordBatch) -> None:
        """Verify the parts that contain data of the batch. Raises as their checks."""
        if self._starts:
            for start in {self._start_of(address) for address in _addresses(batch)}:
                self._check(start)

    def verify_tables(self, tables: Mapping[str, pa.Table], reader: object) -> None:
        """Verify the tables that an operator loads.

        The attribute ``verified_when_read`` names tables that the operator itself verifies.
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
                start = None if self._is_closed or not self._starts else self._starts[0]
            if start is None:
                return
            try:
                self._check(start)
            except Exception as error:  # the thread that reads the parts raises it
                self._failure = error
            else:
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

    def _start_of(self, address: int) -> int | None:
        """Where the part with this address starts; None if it is in no part."""
        with self._lock:
            at = bisect.bisect_right(self._starts, address) - 1
            if at < 0:
                return None
            start = self._starts[at]
            return start if address < start + self._parts[start][0].size else None

    def _check(self, start: int | None) -> None:
        if start is None or (part := self._parts.get(start)) is None:
            return
        _, check = part
        check()  # without the lock: two threads may verify the same part
        with self._lock:
            if self._parts.pop(start, None) is not None:
                del self._starts[bisect.bisect_left(self._starts, start)]


def _addresses(batch: pa.RecordBatch) -> Iterator[int]:
    for column in batch.columns:
        for buffer in column.buffers():
            if buffer is not None and buffer.size:
                yield int(buffer.address)
