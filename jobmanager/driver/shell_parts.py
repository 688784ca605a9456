"""Parts of a driver that a test may replace: connections to hosts, checks of the output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rvertex.host.allocator import killed_for_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jobmanager.state.messages import OutputDamaged


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
    """How a driver opens its control service; by default over Flight."""

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
    """Return no damage. For a driver without outputs."""
    return ()


class KilledForMemory:
    """Checks whether the kernel of this machine has killed processes for lack of memory."""

    def __init__(self, count: Callable[[], int] = killed_for_memory) -> None:
        """``count``: returns the number of processes killed since the machine started."""
        self._count, self._last = count, count()

    def news(self) -> str:
        """Return a sentence to add to a reason if a process was killed since the last call."""
        before, self._last = self._last, self._count()
        return "; the kernel has ended a process for lack of memory" * (self._last > before)
