"""What begins and what ends at each instant that is past, of rows with or without known ends.

An operator with edges handles an instant once time has passed it on all ports. Then all that begins
and ends there is known, so nothing depends on where the input was cut.

Invariants: (1) every row begins once and ends at most once: an end that is known beforehand waits
here until its time, an end edge brings its own; (2) rows at the frontier wait.
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
    """The births and the deaths of one port in a step.

    ``births``: rows as they came, by time, with the end that is known then, or INF_TIME.
    ``deaths``: end edges, first those of rows whose ends were known.
    """

    births: pa.RecordBatch
    deaths: pa.RecordBatch
    #: Of each death the end that was known when its row began, or INF_TIME.
    known: np.ndarray


class Instants:
    """The past instants of ports with payload ``schemas``."""

    def __init__(self, schemas: Sequence[pa.Schema], *, points_end: Sequence[bool] = ()) -> None:
        """``points_end``: per port, whether points have deaths as others do; by default they do."""
        self._points_end = tuple(points_end) or (True,) * len(schemas)
        self._events = [event_schema(schema) for schema in schemas]
        self._settled = SettledRows(self._events)
        #: Ends that are known and still ahead, as end edges.
        self._ahead = [SortedRuns(schema) for schema in self._events]

    @property
    def frontier(self) -> int:
        """All instants before it have been handled."""
        return self._settled.frontier

    def take(self, ports: Sequence[Run]) -> list[Settled]:
        """The births and deaths of each port at the instants that ``ports`` let pass."""
        taken = self._settled.take(ports)
        return [self._split(i, rows) for i, rows in enumerate(taken)]

    def save(self) -> tuple[int, dict[str, pa.Table]]:
        """The frontier and what waits, by reference."""
        tables: dict[str, pa.Table] = {}
        for i, waiting in enumerate(self._settled.tables()):
            tables |= {f"waiting{i}": waiting, f"ahead{i}": self._ahead[i].table()}
        return self.frontier, tables

    def restore(self, frontier: int, tables: dict[str, pa.Table]) -> None:
        """Continue from what ``save`` returned; only called on new instants."""
        count = len(self._events)
        self._settled.load(frontier, [tables[f"waiting{i}"] for i in range(count)])
        for i, runs in enumerate(self._ahead):
            for batch in tables[f"ahead{i}"].combine_chunks().to_batches():
                runs.push(batch)

    def _split(self, i: int, rows: pa.RecordBatch) -> Settled:
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
        told = rows.filter(pa.array(ends)) if ends.any() else empty_batch(self._events[i])
        known = np.append(int64_column(due, VS), np.full(told.num_rows, INF_TIME))
        return Settled(births, join_batches([due, told]), known)
