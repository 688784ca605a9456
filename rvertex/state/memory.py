"""The memory budget for the state of one host's vertices, and how much each operator uses.

Every operator that can spill is a *holder*. A holder reports its bytes after it has grown. It must
spill when all holders together exceed the budget and it uses more than an equal share. So a busy
operator may use the share of an idle operator, and none is starved by the others.

When a holder spills depends on the budget, on the other holders and on the input's batch
boundaries. Its output must not depend on any of them.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import pyarrow as pa

from rstream.items.dictionaries import join_batches
from rstream.types import implements
from rvertex.state.scratch import Scratch, Usage
from rvertex.state.unverified import Unverified

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rvertex.messages import Memory

T = TypeVar("T")

#: Bytes of rows that are gathered before they are written, even if the budget is smaller.
RUN_BYTES_MIN = 4 << 20
#: Bytes that are read or written at once if there is no budget.
UNLIMITED_RUN_BYTES = 256 << 20
#: Bytes of rows that are sorted or emitted at once. Sorting needs about three times as much memory.
PIECE_BYTES_MAX = 16 << 20
#: Memory that a step needs besides the state: its batch, the rows that it sorts, a piece of output.
#: This much of a budget is kept free, but at most 1 / _WORK_PART of it.
WORK_BYTES, _WORK_PART = 192 << 20, 4
#: Mapped pages may use 1 / _PAGES_PART of a budget. They are dropped when they fill half of that,
#: at least PAGES_BYTES_MIN, because a single read may map as much again.
_PAGES_PART, PAGES_BYTES_MIN = 8, 16 << 20
#: Bytes that the system maps around a short slice: it maps aligned parts of 64 KiB.
_AROUND_BYTES = 128 << 10
#: Bytes that are mapped at once when slices are joined.
_JOINED_BYTES = 8 << 20
#: The process returns freed memory to the operating system each time this many bytes were freed.
GIVE_BACK_BYTES = 32 << 20
#: Closing state into one table takes about this many times its memory.
_CLOSING_COPIES = 3
#: A holder gathers 1 / _RUNS_PER_SHARE of its share before it writes a run.
_RUNS_PER_SHARE = 4
#: Longer lists and dictionaries are measured by a sample of this many items.
_SAMPLE = 64
_OBJECT_BYTES = 64
#: Bytes of a list item that is a number and not shared with other objects.
_ITEM_BYTES = 40
_ARRAYS = (np.ndarray, pa.Array, pa.ChunkedArray, pa.RecordBatch, pa.Table)
#: Types of most objects in state. Comparing types is ten times as fast as isinstance.
_NUMBERS = {int, float, bool, type(None)}


class StateMemory:
    """The budget of one host, shared by its vertices, or the part of it that one vertex uses."""

    def __init__(
        self,
        budget_bytes: int | None,
        scratch: Scratch | None = None,
        host: StateMemory | None = None,
    ) -> None:
        """Share ``budget_bytes`` (None: never spill); ``host``: for a vertex, its host's memory."""
        self.budget_bytes = budget_bytes
        self.scratch = scratch or Scratch()
        self.host = host or self
        #: Parts of the restored checkpoint that are verified when they are read.
        self.unverified = Unverified()
        #: Files and bytes written to scratch so far.
        self.spills = self.spilled_bytes = 0
        #: Bytes that all holders have in memory, and their number of keys, including keys on
        #: scratch.
        self.used_bytes = self.keys = 0
        #: The files on scratch that are in use.
        self.stored = Usage()
        self._holders = 0
        #: Bytes freed since memory was last returned to the operating system.
        self._freed_bytes = 0
        # Reentrant: Python's collector may delete a holder, which takes the lock, in a thread that
        # already has the lock.
        self._lock = threading.RLock()

    def holder(self) -> Holder:
        """Return a new holder. Its bytes count until it is garbage-collected."""
        self.add(0, holders=1)
        return Holder(self)

    def of_vertex(self) -> StateMemory:
        """Return a memory for one vertex: it shares the host's budget, with separate counts."""
        return StateMemory(self.budget_bytes, self.scratch, self.host)

    def add(self, nbytes: int, holders: int = 0, keys: int = 0) -> None:
        """Change the totals of bytes and keys by these numbers. Only holders call this."""
        with self._lock:
            self.used_bytes += nbytes
            self._holders += holders
            self.keys += keys
        if self.host is not self:
            self.host.add(nbytes, holders, keys)

    def store(self, batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """Return the same batches on scratch.

        Raises as :meth:`~rvertex.state.scratch.Scratch.store`.
        """
        stored = self.scratch.store(batches, self.stored)
        self.spills += 1
        nbytes = sum(batch.nbytes for batch in batches)
        self.spilled_bytes += nbytes
        self.drop_pages()
        self.host.note_freed(nbytes)
        return stored

    def store_array(self, array: np.ndarray) -> np.ndarray:
        """Return the same array on scratch.

        Raises as :meth:`rvertex.state.scratch.Scratch.store`.
        """
        stored = self.scratch.store_array(array, self.stored)
        self.spills += 1
        self.spilled_bytes += stored.nbytes
        return stored

    def note_freed(self, nbytes: int) -> None:
        """Count freed bytes; once they are many, return them to the system.

        Allocators would keep them. To sort and to write rows frees about as much as was stored.
        """
        self._freed_bytes += nbytes
        if self._freed_bytes >= GIVE_BACK_BYTES:
            self._freed_bytes = 0
            give_back()

    def drop_pages(self) -> None:
        """Drop mapped pages of scratch files beyond their part of the budget."""
        if (budget := self.host.budget_bytes) is not None:
            self.scratch.drop_pages(max(budget // _PAGES_PART // 2, PAGES_BYTES_MIN))

    def placed(self, part: bytes | pa.Buffer, total_bytes: int) -> bytes | pa.Buffer:
        """Return a part of a state; on scratch if the state's ``total_bytes`` exceed the budget."""
        self.drop_pages()  # the pages of the part were read when it was checked
        if isinstance(part, pa.Buffer) or not self._exceeds(total_bytes):
            return part
        return self.scratch.store_bytes(part, self.stored)

    def mapped(self, path: str, total_bytes: int) -> pa.Buffer | None:
        """Map a file with a part of a state; None if the state's ``total_bytes`` are in budget."""
        is_over = self._exceeds(total_bytes)
        return self.scratch.map_file(path, self.stored) if is_over else None

    def _exceeds(self, total_bytes: int) -> bool:
        return self.budget_bytes is not None and total_bytes > self.budget_bytes

    def added_to(self, memory: Memory) -> Memory:
        """Return the memory that a host reports, with the bytes of its state added."""
        return replace(
            memory,
            state_bytes=self.used_bytes,
            state_budget_bytes=self.budget_bytes or 0,
            spilled_bytes=self.scratch.used_bytes,
            spilled_files=self.scratch.files,
        )

    @property
    def share_bytes(self) -> int:
        """Bytes that each holder may keep without spilling."""
        assert self.budget_bytes is not None
        return self.limit_bytes // max(self._holders, 1)

    @property
    def limit_bytes(self) -> int:
        """Bytes of state at which holders begin to spill: the budget minus work and pages."""
        budget = self.budget_bytes
        assert budget is not None
        return budget - min(budget // _WORK_PART, WORK_BYTES) - budget // _PAGES_PART


class Holder:
    """The memory of one operator, which sets ``used_bytes`` and ``keys``."""

    __slots__ = ("_keys", "_memory", "_used_bytes")

    def __init__(self, memory: StateMemory) -> None:
        self._memory = memory
        self._used_bytes = self._keys = 0

    def __del__(self) -> None:
        self._memory.add(-self._used_bytes, holders=-1, keys=-self._keys)

    @property
    def keys(self) -> int:
        """Number of keys of the operator, in memory and on scratch."""
        return self._keys

    @keys.setter
    def keys(self, keys: int) -> None:
        if keys != self._keys:
            self._memory.add(0, keys=keys - self._keys)
            self._keys = keys

    @property
    def used_bytes(self) -> int:
        """Bytes of the operator's state in memory."""
        return self._used_bytes

    @used_bytes.setter
    def used_bytes(self, nbytes: int) -> None:
        if nbytes != self._used_bytes:
            self._memory.add(nbytes - self._used_bytes)
            self._used_bytes = nbytes

    @property
    def may_spill(self) -> bool:
        """Whether the host has a memory budget."""
        return self._memory.budget_bytes is not None

    @property
    def must_spill(self) -> bool:
        """Whether this holder must spill: the budget is exceeded, and it is over its share."""
        return self.is_crowded and self.used_bytes > self._memory.host.share_bytes

    @property
    def is_crowded(self) -> bool:
        """Whether all holders together exceed the budget."""
        host = self._memory.host
        return host.budget_bytes is not None and host.used_bytes > host.limit_bytes

    @property
    def run_bytes(self) -> int:
        """Bytes of rows that are gathered before they are written as one run."""
        if not self.may_spill:
            return UNLIMITED_RUN_BYTES
        return max(self._memory.host.share_bytes // _RUNS_PER_SHARE, RUN_BYTES_MIN)

    @property
    def piece_bytes(self) -> int:
        """Bytes of rows that are sorted or emitted at once."""
        return min(self.run_bytes, PIECE_BYTES_MAX)

    @property
    def closes_in_pieces(self) -> bool:
        """Whether one table of all the holder's data would exceed the budget."""
        budget = self._memory.host.budget_bytes
        return budget is not None and _CLOSING_COPIES * self.used_bytes > budget

    def read_once(self, parts: Iterable[T]) -> Iterator[T]:
        """Yield parts that may be on scratch, each to be used once.

        Pages of a part may be dropped when the next part is read.
        """
        for part in parts:
            yield part
            self._memory.drop_pages()

    def joined(self, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        """Join one or more batches, which may be slices on scratch, into one.

        Short slices of many files map far more than their size, so pages are dropped between
        groups.
        """
        if not self.may_spill:
            return join_batches(batches)
        groups = self.read_once(_mapped_together(batches))
        return join_batches([join_batches(group) for group in groups])

    @property
    def run_bytes_min(self) -> int:
        """Bytes of the smallest run that is written to a file."""
        return RUN_BYTES_MIN

    def store(self, batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """Return the same batches on scratch.

        Raises as :meth:`~rvertex.state.scratch.Scratch.store`.
        """
        return self._memory.store(batches)

    def store_array(self, array: np.ndarray) -> np.ndarray:
        """Return the same array on scratch. Raises as :meth:`store`."""
        return self._memory.store_array(array)

    def note_freed(self, nbytes: int) -> None:
        """See :meth:`StateMemory.note_freed`."""
        self._memory.host.note_freed(nbytes)

    def verify(self, batch: pa.RecordBatch, rows: np.ndarray | None = None) -> None:
        """Verify the bytes of these rows (None: all), before they are read."""
        self._memory.unverified.verify(batch, rows)

    def is_stored(self, batch: pa.RecordBatch) -> bool:
        """Return whether the bytes of a batch, which has columns, are on scratch."""
        buffers = [b for column in batch.columns for b in column.buffers() if b is not None]
        return all(self._memory.scratch.holds(b.address) for b in buffers if b.size)


def _mapped_together(batches: Sequence[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Divide the batches into groups such that reading one maps about _JOINED_BYTES."""
    group: list[pa.RecordBatch] = []
    mapped = 0
    for batch in batches:
        group.append(batch)
        mapped += int(batch.nbytes) + _AROUND_BYTES * int(batch.num_columns)
        if mapped > _JOINED_BYTES:
            yield group
            group, mapped = [], 0
    if group:
        yield group


def give_back() -> None:
    """Return unused memory to the system; takes milliseconds."""
    pa.default_memory_pool().release_unused()
    with contextlib.suppress(AttributeError):  # only glibc has malloc_trim
        ctypes.CDLL(None).malloc_trim(0)


#: For operators outside of a host: nothing is spilled.
UNLIMITED = StateMemory(None)


@runtime_checkable
class SpillsState(Protocol):
    """An operator whose state may be larger than memory."""

    def use_memory(self, memory: StateMemory) -> None:
        """Use this budget. Called once, before the first row."""


def give_memory(operator: object, memory: StateMemory) -> None:
    """Pass the budget to an operator if it can spill."""
    if implements(operator, SpillsState):
        operator.use_memory(memory)


def held_bytes(*roots: object) -> int:
    """Estimate the bytes of objects and of everything they refer to.

    Arrays are counted exactly, long lists and dictionaries are sampled. An object that two roots
    share counts twice.
    """
    return _all_bytes(roots)


def _all_bytes(items: Iterable[Any]) -> int:
    """Return the bytes of objects.

    Most common types are counted here, without a call for each object.
    """
    total = 0
    for held in items:
        kind = type(held)
        if kind in _NUMBERS:
            total += _OBJECT_BYTES
        elif kind is np.ndarray:
            total += held.nbytes
        else:
            total += _bytes_of(held, kind)
    return total


def _bytes_of(held: Any, kind: type) -> int:
    if isinstance(held, _ARRAYS):
        return int(held.nbytes)
    if isinstance(held, (str, bytes)):
        return _OBJECT_BYTES + len(held)
    if isinstance(held, dict):
        return _sampled(list(held.values())) + _sampled(list(held))
    if isinstance(held, (list, tuple, set, frozenset, deque)):
        return _sampled(list(held))
    inside = getattr(held, "__dict__", None)
    if kind.__module__.startswith("rvertex."):
        if inside is not None:
            return _all_bytes(inside.values())
        slots = [getattr(held, name, None) for name in getattr(held, "__slots__", ())]
        lists = [value for value in slots if type(value) is list]
        return _OBJECT_BYTES * (1 + len(lists)) + _ITEM_BYTES * (len(slots) + sum(map(len, lists)))
    return _OBJECT_BYTES


def _sampled(items: list[Any]) -> int:
    if len(items) <= _SAMPLE:
        return _all_bytes(items)
    return _all_bytes(items[:: len(items) // _SAMPLE]) * len(items) // _SAMPLE
