"""Lists and opens the files of sources; no other module of the sources uses a file system.

Paths and ``file:`` URLs are opened by Arrow directly, any other scheme by
:mod:`rstream.store.blobs`. Errors name the file: :class:`SourceNotFoundError` while a job is
planned (the user's mistake), :class:`SourceVanishedError` afterwards (the file was
removed meanwhile).
"""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import pyarrow as pa

from rstream.errors import StoreError
from rstream.store.blobs import open_store
from rvertex.errors import SourceChangedError, SourceNotFoundError, SourceVanishedError
from rvertex.sources.spec import Csv, Json, Parquet
from rvertex.sources.versions import (
    absolute,
    local_path,
    of_info,
    of_stat,
    store_of,
    version_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rvertex.sources.spec import Format
    from rvertex.sources.versions import FileVersion

#: File suffixes by format. A format without an entry reads files of any name.
SUFFIXES = {kind.format: kind.suffixes for kind in (Parquet, Csv, Json)}
_FORMAT_OF = {suffix: format for format, known in SUFFIXES.items() for suffix in known}
#: Error codes for a deleted or renamed file, and for a link to nothing or to itself.
_GONE = (errno.ENOENT, errno.ELOOP)
_MAGIC = "*?["
#: Suffixes of files that are still being written.
_TEMPORARY = (
    *(".tmp", ".temp", ".part", ".partial", ".filepart", ".inprogress", ".crdownload"),
    *(".download", "._copying_"),
)
#: Suffixes of files that are kept beside data: copies and metadata.
_BESIDE = (
    *(".bak", ".backup", ".old", ".orig", ".save", ".rej", ".swp", ".swo", "~"),
    *(".md5", ".sha1", ".sha256", ".sha512", ".crc", ".asc", ".sig"),
)
#: Prefixes of lock files of office programs, editors and file managers.
_LOCKS = ("~$", "#", ".#")
_OF_DESKTOPS = ("thumbs.db", "desktop.ini")
#: Suffix of objects that represent folders in an object store.
_MARKER = "_$folder$"
_LINE_CHARS_MAX = 300
#: Suffixes of compressed files.
CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
#: Suffixes of compressions that cannot be read; readers raise an error for them.
_OTHER_CODECS = (".xz", ".zip", ".7z", ".br", ".z", ".lzo", ".snappy")


def list_files(format: Format, *paths: str) -> dict[str, FileVersion]:
    """List the files of files or folders (recursive), sorted by name, by absolute path.

    A path may be a pattern (``*`` and ``?`` within a name, ``**`` over folders).

    In a folder, links to folders are followed, and a file that is reachable in several ways is
    listed once. Empty files are skipped, and so are names that begin with ``.``, or with ``_``
    except folders such as ``_day=1``. Of the other files, data files have a suffix of the format,
    or a suffix that indicates no other format, no copy (``x.csv.bak``, ``x.csv.1``) and no file
    that is still being written.

    Raises:
        SourceNotFoundError: the path does not exist, or the folder has no file of this format.
    """
    files: dict[str, FileVersion] = {}
    for one in paths:
        files |= _listed(format, one)[0]
    return files


def files_beside(format: Format, *paths: str) -> list[str]:
    """List the non-empty files of the same paths that are not data of the format, sorted.

    Raises:
        SourceNotFoundError: as :func:`list_files`.
    """
    return sorted({name for one in paths for name in _listed(format, one)[1]})


def _listed(format: Format, path: str) -> tuple[dict[str, FileVersion], list[str]]:
    """Return the data files of one path, and the other files."""
    local = local_path(path)
    try:
        files = _list_remote(path) if local is None else _list_local(local)
    except (OSError, StoreError) as error:
        if any(character in path for character in _MAGIC):
            return _matching(format, path)
        raise SourceNotFoundError(path, first_line(error)) from error
    if list(files) == [""]:
        return {absolute(path): files[""]}, []
    folder = path.rstrip("/") if local is None else local
    return _chosen(format, path, folder, files, f"the folder has no non-empty {format} file")


def is_single_file(format: Format, *paths: str) -> bool:
    """Return whether the paths name one file, so that no other file can be added.

    Raises:
        SourceNotFoundError: as :func:`list_files`.
    """
    return list(list_files(format, *paths)) == [absolute(paths[0])]


def fixed_folder(path: str) -> str:
    """Return the folder above the first wildcard of a pattern. A path without one is returned."""
    places = [path.index(character) for character in _MAGIC if character in path]
    return path[: min(places)].rpartition("/")[0] if places else path


class Watched:
    """A file that is being read. ``version``: the version to read; None: any version."""

    def __init__(self, path: str, version: FileVersion | None) -> None:
        self.path, self._version = path, version
        self._is_local = local_path(path) is not None

    def check(self) -> None:
        """Check that the file still has the version to read.

        Raises:
            SourceChangedError: the file has another version.
            SourceVanishedError: the file is gone or not readable.
        """
        if self._version is None:
            return
        try:
            now = version_of(self.path)
        except (OSError, StoreError) as error:
            raise SourceVanishedError(self.path, first_line(error)) from error
        if now is None:
            raise SourceVanishedError(self.path, "No such file or directory")
        if not now.is_same(self._version):
            raise SourceChangedError(self.path, None, str(self._version), str(now))

    def check_often(self) -> None:
        """Check the version, but only where that is cheap."""
        if self._is_local:
            self.check()


def open_random(path: str) -> pa.NativeFile:
    """Open a file for random access.

    Raises:
        SourceVanishedError: the file is gone or not readable.
    """
    local = local_path(path)
    try:
        return pa.OSFile(local) if local is not None else open_store(path).open("")
    except (OSError, StoreError) as error:
        raise SourceVanishedError(path, first_line(error)) from error


def open_sequential(path: str) -> pa.NativeFile:
    """Open a file for sequential reading; ``.gz``, ``.bz2`` and ``.zst`` are decompressed.

    Raises:
        SourceVanishedError: the file is gone or not readable.
    """
    stream = open_random(path)
    codec = CODECS.get(PurePosixPath(path).suffix.lower())
    return stream if codec is None else pa.CompressedInputStream(stream, codec)


def open_range(path: str, lo: int, hi: int | None) -> pa.NativeFile:
    """Open the bytes ``[lo, hi)`` for sequential reading; a compressed file is opened whole.

    Raises:
        SourceVanishedError: the file is gone or not readable.
    """
    if lo == 0 and hi is None:
        return open_sequential(path)
    stream = open_random(path)
    stream.seek(lo)
    return stream


def bytes_to_read(piece: int, left: int | None) -> int:
    """Return how many bytes to read next: ``piece``, but at most ``left``."""
    return piece if left is None else min(piece, left)


def first_line(error: BaseException) -> str:
    """Return an error's message as one line; for a system error, only the system's text.

    The message may quote binary data, so it is shortened and escaped for a terminal.
    """
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    line = (text.splitlines() or [type(error).__name__])[0]
    line = line.rpartition("Detail: [errno ")[2].partition("] ")[2] or line
    return "".join(c if c.isprintable() else "?" for c in line[:_LINE_CHARS_MAX])


def _chosen(
    format: Format, path: str, folder: str, found: dict[str, FileVersion], nothing: str
) -> tuple[dict[str, FileVersion], list[str]]:
    """Split the files into data files, by path, and others."""
    visible = [name for name in sorted(found) if _is_visible(name)]
    wanted = [name for name in visible if _is_data(name, format)]
    beside = [f"{folder}/{name}" for name in visible if not _is_data(name, format)]
    if not wanted:
        more = f"; not read: {_named(beside)}" if beside else ""
        raise SourceNotFoundError(path, f"{nothing}{more}")
    return {f"{folder}/{name}": found[name] for name in wanted}, beside


def _named(paths: list[str]) -> str:
    names = [path.rpartition("/")[2] for path in paths[:3]]
    return ", ".join(names) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")


def _matching(format: Format, path: str) -> tuple[dict[str, FileVersion], list[str]]:
    """Return the files that match a pattern, and the files in folders that match it."""
    whole = absolute(path)
    folder = fixed_folder(whole)
    try:
        found = _list_remote(folder) if local_path(folder) is None else _list_local(folder or "/")
    except (OSError, StoreError) as error:
        raise SourceNotFoundError(path, first_line(error)) from error
    try:
        pattern = re.compile(_regex(whole[len(folder) + 1 :]))
    except re.error as error:
        raise SourceNotFoundError(path, f"invalid pattern: {error.msg}") from error
    named = {name: version for name, version in found.items() if pattern.fullmatch(name)}
    nothing = f"no non-empty {format} file matches"
    return _chosen(format, path, folder, named, nothing)


def _regex(pattern: str) -> str:
    """Return the pattern as a regular expression, which also matches files in matching folders."""
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[!?[^\]/]+\])", pattern)
    made = []
    for part in parts:
        if part[:1] == "[" and part[-1:] == "]" and len(part) > 2:
            made.append(part.replace("[!", "[^"))
        else:
            made.append(words.get(part, re.escape(part)))
    return "".join(made) + "(?:/.*)?"


def _list_local(path: str) -> dict[str, FileVersion]:
    """List paths below a folder; one empty path if it is a file.

    A file reachable by several links is listed once: directly, or by the first name.
    """
    if not os.path.isdir(path):
        return {"": of_stat(os.stat(path))}
    top = os.path.realpath(path)
    entries: dict[str, tuple[bool, str, FileVersion]] = {}
    for name, real in _paths_below(path):
        try:
            status = os.lstat(name)
            if stat.S_ISLNK(status.st_mode):
                status, real = os.stat(name), os.path.realpath(name)
        except OSError as error:
            if error.errno in _GONE:
                continue
            raise
        if status.st_size:
            below = name.removeprefix(path).lstrip("/")
            way = (real != os.path.join(top, below), below, of_stat(status))
            entries[real] = min(entries.get(real, way), way, key=lambda w: w[:2])
    return {below: version for _, below, version in entries.values()}


def _paths_below(path: str) -> Iterator[tuple[str, str]]:
    """Yield all files below a folder, each folder once; paths without links are first.

    Beside each file is its real path, unless the file itself is a link.
    """
    visited: set[str] = set()
    todo = [path]
    while todo:  # ends: each folder adds its links only once
        links: list[str] = []
        for start in sorted(todo):
            for folder, folders, names in os.walk(start, onerror=_refuse):
                real = os.path.realpath(folder)
                if real in visited:
                    folders.clear()
                    continue
                visited.add(real)
                below = (os.path.join(folder, name) for name in folders)
                links += filter(os.path.islink, below)
                yield from ((os.path.join(folder, n), os.path.join(real, n)) for n in names)
        todo = links


def _refuse(error: OSError) -> None:
    """Raise an error for a folder that cannot be listed. A folder that is gone has no files."""
    if not isinstance(error, FileNotFoundError):
        raise error


def _list_remote(path: str) -> dict[str, FileVersion]:
    """List as :func:`_list_local`, through the project's only interface to stores."""
    store = store_of(path)
    versions = {name: of_info(info) for name, info in store.infos().items()}
    if versions:
        return {
            name: version
            for name, version in versions.items()
            if version.size_bytes and not name.endswith(("/", _MARKER))
        }
    if not (store.exists("") and store.size("")):  # only a file has a size
        raise FileNotFoundError(2, "No such file or directory", path)
    return {"": of_info(store.info(""))}


def _is_visible(name: str) -> bool:
    *folders, file = name.split("/")
    hidden = any(part[:1] == "." or (part[:1] == "_" and "=" not in part) for part in folders)
    return not hidden and file[:1] not in ("_", ".")


def _is_data(name: str, format: Format) -> bool:
    """Return whether the suffix of a visible name is one of the format, or an unknown one."""
    name = name.rpartition("/")[2].lower()
    if name.endswith((*_TEMPORARY, *_BESIDE)) or name.startswith(_LOCKS) or name in _OF_DESKTOPS:
        return False
    if format not in SUFFIXES:
        return True
    suffixes = PurePosixPath(name).suffixes
    while suffixes and suffixes[-1] in (*CODECS, *_OTHER_CODECS):
        suffixes.pop()
    known = [suffix for suffix in suffixes if suffix in _FORMAT_OF]
    return not known or (suffixes[-1] == known[-1] and _FORMAT_OF[known[-1]] == format)


def format_of(name: str) -> Format | None:
    """Return the format that a name's suffix stands for; None: unknown.

    A suffix of a compression is removed first.
    """
    suffixes = [s.lower() for s in PurePosixPath(name).suffixes]
    if suffixes and suffixes[-1] in CODECS:
        suffixes.pop()
    return _FORMAT_OF.get(suffixes[-1]) if suffixes else None
