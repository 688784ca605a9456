"""Runs a query on some of the rows of its sources, in memory: the oracle of lineage and bisection.

A slice lists, per source vertex, the rows that take part. They keep the source's row order and
their row numbers. Only a run shows whether a slice makes an output row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from jobmanager.replay.errors import CannotReplayError
from jobmanager.replay.feeds import STEP_ROWS, SourceFeed
from jobmanager.replay.logs import RecordedLog
from jobmanager.replay.rerun import PENDING_ROWS_MAX, Rerun, Shape
from jobmanager.replay.rows.answered import with_answers, with_used_answers
from rstream.items.batch import KIND, VS, Items, empty_events, int64_column, only_events
from rstream.items.dictionaries import join_batches
from rstream.items.digest import content_hashes
from rvertex.checkpoint.value_log import draws_values
from rvertex.sources.formats.rows.bad_rows import bad_of
from rvertex.vertex.rvertex import RVertex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from jobmanager.replay.feeds import Feed
    from jobmanager.replay.recorded import Recorded
    from jobmanager.replay.rerun import Stopping
    from planner.physical.plan import PhysicalPlan
    from rstream.store.protocol import BlobStore
    from rvertex.sources.logs.protocol import LogRows
    from rvertex.sources.spec import SourcePartition
    from rvertex.vertex.rvertex import StepResult
    from rvertex.vertex.spec import VertexSpec


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one source vertex, without bad rows. ``numbers``: their row numbers, int64[n]."""

    numbers: np.ndarray
    batch: pa.RecordBatch

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, kept: np.ndarray) -> Rows:
        """Return the rows for which ``kept``, bool[n], is true."""
        return Rows(self.numbers[kept], self.batch.filter(pa.array(kept)))


#: By source vertex: its rows in the slice.
Slice = dict[str, Rows]


class SliceRuns:
    """Runs slices through the vertices that some output streams depend on."""

    def __init__(
        self, plan: PhysicalPlan, sinks: Sequence[str], recorded: Recorded | None = None
    ) -> None:
        """Prepare to run slices of the plan's input.

        ``sinks``: the vertices whose output is examined. ``recorded``: None for a capsule.

        Raises:
            CannotReplayError: a vertex would not behave in the same way on a part of its input.
        """
        self.sinks = tuple(sinks)
        cone = {vertex for sink in sinks for vertex in (sink, *plan.ancestors(sink))}
        whole = Shape.of(plan)
        self.vertices = {v: spec for v, spec in whole.vertices.items() if v in cone}
        if recorded is not None and plan is recorded.plan:
            self.vertices = with_answers(self.vertices, recorded)
        self.sources = {v: s.source for v, s in self.vertices.items() if s.source is not None}
        for spec in self.vertices.values():
            _check_repeatable(spec)
        without = {v: _without_numbers(spec) for v, spec in self.vertices.items()}
        self._whole = Shape(self.vertices, whole.writers)
        self._sliced = Shape(without, whole.writers)
        self._store = None if recorded is None else recorded.store
        #: All rows of vertices that read live logs.
        self._log_rows: Slice = {}
        self._has_logs = any(source.spec.live is not None for source in self.sources.values())
        #: The number of runs.
        self.count = 0

    def plan_of(self, plan: PhysicalPlan, rows: Slice) -> PhysicalPlan:
        """Return the plan with the recorded answers of calls that a run of this slice needs."""
        with_used_answers(self.vertices)
        for _ in self.steps(rows):
            pass
        known = with_used_answers(self.vertices)
        return replace(plan, vertices=tuple(known.get(v.id, v) for v in plan.vertices))

    def load(self, ranges: Mapping[str, tuple[int, int]] | None = None) -> Slice:
        """Return the rows of all sources; with ``ranges`` the rows ``[lo, hi)`` of each source."""
        return {v: self._loaded(v, *(ranges[v] if ranges else (0, None))) for v in self.sources}

    def _loaded(self, vertex: str, lo: int, hi: int | None) -> Rows:
        if self.sources[vertex].spec.live is None:
            return _loaded(self.sources[vertex], lo, hi)
        if vertex not in self._log_rows:
            assert self._store is not None, "a capsule has its rows"
            self._log_rows[vertex] = log_rows(self.vertices[vertex], self._store)
        rows = self._log_rows[vertex]
        return Rows(rows.numbers[lo:hi], rows.batch.slice(lo, len(rows) if hi is None else hi - lo))

    def steps(self, rows: Slice | None, stops: Stopping | None = None) -> Iterator[Step]:
        """Run a slice, or all rows of the files if None. Yield the steps of the sinks."""
        self.count += 1
        if rows is None and self._has_logs:
            rows = self.load()

        def open_source(spec: VertexSpec) -> Feed:
            return SourceFeed(self.sources[spec.id]) if rows is None else _Feed(rows[spec.id])

        rerun = Rerun(self._whole if rows is None else self._sliced, None, open_source=open_source)
        try:
            active = rerun.open(dict.fromkeys(self.sinks), stops)
            while active:
                for run in active:
                    if run.turn() and run.result is not None:
                        yield Step(run.spec, run.result, rerun)
                active = [run for run in active if not run.has_ended]
        finally:
            rerun.close()

    def events(
        self, rows: Slice | None, stops: Stopping | None = None
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Run a slice. Yield the events of the main output, each batch with its stream."""
        for step in self.steps(rows, stops):
            for stream, items in step.sink_items():
                yield stream, only_events(items.batch)

    def gives(self, rows: Slice, target: int) -> bool:
        """Run a slice. Return whether it emits an event whose content has the hash ``target``."""
        return any(
            (content_hashes(batch) == np.uint64(target)).any() for _, batch in self.events(rows)
        )


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a sink vertex, with the items that it has read and written."""

    spec: VertexSpec
    result: StepResult
    rerun: Rerun

    def sink_items(self) -> Iterator[tuple[str, Items]]:
        """Yield the items for the main output, with the stream of each."""
        at = 0
        for edge in self.spec.outputs:
            for stream in edge.streams:
                items = self.result.outputs[at]
                at += 1
                if edge.is_sink and items is not None:
                    yield stream, items

    def read(self, sources: Iterable[str]) -> dict[str, int]:
        """Return the number of rows read from each source up to this step."""
        return {v: self.rerun.runs[v].vertex.read_positions[0] for v in sources}


class _Feed:
    """The rows of a slice as an input."""

    def __init__(self, rows: Rows) -> None:
        self._batch = rows.batch

    def read(self, seq: int, rows_max: int) -> Items | None:
        """Implement :class:`jobmanager.replay.feeds.Feed`."""
        batch = self._batch.slice(seq, rows_max)
        return Items(seq, batch) if batch.num_rows else None

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


def sinks_of(plan: PhysicalPlan) -> list[str]:
    """Return the vertices that write the output."""
    return [v.id for v in plan.vertices if any(edge.is_sink for edge in v.outputs)]


def _check_repeatable(spec: VertexSpec) -> None:
    reason = ""
    if spec.recovery.strategy == "strong":
        reason = "its code is declared not deterministic, so another run may differ"
    elif any(draws_values(operator) for operator in spec.operators):
        reason = "its code uses outside values (such as ctx.now), recorded for its whole input only"
    if reason:
        instead = "`jobmanager replay` of a vertex still works"
        raise CannotReplayError(f"{spec.id} on a part of its input", reason, instead)


def _without_numbers(spec: VertexSpec) -> VertexSpec:
    """Return a source without row numbers in its file, because the rows of a slice have gaps.

    A live log becomes a source that ends, with all rows in one order (:func:`log_rows`).
    """
    if spec.source is None:
        return spec
    bare = replace(spec.source, known=None, spec=replace(spec.source.spec, live=None))
    return replace(spec, source=bare)


def log_rows(spec: VertexSpec, store: BlobStore) -> Rows:
    """Return the rows of a live log that the job has used, with their positions in the log.

    Rows of all partitions are sorted by time: the greatest time in their partition up to the row.

    Raises:
        CannotReplayError: rows, or decisions about them, are not retained.
    """
    assert spec.source is not None
    rows_of: dict[int, list[LogRows]] = {}
    vertex = RVertex(spec, pending_rows_max=PENDING_ROWS_MAX)
    log = RecordedLog(vertex, store, lambda k, rows: rows_of.setdefault(k, []).append(rows))
    try:
        while log.offer(STEP_ROWS):
            vertex.execute()
    finally:
        log.close()
    pieces = {k: [p for p in rows if p.batch.num_rows] for k, rows in sorted(rows_of.items())}
    batches = [p.batch for rows in pieces.values() for p in rows]
    if not batches:
        return Rows(np.empty(0, np.int64), empty_events(spec.source.spec.row_schema))
    whole = join_batches(batches)
    numbers = np.concatenate([p.positions for rows in pieces.values() for p in rows])
    counts = [sum(p.batch.num_rows for p in rows) for rows in pieces.values()]
    ends = np.cumsum(counts)
    vs = int64_column(whole, VS)
    reached = [
        np.maximum.accumulate(vs[end - count : end])
        for end, count in zip(ends, counts, strict=True)
    ]
    order = np.argsort(np.concatenate(reached), kind="stable")
    return Rows(numbers[order], whole.take(pa.array(order)))


def _loaded(source: SourcePartition, lo: int, hi: int | None) -> Rows:
    feed, width = SourceFeed(source), len(source.spec.row_schema) + 2
    numbers: list[np.ndarray] = []
    batches: list[pa.RecordBatch] = []
    at = lo
    while hi is None or at < hi:
        items = feed.read(at, STEP_ROWS if hi is None else min(STEP_ROWS, hi - at))
        if items is None:
            break
        batch, places = items.batch, np.arange(at, items.next_seq)
        at = items.next_seq
        bad = None if batch.schema.names[0] == KIND else bad_of(batch, width)
        if bad is not None:
            good = bad.is_null().to_numpy(zero_copy_only=False)
            batch, places = batch.select(range(width)).filter(pa.array(good)), places[good]
        numbers.append(places)
        batches.append(batch)
    feed.close()
    if not batches:
        return Rows(np.empty(0, np.int64), empty_events(source.spec.row_schema))
    return Rows(np.concatenate(numbers), join_batches(batches))
