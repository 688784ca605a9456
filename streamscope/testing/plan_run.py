"""Runs a physical plan in one thread, without streams on disk, hosts or a job manager.

The planner makes the vertices as for a job, and they run the real operators. A :class:`Schedule`
decides how inputs are divided into batches, when a vertex is restored from a snapshot, and when it
is killed and computes again from an older one. To test recovery, flushing and timing, use the
simulator (:mod:`streamscope.testing.chaos`) or a job.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.batch import Items
from rstream.items.digest import content_hashes
from rvertex.checkpoint.codec import decode_snapshot, encode_snapshot
from rvertex.sources.readers import open_reader
from rvertex.user_code.context import ValueJournal
from rvertex.vertex.rvertex import RVertex
from rvertex.vertex.spec import VertexId
from streamscope.testing.errors import RepeatedDifferentlyError

if TYPE_CHECKING:
    from planner.physical.plan import PhysicalPlan
    from rvertex.user_code.context import DrawsValues, ValueShell
    from rvertex.vertex.spec import Snapshot, VertexSpec

Streams = dict[str, list[Items]]
#: More rows than any test input has: a replaying vertex reads its input in one piece.
_ALL = 1 << 20


@dataclass(slots=True)
class Schedule:
    """How inputs are cut into batches, and when vertices are restored or killed.

    Each decision consumes one number; the numbers are used in a circle. The decisions: which input
    is next, how many of its items, whether the vertex is restored from its snapshot before or after
    these (``restores``), and whether it is killed and restarts from an older snapshot (``kills``).
    """

    numbers: tuple[int, ...]
    rows_max: int = 1000
    restores: bool = False
    kills: bool = False
    _at: int = field(default=0)

    def next(self, below: int) -> int:
        """Return the next decision: a number in ``[0, below)``."""
        self._at = (self._at + 1) % len(self.numbers)
        return self.numbers[self._at] % below

    def rows(self) -> int:
        """Return the next decision: how many items to offer."""
        return self.rows_max if len(self.numbers) == 1 else 1 + self.next(self.rows_max)


class Rows:
    """Rows that are appended in pieces and can be read from any position."""

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0

    def __len__(self) -> int:
        return self._rows

    def append(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self._rows += batch.num_rows

    def slice(self, at: int, rows_max: int) -> pa.RecordBatch:
        """Return at most ``rows_max`` rows from position ``at``."""
        for k, batch in enumerate(self._batches):
            if at < batch.num_rows:
                self._batches[k:] = _joined(self._batches[k:])
                return self._batches[k].slice(at, rows_max)
            at -= batch.num_rows
        raise AssertionError(f"there is no row at {at}")


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Join neighbours with equal columns, so that batch boundaries do not depend on the pieces."""
    if len(batches) == 1:
        return batches
    groups: list[list[pa.RecordBatch]] = []
    for batch in batches:
        if groups and groups[-1][0].schema.equals(batch.schema):
            groups[-1].append(batch)
        else:
            groups.append([batch])
    return [pa.concat_batches(pieces) for pieces in groups]


class Drawing:
    """External values (clock, random numbers) for one vertex; they survive its restarts."""

    def __init__(self, shell: ValueShell) -> None:
        self._shell = shell
        self._journals: dict[int, ValueJournal] = defaultdict(ValueJournal)

    def wire(self, index: int, operator: DrawsValues) -> None:
        """Let the operator with number ``index`` read its external values here."""
        operator.use_values(self._journals[index], self._shell)


class VertexRun:
    """One vertex with all rows of its inputs, so that it can replay them."""

    def __init__(self, spec: VertexSpec, shell: ValueShell | None = None) -> None:
        self.spec = spec
        self._values = None if shell is None else Drawing(shell)
        self.vertex = self._open()
        self.inputs = [Rows() for _ in spec.inputs or (None,)]
        #: Whether the source has no more rows.
        self.is_ended = False
        #: An older checkpoint, to restart from after a kill.
        self._older: bytes | None = None

    def _open(self) -> RVertex:
        return RVertex(self.spec, pending_rows_max=1_000_000, values=self._values)

    def restore(self, data: bytes | None = None) -> None:
        """Replace the vertex by a new one, from a checkpoint or (None) from its current state."""
        data = encode_snapshot(self.vertex.get_snapshot()) if data is None else data
        schema = self.spec.state_schema
        self.load(decode_snapshot(data, name=self.spec.id, state_schema=schema))

    def load(self, snapshot: Snapshot) -> None:
        """Replace the vertex by a new one, loaded from a snapshot."""
        self.vertex = self._open()
        self.vertex.load(snapshot)

    def run(self, schedule: Schedule, write: Writer) -> None:
        """Process all available input."""
        last: tuple[int, ...] = ()
        while not self.vertex.is_finished and self._offer(schedule):
            before = self.vertex
            self._strike(schedule, last)
            self._collect(write)
            self._strike(schedule, last)
            if self.vertex is not before:
                last = self._position()

    def _offer(self, schedule: Schedule) -> bool:
        """Offer some items of one input, or its end; return False if there is nothing to offer."""
        vertex = self.vertex
        reads = vertex.read_positions
        waiting = [k for k, rows in enumerate(self.inputs) if reads[k] < len(rows)]
        open_ = [k for k in waiting if vertex.wants(k)]
        if open_:
            k = open_[schedule.next(len(open_)) if len(schedule.numbers) > 1 else 0]
            rows = _ALL if vertex.is_replaying else schedule.rows()
            piece = self.inputs[k].slice(reads[k], vertex.rows_wanted(k, rows))
            vertex.offer(k, Items(reads[k], piece))
            return True
        if self.spec.source is None or not self.is_ended:
            return False
        vertex.end_source()
        return True

    def _strike(self, schedule: Schedule, last: tuple[int, ...]) -> None:
        """Restore or kill the vertex as scheduled, but only if its position is after ``last``.

        A restart loses rows that were only read ahead. So a vertex that restarts at every step
        would make no progress.
        """
        if not (schedule.restores or schedule.kills) or self.vertex.is_replaying:
            return
        if self._position() == last:
            return
        if schedule.restores and schedule.next(2) == 0:
            self.restore()
        if schedule.kills and self.spec.recovery.strategy != "strong":
            self._kill(schedule)

    def _position(self) -> tuple[int, ...]:
        """Return the vertex's input positions, computed without its state if possible."""
        is_replayed = self.spec.recovery.strategy == "replay"
        return self.vertex.get_snapshot().inputs if is_replayed else self.vertex.consumed

    def _kill(self, schedule: Schedule) -> None:
        """Restart from the older snapshot; if there is none, take one for a later kill."""
        match schedule.next(4):
            case 0:
                self._older = encode_snapshot(self.vertex.get_snapshot())
            case 1 if self._older is not None:
                data, self._older = self._older, None
                self.restore(data)

    def _collect(self, write: Writer) -> None:
        while (result := self.vertex.execute()) is not None:
            for stream, items in zip(self.spec.output_streams, result.outputs, strict=True):
                if items is not None:
                    write(self.spec, stream, items)


class Writer:
    """The streams of a run. A repeated item must equal the first one."""

    def __init__(self) -> None:
        self.streams: Streams = defaultdict(list)
        self._hashes: dict[str, np.ndarray] = {}
        self._keeps_hashes = False

    def keep_hashes(self) -> None:
        """Store hashes of all items, to compare the items that a killed vertex repeats."""
        self._keeps_hashes = True

    def __call__(self, spec: VertexSpec, stream: str, items: Items) -> None:
        if self._keeps_hashes:
            fresh = self._compared(spec, stream, items)
            if fresh is None:
                return
            items = fresh
        self.streams[stream].append(items)

    def _compared(self, spec: VertexSpec, stream: str, items: Items) -> Items | None:
        known = self._hashes.get(stream, np.empty(0, np.uint64))
        hashes = np.asarray(content_hashes(items.batch))
        again = min(len(known) - items.first_seq, len(hashes))
        if again > 0:
            wrong = hashes[:again] != known[items.first_seq : items.first_seq + again]
            if wrong.any():
                at = int(wrong.argmax())
                raise RepeatedDifferentlyError(spec.stage, items.batch.slice(at, 1))
        if again >= len(hashes):
            return None
        again = max(again, 0)
        self._hashes[stream] = np.concatenate([known, hashes[again:]])
        return Items(items.first_seq + again, items.batch.slice(again))


class PlanRun:
    """All vertices of a plan. The caller feeds the sources."""

    def __init__(self, plan: PhysicalPlan, shell: ValueShell | None = None) -> None:
        self.plan = plan
        order = plan.topological_order()
        self.vertices = {name: VertexRun(plan.vertex(name), shell) for name in order}
        self.write = Writer()
        self._taken: dict[str, int] = defaultdict(int)

    @property
    def streams(self) -> Streams:
        """All items written so far, by stream."""
        return self.write.streams

    def feed(self, vertex_id: str, batch: pa.RecordBatch) -> None:
        """Append rows to the input of a source."""
        self.vertices[VertexId(vertex_id)].inputs[0].append(batch)

    def read_sources(self) -> None:
        """Read all rows of every source from its files, and end it."""
        for run in self.vertices.values():
            if run.spec.source is not None:
                for batch in source_rows(run.spec):
                    run.inputs[0].append(batch)
                run.is_ended = True

    def end(self) -> None:
        """Mark all sources as ended."""
        for run in self.vertices.values():
            run.is_ended = True

    def settle(self, schedule: Schedule) -> None:
        """Process all available input, upstream vertices first."""
        if schedule.kills:
            self.write.keep_hashes()
        for run in self.vertices.values():
            for rows, channel in zip(run.inputs, run.spec.inputs, strict=False):
                written = self.streams[channel.stream]
                for items in written[self._taken[channel.stream] :]:
                    rows.append(items.batch)
                self._taken[channel.stream] = len(written)
            run.run(schedule, self.write)

    def restart(self) -> None:
        """Replace every vertex by a new one loaded from a checkpoint of it."""
        for run in self.vertices.values():
            run.restore()

    def require_end(self) -> None:
        """Assert that all vertices have finished."""
        for run in self.vertices.values():
            assert run.vertex.is_finished, f"{run.spec.id} waits for input that never arrives"


def source_rows(spec: VertexSpec) -> list[pa.RecordBatch]:
    """Read all rows of a source."""
    assert spec.source is not None
    reader, batches = open_reader(spec.source, 0), []
    while (batch := reader.read_next(_ALL)) is not None:
        batches.append(batch)
    reader.close()
    return batches


def run_plan(
    plan: PhysicalPlan, *, rows_max: int = 1000, schedule: Schedule | None = None
) -> Streams:
    """Run a plan, ``rows_max`` items at a time or by ``schedule``; return all its streams."""
    run = PlanRun(plan)
    run.read_sources()
    run.settle(schedule or Schedule((0,), rows_max))
    run.require_end()
    return run.streams
