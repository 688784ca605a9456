"""Bad rows of a source on their way into dead letters, whatever the source is."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rstream.items.batch import event_schema
from rstream.types import MIN_TIME
from rvertex.sources.formats.rows.bad_rows import DEAD
from rvertex.vertex.reorder import FRONTIER


def dead_letter_payload() -> pa.Schema:
    """The columns of bad rows, as a side output has them."""
    return pa.schema([*DEAD, pa.field(FRONTIER, pa.int64())])


def dead_letters(dead: pa.RecordBatch, frontier: int) -> pa.RecordBatch:
    """Bad rows as events of a side output; they have no time but the frontier that they met."""
    met = np.full(dead.num_rows, frontier, np.int64)
    vs = np.maximum(met, 0) if frontier == MIN_TIME else met
    columns = [pa.array(vs), pa.array(vs + 1), *dead.columns, pa.array(met)]
    return pa.RecordBatch.from_arrays(columns, schema=event_schema(dead_letter_payload()))
