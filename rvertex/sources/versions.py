"""The version of a file that a plan reads: its size, and the store's attributes of it.

Locally the attribute is the modification time in nanoseconds; in other stores the etag, or the most
reliable attribute that the store has. A reader compares the version before it opens a file and
after it has read it, so a file that was replaced or written meanwhile is an error, and versions
never mix.

Not detected: a file rewritten with the same size within one tick of the file system's clock (some
milliseconds on most), or with its old time restored; and a file replaced by one of the same size in
a store that has no other attribute.
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
#: Names of the attribute in stores, the most reliable name first.
_STAMPS = (
    *("ETag", "etag", "e_tag", "generation", "Content-MD5", "content_md5", "md5Hash", "checksum"),
    *("mtime", "LastModified", "last_modified", "Last-Modified", "updated", "modified", "created"),
)


@dataclass(frozen=True, slots=True)
class FileVersion:
    """The version of a file. ``stamps``: the store's attributes by name, most reliable first."""

    size_bytes: int
    stamps: tuple[tuple[str, str], ...]

    def is_same(self, other: FileVersion) -> bool:
        """Return whether both can be the same file, by the most reliable stamp that both have.

        A store may return fewer attributes for a single file than in the listing of a folder.
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
    """Return the absolute path of a local file or folder, None for another store."""
    if path.startswith("file://"):
        path = path.removeprefix("file://")
    return None if "://" in path else os.path.abspath(path)


def absolute(path: str) -> str:
    """Return the path in a form that does not depend on the working folder."""
    local = local_path(path)
    return path if local is None or path.startswith("file://") else local


def version_of(path: str) -> FileVersion | None:
    """Return the file's current version; None if it does not exist.

    Raises:
        OSError, StoreError: the store cannot be read.
    """
    local = local_path(path)
    try:
        if local is not None:
            return of_stat(os.stat(local))
        return of_info(store_of(path).info(""))
    except FileNotFoundError:
        return None


def store_of(path: str) -> FsspecBlobs:
    """Return the store of a file or folder that is not local.

    Raises:
        StoreError: there is no such store.
    """
    store = open_store(path)
    if not isinstance(store, FsspecBlobs):
        raise StoreError(path, "it is neither a file nor a folder")
    return store


def of_stat(info: os.stat_result) -> FileVersion:
    """Return the version of a local file."""
    at_s, rest_ns = divmod(info.st_mtime_ns, _NS)
    try:
        time = f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M:%S}.{rest_ns:09d} UTC"
    except (ValueError, OverflowError, OSError):  # the file's time is beyond the calendar
        time = f"{info.st_mtime_ns} ns"
    return FileVersion(info.st_size, (("written", time),))


def of_info(info: Mapping[str, Any]) -> FileVersion:
    """Return the version of a file, from its entry in a store."""
    size = info.get("size")
    known = ((name, info[name]) for name in _STAMPS if info.get(name) is not None)
    stamps = tuple((name, _text(value)) for name, value in known)
    return FileVersion(_UNKNOWN if size is None else int(size), stamps)


def _text(value: object) -> str:
    """Return a stamp as normalised text, because a store may format a stamp in several ways."""
    if isinstance(value, float):
        value = datetime.fromtimestamp(value, UTC)
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f} UTC"
    return str(value).removeprefix("W/").strip('"')
