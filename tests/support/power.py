"""The files that a power loss would leave on the local disk.

The disk keeps only what was synced: a file's content at its last sync, and a folder's names at its
last sync. Content in a buffer of the process does not count, since it is read from the file system
at the moment of the sync. Not covered: a disk that reports a sync that it has not done.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


class Disk:
    """Records every sync of this process from now on.

    It records files below ``root``; the folder ``root`` is durable. The real sync still happens.
    """

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._root = str(root)
        self._lock = threading.Lock()
        #: Content of files and names of folders, by inode.
        self._contents: dict[int, bytes] = {}
        self._names: dict[int, dict[str, int]] = {}
        #: An open handle of each, because the inode of a deleted file could be reused.
        self._handles: dict[int, int] = {}
        weakref.finalize(self, _close, self._handles)
        #: Paths in the order of their syncs.
        self.synced: list[str] = []
        #: Files that got a name before their content was durable.
        self.named_too_early: list[str] = []
        fsync = os.fsync

        def record(handle: int) -> None:
            self._note_sync(handle)
            fsync(handle)

        monkeypatch.setattr(os, "fsync", record)
        for name in ("replace", "rename", "link"):
            monkeypatch.setattr(os, name, self._recorded(getattr(os, name)))

    def survivors(self) -> dict[str, bytes]:
        """Return the files below the root that would survive a power loss, by path."""
        with self._lock:
            return dict(self._below(self._root, os.stat(self._root).st_ino))

    def lost(self) -> set[str]:
        """Existing files that would not survive unchanged."""
        left = self.survivors()
        return {path for path, data in _files(self._root).items() if left.get(path) != data}

    def is_durable(self, path: str) -> bool:
        """Return whether the contents of a file or folder would survive, if its name does."""
        with self._lock:
            inode = os.stat(path).st_ino
            if os.path.isfile(path):
                return self._contents.get(inode) == _read(path)
            return dict(self._below(path, inode)) == _files(path)

    def _below(self, folder: str, inode: int) -> list[tuple[str, bytes]]:
        found = []
        for name, at in self._names.get(inode, {}).items():
            path = f"{folder}/{name}"
            if at in self._names or os.path.isdir(path):
                found += self._below(path, at)
            else:
                found.append((path, self._contents.get(at, b"")))
        return found

    def _note_sync(self, handle: int) -> None:
        path, found = os.readlink(f"/proc/self/fd/{handle}"), os.fstat(handle)
        with self._lock:
            self._keep(path, found.st_ino)
            if f"{path}/".startswith(f"{self._root}/"):
                self.synced.append(path)
            if stat.S_ISDIR(found.st_mode):
                entries = {entry.name: entry.inode() for entry in os.scandir(path)}
                self._names[found.st_ino] = entries
                for name, inode in entries.items():
                    self._keep(f"{path}/{name}", inode)
            else:
                self._contents[found.st_ino] = _read(path)

    def _keep(self, path: str, inode: int) -> None:
        if inode not in self._handles:
            with contextlib.suppress(FileNotFoundError):  # deleted since it was listed
                self._handles[inode] = os.open(path, os.O_PATH)

    def _recorded(self, real: Any) -> Any:
        def call(old: str, new: str, **options: Any) -> None:
            if str(new).startswith(f"{self._root}/") and not self.is_durable(old):
                self.named_too_early.append(str(new))
            real(old, new, **options)

        return call


def _close(handles: dict[int, int]) -> None:
    for handle in handles.values():
        os.close(handle)


def _files(root: str) -> dict[str, bytes]:
    return {
        f"{folder}/{name}": _read(f"{folder}/{name}")
        for folder, _, names in os.walk(root)
        for name in names
    }


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
