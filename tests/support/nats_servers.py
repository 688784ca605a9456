"""Three NATS servers with JetStream in separate processes; each can be killed and restarted."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rvertex.registry.errors import RegistryAwayError
from rvertex.registry.nats_log import NatsLog
from tests.support.brokers import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

READY_S_MAX = 120.0
_CONFIG = """
server_name: n{n}
listen: 127.0.0.1:{port}
jetstream {{ store_dir: "{folder}/data{n}", sync_interval: always }}
cluster {{ name: c, listen: 127.0.0.1:{route}, routes: [{routes}] }}
"""


class NatsServers:
    """A cluster that tolerates the loss of any one server."""

    def __init__(self, folder: Path, count: int = 3) -> None:
        beside = Path(sys.executable).with_name("nats-server")
        found = str(beside) if beside.exists() else shutil.which("nats-server")
        if found is None:
            pytest.skip("no NATS server is installed")
        self._binary, self._folder = found, folder
        self._ports = [free_port() for _ in range(count)]
        routes = [free_port() for _ in range(count)]
        shown = ", ".join(f"nats://127.0.0.1:{route}" for route in routes)
        for n, (port, route) in enumerate(zip(self._ports, routes, strict=True)):
            text = _CONFIG.format(n=n, port=port, folder=folder, route=route, routes=shown)
            (folder / f"{n}.conf").write_text(text)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def urls(self) -> list[str]:
        return [f"nats://127.0.0.1:{port}" for port in self._ports]

    def start(self, n: int) -> None:
        with (self._folder / f"{n}.log").open("ab") as log:
            command = [self._binary, "-c", str(self._folder / f"{n}.conf")]
            self._processes[n] = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self, n: int) -> None:
        process = self._processes.pop(n)
        process.kill()
        process.wait()

    def wait(self) -> None:
        """Wait until a majority accepts entries."""
        log, deadline_s = NatsLog(self.urls, "ready"), time.monotonic() + READY_S_MAX
        while True:  # ends: at the deadline
            try:
                log.append(0, b"")
                break
            except RegistryAwayError:
                assert time.monotonic() < deadline_s, "the servers do not start"
        log.close()

    def stop(self) -> None:
        for n in list(self._processes):
            self.kill(n)


@contextlib.contextmanager
def nats_servers(folder: Path) -> Iterator[NatsServers]:
    """Three servers that accept entries."""
    servers = NatsServers(folder)
    try:
        for n in range(3):
            servers.start(n)
        servers.wait()
        yield servers
    finally:
        servers.stop()
