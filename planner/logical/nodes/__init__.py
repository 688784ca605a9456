"""The logical plan: frozen nodes, each with the payload schema of its output stream.

Rules of the optimizer add :class:`Exchange`, :class:`Extremes` and the phases of an aggregate;
users never do.
"""

from planner.logical.nodes.aggregation import (
    Aggregate as Aggregate,
    DataWindowAgg as DataWindowAgg,
    Phase as Phase,
    WindowAgg as WindowAgg,
)
from planner.logical.nodes.calendar import CalendarStep as CalendarStep
from planner.logical.nodes.joins import (
    AsOf as AsOf,
    AsOfKind as AsOfKind,
    Clip as Clip,
    IntervalJoin as IntervalJoin,
    IntervalKind as IntervalKind,
    Join as Join,
    JoinKind as JoinKind,
    Side as Side,
    TwoSided as TwoSided,
)
from planner.logical.nodes.lifetimes import (
    Distinct as Distinct,
    Extremes as Extremes,
    Lifetime as Lifetime,
    LifetimeChange as LifetimeChange,
    Limited as Limited,
    Sorted as Sorted,
    Stitch as Stitch,
)
from planner.logical.nodes.match import Match as Match
from planner.logical.nodes.node import (
    LogicalNode as LogicalNode,
    OneInput as OneInput,
    Step as Step,
)
from planner.logical.nodes.over import Over as Over
from planner.logical.nodes.recover import Recover as Recover
from planner.logical.nodes.routing import (
    Exchange as Exchange,
    Sink as Sink,
    Sinks as Sinks,
    Union as Union,
)
from planner.logical.nodes.row_steps import (
    Explode as Explode,
    Filter as Filter,
    Project as Project,
    identity_columns as identity_columns,
)
from planner.logical.nodes.source import Source as Source
from planner.logical.nodes.user_step import UserStep as UserStep
