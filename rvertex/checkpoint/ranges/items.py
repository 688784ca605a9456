"""Items in transit between vertices, prepared for other readers when a job's vertices change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.batch import CTI, KIND, VS
from rstream.items.hashing import slots_of
from rstream.types import INF_TIME, MIN_TIME
from rvertex.events.arrays import as_one_array
from rvertex.operators.protocol import OperatorState
from rvertex.vertex.merge import REACHED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def items_of_slots(
    table: pa.Table, names: Sequence[str], first: int, ranges: Sequence[tuple[int, int]]
) -> pa.Table:
    """Keep the CTIs, and the events whose key (columns ``names``) is in these ranges of slots.

    Without a key the events may go to any vertex: all of them go to the owner of slot ``first``.
    """
    mask = table.column(KIND).to_numpy() == CTI
    slots = np.full(len(mask), first)
    if names:
        slots = slots_of([as_one_array(table.column(name)) for name in names])
    for lo, hi in ranges:
        mask |= (lo <= slots) & (slots < hi)
    return table.filter(pa.array(mask))


def lane_of(table: pa.Table) -> pa.Table:
    """Sort items by time, each CTI once and before the events of its time; drop the end marker."""
    times, is_cti = table.column(VS).to_numpy(), table.column(KIND).to_numpy() == CTI
    order = np.lexsort((~is_cti, times))
    times, is_cti = times[order], is_cti[order]
    again = np.zeros(len(order), bool)
    again[1:] = is_cti[1:] & is_cti[:-1] & (times[1:] == times[:-1])
    kept = order[~again & ~(is_cti & (times == INF_TIME))]
    return table.take(pa.array(kept)).combine_chunks()


def merge_state(
    channels: int, time: int, reached: int, lanes: Mapping[str, pa.Table]
) -> tuple[OperatorState, tuple[int, ...]]:
    """Return the state of MERGE at a cut, with each channel at its beginning.

    ``lanes`` has, per channel, its items in transit. All later items are at or after ``time``. All
    items released before are at or before ``reached``, so a replay cannot start before that time.
    """
    header = {"times": [MIN_TIME] * channels, "kinds": [CTI] * channels, "last_cti": time}
    return OperatorState({**header, REACHED: reached}, dict(lanes)), (0,) * channels
