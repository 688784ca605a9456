"""CTIs that an operator holds back on account of rows, let through once these rows have left.

An operator whose rows wait (a session, an anti join) says in CTIs how far its *rows* have come, and
rows differ from vertex to vertex. With :class:`HeldCtis` behind it the CTIs that it got are in its
output as well, as soon as the output has come that far, at the end of the stream at the latest. So
the last finite CTI of its output is that of its input, whichever rows were in its vertex, and what
a keyed process knows of the end (``ctx.at_end``) is the same at any parallelism.

Of CTIs that wait long one per cell of time is kept, the newest, as it tells all that those before
it do. Cells of a width are thinned when the last CTI has left the block of ``_CELLS`` cells that
they are in, for every width that is a power of two: the longer ago, the wider they are.

Invariants: (1) the output stays in normal form: a CTI stands where its time puts it, and no row is
before it that starts at or after its time, as an operator puts out a row only after all CTIs up to
the row's start; (2) what has been put out, and what waits, follow from the output and from the CTIs
up to the last one, so nothing depends on how the input was cut: runs are cut at CTIs that thin;
(3) the last CTI of the input is never thinned; (4) at most :data:`HELD_MAX` wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.batch import VS, int64_column
from rstream.types import INF_TIME, MIN_TIME
from rvertex.events.lifetime import frontier_after
from rvertex.events.run import NO_CTIS, Run, concat

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_CELLS_BITS = 8
_CELLS = 1 << _CELLS_BITS
_TIME_BITS = 63
#: CTIs that wait: of each width at most one per cell of the block at hand, and the last one.
HELD_MAX = _CELLS * (_TIME_BITS + 1)


class HeldCtis:
    """The CTIs of the input that the output has not come to.

    ``keeps_own``: CTIs that the operator makes up by itself stay in its output.
    """

    def __init__(self, *, keeps_own: bool) -> None:
        self._keeps_own = keeps_own
        self._waiting = NO_CTIS
        #: The last start or CTI of the output.
        self._reached: int = MIN_TIME

    def follow(self, ports: Sequence[Run], process: Callable[[Sequence[Run]], Run]) -> Run:
        """What ``process`` makes of ``ports``, and the CTIs that waited and that it has come to."""
        outs: list[Run] = []
        left = list(ports)
        while (at := self._first_thinning(left[0].ctis)) is not None:  # ends: takes a CTI
            piece, left = _split_after(left, at)
            outs.append(self._followed(piece[0].ctis, process(piece)))
            self._waiting = self._waiting[_last_of_use(self._waiting) >= piece[0].ctis[-1]]
        if not outs or not all(run.is_empty for run in left):
            outs.append(self._followed(left[0].ctis, process(left)))
        assert len(self._waiting) <= HELD_MAX, len(self._waiting)
        return concat(outs)

    def save(self) -> list[int]:
        """The state as plain numbers."""
        return [self._reached, *self._waiting.tolist()]

    def load(self, state: Sequence[int]) -> None:
        """Continue from :meth:`save`."""
        self._reached, *waiting = state
        self._waiting = np.array(waiting, np.int64)

    def _followed(self, ctis: np.ndarray, out: Run) -> Run:
        waiting = np.concatenate([self._waiting, ctis])
        self._reached = frontier_after(self._reached, [out])
        count = int(waiting.searchsorted(self._reached, side="right"))
        passed, self._waiting = waiting[:count], waiting[count:]
        return Run(out.events, np.union1d(out.ctis, passed) if self._keeps_own else passed)

    def _first_thinning(self, ctis: np.ndarray) -> int | None:
        """Which of ``ctis`` is the first that leaves one that waits of no use, if all wait."""
        if len(ctis) == 0:
            return None
        last = _last_of_use(np.concatenate([self._waiting, ctis]))
        at = int(ctis.searchsorted(last.min(), side="right"))
        return at if at < len(ctis) else None


def _last_of_use(times: np.ndarray) -> np.ndarray:
    """The last instant of the block of each CTI: a CTI after it thins the cell of that CTI.

    The cell is the least that the CTI has in common with the next of ``times``. The last of them
    has none, and before 0 none is in common with one after 0: their blocks are halves of the axis.
    """
    differ = np.append(times[1:] ^ times[:-1], np.int64(-1))
    bits = np.minimum(np.frexp(differ.astype(np.float64))[1] + _CELLS_BITS, _TIME_BITS)
    bits = np.where(differ < 0, _TIME_BITS, bits).astype(np.int64)
    last: np.ndarray = times | (np.int64(INF_TIME) >> (_TIME_BITS - bits))
    return last


def _split_after(ports: Sequence[Run], at: int) -> tuple[list[Run], list[Run]]:
    """The ports up to and with their CTI number ``at``, and from there on."""
    first, second = [], []
    for run in ports:
        is_before = int64_column(run.events, VS) < run.ctis[at]
        first.append(Run(run.events.filter(pa.array(is_before)), run.ctis[: at + 1]))
        second.append(Run(run.events.filter(pa.array(~is_before)), run.ctis[at + 1 :]))
    return first, second
