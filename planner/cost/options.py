"""The inputs of planning, besides the query."""

from __future__ import annotations

from dataclasses import dataclass, field

from planner.cost.parallelism import PARALLELISM
from planner.cost.statistics import Statistics


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Choices that shape the plan, and so the order of its output."""

    #: Vertices per stage after an exchange, and partitions of a source that does not set them.
    parallelism: int = PARALLELISM
    partial_aggregation: bool = True
    #: Whether rows arrive in real time; then a result that waits for rows is delayed.
    is_paced: bool = False
    #: The statistics of the sources.
    statistics: Statistics = field(default_factory=Statistics)
