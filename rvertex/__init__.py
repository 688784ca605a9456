"""Vertices: deterministic steps over streams, and the hosts that run them."""

from __future__ import annotations

from rstream.lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__)
