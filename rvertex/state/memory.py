"""The memory budget for the state of one host's vertices, and how much each operator uses.

Every operator that can spill is a *holder*. A holder reports its bytes after it has grown. It must
spill when all holders together exceed the budget and it has more than an equal share. So a busy
operator may use the share of an idle one, and no operator is starved by its neighbours.

When a holder spills depends on the budget, on the neighbours and on how the input was cut. What it
emits must not: memory and disk are two places for the same rows.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from rvertex.state.scratch import Scratch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.messages import Memory

#: Rows are gathered up to this much, however small the budget is, before they are written.
RUN_BYTES_MIN = 4 << 20
#: What is read or written at once where there is no budget.
UNLIMITED_RUN_BYTES = 256 << 20
#: So large a part of its share a holder gathers before it writes a run.
_RUNS_PER_SHARE = 4
#: Items of a longer list or dictionary are measured by a sample.
_SAMPLE = 64
_OBJECT_BYTES = 64


class StateMemory:
    """The budget of one host, which all its vertices share, or the part that one vertex uses."""

    def __init__(
        self,
        budget_bytes: int | None,
        scratch: Scratch | None = None,
        host: StateMemory | None = None,
    ) -> None:
        """``budget_bytes`` None: nothing is ever spilled. ``host``: of the vertex."""
        self.budget_bytes = budget_bytes
        self.scratch = scratch or Scratch()
        self.host = host or self
        #: Files and bytes written to scratch so far.
        self.spills = self.spilled_bytes = 0
        #: What all holders take in memory.
        self.used_bytes = 0
        self._holders = 0
        # The collector may end a holder at any place of the thread that has the lock.
        self._lock = threading.RLock()

    def holder(self) -> Holder:
        """A new holder, which counts until it is garbage."""
        self.add(0, holders=1)
        return Holder(self)

    def of_vertex(self) -> StateMemory:
        """The same budget, with separate counts."""
        return StateMemory(self.budget_bytes, self.scratch, self.host)

    def add(self, nbytes: int, holders: int = 0) -> None:
        """Add to what all holders take; only holders call this."""
        with self._lock:
            self.used_bytes += nbytes
            self._holders += holders
        if self.host is not self:
            self.host.add(nbytes, holders)

    def store(self, batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """The same batches on scratch. Raises as :meth:`rvertex.state.scratch.Scratch.store`."""
        stored = self.scratch.store(batches)
        self.spills += 1
        self.spilled_bytes += sum(batch.nbytes for batch in stored)
        return stored

    def store_array(self, array: np.ndarray) -> np.ndarray:
        """The same array on scratch. Raises as :meth:`rvertex.state.scratch.Scratch.store`."""
        stored = self.scratch.store_array(array)
        self.spills += 1
        self.spilled_bytes += stored.nbytes
        return stored

    def placed(self, part: bytes | pa.Buffer, total_bytes: int) -> bytes | pa.Buffer:
        """A part of a state of ``total_bytes``: on scratch if that exceeds the budget."""
        if isinstance(part, pa.Buffer) or not self._exceeds(total_bytes):
            return part
        return self.scratch.store_bytes(part)

    def mapped(self, path: str, total_bytes: int) -> pa.Buffer | None:
        """A file with a part of a state of ``total_bytes``, mapped if that exceeds the budget."""
        return self.scratch.map_file(path) if self._exceeds(total_bytes) else None

    def _exceeds(self, total_bytes: int) -> bool:
        return self.budget_bytes is not None and total_bytes > self.budget_bytes

    def added_to(self, memory: Memory) -> Memory:
        """What a host reports, with what its state takes."""
        return replace(
            memory,
            state_bytes=self.used_bytes,
            state_budget_bytes=self.budget_bytes or 0,
            spilled_bytes=self.scratch.used_bytes,
            spilled_files=self.scratch.files,
        )

    @property
    def share_bytes(self) -> int:
        """What each holder may always keep."""
        assert self.budget_bytes is not None
        return self.budget_bytes // max(self._holders, 1)


class Holder:
    """One operator's part of the memory; the operator sets ``used_bytes``."""

    __slots__ = ("_memory", "_used_bytes")

    def __init__(self, memory: StateMemory) -> None:
        self._memory = memory
        self._used_bytes = 0

    def __del__(self) -> None:
        self._memory.add(-self._used_bytes, holders=-1)

    @property
    def used_bytes(self) -> int:
        """What the operator takes in memory."""
        return self._used_bytes

    @used_bytes.setter
    def used_bytes(self, nbytes: int) -> None:
        if nbytes != self._used_bytes:
            self._memory.add(nbytes - self._used_bytes)
            self._used_bytes = nbytes

    @property
    def may_spill(self) -> bool:
        """Whether there is a budget at all."""
        return self._memory.budget_bytes is not None

    @property
    def must_spill(self) -> bool:
        """Whether this holder has to let go of memory."""
        host = self._memory.host
        if host.budget_bytes is None or host.used_bytes <= host.budget_bytes:
            return False
        return self.used_bytes > host.share_bytes

    @property
    def run_bytes(self) -> int:
        """How much to gather before it is written as one run."""
        if not self.may_spill:
            return UNLIMITED_RUN_BYTES
        return max(self._memory.host.share_bytes // _RUNS_PER_SHARE, RUN_BYTES_MIN)

    @property
    def run_bytes_min(self) -> int:
        """Smaller runs are not worth a file."""
        return RUN_BYTES_MIN

    def store(self, batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """The same batches on scratch. Raises as :meth:`rvertex.state.scratch.Scratch.store`."""
        return self._memory.store(batches)

    def is_stored(self, batch: pa.RecordBatch) -> bool:
        """Whether the bytes of a batch with columns are on scratch."""
        buffers = [b for column in batch.columns for b in column.buffers() if b is not None]
        return all(self._memory.scratch.holds(b.address) for b in buffers if b.size)


#: For operators outside of a host: nothing is spilled.
UNLIMITED = StateMemory(None)


@runtime_checkable
class SpillsState(Protocol):
    """An operator whose state may be larger than memory."""

    def use_memory(self, memory: StateMemory) -> None:
        """Keep to its budget; called once, before the first row."""


def give_memory(operator: object, memory: StateMemory) -> None:
    """Let an operator share the budget, if it can spill."""
    if isinstance(operator, SpillsState):
        operator.use_memory(memory)


def held_bytes(*roots: object) -> int:
    """About what objects take, with all that they refer to; exact for arrays, sampled for lists.

    What two of them share counts twice.
    """
    return sum(_bytes_of(root) for root in roots)


def _bytes_of(held: Any) -> int:
    if isinstance(held, np.ndarray | pa.Array | pa.ChunkedArray | pa.RecordBatch | pa.Table):
        return int(held.nbytes)
    if isinstance(held, str | bytes):
        return _OBJECT_BYTES + len(held)
    if isinstance(held, dict):
        return _sampled(list(held.values())) + _sampled(list(held))
    if isinstance(held, list | tuple | set | frozenset):
        return _sampled(list(held))
    inside = getattr(held, "__dict__", None)
    if type(held).__module__.startswith("rvertex.") and inside is not None:
        return sum(map(_bytes_of, inside.values()))
    return _OBJECT_BYTES


def _sampled(items: list[Any]) -> int:
    if len(items) <= _SAMPLE:
        return sum(map(_bytes_of, items))
    return sum(map(_bytes_of, items[:: len(items) // _SAMPLE])) * len(items) // _SAMPLE
