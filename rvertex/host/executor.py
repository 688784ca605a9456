"""Executors start hosts. ``LocalExecutor`` runs them as threads of this process.

An executor only starts hosts and reports how each one ended. Hosts are stopped by messages over the
control link. No other module knows whether a host is a thread or a Spark task.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

from rstream.clock import SystemClock
from rvertex.host.host import Host
from rvertex.host.wiring import FlightWiring

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rvertex.host.host import HostSpec
    from rvertex.host.wiring import Wiring
    from rvertex.vertex.spec import VertexSpec


class Executor(Protocol):
    """Starts hosts; one executor serves one job."""

    @property
    def hosts(self) -> int:
        """Number of hosts that a job should have on this executor."""

    @property
    def bind(self) -> str:
        """Return the interface on which the hosts of this executor can reach each other."""

    def start(self, spec: HostSpec, on_exit: Callable[[str, str], None]) -> None:
        """Start a host and return at once. ``on_exit(host, how)`` is called when it has ended."""

    def park(self, secret: str) -> str:
        """Let the processes of stopping hosts wait, so that the job's next executor can reuse them.

        Returns the address at which the processes wait (``StopHost.stays_at``). An empty address
        means that they exit, because starting a new host takes no longer.
        """

    def close(self, wait_s: float) -> None:
        """Wait at most ``wait_s`` for stopping hosts, then abandon them."""

    def release(self) -> None:
        """Let the waiting processes exit, because the job has no further executor."""


class LocalExecutor:
    """Hosts as threads of one process, for tests, debugging and small jobs."""

    def __init__(
        self,
        vertices: Mapping[str, VertexSpec],
        *,
        hosts: int,
        wire: Callable[[str], Wiring] = FlightWiring,
    ) -> None:
        assert hosts >= 1, hosts
        self._vertices = vertices
        self._hosts = hosts
        self._wire = wire
        self._threads: list[threading.Thread] = []

    @property
    def hosts(self) -> int:
        """Number of hosts that a job should have on this executor."""
        return self._hosts

    @property
    def bind(self) -> str:
        """Return the loopback interface: all hosts are in this process."""
        return "127.0.0.1"

    def start(self, spec: HostSpec, on_exit: Callable[[str, str], None]) -> None:
        """Start a thread that runs the host."""

        def body() -> None:
            how = "failed"
            try:
                how = Host(spec, self._vertices, self._wire(spec.host)).run().how
            except Exception as error:
                how = f"{type(error).__name__}: {error}"
            finally:
                on_exit(spec.host, how)

        thread = threading.Thread(target=body, name=spec.host, daemon=True)
        self._threads.append(thread)
        thread.start()

    def park(self, secret: str) -> str:
        """Return "": threads need not wait, because new ones start at once."""
        return ""

    def release(self) -> None:
        """Do nothing: no thread waits."""

    def close(self, wait_s: float) -> None:
        """Wait for the threads to end. A thread that hangs is abandoned; it is a daemon."""
        join_all(self._threads, wait_s)


def join_all(threads: Iterable[threading.Thread], wait_s: float) -> None:
    """Wait for threads to end, at most ``wait_s`` for all of them together."""
    clock = SystemClock()
    deadline_s = clock.monotonic_s() + wait_s
    for thread in threads:
        thread.join(max(0.0, deadline_s - clock.monotonic_s()))
