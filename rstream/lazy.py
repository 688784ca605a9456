"""Imports the names of a package when they are first used, so that ``import`` is fast."""

from __future__ import annotations

import ast
import pkgutil
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def lazy(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of ``package``.

    The stub ``__init__.pyi`` imports each public name from its module, for type checkers too.
    """
    stub = ast.parse(pkgutil.get_data(package, "__init__.pyi") or b"")
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    homes = {alias.name: str(node.module) for node in imports for alias in node.names}
    names = sorted(homes)

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = import_module(homes[name])
        is_module = not hasattr(home, name)
        value = import_module(f"{home.__name__}.{name}") if is_module else getattr(home, name)
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: names, names
