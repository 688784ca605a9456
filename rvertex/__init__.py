"""Vertices: deterministic steps over streams, and the hosts that run them."""

from rvertex.vertex import merge
from rvertex.vertex.rvertex import RVertex
from rvertex.vertex.spec import Snapshot

__all__ = ["RVertex", "Snapshot", "merge"]
