"""A made-up live log: partitions with gaps, lost and undecodable rows, entries, and the output.

The expected result is computed row by row in plain Python, without the tested code.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from rstream.items.batch import event_schema
from rstream.types import INF_TIME, MIN_TIME
from rvertex.sources.formats.rows.bad_rows import DEAD
from rvertex.sources.logs.entries import LogEntry
from rvertex.sources.logs.protocol import LogRows
from rvertex.sources.spec import Checks, Json, LatePolicy, Live, SourcePartition, SourceSpec, Unit
from rvertex.vertex.dead_letters import dead_letter_payload
from rvertex.vertex.reorder import late_payload
from rvertex.vertex.spec import OutputEdge, Recovery, VertexId, VertexSpec

PAYLOAD = pa.schema([("p", pa.int64()), ("at", pa.int64())])
LATE_SIDE, DEAD_SIDE = "late/v", "dead_letters/v"


@dataclass(frozen=True)
class Row:
    position: int
    #: None: it cannot be decoded.
    vs: int | None


@dataclass(frozen=True)
class LogPartition:
    rows: tuple[Row, ...]
    entries: tuple[LogEntry, ...]

    @property
    def end(self) -> int:
        """The position of its "end" entry."""
        return self.entries[-1].position


def log_rows(number: int, partition: LogPartition, lo: int, hi: int) -> LogRows:
    """Return the rows at the positions ``[lo, hi)`` of a partition."""
    found = [row for row in partition.rows if lo <= row.position < hi]
    good = [row for row in found if row.vs is not None]
    dead = [row for row in found if row.vs is None]
    vs = np.array([row.vs for row in good], np.int64)
    positions = np.array([row.position for row in good], np.int64)
    columns = [vs, vs + 1, np.full(len(good), number, np.int64), positions]
    return LogRows(
        positions,
        pa.RecordBatch.from_arrays(list(map(pa.array, columns)), schema=event_schema(PAYLOAD)),
        hi,
        pa.RecordBatch.from_pylist([_dead(number, row) for row in dead], schema=DEAD)
        if dead
        else None,
    )


def _dead(number: int, row: Row) -> dict[str, object]:
    at = {"partition": number, "position": row.position}
    return {**at, "key": None, "raw": b"?", "reason": "not JSON"}


def log_vertex(
    partitions: int,
    *,
    delay_us: int,
    cti_every_us: int,
    replays: bool,
    late: LatePolicy = "drop",
    skew_us: int | None = None,
    max_ahead_us: int | None = None,
) -> VertexSpec:
    """A source vertex over such a log, with side outputs and no operator."""
    spec = SourceSpec(
        kind=Json(),
        path="",
        schema=PAYLOAD,
        columns=PAYLOAD,
        vs="t",
        delay_us=delay_us,
        cti_every_us=cti_every_us,
        late=late,
        checks=Checks("dead_letter", max_ahead_us=max_ahead_us),
        live=Live(skew_us=skew_us),
    )
    units = tuple(Unit("", stream=k) for k in range(partitions))
    recovery = Recovery("replay", 1, 3) if replays else Recovery()
    return VertexSpec(
        id=VertexId("v.0"),
        stage="v",
        index=0,
        inputs=(),
        source=SourcePartition(spec, units, 0),
        operators=(),
        outputs=(
            OutputEdge(("out",), ("out",), (), "async"),
            _side(LATE_SIDE, late_payload(PAYLOAD)),
            _side(DEAD_SIDE, dead_letter_payload()),
        ),
        output_payload=PAYLOAD,
        state_schema="tag",
        recovery=recovery,
    )


def _side(name: str, payload: pa.Schema) -> OutputEdge:
    return OutputEdge((name,), (name,), (), "async", False, name, payload)


@dataclass
class Expected:
    """``(vs, partition, position)`` of events, late rows and dead rows, each in order."""

    events: list[tuple[int, int, int]]
    ctis: list[int]
    late: list[tuple[int, int, int]]
    dead: list[tuple[int, int, int]]


def expected(
    partitions: list[LogPartition], delay_us: int, every_us: int, max_ahead_us: int | None = None
) -> Expected:
    """Compute the output of the log, row by row."""
    found = Expected([], [], [], [])
    ctis: set[int] = set()
    for number, partition in enumerate(partitions):
        frontier: int = MIN_TIME
        greatest: int = MIN_TIME
        clocks = [(e.until, e.time) for e in partition.entries if e.kind == "clock"]
        entries = list(partition.entries)
        last = MIN_TIME // every_us * every_us
        for row in [*partition.rows, None]:
            while entries and (row is None or entries[0].position <= row.position):
                entry = entries.pop(0)
                if entry.kind == "advance" and entry.time > frontier:
                    frontier = entry.time
                    ctis |= {frontier // every_us * every_us} - {last}
            if row is None:
                break
            clock = next((time for until, time in clocks if until > row.position), None)
            clock = clocks[-1][1] if clock is None and clocks else clock
            latest = INF_TIME if clock is None or max_ahead_us is None else clock + max_ahead_us
            if row.vs is None or row.vs > latest:
                found.dead.append((frontier, number, row.position))
            elif row.vs < frontier:
                found.late.append((frontier, number, row.position))
            else:
                found.events.append((row.vs, number, row.position))
            if row.vs is not None and row.vs <= latest:
                greatest = max(greatest, row.vs)
                if greatest - delay_us > frontier:
                    frontier = greatest - delay_us
                    ctis.add(frontier // every_us * every_us)
    for rows in (found.events, found.late, found.dead):
        rows.sort()
    found.ctis = [*sorted(ctis), INF_TIME]
    return found


@st.composite
def log_partitions(draw: st.DrawFn) -> list[LogPartition]:
    """Draw up to three partitions: ties, gaps, unordered, lost and undecodable rows, entries."""
    return [_partition(draw, number) for number in range(draw(st.integers(1, 3)))]


def _partition(draw: st.DrawFn, number: int) -> LogPartition:
    rows: list[Row] = []
    position = draw(st.integers(0, 2))
    for _ in range(draw(st.integers(0, 10))):
        time = draw(st.one_of(st.none(), st.integers(0, 30), st.integers(0, 30)))
        rows.append(Row(position, time))
        position += draw(st.sampled_from([1, 1, 1, 3]))
    places = sorted(draw(st.lists(st.integers(0, position), max_size=3)))
    entries = []
    for place in places:
        time = draw(st.integers(1, 34))
        lost = draw(st.sampled_from([0, 0, 0, 1, 4]))
        until = min(place + lost, position)
        if until == place:
            entries.append(LogEntry("advance", number, len(entries), place, time))
            continue
        entries.append(LogEntry("lost", number, len(entries), place, 0, until))
        rows = [row for row in rows if not place <= row.position < until]
    entries.append(LogEntry("end", number, len(entries), position))
    return LogPartition(tuple(rows), tuple(replace(e) for e in entries))


@st.composite
def clocks_of(draw: st.DrawFn, log: list[LogPartition], max_ahead_us: int) -> list[LogPartition]:
    """The log with the "clock" entries that a host writes.

    An entry is before each row that is further in the future than the last entry allows.
    """
    return [_with_clocks(draw, partition, max_ahead_us) for partition in log]


def _with_clocks(draw: st.DrawFn, partition: LogPartition, max_ahead_us: int) -> LogPartition:
    others = list(partition.entries)
    made: list[LogEntry] = []
    time, until = None, 0
    number = others[-1].partition
    for row in [*partition.rows, None]:
        while others and (row is None or others[0].position <= row.position):
            made.append(others.pop(0))
        if row is None or row.vs is None or row.position < until:
            continue
        if time is None or row.vs > time + max_ahead_us:
            time = (time or 0) + draw(st.integers(0, 12))
            until = row.position + draw(st.integers(1, 4))
            at = draw(st.integers(made[-1].position if made else 0, row.position))
            made.append(LogEntry("clock", number, 0, max(at, 0), time, until))
    return replace(partition, entries=tuple(replace(e, index=k) for k, e in enumerate(made)))
