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
        """Where hosts find it."""

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
    """How a driver looks at the streams that users read, and has what is damaged set aside."""

    def __call__(
        self, ends: Mapping[str, int | None], *, contents: bool
    ) -> Sequence[OutputDamaged]:
        """What is lost of them; ``ends``: by stream, how many items it has, None if not known."""


def nothing_to_check(ends: Mapping[str, int | None], *, contents: bool) -> Sequence[OutputDamaged]:
    """For a shell without outputs."""
    return ()


class KilledForMemory:
    """Watches whether the kernel of this machine has ended processes for lack of memory."""

    def __init__(self, count: Callable[[], int] = killed_for_memory) -> None:
        """``count``: how many it has ended since it began."""
        self._count, self._seen = count, count()

    def news(self) -> str:
        """An addition to a reason if it has ended one since the last call."""
        before, self._seen = self._seen, self._count()
        return "; the kernel has ended a process for lack of memory" * (self._seen > before)
