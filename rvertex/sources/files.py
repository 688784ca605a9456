"""Where files are found and opened: the one door of the sources to a file system.

Paths and ``file:`` URLs are local; any other scheme is looked up by Arrow. What cannot be read is
an error that names the file: :class:`SourceNotFoundError` while a job is planned (the user's
mistake), :class:`SourceVanishedError` afterwards (the world changed).
"""

from __future__ import annotations

import os
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.fs as pafs

from rvertex.errors import SourceNotFoundError, SourceVanishedError

if TYPE_CHECKING:
    from rvertex.sources.spec import Format

_SUFFIXES: dict[str, tuple[str, ...]] = {
    "parquet": (".parquet", ".parq", ".pq"),
    "csv": (".csv", ".tsv"),
    "json": (".json", ".jsonl", ".ndjson"),
}
_COMPRESSIONS = (".gz", ".bz2", ".zst")


def list_files(format: Format, path: str) -> list[str]:
    """The files of a file or folder (recursive), sorted by name.

    In a folder, names that begin with ``_`` or ``.`` are passed over, and so is what has the suffix
    of another format.

    Raises:
        SourceNotFoundError: there is no such path, or the folder holds no file of this format.
    """
    system, inner, prefix = _resolve(path)
    try:
        info = system.get_file_info(inner)
        if info.type == pafs.FileType.File:
            return [path]
        if info.type == pafs.FileType.NotFound:
            raise SourceNotFoundError(path, "no such file or folder")
        found = system.get_file_info(pafs.FileSelector(inner, recursive=True))
    except OSError as error:
        raise SourceNotFoundError(path, first_line(error)) from error
    names = sorted(
        f.path for f in found if f.type == pafs.FileType.File and f.size and _visible(f.path, inner)
    )
    wanted = [n for n in names if _has_format(n, format)]
    if not wanted:
        raise SourceNotFoundError(path, f"the folder holds no {format} file with content")
    return [prefix + n for n in wanted]


def open_random(path: str) -> pa.NativeFile:
    """Open for reads at any place.

    Raises:
        SourceVanishedError: the file is gone or may not be read.
    """
    system, inner, _ = _resolve(path)
    try:
        return system.open_input_file(inner)
    except OSError as error:
        raise SourceVanishedError(path, first_line(error)) from error


def open_sequential(path: str) -> pa.NativeFile:
    """Open for one pass from the beginning; ``.gz``, ``.bz2`` and ``.zst`` are decompressed.

    Raises:
        SourceVanishedError: the file is gone or may not be read.
    """
    system, inner, _ = _resolve(path)
    try:
        return system.open_input_stream(inner, compression="detect")
    except OSError as error:
        raise SourceVanishedError(path, first_line(error)) from error


def _resolve(path: str) -> tuple[pafs.FileSystem, str, str]:
    """The file system, the path in it, and what to put before its paths to name them outside."""
    if "://" not in path:
        return pafs.LocalFileSystem(), os.path.abspath(path), ""
    try:
        system, inner = pafs.FileSystem.from_uri(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise SourceNotFoundError(path, first_line(error)) from error
    scheme = path.split("://", 1)[0]
    return system, inner, "" if scheme == "file" else f"{scheme}://"


def _visible(name: str, folder: str) -> bool:
    inside = name[len(folder.rstrip("/")) :].strip("/")
    return not any(part[:1] in ("_", ".") for part in inside.split("/"))


def _has_format(name: str, format: Format) -> bool:
    suffixes = [s.lower() for s in PurePosixPath(name).suffixes]
    if suffixes and suffixes[-1] in _COMPRESSIONS:
        suffixes.pop()
    suffix = suffixes[-1] if suffixes else ""
    if format == "text" or suffix in _SUFFIXES[format]:
        return True
    return not any(suffix in known for known in _SUFFIXES.values())


def first_line(error: BaseException) -> str:
    """The first line of an error, without Arrow's preamble."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return (str(error).splitlines() or [type(error).__name__])[0]
