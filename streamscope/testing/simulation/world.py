"""The world of one job: its hosts, its job manager, its store and its network, in one thread.

All decisions are made by production code: ``Driver`` with its ``JobManager``, ``Host`` with its
runners, ``RStream``, ``DurableLog``, the notice log. Only their environment is simulated:
:class:`rvertex.host.wiring.Wiring`, ``Executor``, ``ControlService``, ``Background``, ``Clock``,
``BlobStore``.
"""

from __future__ import annotations

import traceback
from functools import partial
from typing import TYPE_CHECKING

from rstream.errors import OperatingError
from rvertex.host.host import Host, HostSpec
from rvertex.host.parking import Processes
from streamscope.testing.simulation.network import Network
from streamscope.testing.simulation.scheduler import Process, Scheduler, SimBackground, idle_s
from streamscope.testing.simulation.wiring import SimWiring

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rvertex.messages import Mark
    from rvertex.sources.logs.protocol import LogReader
    from rvertex.sources.spec import SourcePartition
    from streamscope.testing.simulation.laws.checkers import Checkers
    from streamscope.testing.simulation.laws.watched import WatchedManager
    from streamscope.testing.simulation.protocols import AnyManager
    from streamscope.testing.simulation.storage import Disk
    from streamscope.testing.simulation.workload import Workload

#: Virtual seconds from the last fault to the end of the job.
LIMIT_S = 900.0
#: Virtual seconds after the end of a job in which every host, even a zombie, must end.
LEAVE_S = 120.0
#: How long a process waits for its next host, virtual seconds.
PARKED_WAIT_S = 20.0
#: Longest time from when a process waits until its death, if that is due.
PARKED_DEATH_S = 6.0


class SimHost(Host):
    """A host that polls its runners in random order."""

    shuffle: Callable[[list[str]], None]

    def poll(self) -> bool:
        names = list(self._runners)
        self.shuffle(names)
        self._runners = {name: self._runners[name] for name in names}
        return super().poll()


class HostProcess:
    """The process of a host, from its start to any kind of end."""

    def __init__(
        self,
        manager: AnyManager,
        world: World,
        spec: HostSpec,
        on_exit: Callable[[str, str], None],
        attempt: int,
    ) -> None:
        self.spec, self.attempt = spec, attempt
        self._world = world
        self._on_exit = on_exit
        self._manager = manager
        self.is_over = self.is_parked = False
        #: Consecutive polls without work.
        self._idle = 0
        #: Factor on the duration of its polls.
        self.slowness = 1.0
        self.process = Process(world.fresh_name(f"{spec.host}#{attempt}"), self._died)
        self.host: SimHost | None = None
        world.hosts.append(self)
        world.scheduler.after(0.0, self.process, self._start, is_main=True)

    def _start(self) -> None:
        world = self._world
        wiring = SimWiring(world, self.process)
        self.host = SimHost(self.spec, self._manager.vertices, wiring, attempt=self.attempt)
        self.host.shuffle = world.scheduler.random.shuffle
        self._guarded(self.host.open)
        self._next(True)

    def _turn(self) -> None:
        assert self.host is not None
        worked = self._guarded(self.host.poll)
        if self.host.how:
            self._guarded(self.host.close)
            if self.host.exit.stays_at:
                self._park()
                return
            self._over(self.host.how)
        self._next(bool(worked))

    def _park(self) -> None:
        """Wait for the next host. Meanwhile no event of the former host may run."""
        world, self.is_parked = self._world, True
        world.scheduler.note(f"{self.process.name} waits for another host")
        world.scheduler.met["a process waits for another host"] += 1
        world.processes.park(self.spec.host)
        if world.parked_deaths:
            world.parked_deaths -= 1
            die = partial(self.process.kill, "killed while it waited for another host")
            world.scheduler.after(world.scheduler.between(0.0, PARKED_DEATH_S), None, die)
        world.scheduler.after(PARKED_WAIT_S, self.process, partial(self.leave, self.spec))

    def leave(self, former: HostSpec) -> None:
        """Exit if no other host has started since ``former``."""
        if self.is_parked and self.spec is former:
            self._over("not needed")

    def go_on(
        self, manager: AnyManager, spec: HostSpec, on_exit: Callable[[str, str], None]
    ) -> None:
        """Run another host in this process, soon."""
        scheduler = self._world.scheduler
        scheduler.met["a process runs another host"] += 1
        self.is_parked, self.spec, self._manager, self._on_exit = False, spec, manager, on_exit
        scheduler.after(scheduler.between(0.0, 0.02), self.process, self._start, is_main=True)

    def _next(self, worked: bool) -> None:
        self._idle = 0 if worked else self._idle + 1
        longest_s = self._world.turn_s if worked else idle_s(self._idle)
        pause_s = self._world.scheduler.between(0.0005, longest_s) * self.slowness
        if not self.is_over:
            self._world.scheduler.after(pause_s, self.process, self._turn, is_main=True)

    def _guarded(self, action: Callable[[], object]) -> object:
        """Run ``action``; an error becomes the host's reported end, as in an executor."""
        try:
            return action()
        except Exception as error:
            if not isinstance(error, OperatingError):
                self._world.bug(self.process, error)
            assert self.host is not None
            if not self.host.how:
                self.host.how = f"{type(error).__name__}: {error}"
                self.host.close()
            self._over(self.host.how)
            return None

    def _over(self, how: str) -> None:
        """Handle a host that ended by itself."""
        if not self.is_over:
            self.is_over = True
            self._report(how)
            self._world.network.break_lines_of(self.process)
            self.process.is_dead = True

    def _died(self, reason: str) -> None:
        self._world.scheduler.note(f"{self.process.name} {reason}")
        if not self.is_over:
            self.is_over = True
            self._report("killed")
        self._world.network.break_lines_of(self.process)

    def _report(self, how: str) -> None:
        """Report the end to the executor in the job manager's process."""
        self._world.scheduler.note(f"{self.process.name} over: {how}")
        if self.attempt or not (host := self._world.processes.end(self)):
            return  # Spark reports only first attempts, and only of processes that run a host
        manager, on_exit = self._manager, self._on_exit

        def tell() -> None:
            on_exit(host, how)
            manager.wake()

        late_s = self._world.scheduler.between(0.0, 1.0)
        self._world.scheduler.after(late_s, manager.process, tell)


class SimExecutor:
    """Starts hosts (rvertex.host.executor.Executor); sometimes starts one twice, as Spark may."""

    bind = "sim"

    def __init__(self, world: World, manager: AnyManager) -> None:
        self._world, self._manager, self._process = world, manager, manager.process
        self._hosts: list[HostProcess] = []
        self._inherits, world.passes_on = world.passes_on, False
        if not self._inherits:
            self.release()

    @property
    def hosts(self) -> int:
        return self._world.workload.hosts

    def start(self, spec: HostSpec, on_exit: Callable[[str, str], None]) -> None:
        world = self._world
        if spec.host in world.host_names:
            world.scheduler.violate("no name is given twice", spec.host)
        world.host_names.add(spec.host)
        parked = world.processes.take(spec.host)[0] if self._inherits else None
        if parked is not None:
            self._hosts.append(parked)
            parked.go_on(self._manager, spec, on_exit)
            return
        delay_s = world.scheduler.between(0.01, 0.5)
        self._start_later(delay_s, spec, on_exit, 0)
        if world.second_attempts and world.scheduler.chance(0.3):
            self._start_later(delay_s + world.scheduler.between(0, 1.0), spec, on_exit, 1)

    def _start_later(
        self, delay_s: float, spec: HostSpec, on_exit: Callable[[str, str], None], attempt: int
    ) -> None:
        def start() -> None:
            host = HostProcess(self._manager, self._world, spec, on_exit, attempt)
            self._hosts.append(host)
            if attempt == 0:
                self._world.processes.began(host, spec.host)

        self._world.scheduler.after(delay_s, self._process, start)

    def park(self, secret: str) -> str:
        return "parking" if self._world.parks else ""

    def close(self, wait_s: float) -> None:
        self._world.scheduler.wait(
            self._process, lambda: all(h.is_over or h.is_parked for h in self._hosts), wait_s
        )

    def release(self) -> None:
        """Let the waiting processes exit, because their job manager has ended."""
        world = self._world
        hosts = [one for one in map(world.processes.of, world.processes.dismiss(keep=0)) if one]
        for host in hosts:
            leave = partial(host.leave, host.spec)
            world.scheduler.after(world.scheduler.between(0.0, 1.0), host.process, leave)


class World:
    """One job, from its start to its end."""

    def __init__(self, seed: int, workload: Workload, disk: Disk, scheduler: Scheduler) -> None:
        self.seed = seed
        self.workload = workload
        self.scheduler = scheduler
        self.disk = disk
        self.network = Network(scheduler)
        #: Names of all hosts that any job manager has started.
        self.host_names: set[str] = set()
        scheduler.met.update(f"job with {what}" for what in workload.features())
        self.hosts: list[HostProcess] = []
        #: Processes that run hosts, or wait for the next host after a change of the job.
        self.processes: Processes[HostProcess] = Processes()
        #: Whether processes stay after a change of the job that keeps the code.
        self.parks = False
        #: Whether the next job manager begins in the process of one that has just stopped.
        self.passes_on = False
        #: Number of processes that die while they wait, or a moment later.
        self.parked_deaths = 0
        self.second_attempts = False
        #: Longest poll of a host with work, virtual seconds. Long polls keep a small job running
        #: until its faults happen.
        self.turn_s = scheduler.random.choice([0.03, 0.1, 0.3])
        self.slow_store_s = 0.0
        #: Virtual time at which the last fault is over, s.
        self.calm_s = 0.0
        self.manager_deaths = 0
        self.state = ""
        self.error = ""
        #: Numbers of job managers that were refused, took over from a live one, or were fenced.
        self.refused = self.takeovers = self.fenced = 0
        self._names = 0
        self.prepare()
        self.current = self.open_manager(is_resumed=False)

    # ---- replaced by jobs that read logs or deliver

    def prepare(self) -> None:
        """Called before the first job manager begins."""

    def begin(self, checkers: Checkers) -> None:
        """Called after the faults were chosen."""

    def open_log(
        self,
        wiring: SimWiring,
        source: SourcePartition,
        positions: Sequence[int],
        wake: Callable[[], None],
    ) -> LogReader:
        """Open a reader of a live log."""
        raise AssertionError("this job reads no live log")

    def let_go(self, process: Process, marks: tuple[Mark, ...]) -> None:
        """Called when a job manager no longer needs the output below these marks."""

    def finish(self) -> None:
        """Called when the job has ended."""

    def is_complete(self) -> None:
        """Called when the output is complete and no law was broken."""

    def close(self) -> None:
        """Called when the run is over."""

    # ---- processes

    def fresh_name(self, name: str) -> str:
        """Return a process name that was not used before."""
        self._names += 1
        return f"{name}~{self._names}"

    def background(self, process: Process) -> SimBackground:
        """Return the background threads of a process."""
        return SimBackground(self.scheduler, process, slow_s=self.slow_store_s)

    def bug(self, process: Process, error: Exception) -> None:
        """Report an unexpected error of production code as a broken law."""
        where = "".join(traceback.format_exception(error)[-4:])
        self.scheduler.violate("no bug", f"{process.name}: {error!r}\n{where}")

    def live_hosts(self) -> list[HostProcess]:
        """Return the hosts that have not ended."""
        return [h for h in self.hosts if not h.is_over and not h.process.is_dead]

    def open_manager(self, *, is_resumed: bool, is_rival: bool = False) -> AnyManager:
        """Return a new job manager process."""
        raise NotImplementedError

    def open_executor(self, manager: AnyManager) -> SimExecutor:
        """Return the executor that starts a job manager's hosts."""
        return SimExecutor(self, manager)

    # ---- job managers

    @property
    def manager(self) -> Process:
        """The process of the current job manager."""
        return self.current.process

    @property
    def core(self) -> WatchedManager | None:
        """The pure core of the current job manager; None before it has started."""
        return self.current.core

    def start_manager(self) -> None:
        """Start a job manager in place of a dead one."""
        if self.state or not self.manager.is_dead:
            return
        self.current = self.open_manager(is_resumed=True)

    def start_rival(self) -> None:
        """Start another job manager on another machine while the current one may be alive."""
        self.open_manager(is_resumed=True, is_rival=True)

    def taken_over_by(self, rival: AnyManager) -> None:
        """Record that ``rival`` owns the root now; the former owner may not know yet."""
        self.takeovers += 1
        self.current = rival

    def ended(self, manager: AnyManager, state: str, error: str) -> None:
        """Handle a job manager's report that the job has ended."""
        self.scheduler.note(f"{manager.process.name} ended: {state} {error}")
        if manager.is_current and state == "stopped":
            self.scheduler.met["job stopped"] += 1
            self.passes_on = True
            manager.process.kill("stopped")  # the stop was a user's, who then resumes the job
        elif manager.is_current:
            self.state, self.error = state, error

    # ---- running

    def run(self) -> None:
        """Run until the job has ended, a law is broken, or ``LIMIT_S`` has passed."""
        world = self.scheduler
        while not self.state and not world.violations:
            if world.now_s > self.calm_s + LIMIT_S:
                world.violate("job ends", f"still running after {world.now_s:.0f} s")
            elif not world.step():
                world.violate("job ends", "nothing more will happen")
        if self.state and self.state != "finished":
            world.violate("job ends", f"{self.state}: {self.error}")
        if not world.violations:
            self.finish()
        if not world.violations:
            self._all_leave()

    def _all_leave(self) -> None:
        """Law: every host ends after its job, even if its connections were cut."""
        deadline_s = self.scheduler.now_s + LEAVE_S
        while self.live_hosts() and self.scheduler.now_s < deadline_s and self.scheduler.step():
            pass
        for host in self.live_hosts():
            self.scheduler.violate("the fenced leave", f"{host.process.name} still runs")
