"""Planted bugs of rows whose ends arrive later; see :mod:`tests.sim.mutants`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rstream.items.batch import VE, VS, int64_column
from rvertex.events.run import Run
from rvertex.operators.edges.instants import Instants
from rvertex.operators.edges.spread import EdgeSpreadOperator
from rvertex.sinks.kafka.records import RecordEncoder
from tests.sim.planting import Mutant

if TYPE_CHECKING:
    from collections.abc import Callable

of_open_rows = partial(Mutant, open_rows=True, deliver=True)
LOST = ("crash_host", "crash_all")


def _spread(change: Callable[[Run, np.ndarray], Run]) -> Mutant:
    """The output's last operator, with ``change`` applied to its events, which include ends."""
    original = EdgeSpreadOperator.process

    def process(self: Any, ports: Any) -> Run:
        run = original(self, ports)
        events = run.events
        return change(run, int64_column(events, VE) < int64_column(events, VS))

    return of_open_rows(EdgeSpreadOperator, "process", process)


def an_end_is_lost() -> Mutant:
    """Of the rows that end in a step, the last one stays valid."""

    def change(run: Run, ends: np.ndarray) -> Run:
        if ends.sum() < 2:
            return run
        kept = np.arange(len(ends)) != np.flatnonzero(ends)[-1]
        return Run(run.events.filter(pa.array(kept)), run.ctis)

    return _spread(change)


def an_end_comes_twice() -> Mutant:
    """Bug: known ends are restored in addition to the ends that exist."""
    original = Instants.restore

    def restore(self: Any, frontier: int, tables: Any) -> None:
        original(self, frontier, tables)
        for i, runs in enumerate(self._ahead):
            for batch in tables[f"ahead{i}"].combine_chunks().to_batches():
                runs.push(batch)

    return of_open_rows(Instants, "restore", restore, LOST)


def a_start_comes_before_an_end_at_one_instant() -> Mutant:
    """Events of one instant are in the order of the rows' starts."""

    def change(run: Run, ends: np.ndarray) -> Run:
        order = np.lexsort((ends, int64_column(run.events, VS)))
        return Run(run.events.take(pa.array(order)), run.ctis)

    return _spread(change)


def the_net_change_is_not_taken() -> Mutant:
    """A key whose row is replaced at an instant gets a tombstone before its value."""
    return of_open_rows(RecordEncoder, "_net", lambda self, rows: rows)


def a_tombstone_comes_without_a_row() -> Mutant:
    """Bug: a key gets a tombstone for each row that ever ended, not only for its current one."""
    original = RecordEncoder.of

    def records(self: Any, rows: Any) -> Any:
        ended = self.__dict__.setdefault("ended", {})
        for record in original(self, rows):
            yield record
            if record.value is None and ended.setdefault(record.key, record) is not record:
                yield ended[record.key]

    return of_open_rows(RecordEncoder, "of", records)


OPEN_MUTANTS: tuple[Callable[[], Mutant], ...] = (
    an_end_is_lost,
    an_end_comes_twice,
    a_start_comes_before_an_end_at_one_instant,
    the_net_change_is_not_taken,
    a_tombstone_comes_without_a_row,
)
