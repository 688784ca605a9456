"""Loads a query from ``FILE.py[:name]`` or from ``FILE.sql``."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Names of the planner are imported only when they are used, because a replay needs none of them.
import planner
from jobmanager.errors import QueryFileError
from rstream.errors import StreamEngineError
from rvertex.user_code.errors import reason_of
from rvertex.user_code.modules import checked_modules, main_folder, put_on_path
from rvertex.user_code.sources import file_of, has_changed, is_library, sources_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planner import Query, Stream

DEFAULT_NAME = "query"


def load_query(
    target: str,
    settings: Sequence[str] = (),
    modules: Sequence[str] = (),
    dialect: str | None = None,
) -> Query:
    """Return the query of a file.

    ``settings``: ``NAME=VALUE`` variables for a SQL file. ``modules``: paths of modules that it
    imports. ``dialect``: of a SQL file, such as ``"flink"``.

    Raises:
        QueryFileError: the file or the name does not exist, or the file raises an error.
        SqlError: the SQL is wrong, with line and column.
    """
    put_on_path(checked_modules(modules))
    variables = dict(_setting(text) for text in settings)
    if Path(target).suffix.lower() == ".sql":
        return _as_query(_from_sql(Path(target), variables, dialect), target, "query")
    if variables or dialect:
        name = "--set" if variables else "--dialect"
        raise QueryFileError(target, f"{name} is only for files in SQL")
    return _from_python(target)


@dataclass(frozen=True, slots=True)
class QueryFile:
    """The file that a query was read from. ``digest``: SHA-256 of the file's content."""

    #: The argument of the command.
    target: str
    path: str
    digest: str
    #: The user's modules that it imports: path to digest of the parsed code.
    imports: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the form that ``job.json`` stores."""
        known = {"target": self.target, "path": self.path, "digest": self.digest}
        return {**known, "imports": self.imports}


def query_file(target: str) -> QueryFile:
    """Return path and digests of the file of ``target``, so that a resume can detect changes.

    Raises:
        QueryFileError: the file does not exist.
    """
    path = _path_of(target).resolve()
    digest = _digest(path)
    if digest is None:
        raise QueryFileError(str(path), "no such file")
    return QueryFile(target, str(path), digest, _imports_of(path))


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """A query, and the file that it was read from."""

    query: Query
    file: QueryFile


def load_file(target: str | LoadedFile) -> LoadedFile:
    """Load the query of a file. If ``target`` was loaded already, return it.

    Raises:
        QueryFileError, SqlError: see :func:`load_query`.
    """
    if isinstance(target, LoadedFile):
        return target
    return LoadedFile(load_query(target), query_file(target))


def _imports_of(path: Path) -> dict[str, str]:
    """Return the user's modules that a loaded query file has imported, with their digests."""
    name = _module_name(path)
    sources = sources_of([name])
    return {str(file_of(module)): digest for module, digest in sources if module != name}


def changed_note(known: Mapping[str, Any] | None, root: str = "ROOT") -> str | None:
    """Return a note for the user if the query's file has changed since the job's start.

    Empty: it has not changed. None: unknown. ``known``: the ``QueryFile.to_json()`` of the job's
    start. ``root``: the job's root, for the message.
    """
    now = None if known is None else _digest(Path(known["path"]))
    if known is None or now is None:
        return None
    changed = [] if now == known["digest"] else [known["path"]]
    imports: dict[str, str] = known.get("imports", {})
    changed += (p for p, digest in imports.items() if has_changed(Path(p), digest))
    if not changed:
        return ""
    have = "has" if len(changed) == 1 else "have"
    return (
        f"{', '.join(changed)} {have} changed since the job began; the job continues with "
        "the old query. To change the job: jobmanager deploy "
        f"{known.get('target', 'FILE')} {root}"
    )


def folders_of(file: QueryFile | None) -> list[str]:
    """Return the folder of a query's modules: the folder of its file, or of the running program."""
    folder = main_folder() if file is None else os.path.dirname(file.path)
    return [] if folder is None or is_library(f"{folder}/x") else [folder]


def module_places(settings: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the module paths given for the query, and the folders of its other modules."""
    return settings.get("options", {}).get("py_files") or [], settings.get("folders") or []


def _path_of(target: str) -> Path:
    return Path(target if target.lower().endswith(".sql") else target.partition(":")[0])


def _digest(path: Path) -> str | None:
    """Return the digest of a file's content; None if it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise QueryFileError(text, "--set takes NAME=VALUE")
    return name, value


def _from_sql(path: Path, variables: dict[str, str], dialect: str | None) -> Query | Stream:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise QueryFileError(str(path), "no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise QueryFileError(str(path), f"cannot be read: {error}") from None
    return planner.sql(text, variables=variables, dialect=dialect)


def _from_python(target: str) -> Query:
    """Return the query that ``FILE.py`` defines as ``name`` (default ``query``).

    The name may be a Query, a Stream (its result goes to ``<root>/output``), or a function without
    arguments that returns one. The file runs as a separate module. Functions that it defines are
    sent to Spark by value.
    """
    path_text, _, name = target.partition(":")
    path, name = Path(path_text), name or DEFAULT_NAME
    if not path.is_file():
        raise QueryFileError(str(path), "no such file")
    from pyspark import cloudpickle

    module_name = _module_name(path.resolve())
    spec = importlib.util.spec_from_file_location(module_name, path.absolute())
    if spec is None or spec.loader is None:
        raise QueryFileError(str(path), "not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        cloudpickle.register_pickle_by_value(module)
        spec.loader.exec_module(module)
        value = getattr(module, name, None)
        if value is None:
            raise QueryFileError(str(path), _no_query(vars(module), name))
        if callable(value) and not isinstance(value, planner.Query | planner.Stream):
            value = value()
    except StreamEngineError as error:
        if (line := _line_in(path, error)) is not None:
            # The command shows the place in front of the message.
            error.add_note(f"{path}, line {line}")
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the user's program may raise any exception
        line = _line_in(path, error)
        where = "" if line is None else f"line {line}: "
        raise QueryFileError(str(path), f"{where}{reason_of(error)}{_near_name(error)}") from error
    finally:
        sys.path.pop(0)
    return _as_query(value, str(path), name)


def _module_name(path: Path) -> str:
    """Return the module name for a query file, given its absolute path."""
    tag = hashlib.blake2b(str(path).encode(), digest_size=6).hexdigest()
    return f"streamscope_query_{tag}"


def _line_in(path: Path, error: BaseException) -> int | None:
    """Return the innermost line of the file in the error's traceback; None if there is none."""
    if isinstance(error, SyntaxError):
        return None  # the error itself gives the line
    lines = [
        line
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename == str(path.absolute())
    ]
    return lines[-1] if lines else None


def _near_name(error: BaseException) -> str:
    """Return a hint if a method does not exist, but a class of this project has one like it."""
    if not isinstance(error, AttributeError) or not isinstance(error.obj, type):
        return ""
    from planner.expressions.suggestions import near

    is_ours = error.obj.__module__.startswith("planner.")
    return near(error.name or "", dir(error.obj)) if is_ours else ""


def _no_query(defined: Mapping[str, object], name: str) -> str:
    """Return the message that the file has no query of that name, with the existing names."""
    names = [n for n, value in defined.items() if isinstance(value, planner.Query | planner.Stream)]
    there = f"; it defines {', '.join(names)}: give one as FILE.py:NAME" if names else ""
    return f"it defines no query named {name!r}{there}"


def _as_query(value: object, path: str, name: str) -> Query:
    if isinstance(value, planner.Stream):
        return value.to_parquet()
    if isinstance(value, dict) and value:
        from planner.logical.query import together

        return together({str(k): _as_query(v, path, f"{name}[{k!r}]") for k, v in value.items()})
    if value is None:
        raise QueryFileError(path, f"it defines no query named {name!r}")
    if not isinstance(value, planner.Query):
        what = type(value).__name__
        raise QueryFileError(path, f"{name!r} is of type {what}, not a Query or Stream")
    return value
