"""The starts and ends of rows at each passed instant, for rows with or without known ends.

An operator on edges handles an instant once time has passed it on all ports. Then all starts and
ends at that instant have arrived, so no result depends on batch boundaries.

Invariants: (1) every row starts once and ends at most once. An end that is known in advance is
buffered here until its time; the end of any other row arrives as an end edge; (2) rows at the
frontier are buffered, since more may follow at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.batch import VE, VS, event_schema, int64_column
from rstream.items.dictionaries import join_batches
from rstream.types import INF_TIME
from rvertex.events.lifetime import after, with_times
from rvertex.events.reorder_buffer import SortedRuns, empty_batch
from rvertex.events.settled_rows import SettledRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.events.run import Run


@dataclass(frozen=True, slots=True)
class Settled:
    """The starts (births) and ends (deaths) of one port in a step.

    ``births``: rows in input order, by time, with the end known at the start, or INF_TIME.
    ``deaths``: end edges; rows whose ends were known come first.
    """

    births: pa.RecordBatch
    deaths: pa.RecordBatch
    #: Per end: the end that was known at the row's start, or INF_TIME.
    known: np.ndarray


class Instants:
    """Collects the starts and ends of ports with payload ``schemas``, by instant."""

    def __init__(self, schemas: Sequence[pa.Schema], *, points_end: Sequence[bool] = ()) -> None:
        """Make empty buffers. ``points_end``: per port, whether points also get end edges.

        By default they do.
        """
        self._points_end = tuple(points_end) or (True,) * len(schemas)
        self._events = [event_schema(schema) for schema in schemas]
        self._settled = SettledRows(self._events)
        #: Known ends after the frontier, as end edges.
        self._ahead = [SortedRuns(schema) for schema in self._events]

    @property
    def frontier(self) -> int:
        """The first instant that has not been handled yet."""
        return self._settled.frontier

    def take(self, ports: Sequence[Run]) -> list[Settled]:
        """Add ``ports``.

        Return the starts and ends of each port at instants before the frontier.
        """
        taken = self._settled.take(ports)
        return [self._split(i, rows) for i, rows in enumerate(taken)]

    def save(self) -> tuple[int, dict[str, pa.Table]]:
        """Return the frontier and the buffered rows, by reference."""
        tables: dict[str, pa.Table] = {}
        for i, waiting in enumerate(self._settled.tables()):
            tables |= {f"waiting{i}": waiting, f"ahead{i}": self._ahead[i].table()}
        return self.frontier, tables

    def restore(self, frontier: int, tables: dict[str, pa.Table]) -> None:
        """Restore the state that ``save`` returned. Call it only on a new object."""
        count = len(self._events)
        self._settled.load(frontier, [tables[f"waiting{i}"] for i in range(count)])
        for i, runs in enumerate(self._ahead):
            for batch in tables[f"ahead{i}"].combine_chunks().to_batches():
                runs.push(batch)

    def _split(self, i: int, rows: pa.RecordBatch) -> Settled:
        """Split rows of port ``i`` into starts and ends, and add known ends that are due."""
        vs, ve = int64_column(rows, VS), int64_column(rows, VE)
        ends = ve < vs
        births = rows.filter(pa.array(~ends)) if ends.any() else rows
        is_known = ~ends & (ve != INF_TIME)
        if not self._points_end[i]:
            is_known &= ve != after(vs)
        lasting = np.flatnonzero(is_known)
        if len(lasting):
            held = rows.take(pa.array(lasting))
            self._ahead[i].push(with_times(held, vs=ve[lasting], ve=vs[lasting]))
        due = self._ahead[i].take_below(self.frontier)
        ended = rows.filter(pa.array(ends)) if ends.any() else empty_batch(self._events[i])
        known = np.append(int64_column(due, VS), np.full(ended.num_rows, INF_TIME))
        return Settled(births, join_batches([due, ended]), known)
