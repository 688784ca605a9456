"""CTIs (watermarks) that an operator holds back for buffered rows, and emits after those rows.

An operator that buffers rows (a session, an anti join) emits CTIs that follow its *rows*, and rows
differ from vertex to vertex. :class:`HeldCtis` behind it also emits the input's CTIs, each as soon
as the output has reached its time, and at the latest at the end of the stream. So the last finite
CTI of the output is that of the input, whichever rows were in the vertex. Hence a keyed process
sees the same end of the stream (``ctx.at_end``) at any parallelism.

Thinning bounds the number of buffered CTIs. Of old CTIs only the newest per cell of time is kept,
since it implies the earlier ones. For every power of two there are cells of that width, and
``_CELLS`` neighbouring cells form a block. Cells of a width are thinned once the last CTI is past
their block. So the older the CTIs, the wider the cells.

Invariants: (1) the output is in normal form: each CTI is at its place in time, and no row before it
starts at or after its time, because a row is emitted only after all CTIs up to its start; (2) the
emitted and the buffered CTIs depend only on the output and on the CTIs up to the last one, so they
do not depend on batch boundaries (runs are divided at CTIs that thin); (3) the last CTI of the
input is never thinned; (4) at most :data:`HELD_MAX` CTIs are buffered.
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
#: Most buffered CTIs: per width one for each cell of the current block, and the last CTI.
HELD_MAX = _CELLS * (_TIME_BITS + 1)


class HeldCtis:
    """Buffers the CTIs of the input whose times the output has not reached.

    ``keeps_own``: also emit the operator's own CTIs. Otherwise, emit only CTIs of the input.
    """

    def __init__(self, *, keeps_own: bool) -> None:
        self._keeps_own = keeps_own
        self._waiting = NO_CTIS
        #: The greatest start or CTI of the output so far.
        self._reached: int = MIN_TIME

    def follow(self, ports: Sequence[Run], process: Callable[[Sequence[Run]], Run]) -> Run:
        """Run ``process`` on ``ports``.

        Add the buffered CTIs whose times the output has reached.
        """
        outs: list[Run] = []
        left = list(ports)
        # Ends: each round takes a CTI
        while (at := self._first_thinning(left[0].ctis)) is not None:
            piece, left = _split_after(left, at)
            outs.append(self._followed(piece[0].ctis, process(piece)))
            self._waiting = self._waiting[_last_of_use(self._waiting) >= piece[0].ctis[-1]]
        if not outs or not all(run.is_empty for run in left):
            outs.append(self._followed(left[0].ctis, process(left)))
        assert len(self._waiting) <= HELD_MAX, len(self._waiting)
        return concat(outs)

    def save(self) -> list[int]:
        """Return the state as plain numbers."""
        return [self._reached, *self._waiting.tolist()]

    def load(self, state: Sequence[int]) -> None:
        """Restore the state that :meth:`save` returned."""
        self._reached, *waiting = state
        self._waiting = np.array(waiting, np.int64)

    def _followed(self, ctis: np.ndarray, out: Run) -> Run:
        """Return ``out`` with the CTIs that it has reached. Buffer the others of ``ctis``."""
        waiting = np.concatenate([self._waiting, ctis])
        self._reached = frontier_after(self._reached, [out])
        count = int(waiting.searchsorted(self._reached, side="right"))
        passed, self._waiting = waiting[:count], waiting[count:]
        return Run(out.events, np.union1d(out.ctis, passed) if self._keeps_own else passed)

    def _first_thinning(self, ctis: np.ndarray) -> int | None:
        """Return the index of the first of ``ctis`` that makes a buffered CTI obsolete, or None.

        This assumes that no CTI is emitted in between.
        """
        if len(ctis) == 0:
            return None
        last = _last_of_use(np.concatenate([self._waiting, ctis]))
        at = int(ctis.searchsorted(last.min(), side="right"))
        return at if at < len(ctis) else None


def _last_of_use(times: np.ndarray) -> np.ndarray:
    """Return the last instant of the block of each CTI; a later CTI thins the cell of that CTI.

    The cell is the smallest that contains the CTI and the next of ``times``. The last CTI has no
    next one, and no cell spans time 0. In these cases the block is half of the time axis.
    """
    differ = np.append(times[1:] ^ times[:-1], np.int64(-1))
    bits = np.minimum(np.frexp(differ.astype(np.float64))[1] + _CELLS_BITS, _TIME_BITS)
    bits = np.where(differ < 0, _TIME_BITS, bits).astype(np.int64)
    last: np.ndarray = times | (np.int64(INF_TIME) >> (_TIME_BITS - bits))
    return last


def _split_after(ports: Sequence[Run], at: int) -> tuple[list[Run], list[Run]]:
    """Split the ports after their CTI number ``at``; that CTI is in the first part."""
    first, second = [], []
    for run in ports:
        is_before = int64_column(run.events, VS) < run.ctis[at]
        first.append(Run(run.events.filter(pa.array(is_before)), run.ctis[: at + 1]))
        second.append(Run(run.events.filter(pa.array(~is_before)), run.ctis[at + 1 :]))
    return first, second
