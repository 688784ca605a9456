"""Statistics of a source that users give the cost model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hints:
    """Statistics of a source; a missing one is estimated from the files."""

    #: Events per second of event time.
    rate_per_s: float | None = None
    #: Columns and their numbers of distinct values.
    keys: tuple[tuple[str, int], ...] = ()


NO_HINTS = Hints()
