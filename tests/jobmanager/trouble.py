"""Trouble for jobs in tests: something that happens at a place of the input, lines that are cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rvertex.wiring import FlightWiring

if TYPE_CHECKING:
    from collections.abc import Callable

    from rvertex.wiring import ControlLink


class Disturber:
    """Calls ``action`` when the sources have read as many events as each threshold says.

    An action that could not be taken (it returns False) is tried again at the next status.
    """

    def __init__(
        self, thresholds: list[int], action: Callable[[dict[str, Any]], bool | None]
    ) -> None:
        self._todo = sorted(thresholds)
        self._action = action
        self.calls = 0

    def __call__(self, status: dict[str, Any]) -> None:
        is_due = self._todo and status["events_in"] >= self._todo[0]
        if is_due and status["state"] == "running" and self._action(status) is not False:
            self._todo.pop(0)
            self.calls += 1


class BrittleWiring(FlightWiring):
    """Its line to the job manager can be cut, as a network would."""

    lines: dict[str, tuple[ControlLink, Callable[[], None]]] = {}  # noqa: RUF012  by host, of all

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._name = name

    def connect(
        self,
        address: str,
        secret: str,
        peer: str,
        on_message: Callable[[bytes], None],
        on_disconnect: Callable[[], None],
    ) -> ControlLink:
        link = super().connect(address, secret, peer, on_message, on_disconnect)
        self.lines[self._name] = link, on_disconnect
        return link

    @classmethod
    def cut(cls, hosts: list[str]) -> bool:
        """Cut all these lines, or none if one of them is cut already."""
        if not all(host in cls.lines for host in hosts):
            return False
        for host in hosts:
            link, on_disconnect = cls.lines.pop(host)
            link.close()
            on_disconnect()
        return True


def cut_off(which: list[int], status: dict[str, Any]) -> bool:
    is_ready = all(host["state"] == "ready" for host in status["hosts"])
    return is_ready and BrittleWiring.cut([status["hosts"][k]["host"] for k in which])
