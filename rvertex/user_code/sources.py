"""Detects edits of the user's modules between planning and running.

The code of a query file travels by value. Functions and classes of other modules are imported where
they run, so after an edit the new code would go on with the old code's state, and a worker that
starts later would compute other rows than the workers beside it.

Invariant: comments and layout do not count. A digest has two parts: a hash of the bytes, which
recognises an unchanged file without parsing it, and a hash of the syntax tree.
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
#: Where modules are; the prefix itself may hold the user's own, as in /usr/local/app.
_MODULE_PATHS = ("stdlib", "platstdlib", "purelib", "platlib")
_INSTALLED = (*map(sysconfig.get_path, _MODULE_PATHS), *site.getsitepackages())
#: Spark's own modules, which a distribution of Spark has beside its jars.
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
#: Our modules beside the packages.
_MODULES = tuple(os.path.join(_ROOT, name) for name in ("streamscope.py", "streamscope_pytest.py"))
#: Folders of packages wherever they are: those of one user, and of other environments on the path.
_PACKAGE_FOLDERS = ("site-packages", "dist-packages")
_DIGEST_BYTES = 8
_BETWEEN = "-"
_MODULES_MAX = 1000
_UNREADABLE = (OSError, KeyError, zipfile.BadZipFile)


def is_users(kind: type) -> bool:
    """Whether a class is the user's."""
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
    """Whether code is Python's, a package's or ours, and so not looked into."""
    if not filename or filename.startswith("<frozen"):
        return True
    path = os.path.abspath(filename)
    folders = path.split(os.sep)
    is_ours = path in _MODULES
    return (
        is_ours or path.startswith(_LIBRARIES) or any(name in folders for name in _PACKAGE_FOLDERS)
    )


def sources_of(names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """The user's modules among those given and what they import, and the digests of their files."""
    found: dict[str, str] = {}
    waiting = sorted(set(names), reverse=True)
    while waiting and len(found) < _MODULES_MAX:
        name = waiting.pop()
        path = file_of(name)
        if name in found or path is None or is_library(str(path)):
            continue
        digest, imports = _read(path, _version_of(path))
        if digest is not None:
            found[name] = digest
            waiting += sorted(_absolute(imports, name), reverse=True)
    return tuple(sorted(found.items()))


def check_unchanged(sources: Iterable[tuple[str, str]], name: str) -> None:
    """The modules of a piece of code called ``name`` say what they said.

    Raises:
        ChangedCodeError: the file of one that is imported here says something else.
    """
    for module, digest in sources:
        path = file_of(module)
        if path is not None and not is_library(str(path)) and has_changed(path, digest):
            raise ChangedCodeError(name, str(path))


def has_changed(path: Path, digest: str) -> bool:
    """Whether a file says something else to Python than it did; one that is gone says nothing."""
    try:
        if _hash(_bytes_of(path)) == digest.partition(_BETWEEN)[0]:
            return False  # nothing has to be parsed, as a host does it before it begins
    except _UNREADABLE:
        return False
    now = _read(path, _version_of(path))[0]
    return now is not None and now.partition(_BETWEEN)[2] != digest.partition(_BETWEEN)[2]


def file_of(name: str) -> Path | None:
    """The file in Python that a module was imported from, or would be; None if there is none."""
    if name in sys.modules:
        path = getattr(sys.modules[name], "__file__", None)
    else:
        path = getattr(_spec_of(name), "origin", None)
    return Path(path) if isinstance(path, str) and path.endswith(".py") else None


def _spec_of(name: str) -> ModuleSpec | None:
    """How a module was imported, or would be; nothing is imported to find that out."""
    if name in sys.modules:
        return getattr(sys.modules[name], "__spec__", None)
    above = None
    if package := name.rpartition(".")[0]:
        above = getattr(_spec_of(package), "submodule_search_locations", None)
        if above is None:
            return None
    try:
        return PathFinder.find_spec(name, above)
    except KeyError:  # a namespace package asks for its parent, which is not imported
        found = ModuleSpec(name, None, is_package=True)
        places = [os.path.join(place, name.rpartition(".")[2]) for place in above or ()]
        found.submodule_search_locations = [place for place in places if os.path.isdir(place)]
        return found


def _archive_of(path: Path) -> Path | None:
    """The zip archive that a module was imported from; None if it was a file of its own."""
    return None if path.exists() else next((p for p in path.parents if p.is_file()), None)


def _bytes_of(path: Path) -> bytes:
    archive = _archive_of(path)
    if archive is None:
        return path.read_bytes()
    with zipfile.ZipFile(archive) as opened:
        return opened.read(path.relative_to(archive).as_posix())


def _version_of(path: Path) -> tuple[int, int] | None:
    try:
        found = (_archive_of(path) or path).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


@functools.lru_cache(maxsize=_MODULES_MAX)
def _read(
    path: Path, version: tuple[int, int] | None
) -> tuple[str | None, tuple[tuple[int, str], ...]]:
    """Digest and imports of a file (of ``version``); None if it cannot be read as Python."""
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
    """What a file says to Python; its bytes if it nests too deeply, as a sum of many terms."""
    try:
        return ast.dump(tree).encode()
    except RecursionError:
        return content


def _hash(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()


def _imports(tree: ast.Module) -> list[tuple[int, str]]:
    """Names that may be of modules, each with how many packages up it is looked for."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += ((0, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = node.module or ""
            found.append((node.level, start))
            found += ((node.level, f"{start}.{alias.name}".strip(".")) for alias in node.names)
    return found


def _absolute(imports: Iterable[tuple[int, str]], name: str) -> set[str]:
    package = getattr(_spec_of(name), "parent", None) or ""
    found = set()
    for level, imported in imports:
        parts = package.split(".")
        start = ".".join(parts[: len(parts) - level + 1]) if level else ""
        found.add(f"{start}.{imported}".strip("."))
    return found
