"""One direction of a simulated control connection, with production's message numbers.

Law: each message arrives once and in order.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from rstream.transport.control import HEARTBEAT_S
from rstream.transport.frame_order import InOrder, Numbered

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamscope.testing.simulation.fates import Fates
    from streamscope.testing.simulation.scheduler import Process, Scheduler


class Line(Protocol):
    """A connection with a pipe for each direction."""

    world: Scheduler
    fates: Fates
    is_cut: bool

    def arrival_s(self, not_before_s: float) -> float:
        """Return the arrival time of a frame that is sent now."""
        ...


class Pipe:
    """One direction of a control connection.

    It calls ``take(message)`` and ``broken()`` at the receiver.
    """

    def __init__(
        self,
        link: Line,
        name: str,
        sender: Process,
        receiver: Process,
        take: Callable[[bytes], None],
        broken: Callable[[], None],
    ) -> None:
        self._link, self._name = link, name
        self._sender, self._receiver = sender, receiver
        self._world = link.world
        self._take, self._broken = take, broken
        self._numbered, self._order = Numbered(), InOrder()
        self._sent, self._taken = 0, 0
        #: Arrival time of the last frame without an extra delay.
        self.last_s = 0.0

    def send(self, message: bytes) -> None:
        """Send a message; an empty one is a heartbeat."""
        number, frame = self._sent, self._numbered.frame(message)
        self._sent += 1
        self.last_s = self._link.arrival_s(self.last_s)
        if self._link.is_cut:
            return
        copies_s = self._link.fates.late_s(self._name)
        for late_s in copies_s:
            arrive = partial(self._arrive, number, frame)
            self._world.at(self.last_s + late_s, self._receiver, arrive)
        if not copies_s:  # a silent connection sends a heartbeat
            heartbeat_s = self._world.between(0.0, HEARTBEAT_S)
            self._world.after(heartbeat_s, self._sender, partial(self.send, b""))

    def _arrive(self, number: int, frame: bytes) -> None:
        verdict, message = self._order.open(frame)
        if verdict == "take":
            if number != self._taken:
                self._world.violate("each message once, in order", f"{self._name}: {number}")
            self._taken = number + 1
        self._world.met[f"frame: {verdict}"] += 1
        if verdict == "broken":
            self._broken()
        elif verdict == "take" and message:
            self._take(message)
