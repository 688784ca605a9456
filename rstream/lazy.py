"""Imports the names of a package when they are first used, so that ``import`` is fast."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def lazy(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of ``package``. ``homes``: public names by module."""

    def get(name: str) -> Any:
        value = _found_in(package, homes, name)
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: list(sys.modules[package].__all__)


def _found_in(package: str, homes: Mapping[str, Sequence[str]], name: str) -> Any:
    """Return the value of ``name``: a name in one of the modules ``homes``, or such a module.

    Raises:
        AttributeError: there is no such name.
    """
    for module, names in homes.items():
        if name in names:
            home = import_module(module)
            return getattr(home, name) if hasattr(home, name) else import_module(f"{module}.{name}")
    raise AttributeError(f"module {package!r} has no attribute {name!r}")
