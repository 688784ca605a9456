"""Moves operators' arrays from memory to mapped scratch files, without code in the operators.

Most operators keep arrays indexed by key code, and immutable Arrow data. If the memory budget is
exceeded, the vertex searches the attributes of its operators, writes large arrays to scratch,
largest first, and replaces each by its mapped copy. The operating system then keeps the pages in
use in memory and drops or writes back the others. An array that grows is in memory again until the
next search. An object with a :class:`~rvertex.state.memory.Holder` spills by itself and is skipped.
Adjacent batches of a queue are joined before they are written.

Invariants: (1) the mapped array has the same values, type and shape; (2) a writable array is moved
only if nothing else refers to it: no view, snapshot or local variable, which would not see later
writes; (3) Arrow data and read-only arrays never change, so other references may keep the original.
Python objects, such as the open keys of ``match``, are not moved. If they alone exceed the budget,
the vertex fails with an error instead of running out of memory.
"""

from __future__ import annotations

import sys
from collections import deque
from contextlib import suppress
from functools import cache, partial
from operator import itemgetter
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rstream.items.dictionaries import join_batches
from rvertex.events.reorder_buffer import SortedChunk
from rvertex.keys.key_index import KeyIndex
from rvertex.keys.key_table import KeyTable
from rvertex.state import memory as limits
from rvertex.state.errors import UnspillableStateError
from rvertex.state.memory import Holder, SpillsState, StateMemory, give_memory, held_bytes
from rvertex.state.scratch import Scratch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

#: Bytes of input after which the operators are searched.
LOOK_BYTES = 8 << 20
#: A call without rows counts as this many bytes of input, because it may emit rows.
_CALL_BYTES = 1 << 12
#: Python objects up to this size, in bytes, are allowed with any budget.
OBJECTS_BYTES_MIN = 256 << 20
#: In a longer queue, only a sample of the batches is measured.
_SAMPLE = 64
#: Longer lists and dictionaries are measured by a sample, and their contents are not moved.
_ITEMS_MAX = 1 << 10
_ARRAYS = (np.ndarray, pa.Array, pa.ChunkedArray, pa.RecordBatch, pa.Table)
_PLAIN = {int, float, bool, str, bytes, type(None)}


class _Place:
    """A reference of an operator to a value: an attribute, or an item of a list or dictionary."""

    __slots__ = ("get", "put")

    def __init__(self, get: Callable[[], Any], put: Callable[[Any], None]) -> None:
        self.get, self.put = get, put

    def item(self, at: int) -> _Place:
        """Return the reference to item ``at`` of the tuple at this place."""
        return _Place(lambda: self.get()[at], partial(self._put_item, at))

    def _put_item(self, at: int, value: Any) -> None:
        items = self.get()
        changed = [*items[:at], value, *items[at + 1 :]]
        self.put(items._make(changed) if hasattr(items, "_make") else tuple(changed))


def _references(place: _Place) -> int:
    """Count the references to the value at a place, including references of this call."""
    return sys.getrefcount(place.get())


def _own_references() -> int:
    """Return what :func:`_references` returns if only the owner refers to the value.

    It is measured, since versions of Python count the references of a call differently. 0: unknown.
    If a Python does not count the reference of a second owner, no writable array is moved.
    """
    owner = [object()]
    place = _Place(partial(owner.__getitem__, 0), partial(owner.__setitem__, 0))
    alone = _references(place)
    other = [owner[0]]
    shared = _references(place)
    return alone if shared == alone + len(other) else 0


_OWN_REFERENCES = _own_references()


class ArraySpill:
    """Spills the arrays of ``operators`` within the budget of ``memory``."""

    def __init__(self, operators: Sequence[object], memory: StateMemory) -> None:
        self._operators, self._memory = list(operators), memory
        #: Created only when there are bytes to count, because every holder reduces the others'
        #: shares.
        self._holder: Holder | None = None
        self._grown_bytes = 0
        looked = _Look(memory.scratch, ends_at=SpillsState)
        looked.through(self._operators)
        for operator in looked.ends:
            give_memory(operator, memory)

    def fit(self, grown_bytes: int) -> None:
        """Move arrays to scratch if the host's state exceeds the budget. Called between two steps.

        ``grown_bytes``: bytes of input since the last call.

        Raises:
            UnspillableStateError: objects that cannot be moved exceed the budget.
        """
        if self._memory.budget_bytes is None:
            return
        self._memory.drop_pages()
        self._grown_bytes += grown_bytes + _CALL_BYTES
        if self._grown_bytes < LOOK_BYTES:
            return
        self._grown_bytes = 0
        looked = _Look(self._memory.scratch)
        looked.through(self._operators)
        if self._holder is None:
            if looked.nbytes < limits.RUN_BYTES_MIN:
                return
            self._holder = self._memory.holder()
        self._holder.used_bytes, self._holder.keys = looked.nbytes, looked.keys
        self._check_objects(looked.object_bytes, self._memory.budget_bytes)
        movable: list[tuple[int, _Place | deque[Any]]] = [*looked.arrays, *looked.queues]
        for nbytes, place in sorted(movable, key=itemgetter(0), reverse=True):
            if nbytes < limits.RUN_BYTES_MIN or not self._holder.must_spill:
                return
            if self._move_queue(place) if isinstance(place, deque) else self._move(place):
                self._holder.used_bytes -= nbytes

    def _check_objects(self, nbytes: int, budget_bytes: int) -> None:
        if nbytes <= max(budget_bytes, OBJECTS_BYTES_MIN):
            return

        def objects_of(operator: object) -> int:
            looked = _Look(self._memory.scratch)
            looked.through([operator])
            return looked.object_bytes

        largest = max(self._operators, key=objects_of)
        name = type(largest).__name__.removesuffix("Operator")
        raise UnspillableStateError(name, nbytes, budget_bytes)

    def _move(self, place: _Place) -> bool:
        """Move an array to scratch, unless another reference would miss later writes."""
        is_shared = _references(place) > _OWN_REFERENCES
        value = place.get()
        if isinstance(value, np.ndarray):
            if value.flags.writeable and is_shared:
                return False
            place.put(self._memory.store_array(value))
        else:
            place.put(self._stored(value))
        return True

    def _move_queue(self, queue: deque[Any]) -> bool:
        """Move batches of a queue to scratch, joined to pieces; short pieces stay in memory."""
        moved: list[Any] = []
        group: list[Any] = []
        nbytes = 0
        for item in [*queue, None]:
            here = 0 if item is None else _memory_bytes(self._memory.scratch, _batch_of(item))
            if not here or nbytes >= limits.PIECE_BYTES_MAX:
                moved += self._joined(group) if nbytes >= limits.RUN_BYTES_MIN else group
                group, nbytes = [], 0
            if here:
                group.append(item)
                nbytes += here
            elif item is not None:
                moved.append(item)
        queue.clear()
        queue.extend(moved)
        return True

    def _joined(self, items: list[Any]) -> list[Any]:
        (stored,) = self._memory.store([join_batches([_batch_of(item) for item in items])])
        return [SortedChunk.of(stored) if isinstance(items[0], SortedChunk) else stored]

    def _stored(self, value: Any) -> Any:
        """Store Arrow data on scratch, and return it from there."""
        if isinstance(value, pa.Array):
            batch = pa.RecordBatch.from_arrays([value], names=["c"])
            return self._memory.store([batch])[0].column(0)
        if isinstance(value, pa.RecordBatch):
            return self._memory.store([value])[0]
        if isinstance(value, pa.ChunkedArray):
            return pa.chunked_array([self._stored(chunk) for chunk in value.chunks], value.type)
        batches = [self._stored(batch) for batch in value.to_batches() if batch.num_rows]
        return pa.Table.from_batches(batches, value.schema)


class _Look:
    """One search of operators: their bytes in memory, and the arrays that can be moved."""

    def __init__(self, scratch: Scratch, ends_at: type = Holder) -> None:
        """Make an empty search; objects of type ``ends_at`` are listed, but not entered."""
        self._scratch, self._ends_at = scratch, ends_at
        self._entered: set[int] = set()
        self.nbytes = self.keys = self.object_bytes = 0
        #: Per array: its bytes in memory, and its place.
        self.arrays: list[tuple[int, _Place]] = []
        #: Bytes in memory of each queue of batches.
        self.queues: list[tuple[int, deque[Any]]] = []
        self.ends: list[object] = []

    def through(self, operators: Sequence[object]) -> None:
        """Collect all arrays that operators refer to, directly or through other objects."""
        todo: list[tuple[object, _Place | None]] = [(operator, None) for operator in operators]
        while todo:  # ends: no object is entered twice
            value, place = todo.pop()
            if isinstance(value, _ARRAYS):
                if place is not None:
                    self._note(value, place)
            elif isinstance(value, deque):
                self._note_queue(value)
            elif isinstance(value, tuple):
                value = None  # drop the reference before references are counted
                if place is not None and _references(place) <= _OWN_REFERENCES:
                    todo += [(item, place.item(i)) for i, item in enumerate(place.get())]
            elif type(value) not in _PLAIN and id(value) not in self._entered:
                self._entered.add(id(value))
                # isinstance takes 0.1 ms if the result is False
                if issubclass(type(value), self._ends_at):
                    self.ends.append(value)
                else:
                    todo += self._inside(value)

    def _note(self, value: Any, place: _Place) -> None:
        nbytes = _memory_bytes(self._scratch, value)
        if not nbytes:
            return
        self.nbytes += nbytes
        is_movable = True
        if isinstance(value, np.ndarray):
            is_owner = value.base is None or not value.flags.writeable
            is_movable = is_owner and value.flags.c_contiguous and not value.dtype.hasobject
        if is_movable:
            self.arrays.append((nbytes, place))

    def _note_queue(self, queue: deque[Any]) -> None:
        if not queue or not isinstance(queue[0], pa.RecordBatch | SortedChunk):
            return
        some = list(queue)[:: max(len(queue) // _SAMPLE, 1)]
        nbytes = sum(_memory_bytes(self._scratch, _batch_of(item)) for item in some)
        nbytes = nbytes * len(queue) // len(some)
        if nbytes:
            self.nbytes += nbytes
            self.queues.append((nbytes, queue))

    def _inside(self, value: object) -> Iterator[tuple[object, _Place]]:
        if isinstance(value, list | dict):
            if len(value) > _ITEMS_MAX:
                object_bytes = held_bytes(value)
                self.nbytes += object_bytes
                self.object_bytes += object_bytes
                return
            keys = range(len(value)) if isinstance(value, list) else list(value)
            for key in keys:
                get, put = partial(value.__getitem__, key), partial(value.__setitem__, key)
                yield value[key], _Place(get, put)
        elif _is_state(value):
            attributes = list(_attributes(value))
            if not any(isinstance(attribute, Holder) for attribute, _ in attributes):
                if type(value).__module__.startswith("rvertex.operators."):
                    tables = (t for t, _ in attributes if isinstance(t, KeyTable | KeyIndex))
                    self.keys += sum(map(len, tables))
                yield from attributes


def _memory_bytes(scratch: Scratch, value: Any) -> int:
    """Return the bytes of the value that are not on scratch."""
    if isinstance(value, np.ndarray):
        address = int(value.__array_interface__["data"][0])
        return 0 if scratch.holds(address) else int(value.nbytes)
    if isinstance(value, pa.Array):
        buffers = [b.address for b in value.buffers() if b is not None and b.size]
        is_stored = all(map(scratch.holds, buffers))
        return 0 if is_stored else int(value.nbytes)
    parts = value.chunks if isinstance(value, pa.ChunkedArray) else value.columns
    return sum(_memory_bytes(scratch, part) for part in parts)


def _batch_of(item: pa.RecordBatch | SortedChunk) -> pa.RecordBatch:
    """Return the rows of an item of a queue."""
    return item.events if isinstance(item, SortedChunk) else item


def _is_state(value: object) -> bool:
    """Return whether the search enters an object: only objects of this project's classes.

    Objects of user code are not entered.
    """
    module = type(value).__module__
    is_own = module.startswith("rvertex.") and not module.startswith("rvertex.user_code.")
    return is_own and not isinstance(value, type | Holder | StateMemory | Scratch)


def _attributes(value: object) -> Iterator[tuple[object, _Place]]:
    """Yield the values in an object's slots and dictionary; properties are not called."""
    kind: type = type(value)
    for member in _members(kind):
        get, put = partial(member.__get__, value), partial(member.__set__, value)
        with suppress(AttributeError):  # the attribute was never set
            yield get(), _Place(get, put)
    if isinstance(attributes := getattr(value, "__dict__", None), dict):
        for name, attribute in list(attributes.items()):
            at = partial(attributes.__getitem__, name), partial(attributes.__setitem__, name)
            yield attribute, _Place(*at)


@cache
def _members(kind: type) -> tuple[MemberDescriptorType, ...]:
    """Return the slots of a class and of its bases."""
    members = (member for base in kind.__mro__ for member in vars(base).values())
    return tuple(member for member in members if isinstance(member, MemberDescriptorType))
