"""Reads all rows of a topic's partition up to the end in the plan, for a batch job."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pyarrow as pa

from rstream.clock import SystemClock
from rvertex.sources.logs.errors import LogUnreachableError
from rvertex.sources.logs.kafka.reader import KafkaLog

if TYPE_CHECKING:
    from rvertex.sources.spec import SourcePartition

#: Longest wait of a batch job for the next row of a topic, s.
NEXT_ROW_S_MAX = 60.0
_ROWS_MAX = 65_536


def read_whole(partition: SourcePartition) -> pa.RecordBatch | None:
    """Return all rows of the only unit of ``partition`` in order, None if there are none.

    Raises:
        LogUnreachableError: no row arrived for NEXT_ROW_S_MAX.
        StreamEngineError: as :meth:`rvertex.sources.logs.protocol.LogReader.read`.
    """
    (unit,) = partition.units
    assert unit.until is not None, unit
    has_news = threading.Event()
    reader = KafkaLog(partition, [unit.first_seq], SystemClock(), has_news.set)
    batches: list[pa.RecordBatch] = []
    position = unit.first_seq
    try:
        while position < unit.until:  # ends with the rows, or with an error when no rows arrive
            has_news.clear()
            rows = reader.read(0, _ROWS_MAX)
            if rows is None:
                if not has_news.wait(NEXT_ROW_S_MAX):
                    reason = reader.waiting or f"no record at offset {position}"
                    raise LogUnreachableError(partition.spec.shown, reason)
                continue
            position = rows.next_position
            if rows.batch.num_rows:
                batches.append(rows.batch)
    finally:
        reader.close()
    return pa.concat_batches(batches) if batches else None
