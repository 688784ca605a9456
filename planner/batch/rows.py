"""Reads all events of a source at once, as the input of the batch twin.

Rows come through the stream's readers. The rule for late rows is applied to each partition's rows
in their order, so the same rows are dropped. The rule is written a second time here, on whole
columns, because the stream is tested against the twin.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from planner.cost.dealing import dealt, start_columns
from planner.logical.traversal import refuse_endless
from rstream.items.batch import CTI, KIND, VE, VS, event_schema, int64_column, kinds
from rstream.types import INF_TIME, MIN_TIME
from rvertex.errors import LateRowError
from rvertex.events.delay_estimate import BLOCK_ROWS, BLOCKS_MAX
from rvertex.sources.discover import partition_count
from rvertex.sources.formats.rows.bad_rows import without_bad
from rvertex.sources.logs.kafka.bounded import read_whole
from rvertex.sources.logs.opening import discover_units
from rvertex.sources.readers import open_reader
from rvertex.sources.survey import survey

if TYPE_CHECKING:
    from planner.logical.nodes import Source
    from rvertex.sources.spec import SourcePartition, SourceSpec

_ROWS_MAX = 65_536


def source_events(source: Source, parallelism: int, cti_every_us: int) -> tuple[pa.Table, int]:
    """Return the events that the stream would read from ``source``, and its last CTI.

    The events have the columns ``_vs, _ve, payload``; without a CTI its time is MIN_TIME.
    ``parallelism``: the number of partitions of a source that does not set it, which decides which
    rows are late.

    Raises:
        LateRowError: a row is late, and ``late`` makes that an error.
        StreamEngineError: an error of the readers, naming the file.
    """
    spec = source.spec.without_late_columns
    refuse_endless(source, "a batch")
    units = discover_units(spec)
    n = partition_count(spec, units, source.partitions, parallelism)
    # the rows of each partition of a log advance only that partition's watermark
    if spec.live is not None:
        n = len(units)
    times = survey(spec, units, start_columns(spec)) if spec.delay_origin == "auto" else ()
    parts = [_accepted(partition, cti_every_us) for partition in dealt(spec, units, n, times)]
    return pa.concat_tables([events for events, _ in parts]), max(cti for _, cti in parts)


def _accepted(partition: SourcePartition, cti_every_us: int) -> tuple[pa.Table, int]:
    spec = partition.spec
    rows = _read(partition)
    if rows is None or rows.num_rows == 0:
        return event_schema(spec.schema).empty_table(), MIN_TIME
    if spec.delay_origin == "found":
        greatest_us = max(int(int64_column(rows, VS).max()), MIN_TIME + spec.delay_us)
        to_come_us = MIN_TIME if partition.known is None else partition.known.last_us
        last_cti = _on_grid(max(greatest_us - spec.delay_us, to_come_us), cti_every_us)
        return pa.Table.from_batches([rows], schema=event_schema(spec.schema)), last_cti
    if spec.kind.gives_items:
        is_cti = kinds(rows) == CTI
        frontier = np.maximum.accumulate(np.where(is_cti, int64_column(rows, VS), MIN_TIME))
        events, met = rows.filter(pa.array(~is_cti)).drop_columns([KIND]), frontier[~is_cti]
        numbers = np.flatnonzero(~is_cti)
        last_cti = int(frontier[frontier < INF_TIME].max(initial=MIN_TIME))
    else:
        greatest = np.maximum.accumulate(int64_column(rows, VS))
        delays = _delays(int64_column(rows, VS), spec)
        frontier = np.maximum.accumulate(np.maximum(greatest, MIN_TIME + delays) - delays)
        events, met = rows, np.concatenate([[MIN_TIME], frontier[:-1]])
        numbers = np.arange(rows.num_rows)
        last_cti = _on_grid(int(frontier[-1]), cti_every_us)
    vs = int64_column(events, VS)
    late = vs < met
    if spec.late == "error" and late.any():
        at = int(late.argmax())
        raise LateRowError(int(numbers[at]), int(vs[at]), int(met[at]))
    events = events.filter(pa.array(~late)) if spec.late == "drop" else _raised(events, met)
    return pa.Table.from_batches([events], schema=event_schema(spec.schema)), last_cti


def _on_grid(frontier: int, every: int) -> int:
    return frontier // every * every if frontier >= MIN_TIME + every else MIN_TIME


def _delays(vs: np.ndarray, spec: SourceSpec) -> np.ndarray:
    """Return the delay that applies to each row, us; before the first estimate it is unlimited."""
    if spec.delay_quantile is None:
        return np.full(len(vs), spec.delay_us)
    ahead = np.maximum.accumulate(np.concatenate([[MIN_TIME], vs[:-1]]))
    late = np.maximum(ahead, vs) - vs
    delays = np.full(len(vs), INF_TIME)
    for start in range(BLOCK_ROWS, len(vs), BLOCK_ROWS):
        window = np.sort(late[max(0, start - BLOCK_ROWS * BLOCKS_MAX) : start])
        place = math.ceil(spec.delay_quantile * len(window)) - 1
        delays[start : start + BLOCK_ROWS] = window[place]
    return delays


def _raised(events: pa.RecordBatch, least: np.ndarray) -> pa.RecordBatch:
    """Raise starts to ``least``, so that no event starts before it and none is empty."""
    vs = np.maximum(int64_column(events, VS), least)
    ve = np.maximum(int64_column(events, VE), vs + 1)
    return pa.RecordBatch.from_arrays(
        [pa.array(vs), pa.array(ve), *events.columns[2:]], schema=events.schema
    )


def _read(partition: SourcePartition) -> pa.RecordBatch | None:
    """Return all rows of a partition in order, None if there are none."""
    if partition.spec.live is not None:
        return read_whole(partition)
    spec = partition.spec
    width = len(spec.schema) + (3 if spec.kind.gives_items else 2)
    reader = open_reader(partition, 0)
    batches: list[pa.RecordBatch] = []
    try:
        while (batch := reader.read_next(_ROWS_MAX)) is not None:  # terminates when the files end
            batches.append(without_bad(batch, width))
    finally:
        reader.close()
    return pa.concat_batches(batches) if batches else None
