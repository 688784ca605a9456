"""Vertices: deterministic steps over streams, and the hosts that run them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rstream.lazy import lazy

if TYPE_CHECKING:
    from rvertex.vertex import merge
    from rvertex.vertex.rvertex import RVertex
    from rvertex.vertex.spec import Snapshot

__all__ = ["RVertex", "Snapshot", "merge"]
#: The module that defines each public name; it is imported when one of its names is first used.
_HOMES = {
    "rvertex.vertex": ("merge",),
    "rvertex.vertex.rvertex": ("RVertex",),
    "rvertex.vertex.spec": ("Snapshot",),
}
__getattr__, __dir__ = lazy(__name__, _HOMES)
