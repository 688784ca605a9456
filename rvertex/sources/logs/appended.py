"""Reads a log of pushed rows, also while its writer appends to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.errors import (
    CorruptLogError,
    CorruptSegmentError,
    SequenceDiscardedError,
    SequenceLostError,
    StoreError,
)
from rstream.intake.reader import open_log
from rstream.items.batch import empty_events
from rstream.items.json_text import json_rows
from rvertex.errors import CorruptSourceError, SourceRowError, SourceVanishedError
from rvertex.sources.events import RowFault, faults_of, first_fault, to_events
from rvertex.sources.files import first_line
from rvertex.sources.formats.row_log import declared_columns, log_units
from rvertex.sources.formats.rows.bad_rows import DEAD, VALUE_CHARS_MAX
from rvertex.sources.logs.errors import LostInputError
from rvertex.sources.logs.protocol import DEAD_POSITION, LogRows
from rvertex.sources.spec import Unit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rstream.items.batch import Items
    from rvertex.sources.spec import SourceSpec

#: Least seconds from the start of a read without rows to the next read.
LOOK_EVERY_S = 0.02


def appended_units(spec: SourceSpec) -> tuple[Unit, ...]:
    """Return the log as its only partition, from the first row that retention has kept."""
    return (Unit(spec.path, first_seq=log_units(spec.path)[0].first_seq),)


class AppendedRows:
    """A RowReader (:mod:`rvertex.sources.logs.polled`)."""

    def __init__(self, spec: SourceSpec, position: int) -> None:
        self._spec = spec
        try:
            self._rows = open_log(spec.path, position)
        except CorruptLogError as error:
            raise CorruptSourceError(spec.path, None, error.reason) from error
        except StoreError as error:
            raise SourceVanishedError(spec.path, first_line(error)) from error

    def read_next(self, rows_max: int) -> LogRows | None:
        """Implement RowReader."""
        path = self._spec.path
        try:
            items = self._rows.read_next(rows_max)
        except SequenceDiscardedError as error:
            reason = "they were deleted"
            raise LostInputError(path, 0, error.seq, error.first_seq, reason) from error
        except (CorruptLogError, CorruptSegmentError) as error:
            raise CorruptSourceError(path, None, error.reason) from error
        except (SequenceLostError, StoreError) as error:
            raise SourceVanishedError(path, first_line(error)) from error
        if items is None:
            return None
        positions = np.arange(items.first_seq, items.next_seq, dtype=np.int64)
        rows = declared_columns(items.batch, self._spec.columns.names)
        events = to_events(self._spec, rows, path, 0)
        if not isinstance(events, RowFault):
            return LogRows(positions, events, items.next_seq)
        if self._spec.checks.on_bad_row == "fail":
            k, fault = first_fault(self._spec, rows, path, events)
            at = items.first_seq + k + 1
            raise SourceRowError(path, at, None, fault.column, fault.value, fault.reason)
        good, faults = faults_of(self._spec, rows, path)
        is_good = np.isin(np.arange(len(positions)), list(faults), invert=True)
        if good is None:
            good = empty_events(self._spec.row_schema)
        return LogRows(positions[is_good], good, items.next_seq, self._dead(items, rows, faults))

    def close(self) -> None:
        """Implement RowReader."""
        self._rows.close()

    def _dead(
        self, items: Items, rows: pa.RecordBatch, faults: Mapping[int, RowFault]
    ) -> pa.RecordBatch:
        places = sorted(faults)
        texts = json_rows(rows.take(pa.array(places, pa.int64())))
        dead = [
            {
                "source": self._spec.path,
                "partition": 0,
                DEAD_POSITION: items.first_seq + place,
                "column": faults[place].column,
                "value": faults[place].value[:VALUE_CHARS_MAX],
                "reason": faults[place].reason,
                "raw": text,
            }
            for place, text in zip(places, texts, strict=True)
        ]
        return pa.RecordBatch.from_pylist(dead, schema=DEAD)
