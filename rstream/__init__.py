"""A durable, sequence-numbered log of events and CTIs (watermarks)."""

from __future__ import annotations

from rstream.lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__)
