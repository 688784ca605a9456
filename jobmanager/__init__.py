"""Lifecycle of a running plan: start, track, recover, collect, report."""

from __future__ import annotations

from rstream.lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__)
