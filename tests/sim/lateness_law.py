"""The law of silence: it costs no row that is in step with the others.

A producer is *in step* if the times of its rows are at most a promised distance (ADR 32) behind the
newest time that any producer may use at that moment. The distance is the delay minus the grant if
silent partitions follow the others, and the delay if they follow the clock. No such row may have a
time below a promise that precedes it in its partition, whether the log had the row when the promise
was made or not. The law does not cover rows that are late within their own partition, nor promises
by a wall clock that has jumped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rvertex.vertex.idle import GRANT_MIN_US, GRANT_SHARE
from tests.sim.live_workload import exact_us, newest_us

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rvertex.sources.logs.entries import LogEntry
    from rvertex.sources.spec import SourceSpec
    from rvertex.vertex.spec import VertexSpec
    from tests.sim.live_log import LiveLog, LiveRow


def late_by_silence(
    log: LiveLog,
    vertices: Sequence[VertexSpec],
    entries: Mapping[str, Sequence[LogEntry]],
    *,
    has_jumped: bool,
) -> Iterator[str]:
    """Return the rows in step that are late by a promise. ``entries``: durable ones by vertex."""
    for vertex in vertices:
        source = vertex.source
        rules = None if source is None else source.spec.live
        if source is None or rules is None or (rules.idle == "clock" and has_jumped):
            continue
        mine = entries.get(vertex.id, ())
        for k, unit in enumerate(source.log_units):
            rows = _rows_in_step(log, source.spec, _rows(log, unit.stream, k, mine))
            is_added = k >= len(source.units)
            for entry in mine:
                # The first entry of an added partition says since when it counts.
                is_promise = entry.kind == "advance" and not (is_added and entry.index == 0)
                if not is_promise or entry.partition != k:
                    continue
                for position, row in rows:
                    if position >= entry.position and row.vs < entry.time:
                        yield f"{vertex.id}: {row} of partition {unit.stream}, {entry}"


def _rows(
    log: LiveLog, number: int, partition: int, entries: Sequence[LogEntry]
) -> list[tuple[int, LiveRow]]:
    """Rows with their positions."""
    if not log.files:
        return [(row.position, row) for row in log.partitions[number]]
    files = [e for e in entries if e.kind == "file" and e.partition == partition]
    return [
        (entry.position + k, row)
        for entry in files
        for k, row in enumerate(log.file(entry.path).rows)
    ]


def _rows_in_step(
    log: LiveLog, spec: SourceSpec, rows: Sequence[tuple[int, LiveRow]]
) -> list[tuple[int, LiveRow]]:
    assert spec.live is not None
    if spec.live.idle == "clock":
        return [(at, row) for at, row in rows if exact_us(row.at_s) - row.vs <= spec.delay_us]
    grant_us = min(max(spec.delay_us // GRANT_SHARE, GRANT_MIN_US), spec.delay_us)
    behind_us = spec.delay_us - grant_us
    return [(at, row) for at, row in rows if newest_us(log, row.at_s) - row.vs <= behind_us]
