"""One run: a seed decides the job, the faults and every order; the laws are checked throughout."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from rstream.log.overlap import seal
from tests.sim.checkers import Checkers
from tests.sim.delivered_workload import with_deliveries
from tests.sim.delivery_faults import DELIVERY_KINDS
from tests.sim.faults import KINDS, inject, request_finish
from tests.sim.growing import make_growing_workload
from tests.sim.live_workload import make_live_workload
from tests.sim.of_query import make_query_workload
from tests.sim.open_workload import make_open_workload
from tests.sim.scheduler import Process, Scheduler
from tests.sim.storage import Disk, FaultyBlobs, root_of
from tests.sim.workload import make_workload
from tests.sim.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.sim.of_query import QueryAndInputs
    from tests.sim.workload import Workload


@dataclass(frozen=True)
class Outcome:
    """What became of a run."""

    seed: int
    workload: str
    faults: tuple[str, ...]
    violations: tuple[str, ...]
    trace: str
    #: The last events, for people.
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
    #: What was met, and how often: faults, strategies, notices.
    met: tuple[tuple[str, int], ...]

    @property
    def is_ok(self) -> bool:
        """Whether no law was broken."""
        return not self.violations


def simulate(
    seed: int,
    kinds: Sequence[str] | None = None,
    mutation: Callable[[], AbstractContextManager[object]] = nullcontext,
    *,
    workload_seed: int | None = None,
    live: bool = False,
    deliver: bool = False,
    grow: bool = False,
    open_rows: bool = False,
    query: QueryAndInputs | None = None,
) -> Outcome:
    """Run one job under one seed; ``mutation`` is in force after the right answer is known.

    ``workload_seed``: run the job of another seed, under the faults and orders of this one.
    ``kinds``: of the faults; None: of all kinds that such a job has. ``live``: the job reads a live
    log. ``deliver``: its answers are delivered, whose order is a law, too. ``grow``: it reads one
    that gets partitions. ``open_rows``: rows end later than they come, to be delivered by key.
    ``query``: the job runs a query of a user.
    """
    make = make_live_workload if live else make_growing_workload if grow else make_workload
    make = make_open_workload if open_rows else make
    make = make if query is None else partial(make_query_workload, given=query)
    workload = make(seed if workload_seed is None else workload_seed)
    if live or grow:  # what is expected becomes known at the end
        workload = replace(workload, expected={}, answers={})
    if deliver:
        workload = with_deliveries(workload, seed if workload_seed is None else workload_seed)
    if kinds is None:
        kinds = (*KINDS, *(DELIVERY_KINDS if deliver else ()))
    with mutation():
        return _simulate(seed, kinds, workload)


def _simulate(seed: int, kinds: Sequence[str], workload: Workload) -> Outcome:
    scheduler = Scheduler(seed)
    checkers = Checkers(scheduler, workload)
    scheduler.look = checkers.look
    disk = Disk(scheduler, checkers.on_put, checkers.on_delete, checkers.blobs)
    checkers.disk = disk
    world = World(seed, workload, disk, scheduler)
    checkers.delivered = world.delivered
    checkers.retention = world.laws.retention
    try:
        return _run(world, checkers, kinds)
    finally:
        world.strands.close()


def _run(world: World, checkers: Checkers, kinds: Sequence[str]) -> Outcome:
    scheduler, disk, workload = world.scheduler, world.disk, world.workload
    faults = inject(world, kinds) if kinds else []
    if workload.finish_s is not None:
        scheduler.after(workload.finish_s, None, partial(request_finish, world))
    world.run()
    checkers.look()
    if not scheduler.violations:
        if workload.log is not None:
            checkers.follows_from_log_and_journal()
        _finish(scheduler, disk, checkers, workload.sinks)
        if workload.deliveries and not scheduler.violations:
            world.laws.all_is_delivered(workload.answers, disk.blobs)
    return Outcome(
        world.seed,
        workload.name,
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
    """As a job does when it has finished; then look at the output."""
    disk.error_rate = 0.0
    process = Process("finish", lambda reason: None)
    checkers.is_over = True
    for _, uri in sinks:
        seal(FaultyBlobs(disk, process, root_of(uri)))
    checkers.output_is_complete()
