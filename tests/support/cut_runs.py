"""Runs an operator over a merged sequence that is cut into pieces."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgpack
import numpy as np
import pyarrow as pa

from rstream.items.batch import VS, int64_column
from rvertex.events.run import Run
from rvertex.operators.protocol import Operator, OperatorSpec, OperatorState
from rvertex.state.array_spill import ArraySpill
from rvertex.state.memory import UNLIMITED, StateMemory

if TYPE_CHECKING:
    from collections.abc import Sequence

Ports = list[Run]


@dataclass(frozen=True, slots=True)
class MergedOrder:
    """The position of every item of the ports in the merged sequence.

    ``port`` int64[n]: the port of item i, or -1 for a CTI; ``times`` int64[n], sorted. A prefix of
    the merged sequence is a prefix of each port's events and of the CTIs: ``before`` has the number
    of CTIs, and of events of each port, before item i, for i in [0, n].
    """

    port: np.ndarray
    times: np.ndarray
    before: list[list[int]]

    def __len__(self) -> int:
        return len(self.port)

    def piece(self, inputs: Sequence[Run], lo: int, hi: int) -> Ports:
        """Items ``[lo, hi)`` of the merged sequence as one run per port."""
        (cti_lo, *firsts), (cti_hi, *ends) = self.before[lo], self.before[hi]
        ctis = slice(cti_lo, cti_hi)
        return [
            Run(run.events.slice(first, end - first), run.ctis[ctis])
            for run, first, end in zip(inputs, firsts, ends, strict=True)
        ]


def merged_order(inputs: Sequence[Run]) -> MergedOrder:
    """The merged sequence: by time, a CTI before the events of its time, then by port and row."""
    times = [inputs[0].ctis, *(int64_column(run.events, VS) for run in inputs)]
    port = np.concatenate([np.full(len(t), p - 1) for p, t in enumerate(times)])
    time = np.concatenate(times)
    order = np.lexsort((port, time))
    is_of = port[order][:, None] == np.arange(-1, len(inputs))
    before = np.concatenate([np.zeros((1, len(inputs) + 1), int), np.cumsum(is_of, axis=0)])
    return MergedOrder(port[order], time[order], before.tolist())


def run_cut(
    spec: OperatorSpec,
    inputs: Sequence[Run],
    schemas: Sequence[pa.Schema],
    splits: Sequence[int],
    *,
    restore: bool = False,
    budget_bytes: int | None = None,
) -> list[Run]:
    """Return an operator's output for the merged sequence, cut at ``splits``: one run per piece.

    ``restore``: between any two pieces, a new operator is loaded from the snapshot.
    ``budget_bytes``: the memory limit of its state.
    """
    order = merged_order(inputs)
    cuts = [0, *sorted({s for s in splits if 0 < s < len(order)}), len(order)]
    memory = StateMemory(budget_bytes)
    operator = spec.open(schemas)
    arrays = ArraySpill([operator], memory)
    outputs: list[Run] = []
    for lo, hi in itertools.pairwise(cuts):
        if restore:
            state = through_bytes(operator.snapshot(), memory)
            operator = spec.open(schemas)
            arrays = ArraySpill([operator], memory)  # before loading, as in a vertex
            operator.load(state)
        arrays.fit(0)
        outputs.append(operator.process(order.piece(inputs, lo, hi)))
    return outputs


def reopened(
    spec: OperatorSpec,
    schemas: Sequence[pa.Schema],
    state: OperatorState,
) -> Operator:
    """Return a new operator that is loaded from ``state``, serialised as in a checkpoint."""
    operator = spec.open(schemas)
    operator.load(through_bytes(state))
    return operator


def through_bytes(state: OperatorState, memory: StateMemory = UNLIMITED) -> OperatorState:
    """Return the state as a checkpoint restores it.

    Beyond the budget of ``memory``, its tables are mapped, each as one batch.
    """
    header = msgpack.unpackb(msgpack.packb(state.header), strict_map_key=False)
    nbytes = sum(table.nbytes for table in state.tables.values())
    tables = {}
    for name, table in state.tables.items():
        is_mapped = memory.budget_bytes is not None and nbytes > memory.budget_bytes
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table.combine_chunks() if is_mapped else table)
        data = sink.getvalue()
        if is_mapped and len(table):
            data = memory.placed(data.to_pybytes(), nbytes)
        tables[name] = pa.ipc.open_stream(data).read_all()
    return OperatorState(header, tables)
