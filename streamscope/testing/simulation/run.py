"""One run: a seed decides the job, the faults and every order; the laws are checked throughout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rstream.log.overlap import seal
from streamscope.testing.simulation.faults.kinds import inject
from streamscope.testing.simulation.laws.checkers import Checkers
from streamscope.testing.simulation.managers import JobWorld
from streamscope.testing.simulation.scheduler import Process, Scheduler
from streamscope.testing.simulation.storage import Disk, FaultyBlobs, root_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streamscope.testing.simulation.faults.kinds import Kind
    from streamscope.testing.simulation.workload import Workload
    from streamscope.testing.simulation.world import World


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run."""

    seed: int
    workload: str
    faults: tuple[str, ...]
    violations: tuple[str, ...]
    trace: str
    #: The last lines of the trace, for failure messages.
    tail: tuple[str, ...]
    steps: int
    virtual_s: float
    hosts: int
    manager_deaths: int
    refusals: int
    takeovers: int
    fenced: int
    segments: int
    checkpoints: int
    deletions: int
    #: Counts of the faults, strategies and notices that occurred.
    met: tuple[tuple[str, int], ...]

    @property
    def is_ok(self) -> bool:
        """Whether no law was broken."""
        return not self.violations


def run_job(
    seed: int,
    workload: Workload,
    kinds: Mapping[str, Kind],
    *,
    open_world: type[World] = JobWorld,
    open_checkers: type[Checkers] = Checkers,
) -> Outcome:
    """Run one job under one seed."""
    scheduler = Scheduler(seed)
    checkers = open_checkers(scheduler, workload)
    scheduler.look = checkers.look
    disk = Disk(scheduler, checkers.on_put, checkers.on_delete, checkers.blobs)
    checkers.disk = disk
    world = open_world(seed, workload, disk, scheduler)
    try:
        faults = inject(world, kinds) if kinds else []
        world.begin(checkers)
        return _run(world, checkers, faults)
    finally:
        world.close()


def _run(world: World, checkers: Checkers, faults: Sequence[str]) -> Outcome:
    scheduler = world.scheduler
    world.run()
    checkers.look()
    if not scheduler.violations:
        checkers.has_ended()
        _finish(scheduler, world.disk, checkers, world.workload.sinks)
    if not scheduler.violations:
        world.is_complete()
    return Outcome(
        world.seed,
        world.workload.name,
        tuple(faults),
        tuple(scheduler.violations),
        scheduler.trace_digest,
        tuple(scheduler.tail),
        scheduler.steps,
        scheduler.now_s,
        len(world.hosts),
        world.manager_deaths,
        world.refused,
        world.takeovers,
        world.fenced,
        checkers.segments,
        checkers.checkpoints,
        checkers.deletions,
        tuple(sorted(scheduler.met.items())),
    )


def _finish(
    scheduler: Scheduler, disk: Disk, checkers: Checkers, sinks: Sequence[tuple[str, str]]
) -> None:
    """Seal the output as a finished job does, then check it."""
    disk.error_rate = 0.0
    process = Process("finish", lambda reason: None)
    checkers.is_over = True
    for _, uri in sinks:
        seal(FaultyBlobs(disk, process, root_of(uri)))
    checkers.output_is_complete()
