"""Makes a user's modules importable in this process and in Spark's workers.

A query names its modules (``py_files``): files ``.py``, ``.zip`` or ``.egg``, packages, and folders
of modules. They are shipped to Spark's workers as one archive. Its name contains a digest of its
content, so no worker continues to use an outdated archive.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from rstream.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_ARCHIVES = (".zip", ".egg")
_INIT = "__init__.py"
_DIGEST_BYTES = 8
#: Temporary folders of archives; deleted when this process ends.
_folders: list[tempfile.TemporaryDirectory[str]] = []
#: All files in archives have this time, so equal content gives equal archives.
_TIME = (1980, 1, 1, 0, 0, 0)


def checked_modules(given: Iterable[str]) -> list[str]:
    """Return the absolute paths of modules. A text may list several, separated by commas.

    Raises:
        UsageError: one does not exist, or is not a module.
    """
    paths = [os.path.abspath(path) for text in given for path in text.split(",") if path]
    for path in paths:
        if not os.path.exists(path):
            raise UsageError(f"py_files: {path} does not exist")
        if not os.path.isdir(path) and Path(path).suffix not in (".py", *_ARCHIVES):
            raise UsageError(f"py_files: {path} is not a folder or a .py, .zip or .egg file")
    return paths


def put_on_path(modules: Iterable[str], folders: Iterable[str] = ()) -> None:
    """Put the modules, and ``folders`` of modules, first on this process's path."""
    for place in (*folders, *(import_place(path) for path in modules)):
        if place not in sys.path and os.path.exists(place):
            sys.path.insert(0, place)


def main_folder() -> str | None:
    """Return the folder of the program that this process runs; None if unknown."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return None if file is None else os.path.dirname(os.path.abspath(file))


def shipped_modules(modules: Sequence[str]) -> list[str]:
    """Return archives of the modules, for workers on other machines."""
    archives = [path for path in modules if Path(path).suffix in _ARCHIVES]
    rest = [path for path in modules if path not in archives]
    data = [Path(path).read_bytes() for path in archives]
    return [_kept(one) for one in (*data, *([_packed(rest)] if rest else []))]


def import_place(path: str) -> str:
    """Return the ``sys.path`` entry for a module, a package or a folder of modules."""
    is_inside = path.endswith(".py") or os.path.exists(f"{path}/{_INIT}")
    return os.path.dirname(path) if is_inside else path


def _packed(modules: Sequence[str]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in modules:
            for file in _files(path):
                name = os.path.relpath(file, import_place(path))
                archive.writestr(zipfile.ZipInfo(name, _TIME), Path(file).read_bytes())
    return data.getvalue()


def _files(path: str) -> Iterator[str]:
    if not os.path.isdir(path):
        yield path
        return
    for folder, below, names in os.walk(path):
        below[:] = sorted(name for name in below if name[0] != "." and name != "__pycache__")
        yield from (f"{folder}/{name}" for name in sorted(names) if not name.endswith(".pyc"))


def _kept(data: bytes) -> str:
    """Write a file that exists until this process ends, so that Spark can copy it.

    Return its path.
    """
    digest = hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()
    if not _folders:
        _folders.append(tempfile.TemporaryDirectory(prefix="streamscope-modules-"))
    path = Path(_folders[0].name) / f"modules-{digest}.zip"
    path.write_bytes(data)
    return str(path)
