"""Converts bad rows of any source into events of a dead-letter side output."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rstream.items.batch import event_schema
from rstream.types import MIN_TIME
from rvertex.sources.formats.rows.bad_rows import DEAD
from rvertex.vertex.reorder import FRONTIER


def dead_letter_payload() -> pa.Schema:
    """Return the schema of bad rows in a side output."""
    return pa.schema([*DEAD, pa.field(FRONTIER, pa.int64())])


def dead_letters(dead: pa.RecordBatch, frontier: int) -> pa.RecordBatch:
    """Return bad rows as events of a side output.

    Their time is the ``frontier`` at their arrival.
    """
    met = np.full(dead.num_rows, frontier, np.int64)
    vs = np.maximum(met, 0) if frontier == MIN_TIME else met
    columns = [pa.array(vs), pa.array(vs + 1), *dead.columns, pa.array(met)]
    return pa.RecordBatch.from_arrays(columns, schema=event_schema(dead_letter_payload()))
