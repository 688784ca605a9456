"""Planted bugs of spilled state, each a replacement of a production function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from jobmanager.manager import collection
from jobmanager.state.messages import DeleteFiles
from rvertex.state.hash_index import BloomFilter, HashIndex
from rvertex.state.row_log import RowLog
from rvertex.state.stored_times import StoredTimes

if TYPE_CHECKING:
    from collections.abc import Callable

Bug = tuple[Any, str, Any]


def row_lost_at_a_merge() -> Bug:
    """A merge of two parts drops the first row of the second."""
    real = RowLog._merged

    def merged(self: RowLog, parts: Any) -> Any:
        if len(parts) == 2:
            parts[1].current[np.flatnonzero(parts[1].current)[:1]] = False
        return real(self, parts)

    return RowLog, "_merged", merged


def expiry_one_early() -> Bug:
    """A part is dropped one microsecond before its last row expires."""
    real = RowLog.expire
    return RowLog, "expire", lambda self, now: real(self, now + 1)


def filter_that_drops_a_hash() -> Bug:
    """The filter of hashes drops every fourth hash that was added to it."""
    real = BloomFilter.may_have
    return (
        BloomFilter,
        "may_have",
        lambda self, hashes: real(self, hashes) & (hashes & np.uint64(3) != 0),
    )


def fence_off_by_one() -> Bug:
    """A lookup by key returns the row after the right one."""
    real = HashIndex.candidates

    def shifted(self: HashIndex, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        positions, rows = real(self, hashes)
        return positions, np.minimum(rows + 1, len(self.entries) - 1)

    return HashIndex, "candidates", shifted


def due_timer_left_behind() -> Bug:
    """The last of several timers that are due at once is skipped."""
    real = StoredTimes.take

    def fewer(self: StoredTimes, until: int, rows_max: int) -> tuple[int, np.ndarray]:
        until, numbers = real(self, until, rows_max)
        return until, numbers[: max(len(numbers) - 1, 1)] if len(numbers) > 1 else numbers

    return StoredTimes, "take", fewer


def old_row_that_stays() -> Bug:
    """A row that was replaced stays current."""
    return RowLog, "_end", lambda self, gone: None


def run_deleted_that_a_checkpoint_names() -> Bug:
    """When a checkpoint is obsolete, its runs are deleted, including those that later ones name."""
    real = collection._delete

    def delete(job: Any, vertex: Any, names: list[str]) -> None:
        job.out.append(DeleteFiles(tuple(vertex.parts)))
        vertex.parts.clear()
        real(job, vertex, names)

    return collection, "_delete", delete


SPILL_BUGS: dict[str, Callable[[], Bug]] = {
    "a row lost at a merge": row_lost_at_a_merge,
    "expiry one early": expiry_one_early,
    "a filter that drops a hash": filter_that_drops_a_hash,
    "a fence off by one": fence_off_by_one,
    "a due timer left behind": due_timer_left_behind,
    "an old row that stays": old_row_that_stays,
}
#: Bugs of the job manager's handling of runs.
JOB_BUGS: dict[str, Callable[[], Bug]] = {
    "a run deleted that a checkpoint names": run_deleted_that_a_checkpoint_names,
}
