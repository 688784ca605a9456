"""Jobs over a live log, and the expected contents of their streams.

The right result is not known in advance: it follows from the rows of the log and from the durable
entries. So it is computed at the end, from all entries ever stored.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING

from planner import Stream, agg, col, tumbling
from planner.logical.nodes import Source
from planner.physical.lower import lower
from rvertex.checkpoint.intake import decode_blob
from rvertex.sources.logs.folder import folder_units
from rvertex.sources.spec import Checks, Json, LiveFolder, SourceSpec, Unit
from rvertex.vertex.rvertex import RVertex
from streamscope.testing.simulation.scheduler import START_US
from streamscope.testing.simulation.workload import mix_durability, small_limits, with_options
from tests.sim.live_log import PAYLOAD, LiveFile, LiveLog, LiveRow
from tests.sim.workload import MS, ROOT, WORKLOADS_MAX, Workload
from tests.support.plan_runner import Schedule, run_vertex

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planner import Query
    from rstream import Items
    from rvertex.sources.logs.entries import LogEntry
    from rvertex.sources.spec import Idle
    from rvertex.vertex.spec import VertexSpec
    from tests.support.plan_runner import Streams

INTAKE = "job/intake/"
_CHECKSUM_BYTES = 16
IDLE_AFTER_US = 300 * MS
#: For every fourth job: partitions become silent before the granted time has passed.
HASTY_AFTER_US, HASTY_DELAY_US = 60 * MS, 4_000 * MS
LEASE_S = 0.3
#: The share of jobs that read a growing folder.
FOLDER_SHARE = 0.3
#: For every fifth job: some rows are ahead of the clock, a few of them only for a while.
AHEAD_EVERY, MAX_AHEAD_US = 5, 600 * MS
#: The times of a file's rows are within this span after it appears.
FILE_SPAN_US = 500 * MS


@lru_cache(maxsize=WORKLOADS_MAX)
def make_live_workload(seed: int) -> Workload:
    """The live job of a seed."""
    random, is_hasty = Random(seed * 7_919 + 17), seed % 4 == 3
    log = _folder(random) if random.random() < FOLDER_SHARE else _log(random)
    is_ahead = seed % AHEAD_EVERY == 1
    log = _with_early_rows(log, Random(seed)) if is_ahead else log
    is_bounded = not log.files and random.random() < 0.5
    spec = SourceSpec(
        kind=Json(),
        path="live",
        schema=PAYLOAD,
        columns=PAYLOAD,
        vs="t",
        delay_us=[random.choice([0, 20 * MS, 300 * MS]), HASTY_DELAY_US][is_hasty],
        live=LiveFolder(
            idle=_idle(random, is_ahead=is_ahead),
            idle_after_us=HASTY_AFTER_US if is_hasty else IDLE_AFTER_US,
            partitions=random.choice([1, 2]),
            poll_every_us=200 * MS,
        ),
        checks=Checks("skip", max_ahead_us=MAX_AHEAD_US) if is_ahead else Checks(),
    )
    ends = [end if is_bounded else None for end in log.ends]
    units = tuple(Unit("live", stream=k, until=end) for k, end in enumerate(ends))
    units = folder_units(spec) if log.files else units
    stream = Stream(Source(spec, random.choice([1, 1, 2, len(units)]), "live"))
    shape = random.choice([_windows, _rows])
    plan = lower(
        shape(stream),
        root=ROOT,
        parallelism=random.choice([1, 2]),
        cti_every="50ms",
        discover=lambda _: units,
    )
    vertices = mix_durability(plan.vertices, random)
    config = with_options(small_limits(random), random)
    host = replace(config.host, lease_s=LEASE_S, verify=False)
    config = replace(config, host=host, retain_us=0, straggler_after_s=10.0)
    return Workload(
        f"live {shape.__name__}",
        vertices,
        tuple(plan.sink_streams()),
        config,
        random.choice([1, 2, 3]),
        {},
        replace(plan, vertices=vertices),
        log=log,
        finish_s=None if is_bounded else log.over_s + 1.0,
    )


def _windows(stream: Stream) -> Query:
    """A query with windows, whose contents depend on which rows are late."""
    window = stream.group_by("k").window(tumbling("200ms"))
    return window.agg(n=agg.count(), last=agg.last("x")).to_parquet()


def _rows(stream: Stream) -> Query:
    return stream.filter(col("x") > -40).to_parquet()


def _log(random: Random) -> LiveLog:
    """Rows over about ten seconds, with ties and gaps; each partition is sometimes silent."""
    over_s = random.uniform(6.0, 20.0)
    partitions, ends = [], []
    for _ in range(random.choice([1, 2, 2, 3])):
        rows, end = rows_of_partition(random, over_s)
        partitions.append(tuple(rows))
        ends.append(end)
    return LiveLog(tuple(partitions), tuple(ends), over_s)


def _idle(random: Random, *, is_ahead: bool) -> Idle:
    """Draw the ``idle`` option; not "follow" or "clock" if rows may be from the future."""
    chosen: Idle = random.choice(["follow", "follow", "follow", "clock", "wait"])
    return "wait" if is_ahead else chosen


def _with_early_rows(log: LiveLog, random: Random) -> LiveLog:
    """The log with rows that are bad if they are read early, or always."""

    def moved(row: LiveRow) -> LiveRow:
        ahead_us = random.choice([0, 0, 0, 0, 0, 0, 700, 1_500, 3_000, 600_000]) * MS
        return replace(row, vs=row.vs + ahead_us)

    partitions = tuple(tuple(map(moved, rows)) for rows in log.partitions)
    files = tuple(replace(file, rows=tuple(map(moved, file.rows))) for file in log.files)
    return replace(log, partitions=partitions, files=files)


def exact_us(at_s: float) -> int:
    """The world's wall clock at this time."""
    return START_US + int(at_s * 1e6)


def newest_us(log: LiveLog, at_s: float) -> int:
    """The greatest time that a producer may use at this moment."""
    return exact_us(at_s) + FILE_SPAN_US if log.files else _now_us(at_s)


def _now_us(at_s: float) -> int:
    """The clock of the producers."""
    return START_US + int(at_s * 100) * 10 * MS


def rows_of_partition(
    random: Random, over_s: float, *, since_s: float = 0.0
) -> tuple[list[LiveRow], int]:
    """The rows of a partition from ``since_s`` on, and its end."""
    rows: list[LiveRow] = []
    at_s, position = since_s + random.uniform(0.0, 1.0), 0
    while at_s < over_s:
        late_us = random.choice([0, 0, 5, 20, 400]) * MS
        time = _now_us(at_s) - late_us
        rows.append(LiveRow(at_s, position, time, random.randint(0, 4), random.randint(-50, 50)))
        position += random.choice([1, 1, 1, 4])
        silence_s = random.uniform(1.0, 5.0) if random.random() < 0.05 else 0.0
        at_s += random.choice([0.0, 0.02, 0.1, 0.2]) + silence_s
    return rows, position


def _folder(random: Random) -> LiveLog:
    """Files that arrive over about ten seconds, each written for a while."""
    over_s = random.uniform(6.0, 15.0)
    files, at_s = [], 0.0
    while at_s < over_s:
        number, whole_s = len(files), at_s + random.choice([0.0, 0.1, 1.0])
        times = [exact_us(at_s) + random.randint(0, FILE_SPAN_US // MS) * MS for _ in range(20)]
        rows = tuple(
            LiveRow(at_s, 0, time, random.randint(0, 4), random.randint(-50, 50))
            for time in times[: random.randint(1, 20)]
        )
        files.append(LiveFile(f"live/{number:03d}.json", at_s, whole_s, rows))
        at_s += random.choice([0.05, 0.3, 0.8, 3.0])
    return LiveLog((), (), over_s, tuple(files))


def entries_of(puts: Mapping[str, bytes]) -> dict[str, list[LogEntry]]:
    """The entries of all blobs of each vertex's journal, in order."""
    found: dict[str, list[LogEntry]] = defaultdict(list)
    for path in sorted(puts):
        vertex = path.removeprefix(INTAKE).rpartition("/")[0]
        found[vertex] += decode_blob(puts[path][:-_CHECKSUM_BYTES])
    return found


def expected_of(
    workload: Workload, vertices: Sequence[VertexSpec], puts: Mapping[str, bytes]
) -> dict[str, list[Items]]:
    """Return the right content of every stream that these vertices write."""
    assert workload.log is not None
    entries, streams = entries_of(puts), defaultdict(list)
    for spec in vertices:
        if spec.source is None:
            run_vertex(spec, streams, Schedule((0,)))
        else:
            _run_source(spec, workload.log, entries[spec.id], streams)
    return streams


def _run_source(
    spec: VertexSpec, log: LiveLog, entries: Sequence[LogEntry], streams: Streams
) -> None:
    """Read the whole log at once; a partition counts if it has an entry that adds it."""
    assert spec.source is not None
    told = {entry.partition for entry in entries}
    had = len(spec.source.units)
    added = tuple(unit for k, unit in enumerate(spec.source.added, had) if k in told)
    spec = replace(spec, source=replace(spec.source, added=added))
    vertex = RVertex(spec, pending_rows_max=1_000_000)
    assert vertex.log is not None
    vertex.log.decide(entries)
    for k, unit in enumerate(spec.source.log_units if spec.source else ()):
        rows = log.rows(unit.stream, 0, log.over_s, 1_000_000) if not log.files else None
        vertex.log.offer(k, rows or log.file_rows(entries, k))
    while (result := vertex.execute()) is not None:
        for stream, items in zip(spec.output_streams, result.outputs, strict=True):
            if items is not None:
                streams[stream].append(items)
