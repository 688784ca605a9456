"""Job managers of jobs that may get partitions and deliver their results."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from jobmanager.driver.job_deliveries import JobDeliveries
from jobmanager.driver.running.changes.apply import Following, Shell
from jobmanager.driver.running.changes.pending import FOLDER
from jobmanager.driver.running.changes.stopped import (
    CHANGE_TRIES_MAX,
    Changing,
    change_now,
    tidy,
)
from jobmanager.driver.running.growing_topics import GrowingTopics
from rstream.errors import OperatingError
from rstream.log.overlap import remove_overlap, seal
from streamscope.testing.simulation import managers as of_query
from streamscope.testing.simulation.scheduler import SimClock
from streamscope.testing.simulation.storage import FaultyBlobs, root_of
from tests.sim.changing import opener, set_trap
from tests.sim.delivering import JOB_ID, SimDeliveryWiring
from tests.sim.growing import Brokers, grows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobmanager.driver.driver import Driver
    from jobmanager.manager.manager import JobManager
    from jobmanager.state.messages import PartitionsAdded, StateCopied
    from jobmanager.storage.root import JobRoot
    from planner.physical.plan import PhysicalPlan
    from rvertex.vertex.spec import VertexSpec
    from tests.sim.world import World

#: The maximum virtual seconds until the files of a change are deleted.
TIDY_BY_S = 1.0


class ManagerProcess(of_query.ManagerProcess):
    """A process with a driver, its deliveries, and its knowledge of a topic."""

    _world: World
    _deliveries: JobDeliveries | None = None
    _topics: GrowingTopics | None = None
    _changing: Changing | None = None
    _plan: PhysicalPlan | None = None
    #: The driver that has started hosts, and has not begun.
    _next_driver: Driver | None = None
    #: What this process takes over from the change that it has just carried out.
    _following: Following | None = None
    #: Work that deletes what its last change has left.
    _untidied: Sequence[Callable[[], object]] = ()

    def planned(self, root: JobRoot) -> Sequence[VertexSpec]:
        if self._world.changes:
            return self._changed(root).vertices
        if not grows(self._world.workload):
            return super().planned(root)
        self._plan = root.read_plan()
        if self._plan is None:  # no plan is stored yet
            self._plan = self._world.workload.plan
            root.write_plan(self._plan)
        return self._plan.vertices

    def _changed(self, root: JobRoot) -> PhysicalPlan:
        """Complete a change that a dead job manager has left unfinished. Return the plan."""
        if self._following is None:
            root.open_store = opener(self._world.disk, self.process)
            self._change(root, CHANGE_TRIES_MAX)
        plan = root.read_plan()
        if plan is None:  # no plan is stored yet
            plan = self._world.workload.plan
            root.write_plan(plan)
        return plan

    def _change(self, root: JobRoot, tries_left: int) -> None:
        world, process = self._world, self.process
        clock = SimClock(world.scheduler, process)
        shell = Shell(clock, world.background(process), self._following)
        if root.store.list(FOLDER):
            set_trap(world, process)
        with world.changing():
            outcome = change_now(root, tries_left=tries_left, shell=shell)
        if outcome is not None:
            world.scheduler.note(f"{process.name}: {outcome}")

    def prepare(self, root: JobRoot, driver: Driver) -> None:
        world, process = self._world, self.process
        if world.changes:
            self._changing = Changing(
                root,
                self,
                lambda: None,
                clock=SimClock(world.scheduler, process),
                background=lambda: world.background(process),
                aside=self._draw_now,
            )
            self._changing.watch(driver)
        if self._plan is not None:
            self._topics = GrowingTopics(
                self._plan,
                root,
                SimClock(world.scheduler, process),
                lambda _, added: self._take_in(added),
                background=world.background(process),
                look=Brokers(world.scheduler, world.workload).look,
            )
        if world.workload.deliveries:
            self._deliveries = JobDeliveries(
                world.delivered_plan,
                root,
                JOB_ID,
                driver,
                world.workload.config,
                SimDeliveryWiring(world, process),
            )
            self._deliveries.start()

    def _draw_now(self, work: Callable[[], None]) -> Callable[[], object]:
        """Draw a change before the hosts end. This process may die meanwhile."""
        if self._world.scheduler.chance(0.5):
            set_trap(self._world, self.process)
        with self._world.changing():
            work()
        return lambda: None

    @property
    def have_caught_up(self) -> bool:
        """Return whether the output again has all delivered items."""
        return self._deliveries is None or self._deliveries.have_caught_up

    def on_tick(self, manager: JobManager) -> None:
        if self._changing is not None:
            self._changing.note(manager)
        if self._topics is not None:
            self._topics.note(manager)

    def _take_in(self, added: PartitionsAdded) -> None:
        assert self.driver is not None
        self.driver.add_partitions(added)
        self.wake()

    def state_of(self, status: dict[str, Any]) -> str:
        """Finish as ``Job`` does: the state includes that of the deliveries."""
        view = {} if self._deliveries is None else self._deliveries.view(status)
        self._world.laws.was_reported(self.process.name, view.get("deliveries", ()))
        return str(view.get("state", status["state"]))

    def _change_if_stopped(self) -> None:
        """Continue as ``leg_after`` does, if the job has stopped for a change."""
        core, changing, root = self.core, self._changing, self._root
        assert core is not None
        if changing is None or root is None or core.state != "stopped" or not changing.has_begun:
            return
        for _, uri in self._world.workload.sinks:
            remove_overlap(root.open_store(uri))
        if self._deliveries is not None:
            self._deliveries.drain(self._report_again)
            self._deliveries.stop()
        elif self._world.scheduler.chance(0.5):
            assert self.driver is not None
            self._following = Following(core.job, self.driver.log, changing.drawn, self._call_hosts)
        tidy(root, self._untidied)
        self._change(root, CHANGE_TRIES_MAX)

    def _call_hosts(self, plan: PhysicalPlan, state: StateCopied) -> None:
        """Sometimes start the hosts of the next driver before all steps of a change are done."""
        root, following, world = self._root, self._following, self._world
        assert root is not None
        assert following is not None
        if world.scheduler.chance(0.5):
            world.scheduler.met["hosts are called before a change is done"] += 1
            world.passes_on = True
            self._next_driver = self.make(root, plan.vertices, following.log)
            self._next_driver.call_hosts(state)

    def _goes_on(self) -> bool:
        """Start the next driver in this process, if the change has prepared its log."""
        root, following, world = self._root, self._following, self._world
        if root is None or following is None or not following.has_begun:
            return False
        world.scheduler.met["a driver takes over the log of a change"] += 1
        self._has_ended, driver, self._next_driver = False, self._next_driver, None
        if driver is None:
            world.passes_on = True
            self._guarded(lambda: self.drive(root, is_resumed=True, log=following.log))
        else:
            self._guarded(lambda: self.begin(root, driver, is_resumed=True))
        self._following = None
        self.wake()
        late_s = world.scheduler.between(0.0, TIDY_BY_S)
        self._untidied = following.tidy
        world.scheduler.after(late_s, self.process, partial(tidy, root, following.tidy))
        return True

    def ended(self) -> None:
        if self._deliveries is None:
            if self._guarded(self._change_if_stopped) and not self._goes_on():
                super().ended()
        else:
            self._world.strands.start(self.process, self._finish)

    def _finish(self) -> None:
        """Finish as ``Job`` does after its driver has ended; this may block."""
        deliveries, core = self._deliveries, self.core
        assert deliveries is not None
        assert core is not None
        store = FaultyBlobs(self._world.disk, self.process)

        def finish() -> None:
            self._change_if_stopped()
            if core.state == "finished":
                for _, uri in self._world.workload.sinks:
                    seal(store.child(root_of(uri)))
                deliveries.finish(self._report_again)
            else:
                deliveries.stop()
            self._report_again()
            deliveries.stop()

        if self._guarded(finish):
            self._world.ended(self, core.state, core.error)

    def _report_again(self) -> None:
        assert self._root is not None
        with suppress(OperatingError):
            self._root.check_owner()
            self._take_status(self._status)
