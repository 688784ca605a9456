"""Simulated job managers from start to end; several may exist at once.

A job manager that starts after the death of another claims the root at once, as on the same
machine, where the process is known to be dead. A *rival* on another machine calls
``JobRoot.take_over``, which fails while the status is fresh. A job manager that was suspended
meanwhile finds that it no longer owns the root.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobmanager.driver.driver import Driver
from jobmanager.errors import JobRunningError
from jobmanager.storage.root import JobRoot
from rstream.errors import OperatingError
from streamscope.testing.simulation.laws.watched import WatchedManager
from streamscope.testing.simulation.network import ControlService
from streamscope.testing.simulation.scheduler import Process, SimClock
from streamscope.testing.simulation.storage import FaultyBlobs, root_of
from streamscope.testing.simulation.workload import ROOT
from streamscope.testing.simulation.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobmanager.manager.manager import JobManager
    from jobmanager.storage.notice_log import NoticeLog
    from rvertex.host.executor import Executor
    from rvertex.messages import Mark
    from rvertex.vertex.spec import VertexSpec
    from streamscope.testing.simulation.protocols import AnyManager

PID = 1
#: Wait before leftovers are deleted: so short that instances of a replaced job manager still store
#: checkpoints.
LEFTOVERS_WAIT_S = 0.05


class SimDriver(Driver):
    """A driver whose released output is checked."""

    def __init__(self, world: World, process: Process, **how: Any) -> None:
        super().__init__(**how)
        self._world, self._process = world, process
        self._keeper.leftovers_wait_s = LEFTOVERS_WAIT_S

    def collect_output(self, marks: tuple[Mark, ...]) -> None:
        self._world.let_go(self._process, marks)
        super().collect_output(marks)


class ManagerProcess:
    """A process with a driver."""

    def __init__(
        self,
        world: World,
        open_executor: Callable[[AnyManager], Executor],
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
        self.vertices: dict[str, VertexSpec] = {}
        self._root: JobRoot | None = None
        #: The last status that the driver wrote.
        self._status: dict[str, Any] = {}
        self._has_ended = False
        world.scheduler.after(0.0, self.process, self._begin, is_main=True)

    @property
    def is_current(self) -> bool:
        """Whether no other job manager has taken over."""
        return self._world.current is self

    def wake(self) -> None:
        """Schedule a turn: the driver's queue has a notice."""
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
        self.drive(root, is_resumed=self._is_resumed)

    def drive(self, root: JobRoot, *, is_resumed: bool, log: NoticeLog | None = None) -> None:
        """Start a driver. ``log``: of this job manager, if it is open already."""
        self.begin(root, self.make(root, self.planned(root), log), is_resumed=is_resumed)

    def begin(self, root: JobRoot, driver: Driver, *, is_resumed: bool) -> None:
        """Start this driver."""
        self.prepare(root, driver)
        driver.begin(resumed=is_resumed)

    def make(
        self, root: JobRoot, vertices: Sequence[VertexSpec], log: NoticeLog | None = None
    ) -> Driver:
        """Make the driver of this process."""
        world, process = self._world, self.process
        self.vertices = {str(v.id): v for v in vertices}
        self.core = WatchedManager(world.workload, vertices, world.scheduler)
        self.driver = SimDriver(
            world,
            process,
            root=root,
            manager=self.core,
            executor=self._open_executor(self),
            config=world.workload.config,
            clock=SimClock(world.scheduler, process),
            on_status=self._take_status,
            background=world.background(process),
            open_control=self._open_control,
            pause=lambda seconds: None,
            on_tick=self.on_tick,
            log=log,
        )
        return self.driver

    # ---- replaced by jobs that read logs or deliver

    def planned(self, root: JobRoot) -> Sequence[VertexSpec]:
        """Return the vertices of the plan that this job manager uses."""
        del root
        return self._world.workload.vertices

    def prepare(self, root: JobRoot, driver: Driver) -> None:
        """Called before the driver starts."""

    def on_tick(self, manager: JobManager) -> None:
        """Called at each tick of the driver."""

    def state_of(self, status: dict[str, Any]) -> str:
        """Return the job's state in a status."""
        return str(status["state"])

    def ended(self) -> None:
        """Called when the driver has ended."""
        assert self.core is not None
        self._world.ended(self, self.core.state, self.core.error)

    def _take_status(self, status: dict[str, Any]) -> None:
        assert self._root is not None
        self._status = status
        now_us = SimClock(self._world.scheduler, self.process).now_us()
        self._root.write_status({**self._owner(now_us), "state": self.state_of(status)})

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
            self.ended()

    def _guarded(self, action: Callable[[], None]) -> bool:
        """Run ``action``; False if it failed and the process ended, as ``Job`` does."""
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
        """Handle a refusal: another job manager owns the root. With a driver, it was fenced."""
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


class JobWorld(World):
    """The world of a job that neither reads logs nor delivers."""

    def open_manager(self, *, is_resumed: bool, is_rival: bool = False) -> ManagerProcess:
        return ManagerProcess(self, self.open_executor, is_resumed=is_resumed, is_rival=is_rival)
