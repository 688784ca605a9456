"""Vertices: deterministic steps over streams, and the hosts that run them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rstream.lazy import found_in

if TYPE_CHECKING:
    from rvertex.vertex import merge
    from rvertex.vertex.rvertex import RVertex
    from rvertex.vertex.spec import Snapshot

__all__ = ["RVertex", "Snapshot", "merge"]
#: Where the names are defined; a module is imported when one of its names is first used.
_HOMES = {
    "rvertex.vertex": ("merge",),
    "rvertex.vertex.rvertex": ("RVertex",),
    "rvertex.vertex.spec": ("Snapshot",),
}


def __getattr__(name: str) -> Any:
    value = found_in(__name__, _HOMES, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
