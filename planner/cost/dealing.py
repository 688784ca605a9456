"""Assigns a source's units (files, row groups) to partitions; finds the delay for ``"auto"``.

With a fixed delay, units are assigned in the order of their names. Otherwise all times have been
read (:mod:`rvertex.sources.survey`): units are assigned in the order of their first times, the
delay is the least one with which no row of any partition is late, and each partition knows how far
its later rows allow its frontier to advance. All of it is part of the plan, so every instance,
every replay and every resumed job uses the same values.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.errors import TooMuchToSortError, UnsortableTimesError
from planner.expressions.nodes import Node
from rvertex.sources.discover import assign
from rvertex.sources.disorder import (
    LATENESS_MAX_US,
    delay_needed,
    disorder_of,
    time_order,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.sources.disorder import UnitTimes
    from rvertex.sources.spec import SourcePartition, SourceSpec, Unit
    from rvertex.sources.statistics import SourceStatistics

#: The most bytes that a source vertex may buffer until rows that start earlier have arrived. The
#: buffer is in memory and in each checkpoint, so planning a job that needs more is an error.
WAITING_BYTES_MAX = 2**30
#: The size of the columns ``_vs`` and ``_ve`` of a row, bytes.
_TIMES_BYTES = 16


def start_columns(spec: SourceSpec) -> tuple[str, ...]:
    """Return the columns from which an event's start is computed."""
    if isinstance(spec.vs, Node):
        return tuple(spec.vs.columns())
    assert isinstance(spec.vs, str), spec.vs
    return (spec.vs,)


def dealt(
    spec: SourceSpec,
    units: Sequence[Unit],
    n: int,
    times: Sequence[UnitTimes],
    statistics: SourceStatistics | None = None,
) -> tuple[SourcePartition, ...]:
    """Assign units to ``n`` partitions; ``times``: of each unit, if the delay must be found.

    ``statistics``: statistics with the size of a row; without them no limit is checked.

    Raises:
        TooMuchToSortError: a partition would buffer more than WAITING_BYTES_MAX.
        UnsortableTimesError: no delay of 64 bits spans the times.
    """
    if spec.delay_origin != "auto":
        return assign(spec, units, n)
    order = time_order(times)
    by_partition = [[times[k] for k in order[i::n]] for i in range(n)]
    delay_us = max(delay_needed(times_of_one) for times_of_one in by_partition)
    if delay_us >= LATENESS_MAX_US:
        raise UnsortableTimesError(spec.path)
    parts = assign(
        replace(spec, delay_us=delay_us, delay_origin="found"), [units[k] for k in order], n
    )
    disorders = [disorder_of(times_of_one, delay_us) for times_of_one in by_partition]
    _check_waiting(spec, max(d.rows_waiting for d in disorders), n, statistics)
    return tuple(replace(p, known=d.known) for p, d in zip(parts, disorders, strict=True))


def _check_waiting(
    spec: SourceSpec, rows: int, partitions: int, statistics: SourceStatistics | None
) -> None:
    if statistics is None:
        return
    names = set(spec.schema.names)
    widths = [c.bytes_per_row for name, c in statistics.columns.items() if name in names]
    size = rows * (sum(widths) + _TIMES_BYTES)
    if size > WAITING_BYTES_MAX:
        columns = ", ".join(start_columns(spec))
        raise TooMuchToSortError(spec.path, columns, rows, int(size), partitions, WAITING_BYTES_MAX)
