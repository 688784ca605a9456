"""The logical plan: frozen nodes, each with the payload schema of its output stream.

Rules of the optimizer add :class:`Exchange`, :class:`Extremes` and the phases of an aggregate;
users never do.
"""

from planner.logical.nodes.aggregation import (
    Aggregate,
    DataWindowAgg,
    Phase,
    WindowAgg,
)
from planner.logical.nodes.calendar import CalendarStep
from planner.logical.nodes.joins import (
    AsOf,
    AsOfKind,
    Clip,
    IntervalJoin,
    IntervalKind,
    Join,
    JoinKind,
    Side,
    TwoSided,
)
from planner.logical.nodes.lifetimes import (
    Distinct,
    Extremes,
    Lifetime,
    LifetimeChange,
    Limited,
    Sorted,
    Stitch,
)
from planner.logical.nodes.match import Match
from planner.logical.nodes.node import LogicalNode, OneInput, Step
from planner.logical.nodes.over import Over
from planner.logical.nodes.recover import Recover
from planner.logical.nodes.routing import Exchange, Sink, Sinks, Union
from planner.logical.nodes.row_steps import Explode, Filter, Project, identity_columns
from planner.logical.nodes.source import Source
from planner.logical.nodes.user_step import UserStep

__all__ = [
    "Aggregate",
    "AsOf",
    "AsOfKind",
    "CalendarStep",
    "Clip",
    "DataWindowAgg",
    "Distinct",
    "Exchange",
    "Explode",
    "Extremes",
    "Filter",
    "IntervalJoin",
    "IntervalKind",
    "Join",
    "JoinKind",
    "Lifetime",
    "LifetimeChange",
    "Limited",
    "LogicalNode",
    "Match",
    "OneInput",
    "Over",
    "Phase",
    "Project",
    "Recover",
    "Side",
    "Sink",
    "Sinks",
    "Sorted",
    "Source",
    "Step",
    "Stitch",
    "TwoSided",
    "Union",
    "UserStep",
    "WindowAgg",
    "identity_columns",
]
