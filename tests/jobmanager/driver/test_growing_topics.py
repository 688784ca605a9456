"""Topics that get partitions while a job runs: which are added although brokers are unreachable.

Not covered: the rows of these partitions (tests/sim, tests/jobmanager/test_added_partitions.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from jobmanager.driver.running.growing_topics import RETRY_S, GrowingTopics
from jobmanager.state.messages import AddedTo, PartitionsAdded
from jobmanager.state.topology import Topology
from jobmanager.storage.root import JobRoot
from planner.physical.lower import lower
from rstream.clock import ManualClock
from rstream.log.background import InlineBackground
from rstream.store.memory_blobs import MemoryBlobs
from rvertex.sources.logs.errors import LogUnreachableError
from rvertex.sources.spec import Topic, Unit
from rvertex.vertex.spec import OutputEdge, VertexId
from tests.support.logs import log_vertex
from tests.support.queries import stateless
from tests.support.scene import Scene

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.sources.spec import SourceSpec
    from rvertex.vertex.spec import VertexSpec


def reader(k: int) -> VertexSpec:
    """A stage over topic ``k``, which had one partition when the job was planned."""
    spec = log_vertex(1, delay_us=0, cti_every_us=4, replays=False)
    assert spec.source is not None
    path = f"kafka://servers/{k}"
    source = replace(
        spec.source,
        spec=replace(spec.source.spec, kind=Topic("json", ()), path=path),
        units=(Unit(path, stream=0, log_partitions=1),),
    )
    out = (OutputEdge((f"out{k}",), (f"out{k}",), (), "async", is_sink=True),)
    return replace(spec, id=VertexId(f"v{k}.0"), stage=f"v{k}", source=source, outputs=out)


def test_an_unreachable_topic_does_not_delay_others() -> None:
    vertices, clock = (reader(0), reader(1)), ManualClock(1_000_000)
    plan = replace(lower(stateless(), root="ROOT", parallelism=1), vertices=vertices)
    root = JobRoot(MemoryBlobs(root="jobs/j/"))
    root.claim(clock.now_us())
    root.write_plan(plan)
    scene = Scene(Topology(vertices), hosts=1)
    scene.start_all()
    for vertex in ("v0.0", "v1.0"):
        scene.at(vertex).log_partitions = 2
    away, told = {"kafka://servers/0"}, list[PartitionsAdded]()

    def look(spec: SourceSpec, known: Sequence[Unit]) -> Sequence[Unit]:
        if spec.path in away:
            raise LogUnreachableError("the brokers", "no answer")
        return [Unit(spec.path, stream=1, log_partitions=2)] if len(known) == 1 else []

    topics = GrowingTopics(
        plan,
        root,
        clock,
        lambda _, added: told.append(added),
        background=InlineBackground(),
        look=look,
    )

    def see() -> None:
        clock.advance(int(RETRY_S * 1e6))
        for _ in range(2):
            topics.note(scene.manager)

    see()
    assert told == [PartitionsAdded((AddedTo("v1.0", (1,)),))]
    assert "vertex v1.0 reads" in topics.notes[0]
    assert "no answer" in topics.notes[1]
    away.clear()
    see()
    assert told[1:] == [PartitionsAdded((AddedTo("v0.0", (1,)),))]
    assert len(topics.notes) == 2
    found = root.read_plan()
    assert found is not None
    assert [v.source.added[0].stream for v in found.vertices if v.source] == [1, 1]


def test_a_topic_that_grows_twice_is_read_completely() -> None:
    vertex, clock = reader(0), ManualClock(1_000_000)
    plan = replace(lower(stateless(), root="ROOT", parallelism=1), vertices=(vertex,))
    root = JobRoot(MemoryBlobs(root="jobs/j/"))
    root.claim(clock.now_us())
    root.write_plan(plan)
    scene = Scene(Topology((vertex,)), hosts=1)
    scene.start_all()
    added: list[PartitionsAdded] = []

    def look(spec: SourceSpec, known: Sequence[Unit]) -> Sequence[Unit]:
        return [Unit(spec.path, stream=len(known), log_partitions=len(known) + 1)]

    topics = GrowingTopics(
        plan,
        root,
        clock,
        lambda _, new: added.append(new),
        background=InlineBackground(),
        look=look,
    )
    for count in (2, 3):
        scene.at("v0.0").log_partitions = count
        for _ in range(2):
            topics.note(scene.manager)
    assert [new.vertices[0].partitions for new in added] == [(1,), (1, 2)]
