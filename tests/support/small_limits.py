"""Thresholds of operators made so small that a dozen rows cross them.

Operators choose between ways by size: they forget keys when many came, emit in parts, merge runs,
index anew. Random tests use small tables, so without this they only ever take the first way. The
answer never depends on a threshold, so every test that holds with the real ones holds with these.
"""

from __future__ import annotations

import functools
import importlib
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

#: ``module.NAME``: the value in tests. A name that is gone is an error, so the list stays true.
LIMITS: dict[str, int] = {
    "rvertex.emitted.GATHERED_MIN": 2,
    "rvertex.frontier._BLOCK_ROWS": 2,
    "rvertex.group_arrays._CAPACITY_MIN": 1,
    "rvertex.group_arrays._GARBAGE_ROWS_MIN": 2,
    "rvertex.int_index._CHUNK_MIN": 2,
    "rvertex.int_index._FRESH_ROWS_MAX": 2,
    "rvertex.int_index._SLOTS_MIN": 4,
    "rvertex.int_index._SPAN_MIN": 4,
    "rvertex.key_ranks._LOOK_ROWS": 2,
    "rvertex.key_table._KEYS_MIN": -50,
    "rvertex.keyed_events.PIECE_ROWS": 2,
    "rvertex.keyed_state.CHANGED_MAX": 2,
    "rvertex.keyed_state._PIECE": 2,
    "rvertex.keyed_state._SPARE_MAX": 1,
    "rvertex.max_tree._SCAN_MAX": 2,
    "rvertex.merge._ROWS_PER_SLICE": 2,
    "rvertex.merged._SHRINK_MIN": 2,
    "rvertex.offset_keys.SPAN_MIN": 2,
    "rvertex.operators.anti_join._CODES_SLACK": 1,
    "rvertex.operators.clip._CODES_SLACK": 1,
    "rvertex.operators.grouping._TOGETHER_ROWS": 2,
    "rvertex.operators.join._CODES_SLACK": 1,
    "rvertex.operators.sliding._KEYS_MIN": -50,
    "rvertex.operators.sliding._ROWS_MIN": 2,
    "rvertex.operators.snapshot_window._WINDOWS_MAX": 3,
    "rvertex.operators.stitch._CODES_SLACK": 1,
    "rvertex.operators.unordered_panes._CUT_PANES_MAX": 1,
    "rvertex.operators.unordered_session_panes._TOGETHER_ROWS": 2,
    "rvertex.operators.window_gather._MANY_ROWS": 2,
    "rvertex.pending._STRETCH": 2,
    "rvertex.pieces.PIECE_ROWS_MAX": 3,
    "rvertex.replay.POINTS_MAX": 4,
    "rvertex.run._SLICE_ROWS": 2,
    "rvertex.sorted_runs._RUNS_MAX": 2,
    "rvertex.splitting._COPIED_MAX": 1,
    "rvertex.splitting._SCANNED_MAX": 1,
    "rvertex.splitting._TOGETHER_ROWS_MAX": 2,
    "rvertex.window_log._DROP_MIN": 1,
    "rvertex.window_log._LOOK_MIN": 1,
}


@contextmanager
def small_limits() -> Iterator[None]:
    """Within it every threshold is small."""
    before = {path: getattr(*_place(path)) for path in LIMITS}
    for path, value in LIMITS.items():
        setattr(*_place(path), min(value, before[path]))
    try:
        yield
    finally:
        for path, value in before.items():
            setattr(*_place(path), value)


@functools.cache
def _place(path: str) -> tuple[ModuleType, str]:
    home, name = path.rsplit(".", 1)
    return importlib.import_module(home), name
