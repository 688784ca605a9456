"""Recomputes the states of a job's vertices at an event time, as tables. Read-only.

A vertex is loaded from its newest retained checkpoint at or before the time, and reads the retained
input from there. The input ends at the time, and a watermark of that time follows. So the state
contains exactly the rows before the time, regardless of the watermarks in the job.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from jobmanager.replay.errors import CannotReplayError
from jobmanager.replay.recorded import Recorded, vertex_of
from jobmanager.replay.replaying import input_time, newest_before
from jobmanager.replay.rerun import Rerun, Shape, VertexRun
from jobmanager.storage.root import JobRoot
from planner.durations import time_us
from rstream.errors import UsageError
from rstream.items.batch import KIND, VS, Items, cti_batch, int64_column
from rvertex.vertex.rvertex import RVertex

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobmanager.replay.feeds import Feed
    from planner.durations import Time
    from rvertex.events.run import Run
    from rvertex.vertex.spec import VertexSpec

#: Rows of a source between two checks of its watermark.
_SOURCE_ROWS = 1_024
#: The column with the vertex that a row belongs to.
VERTEX = "_vertex"


def read_state(
    root: str, stage: str, *, at: Time | None = None, trust: bool = False
) -> dict[str, pa.Table]:
    """Return the state of a stage, as tables by name.

    The tables have the keys of a keyed process with its fields, the groups and rows of open
    windows, or the rows of a join that may still match. Columns ``_vs`` and ``_ve`` are lifetimes
    in microseconds; ``_vertex`` names the vertex. Without ``at`` it is the state of the newest
    retained checkpoint, otherwise the state after all rows before this event time. In a stage that
    reads a source, it may also contain later rows, since sources do not sort.

    ``stage``: a stage or a vertex, such as ``"s02-agg"`` or ``"s02-agg.1"``; ``status`` lists them.

    Raises:
        CannotReplayError: there is no such stage, or something that it needs is not retained.
    """
    recorded = Recorded(JobRoot(root, trust=trust))
    vertices = [v for v in recorded.plan.vertices if v.stage == stage]
    until_us = None if at is None else time_us(at, what="at")
    parts: dict[str, list[pa.Table]] = {}
    for spec in vertices or [vertex_of(recorded.plan, stage)]:
        for name, table in _tables(recorded, spec, until_us).items():
            names = pa.array([str(spec.id)] * table.num_rows, pa.string())
            parts.setdefault(name, []).append(table.append_column(VERTEX, names))
    return {name: pa.concat_tables(tables) for name, tables in parts.items()}


def query_state(tables: dict[str, pa.Table], sql: str) -> pa.Table:
    """Return the result of a SQL query over such tables, as DuckDB computes it.

    Raises:
        UsageError: DuckDB is not installed, or refuses the query.
    """
    try:
        import duckdb
    except ImportError as error:
        raise UsageError("--sql needs the package duckdb") from error
    with duckdb.connect() as db:
        for name, table in tables.items():
            db.register(name, table)
        try:
            return db.sql(sql).to_arrow_table()
        except duckdb.Error as error:
            there = ", ".join(tables) or "no table"
            raise UsageError(f"--sql: {error} (the state has {there})") from error


def _tables(recorded: Recorded, spec: VertexSpec, until_us: int | None) -> dict[str, pa.Table]:
    if until_us is None:
        start = next(iter(recorded.checkpoints(spec.id)), None)
        if start is None:
            reason = "no checkpoint of it is retained"
            raise CannotReplayError(spec.id, reason, "Name a time with at=, or --at")
        snapshot = recorded.snapshot(start, spec)
        if snapshot.replay_from is None:
            vertex = RVertex(spec, pending_rows_max=1)
            vertex.load(snapshot)
            return _named(vertex.held_tables())
    else:
        start = newest_before(recorded, spec, until_us)
        if start is not None and input_time(recorded, start, spec) > until_us:
            reason = "the job was changed after that time, and only later states are retained"
            raise CannotReplayError(spec.id, reason, "Name a later time")
    rerun = Rerun(Shape.of(recorded.plan), recorded)
    with contextlib.closing(rerun):
        (run,) = rerun.open({spec.id: start}, _Cut(spec.id, until_us))
        while run.vertex.is_replaying or until_us is not None:
            if not run.turn():
                break
        return _named(run.vertex.held_tables())


def _named(operators: list[dict[str, pa.Table]]) -> dict[str, pa.Table]:
    """Return the tables of all operators by name. If two have a name, add the operator's number."""
    names = [name for tables in operators for name in tables]
    return {
        (name if names.count(name) == 1 else f"{name}_{k}"): table
        for k, tables in enumerate(operators)
        for name, table in tables.items()
    }


class _Cut:
    """Ends the input of one vertex at a given event time."""

    def __init__(self, vertex: str, until_us: int | None) -> None:
        self.vertex = vertex
        self._until_us = until_us

    def make(self, spec: VertexSpec, vertex: RVertex, feeds: Sequence[Feed]) -> VertexRun:
        """Implement :class:`jobmanager.replay.rerun.Stopping`."""
        return _CutRun(spec, vertex, feeds, self._until_us)

    def before_step(self, ports: list[Run]) -> None:
        """Never stop."""


class _CutRun(VertexRun):
    """A run that reads no item after a time."""

    def __init__(
        self, spec: VertexSpec, vertex: RVertex, feeds: Sequence[Feed], until_us: int | None
    ) -> None:
        super().__init__(spec, vertex, [_CutFeed(feed, until_us) for feed in feeds])
        self._until_us = until_us

    def turn(self) -> bool:
        """See :class:`VertexRun`; rows of a source are not sorted, so its watermark decides."""
        if self._until_us is not None and self.spec.source is not None:
            self.rows_max = _SOURCE_ROWS
            if self.vertex.input_cti >= self._until_us:
                return False
        return super().turn()


class _CutFeed:
    """The items of a feed before a time, then a watermark of that time. Of a source, all rows."""

    def __init__(self, feed: Feed, until_us: int | None) -> None:
        self._feed, self._until_us = feed, until_us
        self._has_ended = False

    def read(self, seq: int, rows_max: int) -> Items | None:
        """Implement :class:`Feed`."""
        items = self._feed.read(seq, rows_max)
        if items is None or self._until_us is None or KIND not in items.batch.schema.names:
            return items
        count = int(np.searchsorted(int64_column(items.batch, VS), self._until_us))
        if count:
            return items.head(count)
        if self._has_ended:
            return None
        self._has_ended = True
        return Items(seq, cti_batch(self._until_us, items.batch.schema))

    def close(self) -> None:
        """Implement :class:`Feed`."""
        self._feed.close()
