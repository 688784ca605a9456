"""Hosts as threads with real connections, and a manager that is scripted by a test."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from typing import TYPE_CHECKING, TypeVar

from rstream import MemoryBlobs
from rstream.transport.flight import ControlServer
from rvertex.host.environment import HostLimits
from rvertex.host.host import Host, HostSpec
from rvertex.host.wiring import FlightWiring
from rvertex.messages import (
    INSTRUCTION_CODEC,
    NOTICE_CODEC,
    Endpoint,
    HostReady,
    Locate,
    StartVertex,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rstream.store.protocol import BlobStore
    from rvertex.messages import HostInstruction, HostNotice
    from rvertex.vertex.spec import VertexSpec

N = TypeVar("N")
SECRET = "x"
WAIT_S = 120.0


class MemoryWiring(FlightWiring):
    """The real wiring, with stores in memory that all hosts of a test share."""

    def __init__(self, name: str, stores: dict[str, BlobStore]) -> None:
        super().__init__(name)
        self._stores = stores

    def open_store(self, uri: str) -> BlobStore:
        return self._stores.setdefault(uri, MemoryBlobs())


class ScriptedManager:
    """Starts hosts, sends the test's messages, and records their notices."""

    def __init__(self, vertices: list[VertexSpec], *, limits: HostLimits | None = None) -> None:
        self.vertices: Mapping[str, VertexSpec] = {str(v.id): v for v in vertices}
        self.limits = limits or HostLimits(report_interval_s=0.02)
        self.stores: dict[str, BlobStore] = {}
        self.notices: list[HostNotice] = []
        self.hosts: dict[str, Host] = {}
        self._ready: dict[str, HostReady] = {}
        self._inbox: queue.SimpleQueue[HostNotice] = queue.SimpleQueue()
        self._threads: dict[str, threading.Thread] = {}
        self._versions = 0
        self._server = ControlServer(SECRET, self._receive)

    def start_host(self, name: str) -> None:
        """Start a host and wait until it is ready."""
        spec = HostSpec(name, "job", "root", self._server.address, SECRET, self.limits)
        host = Host(spec, self.vertices, MemoryWiring(name, self.stores))
        thread = threading.Thread(target=host.run, name=name, daemon=True)
        self.hosts[name], self._threads[name] = host, thread
        thread.start()
        self._ready[name] = self.wait_for(HostReady, lambda n: n.host == name)

    def tell(self, host: str, *instructions: HostInstruction) -> None:
        for instruction in instructions:
            self._server.send(f"{host}#0", INSTRUCTION_CODEC.encode(instruction))

    def start(self, host: str, vertex: str, epoch: int, checkpoint: str = "") -> None:
        self.tell(host, StartVertex(host, vertex, epoch, checkpoint, 0, 1))

    def locate(self, vertex: str, *endpoints: tuple[int, str]) -> None:
        """Send every host the places of a vertex's streams: epochs and hosts."""
        self._versions += 1
        found = tuple(Endpoint(epoch, host, self._ready[host].address) for epoch, host in endpoints)
        for host in self.hosts:
            self.tell(host, Locate(vertex, self._versions, found))

    def wait_for(self, kind: type[N], accept: Callable[[N], bool] = lambda notice: True) -> N:
        """The first notice of a kind that ``accept`` accepts, past or future."""
        deadline_s = time.monotonic() + WAIT_S
        seen = 0
        while True:  # ends by the deadline
            for notice in self.notices[seen:]:
                if isinstance(notice, kind) and accept(notice):
                    return notice
            seen = len(self.notices)
            left_s = deadline_s - time.monotonic()
            assert left_s > 0, f"no {kind.__name__}; got {self.notices[-10:]}"
            with contextlib.suppress(queue.Empty):
                self.notices.append(self._inbox.get(timeout=left_s))

    def all_of(self, kind: type[N]) -> list[N]:
        """All notices of a kind so far."""
        while not self._inbox.empty():
            self.notices.append(self._inbox.get_nowait())
        return [n for n in self.notices if isinstance(n, kind)]

    def kill(self, host: str) -> None:
        """Kill a host with all its memory."""
        running = self.hosts.pop(host)
        running.how = "killed"
        running._wake.set()
        self._threads[host].join(WAIT_S)

    def close(self) -> None:
        for host in list(self.hosts):
            self.kill(host)
        self._server.close()

    def _receive(self, peer: str, message: bytes) -> None:
        self._inbox.put(NOTICE_CODEC.decode(message))
