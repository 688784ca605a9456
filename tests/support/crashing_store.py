"""A store on which a process dies at one of its calls, with a chosen effect of that call.

:class:`CrashingBlobs` counts the calls of one process on any store. At call ``at`` the process
dies, in one of these ways (:data:`WAYS`): *before* the call has any effect, *torn* (a put leaves a
temporary), *half* (a put leaves half a blob under its name, as in a store without atomic puts), or
*after* all of its effect. From then on every call of that process raises, so it can neither clean
up nor acknowledge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rstream.store.local_files import TEMPORARY

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from rstream.store.protocol import BlobStore, Paths


class DiedError(BaseException):
    """The process is dead; error handlers must not catch this as a failure that it survives."""


def deaths(calls: Sequence[str], *, is_atomic: bool = False) -> list[tuple[int, str]]:
    """List all deaths that differ: a death before a call equals one after the previous call.

    ``is_atomic``: the store never has half a blob, as the stores of jobs promise.
    """
    put = ("torn", "after") if is_atomic else ("torn", "half", "after")
    ways = {"put": put, "put_new": put, "delete": ("after",)}
    found = [(at, how) for at, call in enumerate(calls) for how in ways.get(call.split()[0], ())]
    return [(0, "before"), *found]


class Life:
    """The calls of one process on all its stores, until it dies."""

    def __init__(self, at: int | None = None, how: str = "before") -> None:
        """``at``: the call at which it dies, from 0; None: it lives."""
        self._at, self._how = at, how
        self.calls: list[str] = []
        self.is_dead = False

    def enter(self, call: str) -> str:
        """Start a call. Return how the process dies in it; empty if it does not."""
        if self.is_dead:
            raise DiedError
        self.calls.append(call)
        if self._at != len(self.calls) - 1:
            return ""
        self.is_dead = True
        if self._how == "before":
            raise DiedError
        return self._how

    def leave(self) -> None:
        """End a call."""
        if self.is_dead:
            raise DiedError


class CrashingBlobs:
    """A blob store whose calls ``life`` counts."""

    def __init__(self, store: BlobStore, life: Life) -> None:
        self._store, self._life = store, life

    @property
    def uri(self) -> str:
        return self._store.uri

    def put(self, path: str, data: bytes | pa.Buffer) -> None:
        self._tear(self._life.enter(f"put {path}"), path, bytes(data))
        self._store.put(path, data)
        self._life.leave()

    def put_new(self, path: str, data: bytes | pa.Buffer) -> bool:
        how = self._life.enter(f"put_new {path}")
        if not self._store.exists(path):
            self._tear(how, path, bytes(data))
        won = self._store.put_new(path, data)
        self._life.leave()
        return won

    def get(self, path: str) -> bytes:
        self._read(f"get {path}")
        return self._store.get(path)

    def get_many(self, paths: Sequence[str]) -> Sequence[bytes | None]:
        self._read(f"get_many {' '.join(paths)}")
        return self._store.get_many(paths)

    def open(self, path: str) -> pa.NativeFile:
        self._read(f"open {path}")
        return self._store.open(path)

    def list(self, folder: str = "") -> Paths:
        self._read(f"list {folder}")
        return self._store.list(folder)

    def delete(self, path: str) -> None:
        how = self._life.enter(f"delete {path}")
        if how in ("torn", "half"):  # a deletion is atomic
            raise DiedError
        self._store.delete(path)
        self._life.leave()

    def exists(self, path: str) -> bool:
        self._read(f"exists {path}")
        return self._store.exists(path)

    def size(self, path: str) -> int:
        self._read(f"size {path}")
        return self._store.size(path)

    def child(self, folder: str) -> CrashingBlobs:
        return CrashingBlobs(self._store.child(folder), self._life)

    def _read(self, call: str) -> None:
        self._life.enter(call)
        self._life.leave()

    def _tear(self, how: str, path: str, data: bytes) -> None:
        if how == "torn":
            self._store.put(f"{path}.7.7{TEMPORARY}", data[: len(data) // 2])
        elif how == "half":
            self._store.put(path, data[: len(data) // 2])
        self._life.leave() if how in ("torn", "half") else None
