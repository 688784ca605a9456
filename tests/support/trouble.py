"""Trouble for jobs in tests: something that happens at a place of the input, lines that are cut.

A :class:`Gate` keeps a job from ending before it was disturbed, however slow the machine is.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import jobmanager
from rvertex.host.wiring import FlightWiring
from tests.support.gate import SourceGate
from tests.support.jobs import ROWS, SPAN_S, WAIT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from planner import Query
    from rvertex.host.wiring import ControlLink

#: So many events beyond a threshold are let through: most trouble then comes while a job works.
AHEAD_ROWS = ROWS // 8


class Gate(SourceGate):
    """How far jobs in this process may read of what :func:`write_events` wrote, any rows of it."""

    def close_at(self, events_in: int) -> None:
        """Hold back what comes a while after so many of ``ROWS`` events."""
        self.close_at_time((events_in + AHEAD_ROWS) * SPAN_S * 1_000_000 // ROWS)

    @contextmanager
    def closed_at(self, events_in: int) -> Iterator[None]:
        """Closed for a while."""
        self.close_at(events_in)
        try:
            yield
        finally:
            self.open()


class Disturber:
    """Calls ``action`` when the sources have read as many events as each threshold says.

    An action that could not be taken (it returns False) is tried again at the next status; behind
    ``gate`` the job waits for that.
    """

    def __init__(
        self,
        thresholds: list[int],
        action: Callable[[dict[str, Any]], bool | None],
        gate: Gate | None = None,
    ) -> None:
        self._todo = sorted(thresholds)
        self._action = action
        self._gate = gate
        self.calls = 0
        self._move_gate()

    def __call__(self, status: dict[str, Any]) -> None:
        is_due = self._todo and status["events_in"] >= self._todo[0]
        if is_due and status["state"] == "running" and self._action(status) is not False:
            self._todo.pop(0)
            self.calls += 1
            self._move_gate()

    def _move_gate(self) -> None:
        if self._gate is not None and self._todo:
            self._gate.close_at(self._todo[0])
        elif self._gate is not None:
            self._gate.open()


def run_and_cancel(
    query: Query,
    gate: Gate,
    events_in: int,
    is_due: Callable[[dict[str, Any]], bool] = lambda status: True,
    **options: Any,
) -> jobmanager.Job:
    """A job that was cancelled on its way: when it had read so many events and ``is_due``."""
    due = threading.Event()

    def on_status(status: dict[str, Any]) -> None:
        if status["events_in"] >= events_in and is_due(status):
            due.set()

    with gate.closed_at(events_in):
        job = jobmanager.run(query, executor="local", on_status=on_status, **options)
        assert due.wait(WAIT_S), job.status()
        job.cancel()
        assert job.wait(WAIT_S)["state"] == "cancelled"
    return job


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
