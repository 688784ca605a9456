"""What a plan is made with, besides the query."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from planner.cost.statistics import Statistics

#: Fixed, never derived from the machine: the digest of the output depends on it.
PARALLELISM = 2
PARALLELISM_MAX = 256
#: "auto": per stage what the cost model recommends, which follows from the data and hints alone.
Parallelism = int | Literal["auto"]


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Choices that shape the plan, and thereby the order of its output."""

    #: Vertices per stage after an exchange, and partitions of a source that does not say.
    parallelism: int = PARALLELISM
    partial_aggregation: bool = True
    #: Rows come at the pace of their times, so results that wait for others are late.
    is_paced: bool = False
    #: What is known of the sources.
    statistics: Statistics = field(default_factory=Statistics)
