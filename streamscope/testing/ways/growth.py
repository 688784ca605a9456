"""Checks whether the state of user code grows with the input, although event time advances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgpack
import numpy as np
import pyarrow as pa

from rstream.items.batch import VE, VS, cti_batch, int64_column, item_schema, payload_schema
from rstream.types import INF_TIME
from rvertex.operators.user.keyed_process import KeyedProcessing
from rvertex.operators.user.transform import UserOperator
from streamscope.testing.clocks import VirtualClock
from streamscope.testing.plan_run import PlanRun, Schedule

if TYPE_CHECKING:
    from planner.physical.plan import PhysicalPlan
    from rvertex.operators.protocol import OperatorState
    from streamscope.testing.runs import Feeds

_HOUR_US = 3_600_000_000
#: Trials: the pause between copies of the input, and the number of copies. The next trial runs only
#: if the state has grown in the one before.
_TRIALS = ((_HOUR_US, 32), (24 * _HOUR_US * 30, 32), (24 * _HOUR_US * 30, 1024))
#: Most rows of a trial; fewer copies are made if they would have more.
_ROWS_MAX = 4_000
_COPIES_MIN = 8
#: State grows if the second half of the copies adds more than this multiple of what the second
#: quarter added. Unbounded state gives 2, bounded state less.
_FACTOR = 1.5
_GROWTH_BYTES_MIN = 128


@dataclass(frozen=True, slots=True)
class Growth:
    """A stage whose state grows, and its state's bytes after a quarter, half and all copies."""

    stage: str
    copies: int
    sizes: tuple[int, int, int]

    def __str__(self) -> str:
        quarter, half, whole = self.sizes
        n = self.copies
        return (
            f"stage {self.stage}: the input was repeated {n} times, with long pauses. State after "
            f"{n // 4}, {n // 2} and {n} times: {quarter:,}, {half:,} and {whole:,} bytes"
        )


def growth_of(plan: PhysicalPlan, feeds: Feeds) -> Growth | None:
    """Find a stage whose state grows even with the longest pauses; None if there is none."""
    rows = sum(batch.num_rows for batches in feeds.values() for batch in batches)
    if not rows or not any(_user_operators(plan, v.id) for v in plan.vertices):
        return None
    found = None
    for pause_us, copies in _TRIALS:
        copies = max(_COPIES_MIN, min(copies, _ROWS_MAX // rows))
        found = _grown(plan, feeds, pause_us, copies)
        if found is None:
            return None
    return found


def _user_operators(plan: PhysicalPlan, vertex: str) -> list[int]:
    """Return the indexes of a vertex's operators that have state of user code."""
    kinds = (KeyedProcessing, UserOperator)
    return [k for k, spec in enumerate(plan.vertex(vertex).operators) if isinstance(spec, kinds)]


def _grown(plan: PhysicalPlan, feeds: Feeds, pause_us: int, copies: int) -> Growth | None:
    run = PlanRun(plan, VirtualClock(0, 0))
    times = [_bounds(batch) for batches in feeds.values() for batch in batches if batch.num_rows]
    first, last = min(a for a, _ in times), max(b for _, b in times)
    step_us = last - first + pause_us
    sizes: list[dict[str, int]] = []
    done = 0
    for until in (copies // 4, copies // 2, copies):
        for copy in range(done, until):
            for vertex, batches in feeds.items():
                for batch in batches:
                    run.feed(vertex, _shifted(batch, copy * step_us))
                schema = item_schema(payload_schema(batches[0].schema))
                run.feed(vertex, cti_batch(first + (copy + 1) * step_us, schema))
        run.settle(Schedule((0,), 1 << 20))
        sizes.append(_sizes(plan, run))
        done = until
    for vertex in sizes[0]:
        quarter, half, whole = (found[vertex] for found in sizes)
        before, now = half - quarter, whole - half
        if before > 0 and now > _FACTOR * before and now > _GROWTH_BYTES_MIN:
            return Growth(plan.vertex(vertex).stage, copies, (quarter, half, whole))
    return None


def _sizes(plan: PhysicalPlan, run: PlanRun) -> dict[str, int]:
    """Return the bytes of user code's state for each vertex."""
    sizes: dict[str, int] = {}
    for name, vertex in run.vertices.items():
        places = _user_operators(plan, name)
        states = vertex.vertex.get_snapshot().states if places else ()
        sizes[name] = sum(_bytes(states[1 + k]) for k in places if 1 + k < len(states))
    return sizes


def _bytes(state: OperatorState) -> int:
    header: bytes = msgpack.packb(state.header)
    return len(header) + sum(int(table.nbytes) for table in state.tables.values())


def _bounds(batch: pa.RecordBatch) -> tuple[int, int]:
    vs, ve = int64_column(batch, VS), int64_column(batch, VE)
    return int(vs.min()), int(np.where(ve == INF_TIME, vs, ve).max())


def _shifted(batch: pa.RecordBatch, by_us: int) -> pa.RecordBatch:
    """Shift events, and the timestamps in their columns, by ``by_us``."""
    columns = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if field.name in (VS, VE):
            times = column.to_numpy()
            columns.append(pa.array(np.where(times == INF_TIME, times, times + by_us)))
        elif pa.types.is_timestamp(field.type):
            moved = column.cast(pa.timestamp("us", field.type.tz)).cast(pa.int64()).to_numpy(False)
            mask = column.is_null().to_numpy(zero_copy_only=False)
            moved = pa.array(np.nan_to_num(moved).astype(np.int64) + by_us, pa.int64(), mask=mask)
            columns.append(moved.cast(pa.timestamp("us", field.type.tz)).cast(field.type))
        else:
            columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)
