"""Loading a query from ``FILE.py[:name]`` or from ``FILE.sql``."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import cloudpickle

from jobmanager.errors import QueryFileError
from planner import Query, Stream, sql
from rstream.errors import StreamEngineError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DEFAULT_NAME = "query"


def load_query(target: str, settings: Sequence[str] = ()) -> Query:
    """The query of a file; ``settings`` are the ``NAME=VALUE`` that a file in SQL may use.

    Raises:
        QueryFileError: no such file or name, or the file itself fails.
        SqlError: the SQL is wrong, with line and column.
    """
    variables = dict(_setting(text) for text in settings)
    if Path(target).suffix.lower() == ".sql":
        return _as_query(_from_sql(Path(target), variables), target, "query")
    if variables:
        raise QueryFileError(target, "--set is for files in SQL")
    return _from_python(target)


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise QueryFileError(text, "--set takes NAME=VALUE")
    return name, value


def _from_sql(path: Path, variables: dict[str, str]) -> Query | Stream:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise QueryFileError(str(path), "no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise QueryFileError(str(path), f"cannot be read: {error}") from None
    return sql(text, variables=variables)


def _from_python(target: str) -> Query:
    """The query that ``FILE.py`` defines as ``name`` (default ``query``).

    The name may be a Query, a Stream (its answer goes to ``<root>/output``), or a function without
    arguments that returns one. The file is executed as a module of its own; functions it defines
    are shipped to Spark by value.
    """
    path_text, _, name = target.partition(":")
    path, name = Path(path_text), name or DEFAULT_NAME
    if not path.is_file():
        raise QueryFileError(str(path), "no such file")
    tag = hashlib.blake2b(str(path.resolve()).encode(), digest_size=6).hexdigest()
    module_name = f"streamscope_query_{tag}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise QueryFileError(str(path), "not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
        cloudpickle.register_pickle_by_value(module)
        value = getattr(module, name, None)
        if value is None:
            raise QueryFileError(str(path), _no_query(vars(module), name))
        if callable(value) and not isinstance(value, Query | Stream):
            value = value()
    except StreamEngineError:
        raise
    except (Exception, SystemExit) as error:
        raise QueryFileError(str(path), f"{type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    return _as_query(value, str(path), name)


def _no_query(defined: Mapping[str, object], name: str) -> str:
    """That there is no query of that name, and those that there are."""
    found = [n for n, value in defined.items() if isinstance(value, Query | Stream)]
    there = f"; it defines {', '.join(found)}: give one as FILE.py:NAME" if found else ""
    return f"it defines no query named {name!r}{there}"


def _as_query(value: object, path: str, name: str) -> Query:
    if isinstance(value, Stream):
        return value.to_parquet()
    if value is None:
        raise QueryFileError(path, f"it defines no query named {name!r}")
    if not isinstance(value, Query):
        what = type(value).__name__
        raise QueryFileError(path, f"{name!r} is of type {what}, not a Query or Stream")
    return value
