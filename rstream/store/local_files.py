"""Files on a local disk: each appears completely, and is durable when the put returns.

A put writes a temporary file, syncs it, renames it, and syncs the folder. Without these syncs a
power failure may delete the name, or leave an empty file. New folders are synced likewise, up to
the first one that existed.

Syncing a folder takes as long for one new name as for many. So of the threads that request a sync
of the same folder at the same time, one syncs it for all. A thread that arrives during a sync waits
for the next sync, which serves all threads that have arrived until then.

A folder with a file :data:`PRIVATE` is private: only this user may enter it, and read files created
in it and below it. The mark is in the folder, so all processes that write there respect it, and it
moves with the folder.

Invariant: :func:`sync_folder` returns after a sync that started after the call.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

#: Suffix of the files that crashed puts leave.
TEMPORARY = ".tmp"
PRIVATE = ".private"
_PRIVATE_FILE, _PRIVATE_FOLDER, _SHARED_FILE = 0o600, 0o700, 0o666
#: Errors of file systems that cannot sync folders, and of unreadable folders.
_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES, errno.EPERM)


def put_file(
    full: str, data: bytes | pa.Buffer, *, is_new: bool, sync: bool, private: bool = False
) -> None:
    """Write a file into an existing folder. ``is_new``: raise FileExistsError if it exists.

    ``private``: readable by this user only; otherwise by the users that the umask allows.
    """
    # The temporary name begins with a dot, so readers of tables skip it
    folder, _, name = full.rpartition("/")
    temporary = f"{folder}/.{name}.{os.getpid()}.{threading.get_ident()}{TEMPORARY}"
    try:
        with open(temporary, "wb", opener=private_opener if private else None) as file:
            file.write(data)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        if is_new:
            _link_new(temporary, full, _PRIVATE_FILE if private else _SHARED_FILE)
        else:
            os.replace(temporary, full)
    except OSError:
        with contextlib.suppress(OSError):
            os.remove(temporary)
        raise
    if sync:
        sync_folder(folder)


def write_draft(full: str, data: bytes | pa.Buffer, *, private: bool = False) -> None:
    """Write a file that no process reads before a later file exists. It is not synced.

    A new file gets its final name at once. An existing one may be in use by another process, which
    has replaced this one, so it is replaced atomically.
    """
    try:
        with open(full, "xb", opener=private_opener if private else None) as file:
            file.write(data)
    except FileExistsError:
        put_file(full, data, is_new=False, sync=False, private=private)
    except OSError:
        with contextlib.suppress(OSError):
            os.remove(full)
        raise


def files_below(folder: str) -> list[str]:
    """List all files in a folder and below it, unordered; empty if the folder does not exist.

    This replaces fsspec's function, which treats unreadable folders as empty, and which fails in
    old releases if a file is deleted during the listing.

    Raises:
        OSError: an existing folder cannot be read, so it may have files.
    """
    paths: list[str] = []
    for below, _, names in os.walk(folder, onerror=_refuse):
        paths += [f"{below}/{name}" for name in names]
    return paths


def _refuse(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error


def make_folder(folder: str, *, sync: bool) -> bool:
    """Create a folder and its parents; return whether new files in it are private.

    ``sync``: sync their names, once per process, also names that another process has just created.

    Raises:
        FileExistsError: a parent or the folder is a file or a broken link.
    """
    above = [folder]
    while "/" in (parent := above[-1].rpartition("/")[0]):
        above.append(parent)
    missing = {path for path in above if not os.path.isdir(path)}
    for path in missing:
        if os.path.islink(path):
            raise FileExistsError(f"{path} links to something other than a folder")
    is_private = False
    for path in reversed(above):
        if path in missing:
            with contextlib.suppress(FileExistsError):  # another process has created it
                os.mkdir(path, _PRIVATE_FOLDER if is_private else 0o777)
                _synced.discard(path)
        else:
            is_private = is_private or os.path.exists(f"{path}/{PRIVATE}")
    for path in above if sync else ():
        if path in missing or path not in _synced:
            sync_folder(path.rpartition("/")[0] or "/")
    _synced.update(above if sync else ())
    return is_private


def unsynced_names(folders: Iterable[str]) -> list[str]:
    """Return the folders to sync so that the names of these existing folders are durable.

    Call :func:`note_synced` afterwards.
    """
    return list(dict.fromkeys(path.rpartition("/")[0] or "/" for path in _new_above(folders)))


def note_synced(folders: Iterable[str]) -> None:
    """Record that the names of these folders, and of the folders above, are durable."""
    _synced.update(_new_above(folders))


def _new_above(folders: Iterable[str]) -> list[str]:
    found = []
    for folder in folders:
        while "/" in folder and folder not in _synced:
            found.append(folder)
            folder = folder.rpartition("/")[0]
    return found


def make_private(folder: str, *, sync: bool) -> None:
    """Let only this user enter the folder, and read new files in it. Create it if missing.

    Raises:
        OSError: the folder belongs to another user, or cannot be created.
    """
    parent = folder.rpartition("/")[0]
    if parent:
        make_folder(parent, sync=sync)
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, _PRIVATE_FOLDER)
    os.chmod(folder, _PRIVATE_FOLDER)
    put_file(f"{folder}/{PRIVATE}", b"", is_new=False, sync=sync, private=True)
    if sync:
        sync_folder(parent or "/")


def private_opener(path: str, flags: int) -> int:
    """Open a file for this user only. It must not be a link of another user."""
    return os.open(path, flags | os.O_NOFOLLOW, _PRIVATE_FILE)


def link_file(file: str, target: str, *, sync: bool) -> None:
    """Give a file a second name, or copy it if links are impossible. Keep an existing target.

    ``file`` is readable by this user only, so in a shared folder it is copied.
    """
    folder = target.rpartition("/")[0]
    is_private = make_folder(folder, sync=sync)
    if not os.path.exists(target) and not (is_private and _is_linked(file, target, sync=sync)):
        draft = f"{target}{TEMPORARY}"
        shutil.copyfile(file, draft)
        if is_private:
            os.chmod(draft, _PRIVATE_FILE)
        if sync:
            sync_file(draft)
        os.replace(draft, target)
    if sync:
        sync_folder(folder)


def _is_linked(file: str, target: str, *, sync: bool) -> bool:
    """Return whether the file was linked; False if the file systems differ or lack links."""
    if sync:
        sync_file(file)
    try:
        os.link(file, target)
    except OSError:
        return False
    return True


def sync_file(path: str) -> None:
    """Sync the content of a file, so that it survives a power failure."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def sync_folder(folder: str) -> None:
    """Sync the names in a folder, so that they survive a power failure."""
    _syncs.sync(folder)


@dataclass(slots=True)
class _Folder:
    """The numbers of requested and of completed syncs of a folder."""

    requested: int = 0
    done: int = 0
    is_busy: bool = False
    waiting: int = 0


class _FolderSyncs:
    """Runs one sync per folder at a time, for all threads that requested it before it started."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._folders: dict[str, _Folder] = {}

    def sync(self, path: str) -> None:
        with self._changed:
            folder = self._folders.setdefault(path, _Folder())
            folder.requested += 1
            ticket = folder.requested
            folder.waiting += 1
            try:
                self._changed.wait_for(lambda: folder.done >= ticket or not folder.is_busy)
            finally:
                folder.waiting -= 1
            if folder.done >= ticket:
                self._forget(path, folder)
                return
            folder.is_busy, till = True, folder.requested
        try:
            _sync(path)
        except BaseException:
            till = 0  # the next waiting thread retries
            raise
        finally:
            with self._changed:
                folder.is_busy, folder.done = False, max(folder.done, till)
                self._forget(path, folder)
                self._changed.notify_all()

    def _forget(self, path: str, folder: _Folder) -> None:
        if not folder.waiting and not folder.is_busy:
            self._folders.pop(path, None)


_syncs = _FolderSyncs()
#: Folders whose names this process has synced.
_synced: set[str] = set()


def _sync(folder: str) -> None:
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        if error.errno in _NO_SYNC:
            return
        raise
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(handle)


def _link_new(temporary: str, full: str, mode: int) -> None:
    """Rename a new file, unless the name exists.

    Without hard links, the file is created exclusively. Then a crash in between leaves an empty
    file, which no process has used.
    """
    try:
        os.link(temporary, full)
        os.remove(temporary)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK):
            raise
        os.close(os.open(full, os.O_CREAT | os.O_EXCL, mode))
        os.replace(temporary, full)
