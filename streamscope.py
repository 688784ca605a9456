"""All public names of StreamScope: ``import streamscope as ss``.

Other names may change with any release, unless docs/versions.md lists them. Other distributions on
PyPI also install packages called ``rstream``, ``planner`` or ``jobmanager``. If Python finds one of
these instead of ours, this import fails and names the file and the distribution.
"""

# ruff: noqa: F403, F405  # the stubs of the packages name what a star imports

from __future__ import annotations

import importlib.util
import os.path
from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

__version__ = "0.2.0"

#: Submodules (``streamscope.testing``) are in the folder beside this file. It has no
#: ``__init__.py``: Python then takes this file for the package (ADR 51).
__path__ = [os.path.join(os.path.dirname(os.path.realpath(__file__)), "streamscope")]

_DISTRIBUTION = "streamscope"
#: Packages that are searched for a public name, the cheapest import first.
_PACKAGES = ("rstream", "rvertex", "jobmanager", "planner")


def _refuse_foreign_packages() -> None:
    """Find the four packages without importing them, and reject packages of other distributions.

    Raises:
        ImportError: a package is missing, or is not beside this file.
    """
    here = os.path.dirname(os.path.realpath(__file__))
    for name in _PACKAGES:
        path = _file_of(name)
        if path is None:
            raise ImportError(
                f"streamscope needs its package {name!r}, which is not beside {here}: "
                f"install streamscope again",
                name=name,
            )
        if os.path.dirname(os.path.dirname(os.path.realpath(path))) != here:
            raise ImportError(_conflict(name, path), name=name, path=path)


def _file_of(name: str) -> str | None:
    """Return the file that ``import name`` would run, or has run."""
    try:
        spec = importlib.util.find_spec(name)
    except ValueError:  # a module that a program created itself has no spec
        return "sys.modules"
    if spec is None:
        return None
    return spec.origin or next(iter(spec.submodule_search_locations or ()), None)


def _conflict(name: str, path: str) -> str:
    """Return the message that names the conflicting package and says how to fix it."""
    owners = _other_owners(name)
    if owners:
        whose = f"it belongs to the installed distribution {' and '.join(owners)}"
        remedy = (
            f"run `pip uninstall {' '.join(owners)}` and install streamscope again, or "
            "install streamscope into a separate virtual environment"
        )
    else:
        whose = "no installed distribution owns it"
        remedy = f"rename that {name!r}, take it off sys.path, or start Python in another folder"
    return (
        f"{name!r} is not the package of streamscope: Python finds {path}, and {whose}. "
        f"To use streamscope, {remedy}."
    )


def _other_owners(name: str) -> list[str]:
    """Return the other installed distributions that contain a package ``name``."""
    return sorted(set(metadata.packages_distributions().get(name, ())) - {_DISTRIBUTION})


def _overwritten(error: ImportError) -> str | None:
    """Return the message if another distribution has replaced our files, else None."""
    for name in _PACKAGES:
        if _other_owners(name):
            return f"{_conflict(name, _file_of(name) or name)} ({error})"
    return None


_refuse_foreign_packages()
if TYPE_CHECKING:
    from jobmanager import *
    from planner import *
    from planner.explain.text import explain as explain
    from rstream import *
    from rvertex import *

__all__ = [
    "INF_TIME",
    "MIN_TIME",
    "Ack",
    "AppendLimits",
    "Appender",
    "BadRowsWarning",
    "Comparison",
    "EvaluationError",
    "Expr",
    "ExpressionTypeError",
    "GroupedStream",
    "IntegrityError",
    "InvalidDurationError",
    "InvalidPlanError",
    "Items",
    "Job",
    "JobConfig",
    "JobExistsError",
    "JobFailedError",
    "JobFormatError",
    "JobRunningError",
    "KeyedContext",
    "KeyedProcess",
    "LateRowsWarning",
    "NoJobError",
    "OperatingError",
    "OutputTakenError",
    "Query",
    "RStream",
    "RVertex",
    "Snapshot",
    "SqlError",
    "StoreError",
    "Stream",
    "StreamEngineError",
    "StreamLimits",
    "StreamReader",
    "Timer",
    "Udf",
    "UnknownColumnError",
    "UsageError",
    "Window",
    "WindowedStream",
    "__version__",
    "agg",
    "asc",
    "classifier",
    "coalesce",
    "col",
    "collect",
    "collect_batch",
    "concat_ws",
    "count_window",
    "cti",
    "cumulating",
    "desc",
    "diff",
    "event",
    "explain",
    "final",
    "greatest",
    "head",
    "hopping",
    "id_joiner",
    "item_schema",
    "least",
    "list_of",
    "lit",
    "match_number",
    "merge",
    "next_row",
    "open_log",
    "open_reader",
    "open_store",
    "prev",
    "read_dead_letters",
    "read_events",
    "read_late",
    "read_state",
    "read_table",
    "replay",
    "resume",
    "rows_of",
    "run",
    "running",
    "session",
    "show",
    "sinks",
    "snapshot",
    "sql",
    "status",
    "struct",
    "tumbling",
    "udf",
    "ve",
    "vs",
    "when",
    "why",
]


#: Public names that no package lists in ``__all__``, and their modules.
_ELSEWHERE = {"explain": "planner.explain.text", "sql": "planner.sql.entry"}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in __all__:
        if name.startswith("__"):
            raise AttributeError(name)
        from planner.expressions.suggestions import missing

        raise missing("streamscope", name, __all__)
    try:
        value = globals()[name] = getattr(_home_of(name), name)
    except ImportError as error:
        if explained := _overwritten(error):
            raise ImportError(explained, name=error.name, path=error.path) from error
        raise
    return value


def _home_of(name: str) -> ModuleType:
    """Return the module that defines a public name."""
    if name in _ELSEWHERE:
        return import_module(_ELSEWHERE[name])
    for package in map(import_module, _PACKAGES):
        if name in getattr(package, "__all__", ()):
            return package
    raise ImportError(f"no package of streamscope has {name!r}: install streamscope again")


def __dir__() -> list[str]:
    return __all__
