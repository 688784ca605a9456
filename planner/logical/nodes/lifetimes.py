"""Logical nodes that read or change lifetimes; part of :mod:`planner.logical.nodes`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.durations import format_us
from planner.logical.nodes.node import InputKeys, Step, with_edges
from rstream.types import INF_TIME
from rvertex.operators.edges.aggregate import EdgeAggregate
from rvertex.operators.edges.lifetimes.chop import EdgeChop
from rvertex.operators.edges.lifetimes.extend import EdgeExtend
from rvertex.operators.edges.of_begins import EdgeOfBegins
from rvertex.operators.lifetimes import stitch
from rvertex.operators.lifetimes.begins import Begins
from rvertex.operators.lifetimes.chop import Chop
from rvertex.operators.lifetimes.extend import Extend
from rvertex.operators.lifetimes.extend_by import ExtendBy
from rvertex.operators.lifetimes.point_at_end import PointAtEnd
from rvertex.operators.lifetimes.set_duration import SetDuration
from rvertex.operators.lifetimes.shift import Shift
from rvertex.operators.ordered.deduplicate import Deduplicate
from rvertex.operators.ordered.limit import Limit
from rvertex.operators.ordered.sort_together import SortTogether
from rvertex.operators.windows import extremes

if TYPE_CHECKING:
    from collections.abc import Set

    import pyarrow as pa

    from planner.logical.nodes.partitioning import Partitioning

#: Changes of lifetimes that work on single events.
LifetimeChange = Begins | Shift | SetDuration | Extend | ExtendBy | PointAtEnd | Chop


class SameRows(Step):
    """Base of a step that emits input rows, in the same partitions, with the same columns."""

    __slots__ = ()

    @property
    def schema(self) -> pa.Schema:
        return self.input.schema

    @property
    def partitioning(self) -> Partitioning:
        return self.input.partitioning


@dataclass(frozen=True, slots=True)
class Lifetime(SameRows):
    """A step that changes lifetimes and keeps the payload."""

    change: LifetimeChange
    label: str = ""
    #: Whether it emits start edges and end edges (:mod:`rstream.items.edges`). A chop only reads
    #: them: it emits whole lifetimes.
    edges: bool = False

    def operator(self) -> LifetimeChange | EdgeChop | EdgeExtend:
        if not self.edges:
            return self.change
        match self.change:
            case Chop(period_us=period, offset_us=offset):
                return EdgeChop(period, offset)
            case Extend(duration_us=by) | ExtendBy(column=by):
                return EdgeExtend(by)
            case _:
                raise AssertionError(f"{self.change} does not read edges")

    takes_dictionaries = True

    def describe(self) -> str:
        is_chop = isinstance(self.change, Chop)
        living = " of living rows" if is_chop else ", rows at once"
        return f"{self._described()}{living if self.edges else ''}"

    def _described(self) -> str:
        match self.change:
            case Begins():
                return "point at begin"
            case Shift(duration_us=d):
                return f"shift {format_us(d)}"
            case SetDuration(duration_us=d):
                return f"set duration {format_us(d)}"
            case Extend(duration_us=d) if d == INF_TIME:
                return "live for ever"
            case Extend(duration_us=d):
                return f"extend {format_us(d)}"
            case ExtendBy(column=column):
                return f"live on for {column}"
            case PointAtEnd():
                return "point at end"
            case Chop(period_us=period, offset_us=offset):
                start = f" from {format_us(offset)}" if offset else ""
                return f"chop {format_us(period)}{start}"

    def columns_needed(self, wanted: Set[str]) -> tuple[Set[str], ...]:
        return (wanted | {self.change.column} if isinstance(self.change, ExtendBy) else wanted,)

    @property
    def is_stateless(self) -> bool:
        changes = Begins | Shift | SetDuration | Extend | ExtendBy
        return not self.edges and isinstance(self.change, changes)

    @property
    def is_point(self) -> bool:
        match self.change:
            case PointAtEnd() | Begins():
                return True
            case SetDuration(duration_us=length):
                return length == 1
            case Chop(period_us=period):
                return period == 1 or self.input.is_point
            case Extend(duration_us=length):
                return length <= 0 and self.input.is_point
            case ExtendBy():
                return False
            case Shift():
                return self.input.is_point


@dataclass(frozen=True, slots=True)
class Stitch(SameRows):
    """Merges events of a key (columns ``on``) that touch or overlap into one event."""

    on: tuple[str, ...]
    label: str = ""
    #: Whether rows come when they begin, and their ends later.
    edges: bool = False

    def operator(self) -> stitch.Stitch | EdgeAggregate:
        # With edges ``on`` has all columns, so this is grouping without an aggregate.
        if not self.edges:
            return stitch.Stitch(self.on)
        return EdgeAggregate(tuple(self.schema.names), (), by_arrival=True)

    stage_kind = "stitch"

    def describe(self) -> str:
        by = f"by {', '.join(self.on)}" if self.on else "all"
        return f"stitch {by}{with_edges(self.edges)}"

    def columns_needed(self, wanted: Set[str]) -> tuple[Set[str], ...]:
        return (wanted | set(self.on),)

    @property
    def input_keys(self) -> tuple[InputKeys, ...]:
        return (self.on,)


class _PickedRows(SameRows):
    """Base of a step that drops or reorders rows."""

    __slots__ = ()

    takes_dictionaries = True
    keeps_lifetimes = True


@dataclass(frozen=True, slots=True)
class Distinct(_PickedRows):
    """Keeps one event per value of columns ``on`` within ``within_us`` of its start."""

    on: tuple[str, ...]
    within_us: int
    label: str = ""
    #: Whether rows come when they begin, and their ends later.
    edges: bool = False

    def operator(self) -> Deduplicate | EdgeOfBegins:
        kept = Deduplicate(self.on, self.within_us)
        return EdgeOfBegins(kept) if self.edges else kept

    stage_kind = "deduplicate"

    def describe(self) -> str:
        within = "" if self.within_us == INF_TIME else f" within {format_us(self.within_us)}"
        return f"deduplicate by {', '.join(self.on)}{within}{with_edges(self.edges)}"

    def columns_needed(self, wanted: Set[str]) -> tuple[Set[str], ...]:
        return (wanted | set(self.on),)

    @property
    def input_keys(self) -> tuple[InputKeys, ...]:
        return (self.on,)


@dataclass(frozen=True, slots=True)
class Sorted(_PickedRows):
    """Orders events that start together by columns ``by``."""

    by: tuple[str, ...]
    #: Per column: whether it is descending, and whether nulls come first.
    ways: tuple[tuple[bool, bool], ...]
    label: str = ""
    #: Only rows that are equal in these columns need the order; empty: all rows.
    keys: tuple[str, ...] = ()

    def operator(self) -> SortTogether:
        return SortTogether(self.by, self.ways)

    stage_kind = "sort"

    def describe(self) -> str:
        orders = (
            f"{name}{' desc' if down else ''}{' nulls first' if first else ''}"
            for name, (down, first) in zip(self.by, self.ways, strict=True)
        )
        of = f" of {', '.join(self.keys)}" if self.keys else ""
        return f"sort those{of} that start together by {', '.join(orders)}"

    def columns_needed(self, wanted: Set[str]) -> tuple[Set[str], ...]:
        return (wanted | set(self.by) | set(self.keys),)

    @property
    def input_keys(self) -> tuple[InputKeys, ...]:
        return (self.keys,)


@dataclass(frozen=True, slots=True)
class Limited(_PickedRows):
    """The first ``rows`` events of the stream, in its order."""

    rows: int
    label: str = ""
    #: Whether rows come when they begin, and their ends later.
    edges: bool = False

    def operator(self) -> Limit | EdgeOfBegins:
        return EdgeOfBegins(Limit(self.rows)) if self.edges else Limit(self.rows)

    stage_kind = "limit"

    def describe(self) -> str:
        return f"limit {self.rows:,}{with_edges(self.edges)}"

    def columns_needed(self, wanted: Set[str]) -> tuple[Set[str], ...]:
        return (wanted,)

    @property
    def input_keys(self) -> tuple[InputKeys, ...]:
        return ((),)


@dataclass(frozen=True, slots=True)
class Extremes(_PickedRows):
    """Keeps, of events with equal lifetimes, those with the greatest or least ``column``."""

    column: str
    is_max: bool
    label: str = ""

    def operator(self) -> extremes.Extremes:
        return extremes.Extremes(self.column, self.is_max)

    def describe(self) -> str:
        return f"keep {'greatest' if self.is_max else 'least'} {self.column} of a lifetime"

    def columns_needed(self, wanted: Set[str]) -> tuple[Set[str], ...]:
        return (wanted | {self.column},)
