"""Loading a query from ``FILE.py[:name]``."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path

from pyspark import cloudpickle

from jobmanager.errors import QueryFileError
from planner import Query, Stream
from rstream.errors import StreamEngineError

DEFAULT_NAME = "query"


def load_query(target: str) -> Query:
    """The query that ``FILE.py`` defines as ``name`` (default ``query``).

    The name may be a Query, a Stream (its answer goes to ``<root>/output``), or a function without
    arguments that returns one. The file is executed as a module of its own; functions it defines
    are shipped to Spark by value.

    Raises:
        QueryFileError: no such file or name, or the file itself fails.
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
        if callable(value) and not isinstance(value, Query | Stream):
            value = value()
    except StreamEngineError:
        raise
    except (Exception, SystemExit) as error:
        raise QueryFileError(str(path), f"{type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    if isinstance(value, Stream):
        return value.to_parquet()
    if not isinstance(value, Query):
        raise QueryFileError(str(path), f"it defines no query named {name!r}")
    return value
