"""A job manager from its start to its end; several may be there at once.

One that begins after the death of another takes the root at once, as on the same machine, where the
process is seen to be gone. A *rival* on another machine asks first (``JobRoot.take_over``): it is
refused while the status is fresh. One that was asleep meanwhile finds that the root is not its own.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from jobmanager.driver.driver import Driver
from jobmanager.driver.job_deliveries import JobDeliveries
from jobmanager.driver.running.growing_topics import GrowingTopics
from jobmanager.errors import JobRunningError
from jobmanager.storage.root import JobRoot
from rstream.errors import OperatingError
from rstream.log.overlap import seal
from tests.sim.delivering import JOB_ID, SimDeliveryWiring
from tests.sim.growing import Brokers, grows
from tests.sim.network import ControlService
from tests.sim.scheduler import Process, SimClock
from tests.sim.storage import FaultyBlobs, root_of
from tests.sim.watched import WatchedManager
from tests.sim.workload import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobmanager.manager.manager import JobManager
    from jobmanager.state.messages import PartitionsAdded
    from planner.physical.plan import PhysicalPlan
    from rvertex.host.executor import Executor
    from rvertex.messages import Mark
    from rvertex.vertex.spec import VertexSpec
    from tests.sim.world import World

PID = 1
#: So soon that instances of the one that is replaced still store what nobody will know.
LEFTOVERS_WAIT_S = 0.05


class SimDriver(Driver):
    """A driver; whatever it is told to let go of is looked at."""

    def __init__(self, world: World, process: Process, **how: Any) -> None:
        super().__init__(**how)
        self._world, self._process = world, process
        self._keeper.leftovers_wait_s = LEFTOVERS_WAIT_S

    def collect_output(self, marks: tuple[Mark, ...]) -> None:
        now_s, name = self._world.scheduler.now_s, self._process.name
        looked_s = self._world.disk.looked_s.get(name, now_s)
        self._world.laws.retention.is_let_go(name, marks, looked_s)
        super().collect_output(marks)


class ManagerProcess:
    """A process with a driver."""

    def __init__(
        self,
        world: World,
        open_executor: Callable[[ManagerProcess], Executor],
        *,
        is_resumed: bool,
        is_rival: bool = False,
    ) -> None:
        self._world = world
        self._open_executor = open_executor
        self._is_resumed = is_resumed
        self.is_rival = is_rival
        self.process = Process(world.fresh_name("rival" if is_rival else "jm"), self._died)
        self.driver: Driver | None = None
        self.core: WatchedManager | None = None
        self._deliveries: JobDeliveries | None = None
        self._topics: GrowingTopics | None = None
        self.vertices: dict[str, VertexSpec] = {}
        self._root: JobRoot | None = None
        #: The driver's last status.
        self._status: dict[str, Any] = {}
        self._has_ended = False
        world.scheduler.after(0.0, self.process, self._begin, is_main=True)

    @property
    def is_current(self) -> bool:
        """Whether no other one has taken over."""
        return self._world.current is self

    def wake(self) -> None:
        """Something is in its queue."""
        delay_s = self._world.scheduler.between(0.0, 0.005)
        self._world.scheduler.after(delay_s, self.process, self._turn, is_main=True)

    def _begin(self) -> None:
        self._world.scheduler.note(f"{self.process.name} begins resumed={self._is_resumed}")
        if self._guarded(self._open):
            self._tick()
            self.wake()

    def _open(self) -> None:
        world, process = self._world, self.process
        clock = SimClock(world.scheduler, process)
        store = FaultyBlobs(world.disk, process, root_of(ROOT))
        root = self._root = JobRoot(store, pid=PID, machine=process.name)
        if self.is_rival:
            root.take_over(clock.now_us())
            world.taken_over_by(self)
        else:
            root.claim(clock.now_us())
        plan = self._plan(root) if grows(world.workload) else None
        vertices = world.workload.vertices if plan is None else plan.vertices
        self.vertices = {str(v.id): v for v in vertices}
        self.core = WatchedManager(world.workload, vertices, world.scheduler)
        self.driver = SimDriver(
            world,
            process,
            root=root,
            manager=self.core,
            executor=self._open_executor(self),
            config=world.workload.config,
            clock=clock,
            on_status=self._take_status,
            background=world.background(process),
            open_control=self._open_control,
            pause=lambda seconds: None,
            on_tick=self._on_tick,
        )
        if plan is not None:
            self._topics = GrowingTopics(
                plan,
                root,
                clock,
                lambda _, added: self._take_in(added),
                background=world.background(process),
                look=Brokers(world.scheduler, world.workload).look,
            )
        if world.workload.deliveries:
            self._deliveries = JobDeliveries(
                world.delivered_plan,
                root,
                JOB_ID,
                self.driver,
                world.workload.config,
                SimDeliveryWiring(world, process),
            )
            self._deliveries.start()
        self.driver.begin(resumed=self._is_resumed)

    def _plan(self, root: JobRoot) -> PhysicalPlan:
        """The plan of the root, or that of the job if nothing was written down yet."""
        found = root.read_plan()
        if found is None:
            found = self._world.workload.plan
            assert found is not None
            root.write_plan(found)
        return found

    def _on_tick(self, manager: JobManager) -> None:
        if self._topics is not None:
            self._topics.note(manager)

    def _take_in(self, added: PartitionsAdded) -> None:
        assert self.driver is not None
        self.driver.add_partitions(added)
        self.wake()

    def _take_status(self, status: dict[str, Any]) -> None:
        """As ``Job`` does: what becomes of deliveries is a part of it."""
        assert self._root is not None
        self._status = status
        view = {} if self._deliveries is None else self._deliveries.view(status)
        self._world.laws.was_reported(self.process.name, view.get("deliveries", ()))
        now_us = SimClock(self._world.scheduler, self.process).now_us()
        state = view.get("state", status["state"])
        self._root.write_status({**self._owner(now_us), "state": state})

    def _owner(self, now_us: int) -> dict[str, object]:
        return {
            "state": "running",
            "pid": PID,
            "machine": self.process.name,
            "written_us": now_us,
        }

    def _open_control(
        self,
        secret: str,
        on_message: Callable[[str, bytes], None],
        *,
        on_disconnect: Callable[[str], None],
        host: str,
    ) -> ControlService:
        return ControlService(
            self._world.network, self.process, on_message, on_disconnect, self.wake
        )

    def _tick(self) -> None:
        self._turn()
        if not self._has_ended:
            tick_s = self._world.workload.config.tick_s
            self._world.scheduler.after(tick_s, self.process, self._tick, is_main=True)

    def _turn(self) -> None:
        driver = self.driver
        if self._has_ended or driver is None:
            return

        def poll() -> None:
            driver.poll(0)
            if driver.ended_s is not None:
                driver.close()

        if self._guarded(poll) and driver.ended_s is not None and self.core is not None:
            self._has_ended = True
            if self._deliveries is None:
                self._world.ended(self, self.core.state, self.core.error)
            else:
                self._world.strands.start(self.process, self._finish)

    def _finish(self) -> None:
        """As ``Job`` does when its driver has ended; this may block."""
        deliveries, core = self._deliveries, self.core
        assert deliveries is not None
        assert core is not None
        store = FaultyBlobs(self._world.disk, self.process)

        def finish() -> None:
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

    def _guarded(self, action: Callable[[], None]) -> bool:
        """Whether it went well; if not, the process ends as ``Job`` does."""
        try:
            action()
        except JobRunningError as error:
            self._refused(error)
        except OperatingError as error:
            self.process.kill(f"gave up: {error}")
        except Exception as error:
            self._world.bug(self.process, error)
            self.process.kill(f"bug: {error!r}")
        else:
            return True
        return False

    def _refused(self, error: JobRunningError) -> None:
        """Another one works on the root; a rival that has a driver was it that lost it."""
        if self.driver is not None:
            self._world.fenced += 1
            if not self._has_ended:
                self._guarded(self.driver.close)
        else:
            self._world.refused += 1
        self.process.kill(f"refused: {error}")

    def _died(self, reason: str) -> None:
        world, process = self._world, self.process
        world.scheduler.note(f"{process.name} {reason}")
        world.network.break_lines_of(process)
        for service in world.network.controls.values():
            if service.process is process:
                service.is_closed = True
        if self.is_current:
            world.manager_deaths += 1
            world.scheduler.after(world.scheduler.between(0.1, 5.0), None, world.start_manager)
