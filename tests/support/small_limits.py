"""Makes the thresholds of operators so small that a dozen rows cross them.

Operators choose code paths by size: with many rows they drop keys, emit in parts, merge runs or
rebuild an index. Random tests use small tables, so otherwise they would only run the first path.
Results never depend on a threshold, so every test must also pass with these.
"""

from __future__ import annotations

import functools
import importlib
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

#: ``module.NAME``: the value in tests. A name that no longer exists is an error.
LIMITS: dict[str, int] = {
    "rvertex.state.memory.RUN_BYTES_MIN": 1,
    "rvertex.state.memory.UNLIMITED_RUN_BYTES": 1,
    "rvertex.state.memory.PIECE_BYTES_MAX": 64,
    "rvertex.state.array_spill.LOOK_BYTES": 1,
    "rvertex.state.key_runs.BLOCK_ROWS": 2,
    "rvertex.state.key_runs.RUNS_MAX": 2,
    "rvertex.state.row_log.PART_ROWS_MAX": 5,
    "rvertex.state.log_part.FENCE_ROWS": 3,
    "rvertex.state.stored_times._RUN_ROWS_MAX": 3,
    "rvertex.state.stored_times._LOOKED": 1,
    "rvertex.state.stored_times._SAVED_ROWS_MAX": 2,
    "rvertex.user_code.keyed.state.LOADED_MAX": 1,
    "rvertex.user_code.keyed.state.DUE_MAX": 2,
    "rvertex.operators.user.keyed_process.RECALLED_ROWS": 4,
    "rvertex.operators.windows.grouping._MEASURE_ROWS": 1,
    "rvertex.user_code.emitted_rows.GATHERED_MIN": 2,
    "rvertex.events.frontier._BLOCK_ROWS": 2,
    "rvertex.events.group_arrays._CAPACITY_MIN": 1,
    "rvertex.events.group_arrays._GARBAGE_ROWS_MIN": 2,
    "rvertex.keys.int_index._CHUNK_MIN": 2,
    "rvertex.keys.int_index._FRESH_ROWS_MAX": 2,
    "rvertex.keys.int_index._SLOTS_MIN": 4,
    "rvertex.keys.int_index._REHASH_ROWS": 2,
    "rvertex.keys.int_index._SPAN_MIN": 4,
    "rvertex.keys.sort_keys._LOOK_ROWS": 2,
    "rvertex.keys.key_table._KEYS_MIN": -50,
    "rvertex.keys.key_index._OBJECTS_MAX": 2,
    "rvertex.keys.wide_index._CHUNK_BYTES_MAX": 8,
    "rvertex.user_code.keyed.events.PIECE_ROWS": 2,
    "rvertex.user_code.keyed.state.CHANGED_MAX": 2,
    "rvertex.user_code.keyed.state._PIECE": 2,
    "rvertex.user_code.keyed.state._SPARE_MAX": 1,
    "rvertex.operators.joins.max_tree._SCAN_MAX": 2,
    "rvertex.events.run._ROWS_PER_SLICE": 2,
    "rvertex.aggregates.mergeable._SHRINK_MIN": 2,
    "rvertex.keys.direct_keys.SPAN_MIN": 2,
    "rvertex.operators.joins.anti._CODES_SLACK": 1,
    "rvertex.operators.lifetimes.clip._CODES_SLACK": 1,
    "rvertex.operators.windows.grouping._TOGETHER_ROWS": 2,
    "rvertex.operators.joins.inner._CODES_SLACK": 1,
    "rvertex.operators.ordered.matching.earliest._ENTRIES_MIN": 1,
    "rvertex.operators.joins.stored_rows._RUN_ROWS": 3,
    "rvertex.operators.joins.stored_rows._WRITTEN_ROWS": 3,
    "rvertex.operators.joins.side_index._REFERENCED_MIN": 1,
    "rvertex.operators.joins.side_index._MERGED_BYTES": 40,
    "rvertex.operators.joins.side_index._SEARCHED_MIN": 1,
    "rvertex.operators.joins.side_index._SEARCHED_PART": 1,
    "rvertex.operators.windows.sliding._KEYS_MIN": -50,
    "rvertex.operators.windows.sliding._ROWS_MIN": 2,
    "rvertex.operators.windows.snapshots.window._WINDOWS_MAX": 3,
    "rvertex.operators.lifetimes.stitch._CODES_SLACK": 1,
    "rvertex.operators.windows.panes.pane_aggregate._CUT_PANES_MAX": 1,
    "rvertex.operators.windows.gather._MANY_ROWS": 2,
    "rvertex.operators.windows.gather._LONG_ROWS": 3,
    "rvertex.operators.windows.gather._RANGE_ROWS": 2,
    "rvertex.operators.lifetimes.pending._STRETCH": 2,
    "rvertex.operators.lifetimes.pending._STRETCH_MAX": 3,
    "rvertex.state.numbered._CHUNK_ROWS": 3,
    "rvertex.checkpoint.chunks.PIECE_ROWS_MAX": 3,
    "rvertex.vertex.replay.POINTS_MAX": 4,
    "rvertex.events.run._SLICE_ROWS": 2,
    "rvertex.events.reorder_buffer._RUNS_MAX": 2,
    "rvertex.vertex.partitioner._COPIED_MAX": 1,
    "rvertex.vertex.partitioner._SCANNED_MAX": 1,
    "rvertex.vertex.partitioner._TOGETHER_ROWS_MAX": 2,
    "rvertex.operators.windows.window_log._DROP_MIN": 1,
    "rvertex.operators.windows.window_log._LOOK_MIN": 1,
    "rvertex.operators.windows.running.frames._PAIRS_MAX": 3,
    "rvertex.operators.windows.running.history._ROWS_MIN": -50,
    "rvertex.operators.windows.running.history._STEPS_MAX": 1,
    "rvertex.operators.joins.as_of._CODES_SLACK": 1,
    "rvertex.operators.joins.right_rows._WRITTEN_ROWS": 2,
    "rvertex.operators.joins.right_rows._MEASURED_ROWS": 1,
    "rvertex.state.row_log._COMPARED_ROWS": 2,
    "rvertex.operators.joins.row_store._JOINED_BYTES": 60,
    "rvertex.operators.joins.as_of._SLACK": -50,
    "rvertex.operators.ordered.deduplicate.ROUNDS_MAX": 0,
    "rvertex.operators.ordered.matching.lockstep.KEYS_MIN": 1,
    "rvertex.operators.ordered.matching.lockstep.GOING_MIN": 1,
    "rvertex.operators.ordered.deduplicate._MEASURED_KEYS": 1,
    "rvertex.operators.joins.new_pairs._COMPARED_MAX": 1,
    "rvertex.aggregates.distinct._PIECE_MAX_ROWS": 2,
    "rvertex.aggregates.exact_sums._EXACT_MAX": 2,
    "rvertex.events.decimals._EXACT_MAX": 2,
    "rvertex.events.ordering._RUNS_MAX": 1,
    "rvertex.events.reorder_buffer._ALONG_PART": 1,
    "rvertex.events.run._SLICES_MIN": 1,
    "rvertex.vertex.merge._PARTS_MIN": 2,
    "rvertex.vertex.merge._PART_ROWS": 1,
}


@contextmanager
def small_limits() -> Iterator[None]:
    """A context in which every threshold is small."""
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
