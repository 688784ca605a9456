"""Parts of a driver: connections to hosts and checks of the output, which a test may replace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from jobmanager.state.messages import (
    CancelRequested,
    DeleteFiles,
    DrainRequested,
    EndJob,
    FinishRequested,
    Record,
    StopRequested,
    Tell,
    is_logged,
)
from jobmanager.storage import root as requests
from rvertex.host.allocator import killed_for_memory
from rvertex.messages import Collect

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jobmanager.state.messages import Instruction, Notice, OutputDamaged

_MEANINGS: dict[str, Notice] = {
    requests.CANCEL: CancelRequested(),
    requests.STOP: StopRequested(),
    requests.FINISH: FinishRequested(),
}


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
    # Only to free memory after reports; a successor can do without those reports.
    if isinstance(instruction, Tell):
        return is_logged(notice) and isinstance(instruction.instruction, Collect)
    return isinstance(instruction, DeleteFiles | Record | EndJob)
