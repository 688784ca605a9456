"""Running hosts: start, stop, replay, and reading on after a replica is lost.

Hosts are threads with real connections; a scripted manager replaces the job manager. Not covered:
a killed process (tests/spark), decisions of a job manager (tests/jobmanager).
"""

from __future__ import annotations

import dataclasses
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import rvertex.host.host
import rvertex.host.input_channel
from rstream import MemoryBlobs, RStream, StreamLimits, open_reader
from rstream.errors import SequenceConflictError, StoreError
from rvertex.aggregates.spec import AggregateSpec
from rvertex.host.environment import HostLimits
from rvertex.messages import (
    CheckpointTaken,
    Collect,
    Mark,
    Progress,
    StopHost,
    StopVertex,
    TakeCheckpoint,
    VertexFailed,
    VertexFinished,
    VertexStarted,
)
from rvertex.operators.filter import Filter
from rvertex.operators.horizon import chain_horizon
from rvertex.operators.joins.inner import TemporalJoin
from rvertex.operators.windows.hopping import WindowAggregate
from rvertex.sources.spec import PlanItems, SourcePartition, SourceSpec, Unit
from rvertex.vertex.spec import InputChannel, OutputEdge, Recovery, VertexId, VertexSpec
from tests.support.builders import Item, cti, ev, make_items
from tests.support.exact import assert_same_items
from tests.support.gate import SourceGate
from tests.support.hosts import WAIT_S, ScriptedManager
from tests.support.lives import NotNegative

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rvertex.host.opening import PreparedInstance
    from rvertex.operators.protocol import OperatorSpec

PAYLOAD = pa.schema([("k", pa.int64()), ("x", pa.float64())])
SUMS = (AggregateSpec("count", None, "n"), AggregateSpec("sum", "x", "total"))
MS = 1_000
WINDOW = WindowAggregate(("k",), 40 * MS, 20 * MS, SUMS, points=True)
JOIN = TemporalJoin(("k",), ("k",), (("left", "k", "k"), ("left", "x", "x"), ("right", "x", "y")))


def table(length_ms: int, lifetime_us: int = 1) -> pa.RecordBatch:
    """An event per millisecond, a CTI every five."""
    items: list[Item] = []
    for t in range(length_ms):
        if t % 5 == 0:
            items.append(cti(t * MS))
        items.append(ev(t * MS, t * MS + lifetime_us, k=t % 3, x=t / 7))
    return make_items(items, PAYLOAD)


def edge(stream: str, durability: Any) -> OutputEdge:
    return OutputEdge((stream,), (stream,), (), durability)


def source(name: str, items: pa.RecordBatch, *outputs: OutputEdge) -> VertexSpec:
    spec = SourceSpec(PlanItems(items), "", PAYLOAD, pa.schema([]), vs=None)
    return VertexSpec(
        id=VertexId(name),
        stage=name,
        index=0,
        inputs=(),
        source=SourcePartition(spec, (Unit("", rows=items.num_rows),), 0),
        operators=(Filter(NotNegative("x")),),
        outputs=outputs,
        output_payload=PAYLOAD,
        state_schema="tag",
    )


def vertex(
    name: str, operator: OperatorSpec, streams: Sequence[str], output: OutputEdge
) -> VertexSpec:
    return VertexSpec(
        id=VertexId(name),
        stage=name,
        index=0,
        inputs=tuple(InputChannel(s, s, k, PAYLOAD, "volatile") for k, s in enumerate(streams)),
        source=None,
        operators=(operator,),
        outputs=(output,),
        output_payload=operator.output_schema([PAYLOAD] * len(streams)),
        state_schema="tag",
    )


def replayed(spec: VertexSpec, *durations: int) -> VertexSpec:
    horizon_us = chain_horizon(spec.operators, durations)
    return dataclasses.replace(spec, recovery=Recovery("replay", horizon_us=horizon_us))


def windows(length_ms: int) -> list[VertexSpec]:
    """A source and a window, whose output is in ``out``."""
    return [
        source("src.0", table(length_ms), edge("mid", "volatile")),
        vertex("win.0", WINDOW, ["mid"], edge("out", "async")),
    ]


def joins(length_ms: int) -> list[VertexSpec]:
    """Two sources of intervals and their join."""
    lifetime_us = 7 * MS
    return [
        source("a.0", table(length_ms, lifetime_us), edge("a", "volatile")),
        source("b.0", table(length_ms, lifetime_us), edge("b", "volatile")),
        vertex("join.0", JOIN, ["a", "b"], edge("out", "async")),
    ]


@pytest.fixture
def managers() -> Iterator[Callable[..., ScriptedManager]]:
    made: list[ScriptedManager] = []

    def make(vertices: list[VertexSpec], *hosts: str, **limits: Any) -> ScriptedManager:
        chosen = HostLimits(report_interval_s=0.02, **limits)
        manager = ScriptedManager(vertices, limits=chosen)
        made.append(manager)
        for host in hosts:
            manager.start_host(host)
        return manager

    yield make
    for manager in made:
        manager.close()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> SourceGate:
    """Blocks all sources."""
    gate = SourceGate()
    gate.stand(monkeypatch)
    return gate


def output(manager: ScriptedManager, stream: str = "out") -> pa.RecordBatch:
    reader = open_reader(manager.stores[stream], 0)
    batches = []
    while (items := reader.read_next()) is not None:
        batches.append(items.batch)
    return pa.concat_batches(batches)


def finish(manager: ScriptedManager, name: str) -> VertexFinished:
    return manager.wait_for(VertexFinished, lambda n: n.vertex == name)


def run_all(manager: ScriptedManager, host: str) -> pa.RecordBatch:
    """The output without failures."""
    for name in manager.vertices:
        manager.start(host, name, 1)
        manager.locate(name, (1, host))
    for name in manager.vertices:
        finish(manager, name)
    return output(manager)


def has_written(name: str, epoch: int, items: int) -> Callable[[Progress], bool]:
    return lambda n: any(
        v.vertex == name and v.epoch == epoch and v.outputs[0] >= items for v in n.vertices
    )


def reaches(items: int, taken: CheckpointTaken) -> bool:
    return taken.outputs[0] >= items


def test_a_host_runs_the_assigned_vertices(managers: Callable[..., ScriptedManager]) -> None:
    manager = managers(windows(200), "h1")
    items = run_all(manager, "h1")
    assert items.num_rows > 30
    manager.tell("h1", StopHost("h1", flush=True))


@pytest.mark.slow
@pytest.mark.parametrize("make", [joins, windows])
def test_a_replay_in_the_middle_of_a_job(
    managers: Callable[..., ScriptedManager],
    make: Callable[[int], list[VertexSpec]],
    gate: SourceGate,
) -> None:
    length_ms, stretches = 2000, iter(range(200, 2000, 200))
    expected = run_all(managers(make(length_ms), "h1"), "h1")
    *sources, last = make(length_ms)
    last = replayed(last, *([1] if make is windows else [7 * MS] * 2))
    manager = managers([*sources, last], "h1", "h2", "h3", pace=1.0, checkpoint_interval_s=None)
    name = str(last.id)
    for spec in sources:
        manager.start("h1", str(spec.id), 1)
        manager.locate(str(spec.id), (1, "h1"))
    manager.start("h2", name, 2)
    # Restart positions are between turns; if the first turn took many rows, they come later.
    written, taken = 12, None
    while taken is None or 0 in taken.reads:
        gate.close_at_time(next(stretches) * MS)
        manager.wait_for(Progress, has_written(name, 2, written))
        manager.tell("h2", TakeCheckpoint("h2", name, 2))
        taken = manager.wait_for(CheckpointTaken, partial(reaches, written))
        assert taken.asked
        written = taken.outputs[0] + 5
    assert all(0 < a < p for a, p in zip(taken.reads, taken.inputs, strict=True)), taken
    gate.close_at_time(next(stretches) * MS)
    manager.wait_for(Progress, has_written(name, 2, taken.outputs[0] + 5))
    manager.kill("h2")
    gate.open()
    manager.start("h3", name, 3, taken.name)
    started = manager.wait_for(VertexStarted, lambda n: n.epoch == 3)
    assert started.inputs == taken.reads
    finish(manager, name)
    assert_same_items(output(manager), expected, "replayed")


def test_readers_continue_with_the_other_replica(
    managers: Callable[..., ScriptedManager], gate: SourceGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that waited until the dead replica counts as silent would end too late."""
    monkeypatch.setattr(rvertex.host.input_channel, "SILENCE_S", 10 * WAIT_S)
    length_ms = 1200
    expected = run_all(managers(windows(length_ms), "h1"), "h1")
    src, last = windows(length_ms)
    src = dataclasses.replace(src, recovery=Recovery("replication", replicas=2))
    manager = managers([src, last], "h1", "h2", "h3", pace=1.0)
    gate.close_at_time(length_ms * MS // 2)
    manager.start("h1", "src.0", 1)
    manager.start("h2", "src.0", 2)
    manager.locate("src.0", (1, "h1"), (2, "h2"))
    manager.start("h3", "win.0", 3)
    manager.wait_for(Progress, has_written("win.0", 3, 10))
    manager.wait_for(Progress, has_written("win.0", 3, 30))
    manager.kill("h1")
    gate.open()
    finish(manager, "win.0")
    assert_same_items(output(manager), expected, "one replica killed")


class GatedBlobs(MemoryBlobs):
    """A store that returns only when the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()

    def list(self, prefix: str = "") -> list[str]:
        assert self.gate.wait(WAIT_S)
        return super().list(prefix)


def two_sources(length_ms: int) -> list[VertexSpec]:
    return [
        source("a.0", table(length_ms), edge("a", "async")),
        source("b.0", table(length_ms), edge("b", "async")),
    ]


def test_a_slow_store_delays_only_its_own_vertex(
    managers: Callable[..., ScriptedManager],
) -> None:
    manager = managers(two_sources(50), "h1")
    slow = GatedBlobs()
    manager.stores["a"] = slow
    manager.start("h1", "a.0", 1)
    manager.start("h1", "b.0", 1)
    finish(manager, "b.0")
    assert [n.vertex for n in manager.all_of(VertexStarted)] == ["b.0"]
    slow.gate.set()
    finish(manager, "a.0")


def test_an_instance_stopped_while_it_opens_never_starts(
    managers: Callable[..., ScriptedManager],
) -> None:
    manager = managers(two_sources(50), "h1")
    slow = GatedBlobs()
    manager.stores["a"] = slow
    manager.start("h1", "a.0", 1)
    manager.tell("h1", StopVertex("h1", "a.0", 1, flush=False))
    manager.start("h1", "b.0", 1)
    manager.wait_for(VertexStarted, lambda n: n.vertex == "b.0")
    slow.gate.set()
    finish(manager, "b.0")
    manager.start("h1", "a.0", 2)
    manager.start("h1", "a.0", 1)
    finish(manager, "a.0")
    assert [n.epoch for n in manager.all_of(VertexStarted) if n.vertex == "a.0"] == [2]


def test_a_failed_start_leaves_no_resources(managers: Callable[..., ScriptedManager]) -> None:
    one = source("a.0", table(50), edge("good", "async"), edge("bad", "async"))
    manager = managers([one], "h1")
    other = MemoryBlobs()
    writer = RStream.open(other, pa.schema([("z", pa.string())]), stream_id="bad")
    writer.append(make_items([cti(1)], pa.schema([("z", pa.string())])))
    writer.close()
    manager.stores["bad"] = other
    manager.start("h1", "a.0", 1)
    failed = manager.wait_for(VertexFailed)
    assert failed.family == "usage" or failed.family == "integrity", failed
    host = manager.hosts["h1"]
    assert not host._env._local
    del manager.stores["bad"]
    manager.start("h1", "a.0", 2)
    finish(manager, "a.0")


def test_streams_of_an_instance_that_does_not_start_are_closed(
    managers: Callable[..., ScriptedManager], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[PreparedInstance] = []

    def refuse(epoch: int, opened: PreparedInstance, *_: object) -> None:
        given.append(opened)
        raise RuntimeError("a bug of ours")

    manager = managers([source("a.0", table(50), edge("a", "async"))], "h1")
    monkeypatch.setattr(rvertex.host.host, "VertexRunner", refuse)
    manager.start("h1", "a.0", 1)
    assert "a bug of ours" in manager.wait_for(VertexFailed).message
    (stream,) = given[0].outputs
    with pytest.raises(StoreError, match="the stream is closed"):
        stream.append(table(1))


def test_verify_compares_items_that_another_instance_made_durable(
    managers: Callable[..., ScriptedManager],
) -> None:
    """A replaced instance may flush later: its items equal those of its successor."""
    spec = source("a.0", table(50), edge("a", "async"))
    manager = managers([spec], "h1", verify=True)
    (stream,) = manager.hosts["h1"]._env.open_outputs(spec, (0,))
    zombie = RStream.open(manager.hosts["h1"]._env._open_store("a"), PAYLOAD, stream_id="a")
    zombie.append(table(2, lifetime_us=3))
    zombie.close()
    stream.append(table(2))
    with pytest.raises(SequenceConflictError):
        stream.flush()
    stream.close(flush=False)


def test_a_stopped_instance_is_flushed_before_a_newer_one_replaces_it(
    managers: Callable[..., ScriptedManager], gate: SourceGate
) -> None:
    spec = source("a.0", table(600), edge("a", "async"))
    expected = table(600)
    manager = managers([spec], "h1", pace=1.0, checkpoint_interval_s=None)
    gate.close_at_time(300 * MS)
    manager.start("h1", "a.0", 1)
    manager.wait_for(Progress, has_written("a.0", 1, 50))
    manager.tell("h1", TakeCheckpoint("h1", "a.0", 1))
    taken = manager.wait_for(CheckpointTaken)
    manager.tell("h1", StopVertex("h1", "a.0", 1, flush=True))
    manager.start("h1", "a.0", 2, taken.name)
    manager.wait_for(VertexStarted, lambda n: n.epoch == 2)
    gate.open()
    finish(manager, "a.0")
    items = output(manager, "a")
    assert items.num_rows == expected.num_rows + 1, "and the end"
    assert not manager.all_of(VertexFailed)


def test_a_failed_flush_is_reported_and_the_instance_ends(
    managers: Callable[..., ScriptedManager], gate: SourceGate
) -> None:
    """A failed flush is reported; here the stream is flushed only when the host stops."""

    class Full(MemoryBlobs):
        def put(self, name: str, data: Any) -> None:
            raise StoreError("full", "no space left")

    spec = source("a.0", table(100), edge("a", "async"))
    limits = StreamLimits(flush_interval_ms=60_000)
    manager = managers([spec], "h1", pace=1.0, stream=limits, checkpoint_interval_s=None)
    gate.close_at_time(50 * MS)
    manager.stores["a"] = Full()
    manager.start("h1", "a.0", 1)
    manager.wait_for(Progress, has_written("a.0", 1, 20))
    manager.tell("h1", StopVertex("h1", "a.0", 1, flush=True))
    failed = manager.wait_for(VertexFailed)
    assert failed.family == "store"
    assert "no space left" in failed.message


def test_a_last_flush_that_takes_too_long_is_given_up(
    managers: Callable[..., ScriptedManager], gate: SourceGate
) -> None:
    is_over = threading.Event()

    class Stuck(MemoryBlobs):
        def put(self, name: str, data: Any) -> None:
            is_over.wait(60)

    spec = source("a.0", table(100), edge("a", "async"))
    limits = StreamLimits(flush_interval_ms=60_000)
    manager = managers(
        *([spec], "h1"), pace=1.0, stream=limits, checkpoint_interval_s=None, flush_wait_s=0.05
    )
    gate.close_at_time(50 * MS)
    manager.stores["a"] = Stuck()
    manager.start("h1", "a.0", 1)
    manager.wait_for(Progress, has_written("a.0", 1, 20))
    manager.tell("h1", StopVertex("h1", "a.0", 1, flush=True))
    try:
        failed = manager.wait_for(VertexFailed)
    finally:
        is_over.set()
    assert failed.family == "operating"
    assert "flush_wait_s" in failed.message


@pytest.mark.parametrize("where", ["progress", "collect"])
def test_a_failure_outside_of_a_step_ends_only_its_vertex(
    managers: Callable[..., ScriptedManager],
    where: str,
    gate: SourceGate,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate.close_at_time(200 * MS)
    specs = [source(f"{s}.0", table(400), edge(s, "async")) for s in "ab"]
    manager = managers(specs, "h1", pace=1.0)
    for spec in specs:
        manager.start("h1", str(spec.id), 1)
        manager.wait_for(Progress, has_written(str(spec.id), 1, 10))

    def broken(*_: object) -> None:
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr(manager.hosts["h1"]._runners["a.0"], where, broken)
    manager.tell("h1", Collect("h1", (Mark("a", 5),)))
    failed = manager.wait_for(VertexFailed)
    assert (failed.vertex, failed.epoch, failed.family) == ("a.0", 1, "bug")
    assert "RuntimeError: a bug of ours" in failed.message
    gate.open()
    finish(manager, "b.0")


@pytest.mark.parametrize("when", ["while it is opened", "before it is there"])
def test_items_that_readers_have_passed_are_not_kept_when_repeated(
    managers: Callable[..., ScriptedManager], when: str
) -> None:
    manager = managers([source("a.0", table(100), edge("a", "volatile"))], "h1", pace=1.0)
    slow = GatedBlobs()
    manager.stores["a"] = slow
    if when == "before it is there":
        slow.gate.set()
    manager.start("h1", "a.0", 1)
    manager.tell("h1", Collect("h1", (Mark("a", 100),)))
    manager.tell("h1", Collect("h1", (Mark("another", 7),)))
    manager.tell("h1", Collect("h1", (Mark("a", 60),)))
    slow.gate.set()
    manager.wait_for(Progress, has_written("a.0", 1, 110))
    runner = manager.hosts["h1"]._runners["a.0"]
    (stream,) = runner.outputs
    assert stream.first_seq == stream.tail_first_seq == 100
    runner.collect({"a": 60})
    assert runner._obsolete_below == [100], "the mark of a message that came late"


def test_a_new_item_wakes_its_reader(managers: Callable[..., ScriptedManager]) -> None:
    """A host that slept for its whole idle wait even once would end too late for the test."""
    manager = managers(windows(300), "h1", "h2", pace=1.0, idle_wait_s=10 * WAIT_S)
    manager.start("h1", "src.0", 1)
    manager.wait_for(VertexStarted, lambda n: n.vertex == "src.0")
    manager.locate("src.0", (1, "h1"))
    manager.start("h2", "win.0", 1)
    manager.wait_for(VertexStarted, lambda n: n.vertex == "win.0")
    finish(manager, "win.0")


def test_the_event_that_a_step_waits_for_wakes_its_host(
    managers: Callable[..., ScriptedManager],
) -> None:
    """Nothing else would wake it, as in the test above."""
    strong = dataclasses.replace(windows(100)[0], recovery=Recovery("strong"))
    manager = managers([strong], "h1", pace=1.0, idle_wait_s=10 * WAIT_S)
    manager.start("h1", "src.0", 1)
    finish(manager, "src.0")
