"""Where files are found and opened: the one door of the sources to a file system.

Paths and ``file:`` URLs are opened by Arrow directly, any other scheme by
:mod:`rstream.store.blobs`. What cannot be read is an error that names the file:
:class:`SourceNotFoundError` while a job is planned (the user's mistake),
:class:`SourceVanishedError` afterwards (the world changed).
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import pyarrow as pa

from rstream.errors import StoreError
from rstream.store.blobs import open_store
from rvertex.errors import SourceNotFoundError, SourceVanishedError
from rvertex.sources.versions import absolute, local_path, of_info, of_stat, store_of

if TYPE_CHECKING:
    from rvertex.sources.spec import Format
    from rvertex.sources.versions import FileVersion

#: Endings of names by format; a format that is not here reads files of any name.
SUFFIXES: dict[Format, tuple[str, ...]] = {
    "parquet": (".parquet", ".parq", ".pq"),
    "csv": (".csv", ".tsv"),
    "json": (".json", ".jsonl", ".ndjson"),
}
#: Between the paths of a source that has several.
SEVERAL = "\n"
_MAGIC = "*?["
#: Endings of names under which files are written, or kept, before and beside their own.
_TEMPORARY = (".tmp", ".temp", ".part", ".partial", ".inprogress", ".crdownload", ".swp", "~")
_LINE_CHARS_MAX = 300
#: Endings of names of compressed files.
CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}


def list_files(format: Format, path: str) -> dict[str, FileVersion]:
    """The files of a file or folder (recursive), sorted by name, by absolute path.

    ``path`` may be a pattern (``*`` and ``?`` within a name, ``**`` over folders), and several of
    all these, with :data:`SEVERAL` between them.

    In a folder, names that begin with ``_`` or ``.``, or end as those of files do that are being
    written, files without content and what has the suffix of another format are passed over.

    Raises:
        SourceNotFoundError: there is no such path, or the folder holds no file of this format.
    """
    if SEVERAL in path:
        return {
            name: version
            for one in path.split(SEVERAL)
            for name, version in list_files(format, one).items()
        }
    local = local_path(path)
    try:
        found = _list_remote(path) if local is None else _list_local(local)
    except (OSError, StoreError) as error:
        if any(character in path for character in _MAGIC):
            return _matching(format, path)
        raise SourceNotFoundError(path, first_line(error)) from error
    if list(found) == [""]:
        return {absolute(path): found[""]}
    wanted = [n for n in sorted(found) if _is_visible(n) and _has_format(n, format)]
    if not wanted:
        raise SourceNotFoundError(path, f"the folder holds no {format} file with content")
    folder = path.rstrip("/") if local is None else local
    return {f"{folder}/{n}": found[n] for n in wanted}


def is_single_file(format: Format, path: str) -> bool:
    """Whether a source is one file by its name, so that no other can come.

    Raises:
        SourceNotFoundError: as :func:`list_files`.
    """
    return list(list_files(format, path)) == [absolute(path)]


def open_random(path: str) -> pa.NativeFile:
    """Open for reads at any place.

    Raises:
        SourceVanishedError: the file is gone or may not be read.
    """
    local = local_path(path)
    try:
        return pa.OSFile(local) if local is not None else open_store(path).open("")
    except (OSError, StoreError) as error:
        raise SourceVanishedError(path, first_line(error)) from error


def open_sequential(path: str) -> pa.NativeFile:
    """Open for one pass from the beginning; ``.gz``, ``.bz2`` and ``.zst`` are decompressed.

    Raises:
        SourceVanishedError: the file is gone or may not be read.
    """
    stream = open_random(path)
    codec = CODECS.get(PurePosixPath(path).suffix.lower())
    return stream if codec is None else pa.CompressedInputStream(stream, codec)


def open_range(path: str, lo: int, hi: int | None) -> pa.NativeFile:
    """Open the bytes ``[lo, hi)`` for one pass; a compressed file is opened whole.

    Raises:
        SourceVanishedError: the file is gone or may not be read.
    """
    if lo == 0 and hi is None:
        return open_sequential(path)
    stream = open_random(path)
    stream.seek(lo)
    return stream


def bytes_to_read(piece: int, left: int | None) -> int:
    """How many bytes to read next, at most ``left``."""
    return piece if left is None else min(piece, left)


def first_line(error: BaseException) -> str:
    """What went wrong, in one line; of an error of the system only what the system says.

    It may quote a file that is not text at all, so it is cut, and fit for a terminal.
    """
    told = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    line = (told.splitlines() or [type(error).__name__])[0]
    line = line.rpartition("Detail: [errno ")[2].partition("] ")[2] or line
    return "".join(c if c.isprintable() else "?" for c in line[:_LINE_CHARS_MAX])


def _matching(format: Format, path: str) -> dict[str, FileVersion]:
    """The files that a pattern names, and those in folders that it names."""
    whole = absolute(path)
    first = min(whole.index(character) for character in _MAGIC if character in whole)
    folder = whole[:first].rpartition("/")[0]
    try:
        found = _list_remote(folder) if local_path(folder) is None else _list_local(folder or "/")
    except (OSError, StoreError) as error:
        raise SourceNotFoundError(path, first_line(error)) from error
    try:
        pattern = re.compile(_regex(whole[len(folder) + 1 :]))
    except re.error as error:
        raise SourceNotFoundError(path, f"it is no pattern: {error.msg}") from error
    wanted = [n for n in sorted(found) if pattern.fullmatch(n) and _is_visible(n)]
    wanted = [n for n in wanted if _has_format(n, format)]
    if not wanted:
        raise SourceNotFoundError(path, f"no {format} file with content has such a name")
    return {f"{folder}/{n}": found[n] for n in wanted}


def _regex(pattern: str) -> str:
    """The pattern as a regular expression; also what lies in folders that it names."""
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
    """Paths below a folder; one empty path if it is a file."""
    if not os.path.isdir(path):
        return {"": of_stat(os.stat(path))}
    found = {}
    for folder, _, names in os.walk(path, onerror=_refuse):
        for name in (os.path.join(folder, name) for name in names):
            with contextlib.suppress(FileNotFoundError):  # it went, or has another name by now
                status = os.stat(name)
                if status.st_size:
                    found[os.path.relpath(name, path)] = of_stat(status)
    return found


def _refuse(error: OSError) -> None:
    """A folder whose files cannot be seen may have some; one that is gone has none."""
    if not isinstance(error, FileNotFoundError):
        raise error


def _list_remote(path: str) -> dict[str, FileVersion]:
    """List as :func:`_list_local` does, through the project's one door to stores."""
    store = store_of(path)
    found = {name: of_info(info) for name, info in store.infos().items()}
    if not found and not (store.exists("") and store.size("")):  # a folder has no size
        raise FileNotFoundError(2, "No such file or directory", path)
    return found or {"": of_info(store.info(""))}


def _is_visible(name: str) -> bool:
    return not name.endswith(_TEMPORARY) and not any(
        part[:1] in ("_", ".") for part in name.split("/")
    )


def _has_format(name: str, format: Format) -> bool:
    return format not in SUFFIXES or format_of(name) in (format, None)


def format_of(name: str) -> Format | None:
    """What the ending of a name says, that of a compressed file left out; None: nothing."""
    suffixes = [s.lower() for s in PurePosixPath(name).suffixes]
    if suffixes and suffixes[-1] in CODECS:
        suffixes.pop()
    suffix = suffixes[-1] if suffixes else ""
    return next((format for format, known in SUFFIXES.items() if suffix in known), None)
