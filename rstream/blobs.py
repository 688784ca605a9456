"""Named immutable byte strings in a folder: on a disk, in memory, in an object store.

A put is atomic: locally a temporary name, then a rename; an object store has a single put. Names
that end in ``.tmp`` are leftovers of a crash; listings do not show them, :func:`remove_temporaries`
removes them. Every operation is retried :data:`ATTEMPTS_MAX` times, each attempt has
:data:`ATTEMPT_WAIT_S`, and what still fails is a :class:`StoreError`.

``put_new`` creates exclusively: of several writers of one name one wins. That holds on local file
systems, in memory and on S3; elsewhere looking and putting are two steps
(:attr:`FsspecBlobs.is_exclusive`). The correctness of streams does not rest on it.

The only file that knows fsspec.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import fsspec
import pyarrow as pa

from rstream.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")
#: The stores have a method called ``list``.
Paths = list[str]
#: With the delays between them an outage of three seconds goes by unnoticed.
ATTEMPTS_MAX = 6
#: Blobs that one ``get_many`` reads at a time.
READERS_MAX = 8
ATTEMPT_WAIT_S = 60.0
RETRY_DELAY_S = 0.05
TEMPORARY = ".tmp"
#: Protocols whose ``pipe_file`` can create exclusively.
_CONDITIONAL = ("s3", "s3a")
_look_and_put = threading.Lock()
#: Retrying is done here, once; botocore's own retries would multiply with it.
S3_OPTIONS: dict[str, Any] = {
    "use_listings_cache": False,
    "config_kwargs": {"connect_timeout": 10, "read_timeout": 30, "retries": {"max_attempts": 1}},
}


class BlobStore(Protocol):
    """A folder of blobs; paths are relative to it and use ``/``."""

    @property
    def uri(self) -> str:
        """Where it is, for messages and for opening it again."""
        ...

    def put(self, path: str, data: bytes | pa.Buffer) -> None:
        """Write the whole blob; it becomes visible at once or not at all."""
        ...

    def put_new(self, path: str, data: bytes | pa.Buffer) -> bool:
        """Write the whole blob unless there is one; whether the blob there is this one.

        A retry may find what its own first attempt left: equal content counts as won, so writers
        that must tell who won put something of their own into it.
        """
        ...

    def get(self, path: str) -> bytes:
        """The whole blob. Raises FileNotFoundError if there is none."""
        ...

    def get_many(self, paths: Sequence[str]) -> Sequence[bytes | None]:
        """Whole blobs, several at once; None for one that is not there."""
        ...

    def open(self, path: str) -> pa.NativeFile:
        """A seekable file to read from. Raises FileNotFoundError if there is none."""
        ...

    def list(self, folder: str = "") -> Paths:
        """Paths of all blobs below ``folder``, sorted; empty if there is no such folder."""
        ...

    def delete(self, path: str) -> None:
        """Remove the blob; nothing happens if there is none."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is such a blob."""
        ...

    def size(self, path: str) -> int:
        """Bytes of the blob. Raises FileNotFoundError if there is none."""
        ...

    def child(self, folder: str) -> BlobStore:
        """The store rooted at a folder of this one."""
        ...


class MemoryBlobs:
    """A store in a dictionary, for tests and simulation. ``child`` shares the dictionary."""

    def __init__(self, blobs: dict[str, bytes] | None = None, root: str = "") -> None:
        self.blobs: dict[str, bytes] = {} if blobs is None else blobs
        self._root = root

    @property
    def uri(self) -> str:
        return f"blobs://{self._root}"

    def put(self, path: str, data: bytes | pa.Buffer) -> None:
        self.blobs[self._root + path] = bytes(data)

    def put_new(self, path: str, data: bytes | pa.Buffer) -> bool:
        mine = bytes(data)
        return self.blobs.setdefault(self._root + path, mine) == mine

    def get(self, path: str) -> bytes:
        try:
            return self.blobs[self._root + path]
        except KeyError:
            raise FileNotFoundError(path) from None

    def get_many(self, paths: Sequence[str]) -> Sequence[bytes | None]:
        return [_get_or_none(self, path) for path in paths]

    def open(self, path: str) -> pa.NativeFile:
        return pa.BufferReader(self.get(path))

    def list(self, folder: str = "") -> Paths:
        prefix = self._root + (folder.rstrip("/") + "/" if folder else "")
        names = (name for name in list(self.blobs) if name.startswith(prefix))
        return sorted(n[len(self._root) :] for n in names if not n.endswith(TEMPORARY))

    def temporaries(self) -> Paths:
        """Leftovers of crashed puts."""
        names = (n for n in list(self.blobs) if n.startswith(self._root))
        return sorted(n[len(self._root) :] for n in names if n.endswith(TEMPORARY))

    def delete(self, path: str) -> None:
        self.blobs.pop(self._root + path, None)

    def exists(self, path: str) -> bool:
        return self._root + path in self.blobs

    def size(self, path: str) -> int:
        return len(self.get(path))

    def child(self, folder: str) -> MemoryBlobs:
        return MemoryBlobs(self.blobs, f"{self._root}{folder.strip('/')}/")


class FsspecBlobs:
    """A store on any fsspec file system."""

    def __init__(self, fs: Any, root: str, *, fsync: bool = False) -> None:
        self._fs = fs
        self._root = root.rstrip("/")
        self._fsync = fsync
        protocol = fs.protocol if isinstance(fs.protocol, str) else fs.protocol[0]
        self._is_local = protocol in ("file", "local")
        self._needs_timeout = protocol not in ("file", "local", "memory")
        self._has_folders = protocol in ("file", "local", "memory")
        self._made_folders: set[str] = set()
        self._protocol = protocol

    @property
    def uri(self) -> str:
        return f"{self._protocol}://{self._root.lstrip('/') if not self._is_local else self._root}"

    @property
    def is_exclusive(self) -> bool:
        """Whether of several ``put_new`` of one name one wins, at whatever moments they come."""
        return self._is_local or self._protocol in ("memory", *_CONDITIONAL)

    def put(self, path: str, data: bytes | pa.Buffer) -> None:
        self._attempt(path, lambda: self._write(path, data, is_new=False))

    def put_new(self, path: str, data: bytes | pa.Buffer) -> bool:
        try:
            self._attempt(path, lambda: self._write(path, data, is_new=True))
        except FileExistsError:
            return self.get(path) == bytes(data)
        return True

    def get(self, path: str) -> bytes:
        data: bytes = self._attempt(path, lambda: self._fs.cat_file(self._full(path)))
        return data

    def get_many(self, paths: Sequence[str]) -> Sequence[bytes | None]:
        if len(paths) <= 1:
            return [_get_or_none(self, path) for path in paths]
        with ThreadPoolExecutor(min(READERS_MAX, len(paths)), "blob-reader") as readers:
            return list(readers.map(lambda path: _get_or_none(self, path), paths))

    def open(self, path: str) -> pa.NativeFile:
        full = self._full(path)
        if self._is_local:
            return self._attempt(path, lambda: pa.OSFile(full, "rb"))
        return self._attempt(path, lambda: pa.PythonFile(self._fs.open(full, "rb"), mode="r"))

    def list(self, folder: str = "") -> Paths:
        return [name for name in self._find(folder) if not name.endswith(TEMPORARY)]

    def temporaries(self) -> Paths:
        """Leftovers of crashed puts."""
        return [name for name in self._find("") if name.endswith(TEMPORARY)]

    def delete(self, path: str) -> None:
        def remove() -> None:
            try:
                self._fs.rm_file(self._full(path))
            except FileNotFoundError:
                return

        self._attempt(path, remove)

    def exists(self, path: str) -> bool:
        try:
            self.size(path)
        except FileNotFoundError:
            return False
        return True

    def size(self, path: str) -> int:
        def stat() -> int:
            self._fs.invalidate_cache()
            return int(self._fs.info(self._full(path))["size"])

        return self._attempt(path, stat)

    def child(self, folder: str) -> FsspecBlobs:
        return FsspecBlobs(self._fs, self._full(folder.strip("/")), fsync=self._fsync)

    def _full(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    def _find(self, folder: str) -> Paths:
        def find() -> list[str]:
            self._fs.invalidate_cache()
            found: Paths = self._fs.find(self._full(folder.strip("/")))
            return found

        try:
            found = self._attempt(folder, find)
        except FileNotFoundError:
            return []
        skip = len(self._root) + 1
        below = f"{self._full(folder.strip('/'))}/"  # s3fs may give the folder itself
        return sorted(name[skip:] for name in found if name.startswith(below))

    def _make_folder(self, folder: str) -> None:
        if folder not in self._made_folders:
            try:
                self._fs.makedirs(folder, exist_ok=True)
            except FileExistsError as error:
                raise NotADirectoryError(str(error)) from error
            self._made_folders.add(folder)

    def _write(self, path: str, data: bytes | pa.Buffer, *, is_new: bool) -> None:
        """Write the blob. Raises FileExistsError if it has to be new and is not."""
        full = self._full(path)
        write = self._put_local if self._is_local else self._put_whole
        try:
            if self._has_folders:
                self._make_folder(full.rpartition("/")[0])
            write(full, data, is_new)
        except FileNotFoundError as error:  # the folder or the temporary was removed
            self._made_folders.clear()
            raise OSError(str(error)) from error

    def _put_whole(self, full: str, data: bytes | pa.Buffer, is_new: bool) -> None:
        if not is_new:
            self._fs.pipe_file(full, bytes(data))
        elif self._protocol in _CONDITIONAL:
            self._fs.pipe_file(full, bytes(data), mode="create")
        else:
            with _look_and_put:
                if self._fs.exists(full):
                    raise FileExistsError(full)
                self._fs.pipe_file(full, bytes(data))

    def _put_local(self, full: str, data: bytes | pa.Buffer, is_new: bool) -> None:
        temporary = f"{full}.{os.getpid()}.{threading.get_ident()}{TEMPORARY}"
        try:
            with open(temporary, "wb") as file:
                file.write(data)
                if self._fsync:
                    file.flush()
                    os.fsync(file.fileno())
            if is_new:
                _link_new(temporary, full)
            else:
                os.replace(temporary, full)
        except OSError:
            with contextlib.suppress(OSError):
                os.remove(temporary)
            raise

    def _attempt(self, path: str, operation: Callable[[], T]) -> T:
        """Run with retries; that a file is not there, or is, is an answer, not a failure."""
        reason = ""
        for attempt in range(ATTEMPTS_MAX):
            if attempt:
                time.sleep(RETRY_DELAY_S * 2**attempt)
            try:
                return _with_limit(operation) if self._needs_timeout else operation()
            except (FileNotFoundError, FileExistsError):
                raise
            except Exception as error:  # whatever a file system raises; named after the last try
                reason = f"{type(error).__name__}: {error}"
                if isinstance(error, PermissionError | IsADirectoryError | NotADirectoryError):
                    break
        raise StoreError(f"{self.uri}/{path}", reason)


def open_store(uri: str, *, fsync: bool = False, **storage_options: Any) -> FsspecBlobs:
    """The store at ``uri``: a path, ``file://``, ``memory://``, ``s3://bucket/...``, ...

    ``storage_options`` go to the fsspec file system; endpoint and credentials may come from the
    environment as the file system reads them. ``fsync`` makes local puts survive a loss of power.

    Raises:
        StoreError: the protocol is unknown or its package is not installed.
    """
    if not uri:
        raise StoreError("(no path)", "the path is empty")
    if "://" not in uri:
        uri = f"file://{os.path.abspath(uri)}"
    protocol = uri.partition("://")[0].partition("::")[0]
    if protocol not in (*fsspec.available_protocols(), *fsspec.registry):
        raise StoreError(uri, f"Protocol not known: {protocol!r}")
    if uri.startswith("s3://"):
        storage_options = {**S3_OPTIONS, **storage_options}
    try:
        fs, root = fsspec.core.url_to_fs(uri, **storage_options)
    except (ImportError, ValueError) as error:
        raise StoreError(uri, str(error)) from error
    return FsspecBlobs(fs, root, fsync=fsync)


def remove_temporaries(store: BlobStore) -> int:
    """Remove what crashed puts left; returns how many. Only while nobody else writes."""
    if not isinstance(store, MemoryBlobs | FsspecBlobs):
        return 0
    names = store.temporaries()
    for name in names:
        store.delete(name)
    return len(names)


def _link_new(temporary: str, full: str) -> None:
    """Give a file its name unless that is taken; where there are no links, by exclusive create.

    Whoever dies between the two leaves an empty file, on which nobody has gone on.
    """
    try:
        os.link(temporary, full)
        os.remove(temporary)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK):
            raise
        os.close(os.open(full, os.O_CREAT | os.O_EXCL))
        os.replace(temporary, full)


def _get_or_none(store: BlobStore, path: str) -> bytes | None:
    try:
        return store.get(path)
    except FileNotFoundError:
        return None


def _with_limit(operation: Callable[[], T]) -> T:
    """Run on a thread of its own and give up waiting after ATTEMPT_WAIT_S."""
    result: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            result.append(operation())
        except BaseException as error:  # re-raised in the caller's thread
            failure.append(error)

    thread = threading.Thread(target=run, name="blob-operation", daemon=True)
    thread.start()
    thread.join(ATTEMPT_WAIT_S)
    if failure:
        raise failure[0]
    if not result:
        raise TimeoutError(f"no answer in {ATTEMPT_WAIT_S:g} s")
    return result[0]
