"""The simulation of jobs that may read live logs, get partitions, and deliver their results."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from jobmanager.storage.documents import json_document, pickle_document
from jobmanager.storage.root import FINISH, FORMAT, JOB, QUERY, REQUESTS
from streamscope.testing.simulation import world as of_query
from streamscope.testing.simulation.faults.strikes import user_root
from streamscope.testing.simulation.storage import root_of
from streamscope.testing.simulation.world import LIMIT_S
from tests.sim.change_laws import ChangeCheckers, items_of
from tests.sim.changing import ChangingWorkload, ask_for_changes
from tests.sim.checkers import Checkers
from tests.sim.delivering import JOB_ID, DeliveryProcess
from tests.sim.delivery_faults import deliver
from tests.sim.delivery_laws import DeliveryLaws
from tests.sim.destinations import Destinations
from tests.sim.live_log import LiveFolder, LiveReader
from tests.sim.managers import ManagerProcess
from tests.sim.strands import Strands
from tests.sim.workload import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from planner.physical.plan import PhysicalPlan
    from rstream import Items
    from rvertex.messages import Mark
    from rvertex.sources.logs.protocol import LogReader
    from rvertex.sources.spec import SourcePartition
    from streamscope.testing.simulation.laws import checkers as laws
    from streamscope.testing.simulation.scheduler import Process
    from streamscope.testing.simulation.wiring import SimWiring
    from tests.sim.workload import Workload

#: Share of changing jobs whose processes run the hosts of one generation after another.
PARKS = 0.6


class World(of_query.World):
    """A simulated job, from its start to its end."""

    workload: Workload
    #: The number of job managers that die in a change.
    change_traps = 0
    #: The number of changes requested right after a crash of all hosts.
    change_crashes = 0
    #: The context of a job manager that carries out a change.
    changing: Callable[[], AbstractContextManager[None]] = nullcontext

    def prepare(self) -> None:
        scheduler, workload = self.scheduler, self.workload
        self.strands = Strands(scheduler)
        self.laws = DeliveryLaws(scheduler, workload)
        self.destinations = Destinations(scheduler, self.strands, self.disk, self.laws)
        #: The user's changes of the job, by time.
        self.changes = isinstance(workload, ChangingWorkload) and workload
        self.parks = bool(self.changes) and Random(f"parks {self.seed}").random() < PARKS
        if isinstance(workload, ChangingWorkload):
            document = json_document({"format": FORMAT, "id": JOB_ID, "generation": 0})
            self.disk.blobs[f"{root_of(ROOT)}{JOB}"] = document
            self.disk.blobs[f"{root_of(ROOT)}{QUERY}"] = pickle_document(workload.queries[0])
        #: Separate delivering processes, including ended ones.
        self.deliverers: list[DeliveryProcess] = []
        if workload.deliveries:
            self.disk.breathe = self.strands.breathe
            self.laws.sinks = {sink.name: sink for sink in workload.deliveries}
            self.laws.starts = dict.fromkeys(self.laws.sinks, 0)
            if not self.changes:
                self.disk.blobs[f"{root_of(ROOT)}{JOB}"] = json_document({"id": JOB_ID})

    def begin(self, checkers: laws.Checkers) -> None:
        assert isinstance(checkers, Checkers)
        checkers.find_delivered = self.delivered
        checkers.retention = self.laws.retention
        if isinstance(self.workload, ChangingWorkload):
            assert isinstance(checkers, ChangeCheckers)
            self.changing = checkers.changing
            checkers.on_changed = self._was_changed
            ask_for_changes(self, self.workload)
        if self.workload.finish_s is not None:
            self.scheduler.after(self.workload.finish_s, None, partial(request_finish, self))

    def _was_changed(self, workload: Workload) -> None:
        self.workload = self.laws.workload = workload

    def open_manager(self, *, is_resumed: bool, is_rival: bool = False) -> ManagerProcess:
        return ManagerProcess(self, self.open_executor, is_resumed=is_resumed, is_rival=is_rival)

    def open_log(
        self,
        wiring: SimWiring,
        source: SourcePartition,
        positions: Sequence[int],
        wake: Callable[[], None],
    ) -> LogReader:
        log = self.workload.log
        assert log is not None
        given = log, self.scheduler, wiring.process, source, positions, self.disk.fetched
        if log.files:
            return LiveFolder(*given, wiring.clock, wake, wiring.background)
        return LiveReader(*given)

    def let_go(self, process: Process, marks: tuple[Mark, ...]) -> None:
        looked_s = self.disk.looked_s.get(process.name, self.scheduler.now_s)
        self.laws.retention.is_let_go(process.name, marks, looked_s)

    def delivered(self) -> dict[str, int]:
        """The lowest position of the deliveries per stream of the output."""
        found: dict[str, int] = {}
        streams = [stream for stream, _ in self.workload.sinks]
        own = {sink.name for sink in self.workload.deliveries}  # the others may start too late
        for name, k in self.laws.keys:
            if name in own and self.laws.sinks[name].kind in ("epochs", "sessions"):
                shelf = self.destinations.shelves.get((name, k))
                progress = None if shelf is None else shelf.progress
                seq = self.laws.starts[name] if progress is None else progress.next_seq
                found[streams[k]] = min(seq, found.get(streams[k], seq))
        return found

    @property
    def delivered_plan(self) -> PhysicalPlan:
        """The plan of a job with deliveries."""
        return self.workload.plan

    def finish(self) -> None:
        """Deliver all undelivered items, also for deliveries that another process started."""
        if not self.workload.deliveries:
            return
        limit_s = self.scheduler.now_s + LIMIT_S
        while not self.scheduler.violations:
            left = sorted(
                {name for name, k in self.laws.keys if (name, k) not in self.laws.finished}
            )
            if not any(not d.is_over for d in self.deliverers):
                if not left:
                    return
                for name in left:
                    deliver(self, self.laws.sinks[name])
            if self.scheduler.now_s > limit_s:
                self.scheduler.violate("deliveries end", f"{left} after {LIMIT_S:.0f} s")
            self.scheduler.step()

    def is_complete(self) -> None:
        if self.workload.deliveries:
            answers = outputs_on(self) if self.changes else self.workload.answers
            self.laws.all_is_delivered(answers, self.disk.blobs)

    def close(self) -> None:
        self.strands.close()


def outputs_on(world: World) -> dict[str, list[Items]]:
    """Return the items of each output stream of a changed job, with the columns that they had."""
    return {stream: items_of(world.disk.blobs, uri) for stream, uri in world.workload.sinks}


def request_finish(world: World) -> None:
    """A user requests the end of the job repeatedly until it ends."""
    if world.state:
        return
    user_root(world).put(f"{REQUESTS}/{FINISH}", b"")
    world.scheduler.after(5.0, None, partial(request_finish, world))
