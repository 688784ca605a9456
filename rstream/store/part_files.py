"""Several streams in one folder: each file's name starts with the name of its stream.

``<folder>/<name>-*`` is the URI of the stream with the segments ``<name>-<lo>-<hi>.parquet`` and
other files ``_<name>-...`` in ``<folder>``. A table reader of the folder finds the segments of all
streams and no other files.

Invariant: streams with different names share no file: a name is followed by ``-`` and 20 digits.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rstream.store.segment_names import NAME, parse_segment_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from rstream.store.protocol import BlobStore, Paths

_END = "-*"
_SEGMENT = re.compile(rf"(.+?)-{NAME}")


def part_name(index: int) -> str:
    """Return the name of the stream of vertex ``index``."""
    return f"part-{index}"


def part_uri(folder: str, name: str) -> str:
    """Return the URI of the stream ``name`` in a folder that several streams share."""
    assert name, folder
    assert "/" not in name, name
    return f"{folder.rstrip('/')}/{name}{_END}"


def split_part(uri: str) -> tuple[str, str]:
    """Split a URI into folder and stream name. An empty name: the folder has only this stream."""
    if not uri.endswith(_END):
        return uri, ""
    folder, _, name = uri.removesuffix(_END).rpartition("/")
    return folder, name


def parts_in(folder: BlobStore) -> list[str]:
    """Return the names of all streams with segments in a shared folder, sorted."""
    return sorted({match[1] for path in folder.list() if (match := _SEGMENT.fullmatch(path))})


def place_of(store: BlobStore, path: str) -> str:
    """Return the path of a store's file, for messages."""
    if isinstance(store, PartFiles):
        return f"{store.folder.uri}/{store.name_in_folder(path)}"
    return f"{store.uri}/{path}"


class PartFiles:
    """The files of one stream in a shared folder. The stream uses them like its own folder."""

    def __init__(self, folder: BlobStore, name: str) -> None:
        self._folder = folder
        self._name = name

    @property
    def uri(self) -> str:
        return part_uri(self._folder.uri, self._name)

    @property
    def folder(self) -> BlobStore:
        """The store of the shared folder."""
        return self._folder

    @property
    def name(self) -> str:
        """The prefix of the stream's files."""
        return self._name

    def name_in_folder(self, path: str) -> str:
        """Return the name of a file in the shared folder."""
        is_segment = parse_segment_name(path) is not None
        return f"{'' if is_segment else '_'}{self._name}-{path.lstrip('_')}"

    def put(self, path: str, data: bytes | pa.Buffer) -> None:
        self._folder.put(self.name_in_folder(path), data)

    def put_new(self, path: str, data: bytes | pa.Buffer) -> bool:
        return self._folder.put_new(self.name_in_folder(path), data)

    def get(self, path: str) -> bytes:
        return self._folder.get(self.name_in_folder(path))

    def get_many(self, paths: Sequence[str]) -> Sequence[bytes | None]:
        return self._folder.get_many([self.name_in_folder(path) for path in paths])

    def open(self, path: str) -> pa.NativeFile:
        return self._folder.open(self.name_in_folder(path))

    def list(self, folder: str = "") -> Paths:
        if folder:
            return []
        names = (self._own_name(name) for name in self._folder.list())
        return sorted(name for name in names if name)

    def delete(self, path: str) -> None:
        self._folder.delete(self.name_in_folder(path))

    def exists(self, path: str) -> bool:
        return self._folder.exists(self.name_in_folder(path))

    def size(self, path: str) -> int:
        return self._folder.size(self.name_in_folder(path))

    def child(self, folder: str) -> BlobStore:
        raise AssertionError(f"{self.uri} has no folder {folder}")

    def is_own(self, name: str) -> bool:
        """Return whether a name in the folder is of this stream, including temporary files."""
        return name.lstrip("._").startswith(f"{self._name}-")

    def _own_name(self, name: str) -> str:
        """Return a file's name without the prefix; empty if it belongs to another stream."""
        prefix = f"{self._name}-"
        if name.startswith(f"_{prefix}"):
            return f"_{name.removeprefix(f'_{prefix}')}"
        own = name.removeprefix(prefix)
        return own if own != name and parse_segment_name(own) is not None else ""
