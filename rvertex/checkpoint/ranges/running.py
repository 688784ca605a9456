"""The tables of running aggregates, restricted to some of their keys.

Invariant: a kept key has its code, its window and its seen values under its new number. Windows of
other keys close at once, so that they hold back no watermark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rvertex.events.arrays import as_one_array, numbers

if TYPE_CHECKING:
    from rvertex.operators.protocol import OperatorState

#: The column of the log with the time at which a window closes.
_CLOSES = "c2"


def running_tables(
    state: OperatorState, mask: np.ndarray, *, distinct_by_code: bool
) -> dict[str, pa.Table]:
    """Filter all tables except rows. ``mask`` bool[keys]: the keys to keep.

    ``distinct_by_code``: values are seen per key; otherwise per session, by the number of its first
    window.
    """
    own, tables = state.tables, dict[str, pa.Table]()
    chosen = pa.array(mask)
    for name, table in own.items():
        if name in ("groups", "open") or name.startswith(("key", "at")):
            tables[name] = table.filter(chosen)
        elif name.startswith("carried"):  # the ``at`` tables select the rows in use
            tables[name] = table
    tables["windows"] = closed_windows(state, own["open"].column(0), mask)
    code_of = np.cumsum(mask) - 1
    for lane in {name.partition(".")[0] for name in own if name.startswith("seen")}:
        owner = numbers(as_one_array(own[f"{lane}.key0"].column(0)))
        if distinct_by_code:
            is_kept = mask[owner]
            owner = code_of[owner]
        else:
            is_kept = np.isin(owner, numbers(as_one_array(own["open"].column(1)))[mask])
        for name in (name for name in own if name.startswith(f"{lane}.")):
            tables[name] = own[name].filter(pa.array(is_kept))
        column = own[f"{lane}.key0"].schema.field(0)
        kept = pa.array(owner[is_kept]).cast(column.type)
        tables[f"{lane}.key0"] = pa.table([kept], schema=pa.schema([column]))
    return tables


def closed_windows(state: OperatorState, windows: pa.ChunkedArray, mask: np.ndarray) -> pa.Table:
    """The log of windows, in which the last windows of keys that are not kept have closed."""
    log = state.tables["windows"]
    gone = windows.to_numpy()[~mask] - state.header["first"]
    closes = log.column(_CLOSES).to_numpy().copy()
    closes[gone[gone >= 0]] = -(2**63)
    at = log.schema.names.index(_CLOSES)
    return log.set_column(at, _CLOSES, pa.array(closes))
