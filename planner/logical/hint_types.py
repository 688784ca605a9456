"""What users tell the cost model of a source."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hints:
    """None and no entry: the files have to tell."""

    #: Events per second of event time.
    rate_per_s: float | None = None
    #: Columns and how many different values they have.
    keys: tuple[tuple[str, int], ...] = ()


NO_HINTS = Hints()
