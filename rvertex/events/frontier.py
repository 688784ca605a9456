"""How far a source is complete after each of its rows, without looking at each, where none is late.

Rows are looked at in blocks: the least and the greatest time of a block tell most of them that no
row of theirs is late and that the frontier reaches no new time of the grid. Only the others are
gone through row by row. Of rows in order none is late if the first is not. What is found is what
:mod:`rvertex.vertex.reorder` would find row by row.

Where all times were looked at beforehand, the frontier is also known from what is still to come.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rstream.types import MIN_TIME

_BLOCK_ROWS = 64


@dataclass(frozen=True, slots=True)
class Advance:
    """``grid_times`` int64[n]: the frontier rounded down wherever that grew; no time is missing."""

    max_vs: int
    grid_times: np.ndarray


@dataclass(frozen=True, slots=True)
class KnownFrontier:
    """Times before which no row starts that follows a given row, as the plan found out.

    Entry k: all rows from number ``rows[k]`` on start at ``times[k]`` or later. Both arrays are
    bytes of little-endian int64 and grow strictly, so a plan holds them, and a digest tells them
    apart.
    """

    rows: bytes
    times: bytes

    @staticmethod
    def of(rows: np.ndarray, times: np.ndarray) -> KnownFrontier:
        """The entries ``(rows[k], times[k])``."""
        assert len(rows) == len(times) > 0, (len(rows), len(times))
        assert (np.diff(rows) > 0).all()
        assert (times[1:] > times[:-1]).all()
        return KnownFrontier(rows.astype("<i8").tobytes(), times.astype("<i8").tobytes())

    @property
    def last_us(self) -> int:
        """The time of the last entry."""
        return int(self.entries()[1][-1])

    def entries(self) -> tuple[np.ndarray, np.ndarray]:
        """Row numbers and times."""
        return np.frombuffer(self.rows, "<i8"), np.frombuffer(self.times, "<i8")


def advance(vs: np.ndarray, max_vs: int, *, delay_us: int, every_us: int) -> Advance | None:
    """What rows with times ``vs`` int64[n] bring after rows up to ``max_vs``; None: look yourself.

    That is so if a row is late, and at the beginning of time.
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
    is_seen = cells[1:] > cells[:-1]
    if not is_in_order:
        is_seen |= blocks.min(axis=1) < after - delay_us
    look = np.flatnonzero(is_seen)
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
    found = np.concatenate(times) if times else np.empty(0, np.int64)
    return Advance(max(max_vs, int(ahead[-1])), found)


def _is_sorted(vs: np.ndarray) -> bool:
    """Whether the times do not fall; rows out of order are mostly so from the beginning."""
    few = vs[:_BLOCK_ROWS]
    return bool((few[1:] >= few[:-1]).all() and (vs[1:] >= vs[:-1]).all())
