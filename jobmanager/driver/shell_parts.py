"""Parts of a driver: connections to hosts and checks of the output, which a test may replace."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING, Protocol

from jobmanager.manager.manager import JobManager
from jobmanager.state.messages import (
    CancelRequested,
    DeleteFiles,
    DrainRequested,
    EndJob,
    FinishRequested,
    OutputObsolete,
    Record,
    SavepointRequested,
    StartHost,
    StopRequested,
    Tell,
    is_logged,
)
from jobmanager.storage import root as requests
from rvertex.host.allocator import killed_for_memory
from rvertex.host.host import HostSpec
from rvertex.messages import Collect

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jobmanager.state.messages import (
        Instruction,
        JobResumed,
        Notice,
        OutputDamaged,
        PartitionsAdded,
        StateCopied,
    )
    from jobmanager.storage.root import JobRoot
    from rstream.clock import Clock
    from rvertex.host.environment import HostLimits
    from rvertex.host.executor import Executor
    from rvertex.messages import Mark

#: Longer time in which the driver reads no messages does not count as silence of the hosts.
PAUSE_MAX_S = 5.0
_MEANINGS: dict[str, Notice] = {
    requests.CANCEL: CancelRequested(),
    requests.STOP: StopRequested(),
    requests.FINISH: FinishRequested(),
}


class Requests:
    """What other threads may ask of a driver."""

    def __init__(self) -> None:
        self._notices: queue.SimpleQueue[Notice] = queue.SimpleQueue()

    def cancel(self) -> None:
        """Request the end of the job. Safe from any thread."""
        self._notices.put(CancelRequested())

    def finish(self) -> None:
        """Request live sources to end at their present positions. Safe from any thread."""
        self._notices.put(FinishRequested())

    def stop(self) -> None:
        """Request the job to stop and keep its state. Safe from any thread."""
        self._notices.put(StopRequested())

    def save(self) -> None:
        """Request checkpoints for a savepoint, while the job runs. Safe from any thread."""
        self._notices.put(SavepointRequested())

    def collect_output(self, marks: tuple[Mark, ...]) -> None:
        """Allow to delete output items below these marks. Safe from any thread."""
        self._notices.put(OutputObsolete(marks))

    def add_partitions(self, added: PartitionsAdded) -> None:
        """Make vertices read added log partitions of the durable plan. Safe from any thread."""
        self._notices.put(added)


class ControlService(Protocol):
    """The job manager's side of the connections to its hosts."""

    @property
    def address(self) -> str:
        """The address to which hosts connect."""

    def send(self, peer: str, message: bytes) -> None:
        """Queue a message. Raises OperatingError if the peer is gone."""

    def close(self) -> None:
        """End every connection."""


class OpenControl(Protocol):
    """Opens the control service of a driver, by default over Flight."""

    def __call__(
        self,
        secret: str,
        on_message: Callable[[str, bytes], None],
        *,
        on_disconnect: Callable[[str], None],
        host: str,
    ) -> ControlService: ...


class CheckOutputs(Protocol):
    """Checks the streams that users read, and renames damaged files."""

    def __call__(
        self, ends: Mapping[str, int | None], *, contents: bool
    ) -> Sequence[OutputDamaged]:
        """Return the lost items. ``ends``: per stream, its number of items; None if unknown."""


def nothing_to_check(ends: Mapping[str, int | None], *, contents: bool) -> Sequence[OutputDamaged]:
    """Return no damage. Used for a driver without outputs."""
    return ()


def host_spec(
    host: str,
    root: JobRoot,
    manager: JobManager,
    executor: Executor,
    address: str,
    secret: str,
    limits: HostLimits,
) -> HostSpec:
    """Return the configuration of a new host. ``address``: of the driver."""
    return HostSpec(
        host=host,
        job=root.name,
        root=root.uri,
        control_address=address,
        secret=secret,
        limits=limits,
        bind=executor.bind,
        replaces=next(h.former for h in manager.hosts if h.name == host),
    )


def rehearsed(
    manager: JobManager, state: StateCopied, begins: JobResumed
) -> tuple[JobManager, list[str]]:
    """Return another job manager that has taken over the job, and the hosts that it starts."""
    rehearsing = JobManager(manager.job.topology, manager.config)
    rehearsing.recall([state])
    return rehearsing, [i.host for i in rehearsing.handle(begins) if isinstance(i, StartHost)]


class PatientClock:
    """Monotonic time, us. Limits on silence and stalls are measured with it.

    Time in which the driver read no messages does not count: it may have waited for a slow store,
    while the hosts' messages are in the queue.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._origin_us = clock.now_us() - int(clock.monotonic_s() * 1e6)

    def now_us(self) -> int:
        """Return the time."""
        return self._origin_us + int(self._clock.monotonic_s() * 1e6)

    def forgive(self, ticked_s: float, now_s: float) -> None:
        """Note a tick. ``ticked_s``: the time of the tick before; 0: there was none."""
        pause_s = now_s - ticked_s - PAUSE_MAX_S
        if ticked_s and pause_s > 0:
            self._origin_us -= int(pause_s * 1e6)


class KilledForMemory:
    """Checks whether the kernel of this machine has killed processes for lack of memory."""

    def __init__(self, count: Callable[[], int] = killed_for_memory) -> None:
        """Remember the number of processes killed so far.

        ``count`` returns the number of processes killed for lack of memory since the machine
        started.
        """
        self._count, self._last = count, count()

    def news(self) -> str:
        """Return a sentence to add to a reason if a process was killed since the last call."""
        before, self._last = self._last, self._count()
        return "; the kernel has ended a process for lack of memory" * (self._last > before)


def notice_of(request: str) -> Notice:
    """Return the notice for a user's request file."""
    return _MEANINGS.get(request) or DrainRequested(request.removeprefix(requests.DRAIN))


def is_final(instruction: Instruction, notice: Notice) -> bool:
    """Return whether an instruction deletes data, so that notices must be durable before it."""
    if isinstance(instruction, EndJob):
        return True
    # Only to free memory after reports; a successor can do without those reports.
    return is_upkeep(instruction) and (is_logged(notice) or not isinstance(instruction, Tell))


def is_upkeep(instruction: Instruction) -> bool:
    """Return whether an instruction only deletes files, frees memory or was logged already."""
    if isinstance(instruction, Tell):
        return isinstance(instruction.instruction, Collect)
    return isinstance(instruction, DeleteFiles | Record)


def may_wait(instruction: Instruction) -> bool:
    """Whether an instruction may wait until the notices in the queue are handled, too."""
    return isinstance(instruction, Tell | DeleteFiles | Record)
