"""Files on a local disk: a file appears under its name as a whole, and is durable when put returns.

A put writes a temporary file, syncs it, renames it, and syncs the folder. Without these syncs a
power loss may delete a name, or leave it with empty content. New folders are synced likewise, up to
the first one that existed.

Syncing a folder costs as much for one new name as for many. So one of the threads that ask for the
same folder at one time syncs it for all. A thread that comes while the disk is busy waits for the
next sync, which serves all that have come until then.

A folder with a file :data:`PRIVATE` is private: this user alone may enter it, and read files that
are made in it and below it. The mark lies in the folder, so all processes that write there keep to
it, and it moves with the folder.

Invariant: :func:`sync_folder` returns after a sync that began after it was called.
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
    import pyarrow as pa

#: What crashed puts leave behind ends so.
TEMPORARY = ".tmp"
PRIVATE = ".private"
_PRIVATE_FILE, _PRIVATE_FOLDER, _SHARED_FILE = 0o600, 0o700, 0o666
#: Some file systems cannot sync folders, some do not let everybody read them.
_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES, errno.EPERM)


def put_file(
    full: str, data: bytes | pa.Buffer, *, is_new: bool, sync: bool, private: bool = False
) -> None:
    """Write a file whose folder is there. Raises FileExistsError if it has to be new and is not.

    ``private``: for this user alone; otherwise for those whom the umask lets read.
    """
    folder, _, name = full.rpartition("/")  # with a dot, so that no reader of tables looks
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


def files_below(folder: str) -> list[str]:
    """All files in a folder and those within it, in no order; none if there is no such folder.

    What fsspec cannot list it takes for empty, and old releases of it cannot list a folder from
    which a file goes meanwhile.

    Raises:
        OSError: a folder that is there cannot be read, so it may have files.
    """
    found: list[str] = []
    for below, _, names in os.walk(folder, onerror=_refuse):
        found += [f"{below}/{name}" for name in names]
    return found


def _refuse(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error


def make_folder(folder: str, *, sync: bool) -> bool:
    """Make a folder and those above it; returns whether what is put into it is private.

    ``sync``: their names too, also of one that somebody else has just made, once in this process.

    Raises:
        FileExistsError: one is a file or a broken link.
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
            with contextlib.suppress(FileExistsError):  # another has made it
                os.mkdir(path, _PRIVATE_FOLDER if is_private else 0o777)
        else:
            is_private = is_private or os.path.exists(f"{path}/{PRIVATE}")
    for path in above if sync else ():
        if path in missing or path not in _synced:
            sync_folder(path.rpartition("/")[0] or "/")
    _synced.update(above if sync else ())
    return is_private


def make_private(folder: str, *, sync: bool) -> None:
    """Let only this user enter the folder, and read what will be made in it; make it if need be.

    Raises:
        OSError: the folder is another user's, or cannot be made.
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
    """Open a file for this user alone, which must not be a link of another one."""
    return os.open(path, flags | os.O_NOFOLLOW, _PRIVATE_FILE)


def link_file(file: str, target: str, *, sync: bool) -> None:
    """Give a file another name, or copy it where there are no links; a target that exists stays.

    ``file`` is this user's alone, so a folder that is shared gets a copy.
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
    """Whether the file has got another name; not on another file system, or one without links."""
    if sync:
        sync_file(file)
    try:
        os.link(file, target)
    except OSError:
        return False
    return True


def sync_file(path: str) -> None:
    """Have the content of a file survive a loss of power."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def sync_folder(folder: str) -> None:
    """Have the names in a folder survive a loss of power."""
    _syncs.sync(folder)


@dataclass(slots=True)
class _Folder:
    """How often a sync was asked for, and how many of these are done."""

    asked: int = 0
    done: int = 0
    is_busy: bool = False
    waiting: int = 0


class _FolderSyncs:
    """One sync at a time of each folder, for all who have asked for it till it begins."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._folders: dict[str, _Folder] = {}

    def sync(self, path: str) -> None:
        with self._changed:
            folder = self._folders.setdefault(path, _Folder())
            folder.asked += 1
            mine = folder.asked
            folder.waiting += 1
            try:
                self._changed.wait_for(lambda: folder.done >= mine or not folder.is_busy)
            finally:
                folder.waiting -= 1
            if folder.done >= mine:
                self._forget(path, folder)
                return
            folder.is_busy, till = True, folder.asked
        try:
            _sync(path)
        except BaseException:
            till = 0  # the next one who waits tries it itself
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
    """Give a file its name unless that is taken; where there are no links, by exclusive create.

    Whoever dies between the two leaves an empty file, on which nobody has gone on.
    """
    try:
        os.link(temporary, full)
        os.remove(temporary)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK):
            raise
        os.close(os.open(full, os.O_CREAT | os.O_EXCL, mode))
        os.replace(temporary, full)
