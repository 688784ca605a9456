"""Which version of a file a plan means: its size, and what its store says beside it.

Locally that is the time of the last write, in nanoseconds; of a store elsewhere the etag or, where
it has none, the best that it does say. A reader asks again before it opens a file and after what it
has read, so that a file that is replaced or written meanwhile is refused and never mixed.

What cannot be seen: a file rewritten with as many bytes within the same tick of its file system's
clock (some milliseconds on most), or with its old time put back; and what a store that says nothing
but sizes replaces by as many bytes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rstream.errors import StoreError
from rstream.store.blobs import FsspecBlobs, open_store

if TYPE_CHECKING:
    from collections.abc import Mapping

_NS = 1_000_000_000
_UNKNOWN = -1
#: What stores call it, the most telling first.
_STAMPS = (
    *("ETag", "etag", "e_tag", "generation", "Content-MD5", "content_md5", "md5Hash", "checksum"),
    *("mtime", "LastModified", "last_modified", "Last-Modified", "updated", "modified", "created"),
)


@dataclass(frozen=True, slots=True)
class FileVersion:
    """``stamps``: by name what the store said of it besides, the most telling first."""

    size_bytes: int
    stamps: tuple[tuple[str, str], ...]

    def is_same(self, other: FileVersion) -> bool:
        """Whether it may be the same file; of two stamps the most telling one that both have.

        A store may say less of one file than of a folder of them.
        """
        sizes = {self.size_bytes, other.size_bytes}
        if len(sizes - {_UNKNOWN}) > 1:
            return False
        theirs = dict(other.stamps)
        shared = ((name, value) for name, value in self.stamps if name in theirs)
        name, value = next(shared, ("", ""))
        return not name or theirs[name] == value

    def __str__(self) -> str:
        size = "unknown size" if self.size_bytes == _UNKNOWN else f"{self.size_bytes:,} bytes"
        return ", ".join([size, *(f"{name} {value}" for name, value in self.stamps[:1])])


def local_path(path: str) -> str | None:
    """The absolute path of a local file or folder, None for a store elsewhere."""
    if path.startswith("file://"):
        path = path.removeprefix("file://")
    return None if "://" in path else os.path.abspath(path)


def absolute(path: str) -> str:
    """The path as any process of any folder would have to write it."""
    local = local_path(path)
    return path if local is None or path.startswith("file://") else local


def version_of(path: str) -> FileVersion | None:
    """The file's version now; None if it is not there.

    Raises:
        OSError, StoreError: nobody knows.
    """
    local = local_path(path)
    try:
        if local is not None:
            return of_stat(os.stat(local))
        return of_info(store_of(path).info(""))
    except FileNotFoundError:
        return None


def store_of(path: str) -> FsspecBlobs:
    """The store of a file or folder elsewhere.

    Raises:
        StoreError: there is none.
    """
    store = open_store(path)
    if not isinstance(store, FsspecBlobs):
        raise StoreError(path, "it is neither a file nor a folder")
    return store


def of_stat(found: os.stat_result) -> FileVersion:
    """The version of a local file."""
    at_s, rest_ns = divmod(found.st_mtime_ns, _NS)
    try:
        told = f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M:%S}.{rest_ns:09d} UTC"
    except (ValueError, OverflowError, OSError):  # a calendar ends, clocks of files do not
        told = f"{found.st_mtime_ns} ns"
    return FileVersion(found.st_size, (("written", told),))


def of_info(info: Mapping[str, Any]) -> FileVersion:
    """The version of a file, from its entry in a store."""
    size = info.get("size")
    found = ((name, info[name]) for name in _STAMPS if info.get(name) is not None)
    stamps = tuple((name, _text(value)) for name, value in found)
    return FileVersion(_UNKNOWN if size is None else int(size), stamps)


def _text(value: object) -> str:
    """A stamp as text; a store may write one and the same in several ways."""
    if isinstance(value, float):
        value = datetime.fromtimestamp(value, UTC)
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f} UTC"
    return str(value).removeprefix("W/").strip('"')
