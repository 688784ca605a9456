"""Stores the records of a plan or query by the names of their fields.

Python pickles a frozen dataclass as a list of values in the order of its fields. A release that
adds a field in the middle would read each later value into the wrong field. So a stored record has
a name for each value, and a later release reads it as follows:

- a field that the record lacks gets its default;
- a field that the class lacks is an error, unless :data:`RETIRED` lists it, or :data:`CONVERTED`
  has a function for the class;
- :data:`MOVED` maps a class that has moved.

Pickles name :func:`rebuilt` by its module: neither may move.
"""

from __future__ import annotations

import functools
from dataclasses import MISSING, fields, is_dataclass
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from rvertex.user_code.errors import StoredRecordError

if TYPE_CHECKING:
    from collections.abc import Mapping

PACKAGES = ("rstream", "rvertex", "planner", "jobmanager")
#: Former module and name of a class or function, and its present module and name.
MOVED: dict[tuple[str, str], tuple[str, str]] = {
    ("planner.physical.plan", name): ("planner.physical.outputs", name)
    for name in ("OutputPart", "PlanOfOutputs")
} | {("rvertex.sources.spec", "LogSpec"): ("types", "SimpleNamespace")}
#: Fields of earlier releases that are ignored, as pairs of class name and field name.
RETIRED: set[tuple[str, str]] = set()
#: Module and name of a function that returns a class's present fields for its former fields.
CONVERTED = {"SourceSpec": ("rvertex.sources.former", "converted")}


@functools.cache
def _field_names(kind: type[Any]) -> tuple[str, ...] | None:
    """Return the fields of this project's dataclasses; None for other classes.

    A class with its own pickling counts as other.
    """
    is_ours = kind.__module__.partition(".")[0] in PACKAGES
    if is_ours and is_dataclass(kind) and kind.__reduce__ is object.__reduce__:
        return tuple(field.name for field in fields(kind))
    return None


def reduced(value: Any) -> tuple[Any, tuple[type, dict[str, Any]]] | None:
    """Return how to pickle a record; None: ``value`` is not a record."""
    kind: type[Any] = type(value)
    names = _field_names(kind)  # type: ignore[arg-type]  # mypy: no class is hashable
    if names is None:
        return None
    return rebuilt, (kind, {name: getattr(value, name) for name in names})


def rebuilt(kind: type, named: Mapping[str, Any]) -> Any:
    """Make the record with these fields.

    Raises:
        StoredRecordError: this release cannot read the record.
    """
    if kind is SimpleNamespace:
        return kind(**named)
    made: Any = object.__new__(kind)
    declared = {f.name: f for f in fields(kind)}
    if named.keys() - declared.keys() and kind.__name__ in CONVERTED:
        module, function = CONVERTED[kind.__name__]
        named = getattr(import_module(module), function)(named)
    for name in named.keys() - declared.keys():
        if (kind.__name__, name) not in RETIRED:
            raise StoredRecordError(kind.__name__, f"this release does not know field {name!r}")
    for name, field in declared.items():
        if name in named:
            value = named[name]
        elif field.default is not MISSING:
            value = field.default
        elif field.default_factory is not MISSING:
            value = field.default_factory()
        else:
            raise StoredRecordError(kind.__name__, f"it lacks field {name!r}")
        object.__setattr__(made, name, value)
    return made
