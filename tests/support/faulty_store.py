"""A file system behind fsspec that fails, fills up or is slow, as the test requests.

It is registered as ``faulty://`` and keeps its files on the local disk; a put is atomic, as in an
object store. Faults apply to the whole process, whose threads are the hosts.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOOK_S = 0.01


@dataclass
class Faults:
    """The faults of a store's calls."""

    #: Share of calls that fail.
    error_rate: float = 0.0
    #: The number of next calls that fail.
    outage_calls: int = 0
    #: The duration of every call, seconds.
    delay_s: float = 0.0
    #: bytes_left: int|The bytes that can still be written; None: no limit.
    bytes_left: int | None = None
    #: A file: while it exists, a put of a log's commit takes effect and does not return.
    held_by: str = ""
    calls: int = 0
    failures: int = 0
    random: random.Random = field(default_factory=lambda: random.Random(5))
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _inside: threading.local = field(default_factory=threading.local)

    @contextlib.contextmanager
    def call(self, name: str) -> Iterator[None]:
        """Count an external call; calls within the file system do not count."""
        if getattr(self._inside, "is_set", False):
            yield
            return
        self._inside.is_set = True
        try:
            self._before(name)
            yield
        finally:
            self._inside.is_set = False

    def take_room(self, size: int) -> None:
        with self._lock:
            if self.bytes_left is not None:
                if size > self.bytes_left:
                    self.failures += 1
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                self.bytes_left -= size

    def hold(self, path: str) -> None:
        """Wait after a put, as :attr:`held_by` says."""
        while self.held_by and "/commit-" in path and os.path.exists(self.held_by):
            time.sleep(_LOOK_S)

    def _before(self, name: str) -> None:
        with self._lock:
            self.calls += 1
            fails = self.outage_calls > 0 or self.random.random() < self.error_rate
            self.outage_calls -= self.outage_calls > 0
            self.failures += fails
        if self.delay_s:
            time.sleep(self.delay_s)
        if fails:
            raise ConnectionError(f"{name}: nobody answers")


FAULTS = Faults()


class FaultyFileSystem(LocalFileSystem):  # type: ignore[misc]
    """A file system with faults; see the module."""

    protocol = "faulty"

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        absolute = "/" + path.removeprefix("faulty://").lstrip("/")
        return str(LocalFileSystem._strip_protocol(absolute))

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        with FAULTS.call("put"):
            FAULTS.take_room(len(value))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            temporary = f"{path}.{threading.get_ident()}.tmp"
            with open(temporary, "wb") as file:
                file.write(value)
            os.replace(temporary, path)
            FAULTS.hold(path)

    def cat_file(self, path: str, *args: Any, **options: Any) -> Any:
        with FAULTS.call("get"):
            return super().cat_file(path, *args, **options)

    def _open(self, path: str, *args: Any, **options: Any) -> Any:
        with FAULTS.call("open"):
            return super()._open(path, *args, **options)

    def find(self, path: str, *args: Any, **options: Any) -> Any:
        with FAULTS.call("list"):
            return super().find(path, *args, **options)

    def info(self, path: str, **options: Any) -> Any:
        with FAULTS.call("info"):
            return super().info(path, **options)

    def rm_file(self, path: str) -> None:
        with FAULTS.call("delete"):
            super().rm_file(path)


def register() -> None:
    """Make ``faulty://`` known to fsspec."""
    fsspec.register_implementation("faulty", FaultyFileSystem, clobber=True)
