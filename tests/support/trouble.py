"""Failures for jobs in tests: actions at a position of the input, and broken connections.

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

#: The number of events beyond a threshold that may pass, so that most disturbances hit a working
#: job.
AHEAD_ROWS = ROWS // 8


class Gate(SourceGate):
    """The number of events written by :func:`write_events` that jobs in this process may read."""

    def close_at(self, events_in: int) -> None:
        """Hold back the events that follow a while after this number of ``ROWS``."""
        self.close_at_time((events_in + AHEAD_ROWS) * SPAN_S * 1_000_000 // ROWS)

    @contextmanager
    def closed_at(self, events_in: int) -> Iterator[None]:
        """A context in which it is closed."""
        self.close_at(events_in)
        try:
            yield
        finally:
            self.open()


class Disturber:
    """Calls ``action`` when the sources have read as many events as each threshold says.

    An action that was not possible (it returns False) is retried at the next status; with ``gate``,
    the job waits for it.
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
    """Run a job, and cancel it once it has read this number of events and ``is_due`` is true."""
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
    """A wiring whose connection to the job manager can be broken."""

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
        """Break all these connections, or none if one of them is already broken."""
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
