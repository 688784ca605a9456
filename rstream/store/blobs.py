"""Named immutable byte strings (blobs) in a folder: on a disk, in memory, in an object store.

A put is atomic: on a disk it writes a temporary file and renames it; an object store has a single
put. When it returns, the blob is durable: on a disk the file and its folder were synced, unless
``fsync`` is off. Names that end in ``.tmp`` are left by a crash; listings skip them, and
:func:`remove_temporaries` deletes them. Every operation is attempted :data:`ATTEMPTS_MAX` times,
each within :data:`ATTEMPT_WAIT_S`; the last failure is raised as a :class:`StoreError`.

``put_new`` creates exclusively: if several writers create one name, one succeeds. This holds on
local file systems, in memory and on S3. Elsewhere the check and the put are two steps
(:attr:`FsspecBlobs.is_exclusive`). The correctness of streams does not depend on it.

No other module imports fsspec.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import fsspec

from rstream.errors import StoreError
from rstream.secret_values import resolved_path, secret_value
from rstream.store.limited import with_limit
from rstream.store.local_files import (
    TEMPORARY,
    files_below,
    make_folder,
    make_private,
    put_file,
    sync_folder,
    write_draft,
)
from rstream.store.memory_blobs import MemoryBlobs, get_or_none
from rstream.store.part_files import PartFiles, split_part
from rstream.store.requests import count_request

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from rstream.store.protocol import BlobStore, Paths

T = TypeVar("T")
#: Number of attempts. With the pauses in between, an outage of three seconds has no effect.
ATTEMPTS_MAX = 6
#: Blobs that one ``get_many`` reads concurrently.
READERS_MAX = 8
ATTEMPT_WAIT_S = 60.0
RETRY_DELAY_S = 0.05
#: Protocols whose ``pipe_file`` can create exclusively.
_CONDITIONAL = ("s3", "s3a")
#: Advice for errors that a retry does not fix.
_ADVICE: dict[type[Exception], str] = {
    PermissionError: (
        "; a job's folder is its user's alone: where drivers or hosts run as several users, begin "
        "the job with shared_root=True (--shared-root)"
    ),
    IsADirectoryError: "; it is a folder and must be a file: move it away",
    NotADirectoryError: (
        "; it is a file or a broken link and must be a folder: move it away, or choose another path"
    ),
}
_look_and_put = threading.Lock()
#: Turns off botocore's retries, which would multiply with those of this module.
S3_OPTIONS: dict[str, Any] = {
    "use_listings_cache": False,
    "config_kwargs": {"connect_timeout": 10, "read_timeout": 30, "retries": {"max_attempts": 1}},
}


class FsspecBlobs:
    """A store on any fsspec file system."""

    def __init__(
        self, fs: Any, root: str, *, fsync: bool = True, unsynced: list[str] | None = None
    ) -> None:
        """Store below ``root``; ``unsynced``: collects local files that the caller syncs later."""
        self._fs, self._unsynced = fs, unsynced
        self._root = root.rstrip("/")
        self._fsync = fsync
        protocol = fs.protocol if isinstance(fs.protocol, str) else fs.protocol[0]
        self._is_local = protocol in ("file", "local")
        self._needs_timeout = protocol not in ("file", "local", "memory")
        self._has_folders = protocol in ("file", "local", "memory")
        #: Folders that exist, and whether new files in each are private.
        self._made_folders: dict[str, bool] = {}
        self._protocol = protocol

    @property
    def uri(self) -> str:
        if "://" in self._root:  # some file systems include their protocol in paths
            return self._root
        return f"{self._protocol}://{self._root.lstrip('/') if not self._is_local else self._root}"

    @property
    def is_near(self) -> bool:
        """See :func:`is_near`."""
        return not self._needs_timeout

    @property
    def is_exclusive(self) -> bool:
        """Whether exactly one of two concurrent ``put_new`` of a name succeeds."""
        return self._is_local or self._protocol in ("memory", *_CONDITIONAL)

    def put(self, path: str, data: bytes | pa.Buffer) -> None:
        self._attempt("write", path, lambda: self._write(path, data, is_new=False))

    def put_new(self, path: str, data: bytes | pa.Buffer) -> bool:
        try:
            self._attempt("write", path, lambda: self._write(path, data, is_new=True))
        except FileExistsError:
            # If the blob is missing again, another writer had created it: this put created none.
            is_own = get_or_none(self, path) == bytes(data)
            if is_own and self._is_local and self._fsync:
                self._attempt(
                    "write", path, lambda: sync_folder(self._full(path).rpartition("/")[0])
                )
            return is_own
        return True

    def get(self, path: str) -> bytes:
        data: bytes = self._attempt("read", path, lambda: self._fs.cat_file(self._full(path)))
        return data

    def get_many(self, paths: Sequence[str]) -> Sequence[bytes | None]:
        if len(paths) <= 1:
            return [get_or_none(self, path) for path in paths]
        with ThreadPoolExecutor(min(READERS_MAX, len(paths)), "blob-reader") as readers:
            return list(readers.map(lambda path: get_or_none(self, path), paths))

    def open(self, path: str) -> pa.NativeFile:
        import pyarrow as pa  # imported here, because `jobmanager status` needs no Arrow

        full = self._full(path)
        if self._is_local:
            return self._attempt("read", path, lambda: pa.OSFile(full, "rb"))
        return self._attempt(
            "read", path, lambda: pa.PythonFile(self._fs.open(full, "rb"), mode="r")
        )

    def copy(self, path: str, to: str) -> None:
        """See :func:`copy_blob`. On a disk it reads and puts, so that the copy is atomic."""
        if self._is_local:
            self.put(to, self.get(path))
            return
        if self._has_folders:
            self._make_folder(self._full(to).rpartition("/")[0])
        self._attempt("write", to, lambda: self._fs.cp_file(self._full(path), self._full(to)))

    def list(self, folder: str = "") -> Paths:
        return [name for name in self._find(folder) if not name.endswith(TEMPORARY)]

    def temporaries(self) -> Paths:
        """List files left by crashed puts."""
        return [name for name in self._find("") if name.endswith(TEMPORARY)]

    def delete(self, path: str) -> None:
        def remove() -> None:
            with contextlib.suppress(FileNotFoundError):
                self._fs.rm_file(self._full(path))

        self._attempt("delete", path, remove)

    def exists(self, path: str) -> bool:
        with contextlib.suppress(FileNotFoundError):
            return self.size(path) >= 0
        return False

    def size(self, path: str) -> int:
        return int(self.info(path)["size"])

    def info(self, path: str) -> dict[str, Any]:
        """Return the file system's attributes of a blob: size, modification time or etag."""

        def stat() -> dict[str, Any]:
            self._fs.invalidate_cache()
            return dict(self._fs.info(self._full(path)))

        return self._attempt("read", path, stat)

    def infos(self) -> dict[str, dict[str, Any]]:
        """Return the attributes of all blobs, by path."""
        return self._find("", detail=True)

    def child(self, folder: str) -> FsspecBlobs:
        root = self._full(folder.strip("/"))
        return FsspecBlobs(self._fs, root, fsync=self._fsync, unsynced=self._unsynced)

    def make_private(self) -> None:
        """Let only this user read files created here from now on; only on a local disk."""

        def make() -> None:
            try:
                make_private(self._root, sync=self._fsync)
            except FileExistsError as error:
                raise NotADirectoryError(str(error)) from error
            # a parent folder was deleted meanwhile, so try again
            except FileNotFoundError as error:
                raise OSError(str(error)) from error

        if self._is_local:
            self._attempt("write", "", make)

    def without_fsync(self) -> FsspecBlobs:
        """See :func:`unsynced`."""
        return FsspecBlobs(self._fs, self._root, fsync=False)

    def syncing_later(self, unsynced: builtins.list[str]) -> FsspecBlobs:
        """See :mod:`rstream.store.sync_later`. A store that does not sync remains as it is."""
        if not (self._is_local and self._fsync):
            return self
        return FsspecBlobs(self._fs, self._root, fsync=False, unsynced=unsynced)

    def _full(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    def _find(self, folder: str, *, detail: bool = False) -> dict[str, Any]:
        def find() -> dict[str, Any]:
            full = self._full(folder.strip("/"))
            if self._is_local:
                return (
                    self._infos(files_below(full)) if detail else dict.fromkeys(files_below(full))
                )
            self._fs.invalidate_cache()
            infos = self._fs.find(full, detail=detail)
            return infos if detail else dict.fromkeys(infos)

        try:
            infos = self._attempt("list", folder, find)
        except FileNotFoundError:
            return {}
        skip = len(self._root) + 1
        below = f"{self._full(folder.strip('/'))}/"  # s3fs may return the folder itself
        return {name[skip:]: infos[name] for name in sorted(infos) if name.startswith(below)}

    def _infos(self, names: Sequence[str]) -> dict[str, Any]:
        infos = {}
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # deleted since the listing
                infos[name] = self._fs.info(name)
        return infos

    def _make_folder(self, folder: str) -> bool:
        """Create the folder if it is missing; return whether new files in it are private."""
        if folder in self._made_folders:
            return self._made_folders[folder]
        is_private = False
        try:
            if self._is_local:
                is_private = make_folder(folder, sync=self._fsync)
            else:
                self._fs.makedirs(folder, exist_ok=True)
        except FileExistsError as error:
            raise NotADirectoryError(str(error)) from error
        self._made_folders[folder] = is_private
        return is_private

    def _write(self, path: str, data: bytes | pa.Buffer, *, is_new: bool) -> None:
        """Write the blob. ``is_new``: raise FileExistsError if it exists."""
        full = self._full(path)
        private = False
        try:
            if self._has_folders:
                private = self._make_folder(full.rpartition("/")[0])
            if self._is_local and self._unsynced is not None and not is_new:
                write_draft(full, data, private=private)
                self._unsynced.append(full)
            elif self._is_local:
                put_file(full, data, is_new=is_new, sync=self._fsync, private=private)
                if self._unsynced is not None:
                    self._unsynced.append(full)
            else:
                self._put_whole(full, data, is_new)
        except FileNotFoundError as error:  # the folder or the temporary file was deleted
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

    def _attempt(self, kind: str, path: str, operation: Callable[[], T]) -> T:
        """Run with retries. That a file exists or is missing is a result, not a failure."""
        reason = ""
        for attempt in range(ATTEMPTS_MAX):
            if attempt:
                time.sleep(RETRY_DELAY_S * 2**attempt)
            count_request(kind)
            try:
                return with_limit(operation, ATTEMPT_WAIT_S) if self._needs_timeout else operation()
            except (FileNotFoundError, FileExistsError, MemoryError):
                raise
            except Exception as error:  # file systems raise any type; translated after the last
                reason = f"{type(error).__name__}: {error}{_ADVICE.get(type(error), '')}"
                if isinstance(error, PermissionError | IsADirectoryError | NotADirectoryError):
                    break
        raise StoreError(f"{self.uri}/{path}", reason)


def open_store(uri: str, *, fsync: bool = True, **storage_options: Any) -> BlobStore:
    """Open the store at ``uri``: a path, ``file://``, ``memory://``, ``s3://bucket/...``, ...

    ``<folder>/<name>-*`` are the files of one stream in a folder (:mod:`rstream.store.part_files`).
    ``storage_options`` are passed to the fsspec file system. Text options and the password of
    ``uri`` may refer to secrets (:mod:`rstream.secret_values`). Endpoint and credentials may come
    from environment variables of the file system. ``fsync``: blobs on a local disk survive a power
    failure; :func:`unsynced` returns a store without that.

    Raises:
        StoreError: unknown protocol, its package is not installed, or ``uri`` is not a text.
        SecretInPathError: ``uri`` contains a password.
        MissingSecretError: this process cannot read a secret.
    """
    if not uri:
        raise StoreError("(no path)", "the path is empty")
    if "\0" in uri or uri.encode(errors="replace").decode() != uri:
        raise StoreError(ascii(uri), "a path is UTF-8 text without NUL characters")
    if "://" not in uri:
        uri = f"file://{os.path.abspath(uri)}"
    protocol = uri.partition("://")[0].partition("::")[0]
    if protocol not in (*fsspec.available_protocols(), *fsspec.registry):
        raise StoreError(uri, f"Protocol not known: {protocol!r}")
    if uri.startswith("s3://"):
        storage_options = {**S3_OPTIONS, **storage_options}
    options = {
        name: secret_value(name, value) if isinstance(value, str) else value
        for name, value in storage_options.items()
    }
    bare, password = resolved_path(uri)
    try:
        fs, root = fsspec.core.url_to_fs(bare, **options, **password)
    except (ImportError, ValueError, OSError) as error:
        raise StoreError(uri, str(error)) from error
    folder, part = split_part(root)
    store = FsspecBlobs(fs, folder, fsync=fsync)
    return PartFiles(store, part) if part else store


def copy_blob(store: BlobStore, path: str, to: str) -> None:
    """Copy a blob to another name, inside the store if it supports that.

    Raises:
        FileNotFoundError: the blob does not exist.
    """
    if isinstance(store, FsspecBlobs):
        store.copy(path, to)
    else:
        store.put(to, store.get(path))


def unsynced(store: BlobStore) -> BlobStore:
    """Return the same store without syncs: the system writes puts to the disk later."""
    if isinstance(store, PartFiles):
        return PartFiles(unsynced(store.folder), store.name)
    if isinstance(store, FsspecBlobs | MemoryBlobs):
        return store.without_fsync()
    return store


def is_near(store: BlobStore) -> bool:
    """Return whether reads need no network: the store is in memory or on a disk."""
    folder = store.folder if isinstance(store, PartFiles) else store
    return isinstance(folder, MemoryBlobs) or (isinstance(folder, FsspecBlobs) and folder.is_near)


def remove_temporaries(store: BlobStore) -> int:
    """Delete files left by crashed puts; return how many. No other process may be writing."""
    names = temporaries(store)
    folder = store.folder if isinstance(store, PartFiles) else store
    for name in names:
        folder.delete(name)
    return len(names)


def temporaries(store: BlobStore) -> list[str]:
    """List temporary files of puts: ``.NAME.PROCESS.THREAD.tmp`` beside NAME, on disks."""
    part = store if isinstance(store, PartFiles) else None
    folder = store if part is None else part.folder
    if not isinstance(folder, MemoryBlobs | FsspecBlobs):
        return []
    return [n for n in folder.temporaries() if part is None or part.is_own(n)]
