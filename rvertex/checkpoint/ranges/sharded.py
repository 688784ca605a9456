"""SHARDED: one vertex that works for several ranges of slots, with separate operators for each.

A vertex that takes over the work of others continues each of their states separately. A *shard* is
a chain of operators with the state of one range. A row goes to the shard of its slot, a CTI
(watermark) goes to all shards. The outputs of the shards are merged by time, as MERGE does it. So a
shard that delays its rows delays the other shards' output too. A vertex without a range only
forwards CTIs.

Invariants: (1) states of shards are never mixed, so shards need not have reached the same time; (2)
the output is ordered by time and continues after ``after``, the last CTI already in this vertex's
stream.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from rstream.items.batch import CTI, Items, event_schema
from rstream.items.hashing import slots_of
from rstream.types import MIN_TIME
from rvertex.events.arrays import as_one_array
from rvertex.events.run import Run, growing, to_items
from rvertex.events.side_output import HasSideOutputs, SideOutput, side_outputs_of
from rvertex.operators.composite_state import joined_states, part_state
from rvertex.operators.protocol import Operator, OperatorState, held_tables
from rvertex.state.memory import StateMemory, give_memory
from rvertex.vertex.merge import Merge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.checkpoint.ranges.columns import Keys
    from rvertex.operators.protocol import OperatorSpec

_ROWS_MAX = 1 << 62


@dataclass(frozen=True, slots=True)
class Sharded:
    """Runs ``chain`` once per range. ``keys``: per port, the columns whose hash is the slot.

    Without key columns rows may go to any shard. The first shard gets them: it has the earliest
    time.
    """

    holds_ctis: ClassVar[bool] = True

    chain: tuple[OperatorSpec, ...]
    keys: Keys
    ranges: tuple[tuple[int, int], ...]

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Return the output schema of the chain."""
        for spec in self.chain:
            inputs = [spec.output_schema(inputs)]
        return inputs[0]

    def side_outputs(self, inputs: Sequence[pa.Schema]) -> tuple[SideOutput, ...]:
        """Return the side outputs of the chain."""
        outputs: list[SideOutput] = []
        for spec in self.chain:
            outputs += side_outputs_of(spec, inputs)
            inputs = [spec.output_schema(inputs)]
        return tuple(outputs)

    def open(self, inputs: Sequence[pa.Schema]) -> Shards:
        """Return all shards in their initial state."""
        return Shards(self, inputs)

    def beginning(
        self,
        inputs: Sequence[pa.Schema],
        states: Sequence[Sequence[OperatorState]],
        reached: Sequence[int],
        after: int = MIN_TIME,
        pending: Sequence[pa.Table | None] = (),
    ) -> OperatorState:
        """Return the initial state of a vertex that continues with these states, one per shard.

        ``reached`` has the last CTI that each shard received. ``after`` is the last CTI of the
        output. ``pending`` has, per shard, emitted items that MERGE has not released.
        """
        running = self.open(inputs)
        running.begin(states, reached, after)
        running.offer_pending(pending)
        return running.snapshot()


class Shards:
    """The operator of :class:`Sharded`."""

    def __init__(self, spec: Sharded, inputs: Sequence[pa.Schema]) -> None:
        self._spec = spec
        ports = list(inputs)
        self._schema = spec.output_schema(ports)
        self._shards: list[list[Operator]] = [[] for _ in spec.ranges]
        self._sides: list[int] = []
        for operator in spec.chain:
            self._sides.append(len(side_outputs_of(operator, ports)))
            for shard in self._shards:
                shard.append(operator.open(ports))
            ports = [operator.output_schema(ports)]
        #: By shard: the last CTI that it received.
        self._reached: list[int] = [MIN_TIME] * len(spec.ranges)
        #: MERGE over the outputs of the shards, one channel per shard.
        self._merge = self._new_merge()
        self._last_cti: int = MIN_TIME

    def _new_merge(self) -> Merge | None:
        n = len(self._shards)
        return Merge([self._schema] * n, [0] * n, pending_rows_max=_ROWS_MAX) if n else None

    def use_memory(self, memory: StateMemory) -> None:
        """Implement :class:`rvertex.state.memory.SpillsState`."""
        for shard in self._shards:
            for operator in shard:
                give_memory(operator, memory)

    @property
    def inner_operators(self) -> list[Operator]:
        """The operators of all shards."""
        return [operator for shard in self._shards for operator in shard]

    def drain_side_outputs(self) -> Sequence[pa.RecordBatch]:
        """Return the events of each side output, of all shards in shard order."""
        found: list[pa.RecordBatch] = []
        for k, count in enumerate(self._sides):
            if count == 0:
                continue
            of_shards = (shard[k] for shard in self._shards)
            drained = [o.drain_side_outputs() for o in of_shards if isinstance(o, HasSideOutputs)]
            found += [pa.concat_batches(list(batches)) for batches in zip(*drained, strict=True)]
        return found

    def process(self, ports: Sequence[Run]) -> Run:
        """Run each shard on its rows. Return the outputs, merged by time."""
        if self._merge is None:
            ctis = growing(ports[0].ctis, self._last_cti)
            self._last_cti = int(ctis[-1]) if len(ctis) else self._last_cti
            empty = pa.RecordBatch.from_pylist([], schema=event_schema(self._schema))
            return Run(empty, ctis)
        for i, runs in enumerate(self._of_shards(ports)):
            ctis = growing(ports[0].ctis, self._reached[i])
            self._reached[i] = int(ctis[-1]) if len(ctis) else self._reached[i]
            runs = [Run(run.events, ctis) for run in runs]
            for operator in self._shards[i]:
                runs = [operator.process(runs)]
            items = to_items(runs[0])
            if items.num_rows:
                self._merge.offer(i, Items(self._merge.read_positions[i], items))
        released = self._merge.release()
        if released is None:
            empty = pa.RecordBatch.from_pylist([], schema=event_schema(self._schema))
            return Run(empty, np.empty(0, np.int64))
        return released[0]

    def _of_shards(self, ports: Sequence[Run]) -> list[list[Run]]:
        """Return the rows of each shard by port."""
        by_shard: list[list[Run]] = [[] for _ in self._shards]
        for run, names in zip(ports, self._spec.keys, strict=True):
            events = run.events
            if not names:
                empty = Run(events.slice(0, 0), run.ctis)
                for shard in by_shard:
                    shard.append(run if shard is by_shard[0] else empty)
                continue
            columns = [as_one_array(pa.chunked_array([events.column(name)])) for name in names]
            slots = slots_of(columns)
            for shard, (lo, hi) in zip(by_shard, self._spec.ranges, strict=True):
                at = np.flatnonzero((lo <= slots) & (slots < hi))
                shard.append(Run(events.take(pa.array(at)), run.ctis))
        return by_shard

    def held_tables(self) -> dict[str, pa.Table]:
        """Return the tables of all shards; see :class:`rvertex.operators.protocol.ShowsState`."""
        found: dict[str, list[pa.Table]] = {}
        for shard in self._shards:
            for k, operator in enumerate(shard):
                for name, table in held_tables(operator).items():
                    found.setdefault(name if len(shard) == 1 else f"{k}.{name}", []).append(table)
        return {name: pa.concat_tables(tables) for name, tables in found.items()}

    def begin(
        self, states: Sequence[Sequence[OperatorState]], reached: Sequence[int], after: int
    ) -> None:
        """Start from these states; only called on a new object."""
        self._last_cti, self._reached = after, list(reached)
        for shard, parts in zip(self._shards, states, strict=True):
            for operator, state in zip(shard, parts, strict=True):
                operator.load(state)
        if self._merge is not None:
            n = len(self._shards)
            header = {"times": [MIN_TIME] * n, "kinds": [CTI] * n, "last_cti": after}
            self._merge.load(OperatorState(header), (0,) * n)

    def snapshot(self) -> OperatorState:
        """Return the states of all operators, and the rows that MERGE buffers.

        MERGE buffers the rows of a shard until the other shards have reached their time.
        """
        parts = {
            f"s{i}.{k}": operator.snapshot()
            for i, shard in enumerate(self._shards)
            for k, operator in enumerate(shard)
        }
        header: dict[str, Any] = {"last_cti": self._last_cti, "reached": list(self._reached)}
        tables: dict[str, pa.Table] = {}
        if self._merge is not None:
            header["merge"] = self._merge.snapshot().header
            for i, table in enumerate(self._merge.pending_tables()):
                if table is not None:
                    tables[f"pending{i}"] = table
        return joined_states(parts, header, tables)

    def load(self, state: OperatorState) -> None:
        """Continue from ``state``."""
        self._last_cti = state.header["last_cti"]
        self._reached = list(state.header["reached"])
        for i, shard in enumerate(self._shards):
            for k, operator in enumerate(shard):
                operator.load(part_state(state, f"s{i}.{k}"))
        if self._merge is None:
            return
        self._merge.load(OperatorState(state.header["merge"]), (0,) * len(self._shards))
        self.offer_pending([state.tables.get(f"pending{i}") for i in range(len(self._shards))])

    def offer_pending(self, tables: Sequence[pa.Table | None]) -> None:
        """Pass rows to MERGE that the shards had emitted before the snapshot."""
        for i, table in enumerate(tables):
            for batch in () if table is None else table.to_batches():
                assert self._merge is not None
                self._merge.offer(i, Items(self._merge.read_positions[i], batch))


def shards_in(
    spec: Sharded, operators: int, state: OperatorState
) -> list[tuple[list[OperatorState], int, pa.Table | None]]:
    """Return, per shard: its operators' states, its last received CTI, and its rows in MERGE."""
    return [
        (
            [part_state(state, f"s{i}.{k}") for k in range(operators)],
            state.header["reached"][i],
            state.tables.get(f"pending{i}"),
        )
        for i in range(len(spec.ranges))
    ]
