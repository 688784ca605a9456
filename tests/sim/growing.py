"""Jobs over a live log that gets partitions while they run.

Their plan is in the root, as in real jobs, and successors read it there.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING

from jobmanager.storage.documents import read_pickle_document
from jobmanager.storage.root import JobRoot
from rstream.store.memory_blobs import MemoryBlobs
from rvertex.sources.logs.errors import LogUnreachableError
from rvertex.sources.spec import Topic, Unit
from streamscope.testing.simulation.storage import root_of
from tests.sim.live_workload import make_live_workload, rows_of_partition
from tests.sim.workload import ROOT, WORKLOADS_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.physical.plan import PhysicalPlan
    from rvertex.sources.spec import SourceSpec
    from rvertex.vertex.spec import VertexSpec
    from streamscope.testing.simulation.scheduler import Scheduler
    from tests.sim.workload import Workload

#: Jobs over folders and bounded reads get no partitions, so the job of another seed runs.
_STEP = 100_003
#: How often brokers do not answer a request for the partitions.
AWAY_RATE = 0.1


@lru_cache(maxsize=WORKLOADS_MAX)
def make_growing_workload(seed: int) -> Workload:
    """The live job of a seed, whose log gets one to three new partitions."""
    workload = next(
        found
        for k in range(100)
        if (found := make_live_workload(seed + k * _STEP)).finish_s is not None
        and found.log is not None
        and not found.log.files
    )
    log, random = workload.log, Random(seed * 7_919 + 29)
    assert log is not None
    births = sorted(
        random.uniform(0.2, 0.8) * log.over_s for _ in range(random.choice([1, 1, 2, 3]))
    )
    births = [births[0] if random.random() < 0.3 else birth for birth in births]
    more = [rows_of_partition(random, log.over_s, since_s=birth) for birth in births]
    had = len(log.partitions)
    log = replace(
        log,
        partitions=(*log.partitions, *(tuple(rows) for rows, _ in more)),
        ends=(*log.ends, *(end for _, end in more)),
        births=(*(0.0 for _ in range(had)), *births),
    )
    vertices = tuple(_of_topic(vertex, had) for vertex in workload.vertices)
    assert workload.plan is not None
    return replace(
        workload,
        name=f"growing {workload.name}",
        vertices=vertices,
        log=log,
        plan=replace(workload.plan, vertices=vertices),
    )


def _of_topic(vertex: VertexSpec, partitions: int) -> VertexSpec:
    """Return the source vertex with the number of partitions that the topic had at planning."""
    source = vertex.source
    if source is None:
        return vertex
    units = tuple(replace(unit, log_partitions=partitions) for unit in source.units)
    spec = replace(source.spec, kind=Topic("json", ()))
    return replace(vertex, source=replace(source, spec=spec, units=units))


def grows(workload: Workload) -> bool:
    return workload.log is not None and any(workload.log.births)


def vertices_on(blobs: dict[str, bytes], workload: Workload) -> Sequence[VertexSpec]:
    """Return the vertices of the stored plan, which a successor uses."""
    data = plan_file(blobs) if grows(workload) else b""
    return _plan_in(data).vertices if data else workload.vertices


def plan_file(blobs: dict[str, bytes]) -> bytes:
    """Return the stored plan of the job; empty if there is none."""
    return JobRoot(MemoryBlobs(blobs, root_of(ROOT))).plan_file()


@lru_cache(maxsize=16)
def _plan_in(data: bytes) -> PhysicalPlan:
    found: PhysicalPlan = read_pickle_document(data)
    return found


class Brokers:
    """Brokers that list the partitions, or sometimes do not answer."""

    def __init__(self, scheduler: Scheduler, workload: Workload) -> None:
        assert workload.log is not None
        self._scheduler, self._log = scheduler, workload.log

    def look(self, spec: SourceSpec, known: Sequence[Unit]) -> Sequence[Unit]:
        """See :func:`rvertex.sources.logs.kafka.positions.added_units`."""
        if self._scheduler.chance(AWAY_RATE):
            raise LogUnreachableError("brokers", "they are away")
        there = self._log.partitions_at(self._scheduler.now_s)
        had = {unit.stream for unit in known}
        found = [p for p in range(there) if p not in had]
        self._scheduler.met["partition taken in"] += len(found)
        return [Unit(spec.path, stream=p, log_partitions=there) for p in found]
