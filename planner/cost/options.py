"""What a plan is made with, besides the query."""

from __future__ import annotations

from dataclasses import dataclass, field

from planner.cost.parallelism import PARALLELISM
from planner.cost.statistics import Statistics


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
