"""Computes a source's frontier per block of rows instead of per row, if no row is late.

For most blocks, the least and the greatest time prove that no row is late and that the frontier
reaches no new time of the grid (the multiples of ``cti_every``). Only the other blocks are
processed row by row. If rows are in time order, none is late unless the first is. The result
equals the result of :mod:`rvertex.vertex.reorder`, which works row by row.

If planning has read all times, the times of later rows are known too, and they raise the frontier.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rstream.types import MIN_TIME

_BLOCK_ROWS = 64


@dataclass(frozen=True, slots=True)
class Advance:
    """A frontier's advance. ``grid_times`` int64[n]: the grid times that it reached."""

    max_vs: int
    grid_times: np.ndarray


@dataclass(frozen=True, slots=True)
class KnownFrontier:
    """Lower bounds of the starts of later rows, computed when the job was planned.

    Entry k: all rows from number ``rows[k]`` on start at ``times[k]`` or later. Both arrays are
    strictly increasing little-endian int64. They are stored as bytes so that a plan can contain and
    fingerprint them.
    """

    rows: bytes
    times: bytes

    @staticmethod
    def of(rows: np.ndarray, times: np.ndarray) -> KnownFrontier:
        """Make the object from the entries ``(rows[k], times[k])``."""
        assert len(rows) == len(times) > 0, (len(rows), len(times))
        assert (np.diff(rows) > 0).all()
        assert (times[1:] > times[:-1]).all()
        return KnownFrontier(rows.astype("<i8").tobytes(), times.astype("<i8").tobytes())

    @property
    def last_us(self) -> int:
        """The time of the last entry."""
        return int(self.entries()[1][-1])

    def entries(self) -> tuple[np.ndarray, np.ndarray]:
        """Return row numbers and times."""
        return np.frombuffer(self.rows, "<i8"), np.frombuffer(self.times, "<i8")


def advance(vs: np.ndarray, max_vs: int, *, delay_us: int, every_us: int) -> Advance | None:
    """Return the frontier's advance for rows at times ``vs`` int64[n], after ``max_vs``.

    Returns None if a row is late or at the beginning of time. The caller then works row by row.
    """
    if max_vs < MIN_TIME + delay_us + every_us:
        return None
    whole = len(vs) // _BLOCK_ROWS * _BLOCK_ROWS
    blocks = vs[:whole].reshape(-1, _BLOCK_ROWS)
    ahead = np.empty(len(blocks) + 1, np.int64)
    ahead[0] = max_vs
    is_in_order = bool(vs[0] >= max_vs - delay_us) and _is_sorted(vs)
    ahead[1:] = blocks[:, -1] if is_in_order else blocks.max(axis=1)
    np.maximum.accumulate(ahead, out=ahead)
    before, after = ahead[:-1], ahead[1:]
    cells = (ahead - delay_us) // every_us
    may_advance = cells[1:] > cells[:-1]
    if not is_in_order:
        may_advance |= blocks.min(axis=1) < after - delay_us
    look = np.flatnonzero(may_advance)
    pieces = [(blocks[look], before[look])] if len(look) else []
    if whole < len(vs):
        pieces.append((vs[whole:].reshape(1, -1), ahead[-1:]))
    times: list[np.ndarray] = []
    for rows, start in pieces:
        greatest = np.maximum(np.maximum.accumulate(rows, axis=1), start[:, None])
        if (rows < greatest - delay_us).any():
            return None
        times.append(((greatest - delay_us) // every_us * every_us).ravel())
        max_vs = int(greatest[-1, -1])
    all_times = np.concatenate(times) if times else np.empty(0, np.int64)
    return Advance(max(max_vs, int(ahead[-1])), all_times)


def _is_sorted(vs: np.ndarray) -> bool:
    """Return whether times do not decrease.

    Checks the first rows first: most disorder shows there.
    """
    few = vs[:_BLOCK_ROWS]
    return bool((few[1:] >= few[:-1]).all() and (vs[1:] >= vs[:-1]).all())
