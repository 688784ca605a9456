"""What a plan is made with, besides the query."""

from __future__ import annotations

from dataclasses import dataclass

#: Fixed, never derived from the machine: the digest of the output depends on it.
PARALLELISM = 2
PARALLELISM_MAX = 256
CTI_EVERY_US = 1_000_000


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Choices that shape the plan, and thereby the order of its output."""

    #: Vertices per stage after an exchange, and partitions of a source that does not say.
    parallelism: int = PARALLELISM
    partial_aggregation: bool = True
