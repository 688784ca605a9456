"""A proxy to a PostgreSQL server that breaks connections at certain bytes, both ways."""

from __future__ import annotations

import contextlib
import socket
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

_SOCKET = ".s.PGSQL.5432"
_BYTES_MAX = 1 << 16


class CuttingProxy:
    """A proxy between clients and the server in ``folder``.

    The bytes that break it do not arrive.
    """

    def __init__(self, folder: Path) -> None:
        self._server = str(folder / _SOCKET)
        self._own = tempfile.TemporaryDirectory(prefix="proxy-")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(Path(self.folder) / _SOCKET))
        self._listener.listen()
        #: Bytes that break a connection, to the server or back; empty: none.
        self.cut_to_server = self.cut_to_client = b""
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def folder(self) -> str:
        """The address for clients."""
        return self._own.name

    def __enter__(self) -> CuttingProxy:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.close()
        self._own.cleanup()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:  # until the listener is closed
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._server)
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=self._carry, args=(*ends, client), daemon=True).start()

    def _carry(self, giver: socket.socket, taker: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := giver.recv(_BYTES_MAX):
                cut = self.cut_to_server if giver is client else self.cut_to_client
                if cut and cut in data:
                    break
                taker.sendall(data)
        for end in (giver, taker):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
