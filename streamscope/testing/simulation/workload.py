"""A small job over a plan: random limits and options, and the expected items of every stream.

Limits are so small that tails fill, segments roll, volatile streams spill, and checkpoints and
collections happen all the time. Each vertex is recovered in its own way, and some jobs retain data
that recovery no longer needs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, TypeVar

from jobmanager.config import KEEP_ALL, JobConfig
from planner.physical.recovery import with_durable_channels, with_horizons
from rstream.items.digest import content_hashes
from rstream.limits import StreamLimits
from rvertex.host.environment import HostLimits
from rvertex.vertex.spec import InputChannel, OutputEdge, Recovery
from streamscope.testing.plan_run import run_plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from planner.physical.plan import PhysicalPlan
    from rstream import Items
    from rvertex.vertex.spec import Durability, Strategy, VertexSpec

ROOT = "blobs://job"
#: Share of jobs that have strong vertices.
STRONG_SHARE = 0.1
End = TypeVar("End", InputChannel, OutputEdge)


@dataclass(frozen=True)
class Workload:
    """A job and its expected result."""

    name: str
    vertices: tuple[VertexSpec, ...]
    #: The output streams of the sink vertices.
    sinks: tuple[tuple[str, str], ...]
    config: JobConfig
    hosts: int
    #: By stream: the content hash of each item, by seq. For a live job, known only at the end.
    expected: dict[str, list[int]]
    #: The plan, which deliveries read.
    plan: PhysicalPlan
    #: By sink stream: its items. For a live job, known only at the end.
    answers: dict[str, list[Items]] = field(default_factory=dict)

    def features(self) -> set[str]:
        """Return the job's strategies, durabilities, and other features that not every job has."""
        features = {f"strategy {v.recovery.strategy}" for v in self.vertices}
        features |= {f"{edge.durability} streams" for v in self.vertices for edge in v.outputs}
        features |= {"retention"} if self.config.retain_us else set()
        if least := self.config.host.compact_segments_min:
            features.add(f"segments merged by {least}")
        features.add(f"generations of {self.config.log_notices_max} notices")
        return features | ({"verification"} if self.config.host.verify else set())


def workload_of(seed: int, name: str, plan: PhysicalPlan, random: Random) -> Workload:
    """Return a job that runs ``plan`` with random options, and its expected result."""
    streams = run_plan(plan)
    expected = {
        stream: [h for items in pieces for h in hashes(items.batch)]
        for stream, pieces in streams.items()
    }
    mixed = replace(plan, vertices=mix_durability(plan.vertices, random))
    config, hosts = small_limits(random), random.choice([1, 2, 3, 3, 4, 4])
    options = Random(seed * 7_919 + 2)
    config = with_options(config, options)
    vertices = _mix_recovery(mixed, hosts, options, is_verified=config.host.verify)
    productions = Random(seed * 7_919 + 11)
    generations = Random(seed * 7_919 + 13)
    config = replace(config, log_notices_max=generations.choice([1, 1, 2, 5, 10, 30, 1_000]))
    least = generations.choice([0, 2, 2, 3, 16])
    config = replace(config, host=replace(config.host, compact_segments_min=least))
    if productions.random() < STRONG_SHARE:
        vertices = with_strong(vertices, productions)
    sinks = tuple(plan.sink_streams())
    return Workload(
        name,
        vertices,
        sinks,
        config,
        hosts,
        expected,
        replace(plan, vertices=vertices),
        answers={stream: streams[stream] for stream, _ in sinks},
    )


def _mix_recovery(
    plan: PhysicalPlan, hosts: int, random: Random, *, is_verified: bool
) -> tuple[VertexSpec, ...]:
    """Draw a recovery strategy for each vertex; in some jobs all vertices have the same one."""
    if is_verified and random.random() < 0.3:  # use the strategies that --verify chooses
        plan = with_durable_channels(plan)
    offers: list[Strategy] = random.choice(
        [
            ["checkpoint"],
            ["checkpoint", "replay"],
            ["replay"],
            ["replication", "checkpoint"],
            ["replication", "replay", "checkpoint"],
            ["replication", "replay", "checkpoint"],
        ]
    )
    return tuple(
        replace(vertex, recovery=_recovery(vertex.recovery.horizon_us, hosts, offers, random))
        for vertex in with_horizons(plan).vertices
    )


def _recovery(
    horizon_us: int | None, hosts: int, offers: list[Strategy], random: Random
) -> Recovery:
    strategy = random.choice(offers)
    if strategy == "replication" and hosts > 1:
        return Recovery("replication", random.choice([2, min(3, hosts)]), horizon_us)
    if strategy == "replay" and horizon_us is not None:
        return Recovery("replay", 1, horizon_us)
    return Recovery("checkpoint", 1, horizon_us)


def with_options(config: JobConfig, random: Random) -> JobConfig:
    """Draw checkpoints by bytes, retention, and the limits for stragglers."""
    bytes_max = random.choice([None, None, 300, 3_000])
    interval_s = config.host.checkpoint_interval_s
    if bytes_max is not None and random.random() < 0.3:
        interval_s = None
    return replace(
        config,
        retain_us=random.choice([0, 0, 0, 0, 200_000, 5_000_000, KEEP_ALL]),
        straggler_after_s=random.choice([0.3, 1.0, 10.0]),
        twins_max=random.choice([1, 2, 4]),
        twin_wait_s=random.choice([1.0, 60.0]),
        join_wait_s=random.choice([1.0, 30.0]),
        host=replace(
            config.host,
            checkpoint_bytes_max=bytes_max,
            checkpoint_interval_s=interval_s,
            checkpoint_inline_bytes_max=random.choice([0, config.host.checkpoint_inline_bytes_max]),
        ),
    )


def mix_durability(vertices: Iterable[VertexSpec], random: Random) -> tuple[VertexSpec, ...]:
    """Draw another durability for the streams of some stages, as a user or planner may choose."""
    chosen: dict[str, Durability] = {}
    streams: dict[str, Durability] = {}
    changed = []
    for vertex in vertices:
        if vertex.stage not in chosen:
            chosen[vertex.stage] = random.choice(
                ["volatile", "volatile", "volatile", "volatile", "async", "sync"]
            )
        outputs = tuple(
            replace(
                edge,
                durability="async"
                if (edge.is_sink or edge.side) and chosen[vertex.stage] == "volatile"
                else chosen[vertex.stage],
            )
            for edge in vertex.outputs
        )
        streams.update({s: edge.durability for edge in outputs for s in edge.streams})
        inputs = tuple(replace(c, durability=streams[c.stream]) for c in vertex.inputs)
        changed.append(replace(vertex, inputs=inputs, outputs=outputs))
    return tuple(changed)


def hashes(batch: pa.RecordBatch) -> list[int]:
    """Return the content hash of each item."""
    return [int(h) for h in content_hashes(batch)]


def with_strong(vertices: Sequence[VertexSpec], random: Random) -> tuple[VertexSpec, ...]:
    """Make half of the vertices strong. Their code is deterministic, so the result is known."""
    strong = {v.id for v in vertices if random.random() < 0.5}
    written = {s for v in vertices if v.id in strong for s in v.output_streams}
    return tuple(_with_productions(v, v.id in strong, written) for v in vertices)


def _with_productions(vertex: VertexSpec, is_strong: bool, written: set[str]) -> VertexSpec:
    inputs = tuple(_flushed(c) if c.stream in written else c for c in vertex.inputs)
    if not is_strong:
        return replace(vertex, inputs=inputs)
    recovery = replace(vertex.recovery, strategy="strong", replicas=1)
    outputs = tuple(map(_flushed, vertex.outputs))
    return replace(vertex, inputs=inputs, outputs=outputs, recovery=recovery)


def _flushed(end: End) -> End:
    return replace(end, durability="async") if end.durability == "volatile" else end


def small_limits(random: Random) -> JobConfig:
    tail_bytes = random.choice([3_000, 8_000, 40_000])
    stream = StreamLimits(
        tail_bytes_max=tail_bytes,
        segment_bytes_max=random.choice([1_000, 4_000, 20_000]),
        segment_rows_max=random.choice([3, 10, 30, 100]),
        flush_interval_ms=random.choice([20, 60, 300]),
        spill_after_s=random.choice([0.05, 0.5]),
        write_wait_s=5.0,
        close_wait_s=5.0,
    )
    host = HostLimits(
        step_rows_max=random.choice([1, 3, 10, 40]),
        pending_rows_max=random.choice([5, 30, 200]),
        pending_bytes_max=1 if tail_bytes == 3_000 else 1 << 20,
        channel_bytes_max=tail_bytes if tail_bytes == 8_000 else 1_000,
        checkpoint_interval_s=random.choice([0.01, 0.05, 0.2]),
        checkpoint_inline_bytes_max=0 if tail_bytes == 8_000 else 1 << 16,
        flush_wait_s=10.0,
        report_interval_s=random.choice([0.02, 0.1]),
        reconnect_s=random.choice([0.05, 0.2]),
        verify=random.random() < 0.5,
        stream=stream,
    )
    return JobConfig(
        tick_s=0.25,
        host_start_wait_s=60.0,
        host_silence_s=random.choice([5.0, 30.0]),
        stall_wait_s=200.0,
        vertex_restarts_max=100_000,
        vertex_failures_max=100_000,
        host_restarts_max=100_000,
        host_stop_wait_s=30.0,
        notice_flush_wait_s=30.0,
        host=host,
    )
