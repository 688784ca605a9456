"""Names of a package that are imported when they are first used, so that ``import`` is cheap."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def found_in(package: str, homes: Mapping[str, Sequence[str]], name: str) -> Any:
    """The value of ``name``, which one of the modules ``homes`` defines, or is.

    Raises:
        AttributeError: none does.
    """
    for module, names in homes.items():
        if name in names:
            home = import_module(module)
            return getattr(home, name) if hasattr(home, name) else import_module(f"{module}.{name}")
    raise AttributeError(f"module {package!r} has no attribute {name!r}")
