"""Measures how far the rows of a source are out of order, from all their times. Pure.

For each unit it keeps the least and the greatest time of each block of ``BLOCK_ROWS`` rows, and the
delay that the unit alone needs. From the units in order it computes for a partition: (1) the least
delay with which no row is late; (2) how far the frontier may advance at the end of each block,
because the times of later rows are known. After a very late row this is further than the delay
allows; (3) an upper bound of the number of rows that are buffered at the same time.

Invariant: all three follow from the rows alone, so the same files give the same plan on every
machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rstream.types import INF_TIME, MIN_TIME
from rvertex.events.delay_estimate import lateness
from rvertex.events.frontier import KnownFrontier

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

BLOCK_ROWS = 8_192
#: The known frontier is used if it reduces the buffered rows at least by this factor, ...
GAIN_MIN = 2.0
#: ... and if more rows than this are buffered without it.
FEW_ROWS = 8 * BLOCK_ROWS
#: The greatest lateness that is measured. A greater one does not fit into a delay.
LATENESS_MAX_US = INF_TIME - 1


@dataclass(frozen=True, slots=True, eq=False)
class UnitTimes:
    """The times of one unit."""

    rows: int
    #: Least and greatest time per block of ``BLOCK_ROWS`` rows (the last may be shorter), int64[n].
    least: np.ndarray
    greatest: np.ndarray
    #: The least delay with which no row is late if the unit is read first, us.
    delay_us: int

    @property
    def first_us(self) -> int:
        """The least time, us; INF_TIME if there are no rows."""
        return int(self.least.min(initial=INF_TIME))

    def block_ends(self) -> np.ndarray:
        """Return for each block the number of the row after it."""
        ends = np.arange(1, len(self.least) + 1, dtype=np.int64) * BLOCK_ROWS
        return np.minimum(ends, self.rows)


class TimesSoFar:
    """Collects the times of a unit, batch by batch."""

    def __init__(self) -> None:
        self._rows = 0
        self._ahead: int = MIN_TIME
        self._delay_us = 0
        #: Least and greatest time of the incomplete block's rows, without bad rows.
        self._rest = self._rest_greatest = np.empty(0, np.int64)
        self._least: list[np.ndarray] = []
        self._greatest: list[np.ndarray] = []

    def add(self, vs: np.ndarray, is_bad: pa.Array | None = None) -> None:
        """Add the times of the next rows, int64[n]. Times of bad rows are ignored."""
        if len(vs) == 0:
            return
        self._rows += len(vs)
        least = greatest = vs
        if is_bad is not None:
            bad = is_bad.to_numpy(zero_copy_only=False)
            least, greatest = np.where(bad, INF_TIME, vs), np.where(bad, MIN_TIME, vs)
            vs = vs[~bad]
        self._look(vs)
        self._note_blocks(least, greatest)

    def _look(self, vs: np.ndarray) -> None:
        if len(vs) == 0:
            return
        if int(vs[0]) < self._ahead or not (vs[1:] >= vs[:-1]).all():
            ahead = np.maximum(np.maximum.accumulate(vs), self._ahead)
            self._delay_us = max(self._delay_us, int(lateness(vs, ahead).max()))
            self._ahead = int(ahead[-1])
        else:
            self._ahead = int(vs[-1])

    def _note_blocks(self, least: np.ndarray, greatest: np.ndarray) -> None:
        if least is greatest and self._rest is self._rest_greatest:
            least = greatest = np.concatenate([self._rest, least]) if len(self._rest) else least
        else:
            least = np.concatenate([self._rest, least])
            greatest = np.concatenate([self._rest_greatest, greatest])
        whole = len(least) // BLOCK_ROWS * BLOCK_ROWS
        self._note(least[:whole], greatest[:whole], BLOCK_ROWS)
        is_same = least is greatest
        self._rest = least[whole:].copy()
        self._rest_greatest = self._rest if is_same else greatest[whole:].copy()

    def all(self) -> UnitTimes:
        """Return the times of the whole unit; no row follows."""
        if len(self._rest):
            self._note(self._rest, self._rest_greatest, len(self._rest))
            self._rest = self._rest_greatest = self._rest[:0]
        nothing = [np.empty(0, np.int64)]
        least = np.concatenate(self._least or nothing)
        return UnitTimes(
            self._rows, least, np.concatenate(self._greatest or nothing), self._delay_us
        )

    def _note(self, least: np.ndarray, greatest: np.ndarray, rows: int) -> None:
        self._least.append(least.reshape(-1, rows).min(axis=1))
        self._greatest.append(greatest.reshape(-1, rows).max(axis=1))


def time_order(units: Sequence[UnitTimes]) -> list[int]:
    """Return the order in which to read units: by first time, stable.

    The frontier cannot pass the first time of a unit that has not been read, so no other order
    buffers fewer rows.
    """
    return sorted(range(len(units)), key=lambda k: units[k].first_us)


def delay_needed(units: Sequence[UnitTimes]) -> int:
    """Return the least delay, us, with which no row is late if the units are read in order.

    ``LATENESS_MAX_US``: possibly no delay is sufficient.
    """
    delay_us, ahead = 0, int(MIN_TIME)
    for unit in units:
        if unit.rows:
            late = min(ahead - unit.first_us, LATENESS_MAX_US)
            delay_us = max(delay_us, unit.delay_us, late)
            ahead = max(ahead, int(unit.greatest.max()))
    return delay_us


@dataclass(frozen=True, slots=True)
class Disorder:
    """How a partition's rows are brought into time order, and how many rows that buffers."""

    known: KnownFrontier | None
    #: Upper bound of the rows that are buffered at the same time.
    rows_waiting: int


def disorder_of(units: Sequence[UnitTimes], delay_us: int) -> Disorder:
    """Compute the disorder of units in order, with a delay with which no row is late."""
    if not any(unit.rows for unit in units):
        return Disorder(None, 0)
    starts = np.cumsum([0, *(unit.rows for unit in units)])
    ends = np.concatenate([u.block_ends() + s for u, s in zip(units, starts[:-1], strict=True)])
    least = np.concatenate([unit.least for unit in units])
    greatest = np.concatenate([unit.greatest for unit in units])
    ahead = np.maximum.accumulate(greatest)
    by_delay = np.maximum(ahead, MIN_TIME + delay_us) - delay_us
    to_come = np.append(np.minimum.accumulate(least[::-1])[::-1][1:], INF_TIME)
    waiting = _waiting(ends, greatest, np.maximum(by_delay, to_come))
    alone = _waiting(ends, greatest, by_delay)
    if alone <= max(FEW_ROWS, GAIN_MIN * waiting):
        return Disorder(None, alone)
    return Disorder(_known(ends, to_come, by_delay), waiting)


def _waiting(ends: np.ndarray, greatest: np.ndarray, frontier: np.ndarray) -> int:
    """Return an upper bound of the rows buffered at the same time.

    ``frontier`` has the frontier after each block. A block counts until all its rows are released.
    """
    last = len(ends) - 1
    released = np.clip(np.searchsorted(frontier, greatest), np.arange(len(ends)), last)
    leaving = np.bincount(released, weights=np.diff(ends, prepend=0), minlength=len(ends))
    waiting = ends - np.append(0, np.cumsum(leaving)[:-1])
    return int(waiting.max())


def _known(ends: np.ndarray, to_come: np.ndarray, by_delay: np.ndarray) -> KnownFrontier | None:
    """Return the entries at which the frontier is above the delay's and all earlier entries.

    If only bad rows follow there is no entry: the frontier is INF_TIME at the end.
    """
    says_more = (to_come[:-1] > by_delay[:-1]) & (to_come[:-1] < INF_TIME)
    rows, times = ends[:-1][says_more], to_come[:-1][says_more]
    if len(rows) == 0:
        return None
    is_new = np.append(True, times[1:] > times[:-1])
    return KnownFrontier.of(rows[is_new], times[is_new])
