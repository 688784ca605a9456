"""Detects edits of the user's modules between planning and running.

A plan contains the code of its query file, but only names functions and classes of other modules.
Each worker imports these. After an edit, new code would continue on the old code's state, and a
worker that starts later would compute other rows than the other workers.

Invariant: edits of comments and layout are ignored. A digest has two parts: a hash of the file's
bytes, which identifies an unchanged file without parsing, and a hash of its syntax tree.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import os
import site
import sys
import sysconfig
import zipfile
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

from rvertex.user_code.errors import ChangedCodeError

if TYPE_CHECKING:
    from collections.abc import Iterable

_PACKAGES = ("rstream", "rvertex", "planner", "jobmanager")
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
#: Folders of libraries. Their parent may contain the user's modules, as in /usr/local/app.
_MODULE_PATHS = ("stdlib", "platstdlib", "purelib", "platlib")
_INSTALLED = (*map(sysconfig.get_path, _MODULE_PATHS), *site.getsitepackages())
#: Spark's own modules, which its distribution keeps beside its jars.
_SPARK = tuple(
    path
    for name in ("pyspark", "py4j")
    if (spec := PathFinder.find_spec(name)) is not None
    for path in spec.submodule_search_locations or ()
)
_LIBRARIES = tuple(
    sorted(
        os.path.join(path, "")
        for path in (
            *(os.path.join(_ROOT, name) for name in (*_PACKAGES, "streamscope")),
            *_INSTALLED,
            *map(os.path.realpath, _INSTALLED),
            *_SPARK,
        )
    )
)
#: This project's modules outside of its packages.
_MODULES = tuple(os.path.join(_ROOT, name) for name in ("streamscope.py", "streamscope_pytest.py"))
#: Names of package folders anywhere on the path, such as the folders of another environment.
_PACKAGE_FOLDERS = ("site-packages", "dist-packages")
_DIGEST_BYTES = 8
_BETWEEN = "-"
_MODULES_MAX = 1000
_UNREADABLE = (OSError, KeyError, zipfile.BadZipFile)


def is_users(kind: type) -> bool:
    """Return whether a class is from the user's code."""
    module = sys.modules.get(kind.__module__)
    if module is None or kind.__module__ == "__main__":
        return True
    filename = getattr(module, "__file__", None)
    return (
        kind.__module__ not in sys.builtin_module_names
        if filename is None
        else (not is_library(filename))
    )


def is_library(filename: str) -> bool:
    """Return whether a file belongs to Python, a package or this project: edits are ignored."""
    if not filename or filename.startswith("<frozen"):
        return True
    path = os.path.abspath(filename)
    folders = path.split(os.sep)
    is_ours = path in _MODULES
    return (
        is_ours or path.startswith(_LIBRARIES) or any(name in folders for name in _PACKAGE_FOLDERS)
    )


def sources_of(names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return the user's modules among ``names`` and their imports, each with its file's digest."""
    digests: dict[str, str] = {}
    waiting = sorted(set(names), reverse=True)
    while waiting and len(digests) < _MODULES_MAX:
        name = waiting.pop()
        path = file_of(name)
        if name in digests or path is None or is_library(str(path)):
            continue
        digest, imports = _read(path, _version_of(path))
        if digest is not None:
            digests[name] = digest
            waiting += sorted(_absolute(imports, name), reverse=True)
    return tuple(sorted(digests.items()))


def check_unchanged(sources: Iterable[tuple[str, str]], name: str) -> None:
    """Check that the modules of the code ``name`` are unchanged.

    Raises:
        ChangedCodeError: the file of a module, as imported here, was edited.
    """
    for module, digest in sources:
        path = file_of(module)
        if path is not None and not is_library(str(path)) and has_changed(path, digest):
            raise ChangedCodeError(name, str(path))


def has_changed(path: Path, digest: str) -> bool:
    """Return whether a file's syntax tree differs from its digest; False if the file is gone."""
    try:
        if _hash(_bytes_of(path)) == digest.partition(_BETWEEN)[0]:
            return False  # fast path without parsing, because each host checks before it starts
    except _UNREADABLE:
        return False
    now = _read(path, _version_of(path))[0]
    return now is not None and now.partition(_BETWEEN)[2] != digest.partition(_BETWEEN)[2]


def file_of(name: str) -> Path | None:
    """Return the Python file from which a module was or would be imported; None: no such file."""
    if name in sys.modules:
        path = getattr(sys.modules[name], "__file__", None)
    else:
        path = getattr(_spec_of(name), "origin", None)
    return Path(path) if isinstance(path, str) and path.endswith(".py") else None


def _spec_of(name: str) -> ModuleSpec | None:
    """Return how a module was or would be imported, without importing it or its parents."""
    if name in sys.modules:
        return getattr(sys.modules[name], "__spec__", None)
    above = None
    if package := name.rpartition(".")[0]:
        above = getattr(_spec_of(package), "submodule_search_locations", None)
        if above is None:
            return None
    try:
        return PathFinder.find_spec(name, above)
    except KeyError:  # the parent of a namespace package is looked up, but not imported
        spec = ModuleSpec(name, None, is_package=True)
        places = [os.path.join(place, name.rpartition(".")[2]) for place in above or ()]
        spec.submodule_search_locations = [place for place in places if os.path.isdir(place)]
        return spec


def _archive_of(path: Path) -> Path | None:
    """Return the zip archive from which a module was imported; None: it is a plain file."""
    return None if path.exists() else next((p for p in path.parents if p.is_file()), None)


def _bytes_of(path: Path) -> bytes:
    archive = _archive_of(path)
    if archive is None:
        return path.read_bytes()
    with zipfile.ZipFile(archive) as opened:
        return opened.read(path.relative_to(archive).as_posix())


def _version_of(path: Path) -> tuple[int, int] | None:
    try:
        info = (_archive_of(path) or path).stat()
    except OSError:
        return None
    return info.st_mtime_ns, info.st_size


@functools.lru_cache(maxsize=_MODULES_MAX)
def _read(
    path: Path, version: tuple[int, int] | None
) -> tuple[str | None, tuple[tuple[int, str], ...]]:
    """Return a file's digest (None: not Python) and imports. ``version``: key of the cache."""
    if version is None:
        return None, ()
    try:
        content = _bytes_of(path)
        tree = ast.parse(content, str(path))
    except (*_UNREADABLE, SyntaxError, ValueError, RecursionError, MemoryError):
        return None, ()
    digest = f"{_hash(content)}{_BETWEEN}{_hash(_dumped(tree, content))}"
    return digest, tuple(_imports(tree))


def _dumped(tree: ast.Module, content: bytes) -> bytes:
    """Return the syntax tree as bytes; the file's bytes if the tree nests too deeply to print."""
    try:
        return ast.dump(tree).encode()
    except RecursionError:
        return content


def _hash(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()


def _imports(tree: ast.Module) -> list[tuple[int, str]]:
    """Return imported names that may be modules, each with its level of relative import."""
    names: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += ((0, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = node.module or ""
            names.append((node.level, start))
            names += ((node.level, f"{start}.{alias.name}".strip(".")) for alias in node.names)
    return names


def _absolute(imports: Iterable[tuple[int, str]], name: str) -> set[str]:
    package = getattr(_spec_of(name), "parent", None) or ""
    names = set()
    for level, imported in imports:
        parts = package.split(".")
        start = ".".join(parts[: len(parts) - level + 1]) if level else ""
        names.add(f"{start}.{imported}".strip("."))
    return names
