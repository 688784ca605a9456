"""Logical nodes with two inputs, matched by key and time; part of :mod:`planner.logical.nodes`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Self

import pyarrow as pa

from planner.durations import format_us
from planner.expressions.bare_text import bare
from planner.logical.nodes.node import InputKeys, LogicalNode, with_edges
from planner.logical.nodes.partitioning import SINGLE, UNKNOWN, Partitioning
from planner.logical.nodes.row_steps import only

if TYPE_CHECKING:
    from collections.abc import Set

    from planner.expressions.nodes import Node
    from rvertex.operators.joins.as_of import Strategy

Side = Literal["left", "right"]
JoinKind = Literal["inner", "left", "anti"]
AsOfKind = Literal["inner", "left"]
IntervalKind = Literal["inner", "left", "right", "full", "semi", "anti"]


class TwoSided(LogicalNode):
    """Base of a node that matches left and right events by key."""

    __slots__ = ()
    left: LogicalNode
    right: LogicalNode
    left_on: tuple[str, ...]
    right_on: tuple[str, ...]

    @property
    def inputs(self) -> tuple[LogicalNode, ...]:
        return (self.left, self.right)

    def with_inputs(self, inputs: tuple[LogicalNode, ...]) -> Self:
        left, right = inputs
        return replace(self, left=left, right=right)

    @property
    def input_keys(self) -> tuple[InputKeys, ...]:
        return (self.left_on, self.right_on)

    @property
    def pairs(self) -> str:
        """The keys as text."""
        pairs = zip(self.left_on, self.right_on, strict=True)
        return ", ".join(a if a == b else f"{a} = {b}" for a, b in pairs)


class SideBySide(TwoSided):
    """Base of a node whose output has columns of both sides."""

    __slots__ = ()
    columns: tuple[tuple[Side, str, str], ...]
    #: Further columns that the node reads, in the form of ``columns``.
    reads: tuple[tuple[Side, str, str], ...] = ()

    def __post_init__(self) -> None:
        sides = {"left": self.left.schema, "right": self.right.schema}
        fields = [(name, sides[side].field(column).type) for side, column, name in self.columns]
        object.__setattr__(self, "schema", pa.schema(fields))

    def columns_needed(self, wanted: Set[str]) -> tuple[Set[str], ...]:
        entries = [*(entry for entry in self.columns if entry[2] in wanted), *self.reads]
        left = {column for side, column, _ in entries if side == "left"}
        right = {column for side, column, _ in entries if side == "right"}
        return (left | set(self.left_on), right | set(self.right_on))

    def narrowed(self, inputs: tuple[LogicalNode, ...], wanted: Set[str]) -> Self:
        """Drop input columns that are not needed, since the operator stores rows in its state."""
        entries = tuple(entry for entry in self.columns if entry[2] in wanted)
        needed = self.columns_needed(wanted)
        left, right = (only(child, names) for child, names in zip(inputs, needed, strict=True))
        return replace(self, left=left, right=right, columns=entries)


def _sides(left: str, right: str) -> tuple[tuple[Side, str], ...]:
    return (("left", left), ("right", right))


def keyed(
    columns: tuple[tuple[Side, str, str], ...],
    pairs: list[tuple[str, str]],
    kept: tuple[bool, bool],
) -> Partitioning:
    """Return the partitioning by ``pairs`` of keys; ``kept``: whether every row has each side."""
    keys: list[frozenset[str]] = []
    for left, right in pairs:
        wanted = [key for key, is_kept in zip(_sides(left, right), kept, strict=True) if is_kept]
        names = frozenset(output for side, column, output in columns if (side, column) in wanted)
        if not names:
            return UNKNOWN
        keys.append(names)
    return Partitioning(tuple(keys))


@dataclass(frozen=True, slots=True)
class Join(SideBySide):
    """Pairs with equal keys and overlapping lifetimes; a pair is valid for the overlap.

    "left" adds the left events for the time in which they have no match, with null in the right
    columns; "anti" emits only these, with left columns only. With ``where`` a pair is a match only
    if the condition is true. Inner joins have no ``where``: they have a filter above them.
    """

    left: LogicalNode
    right: LogicalNode
    left_on: tuple[str, ...]
    right_on: tuple[str, ...]
    #: Output columns: side, column there, name in the output.
    columns: tuple[tuple[Side, str, str], ...]
    how: JoinKind = "inner"
    label: str = ""
    where: Node | None = None
    #: The columns that ``where`` reads, as in ``columns``.
    reads: tuple[tuple[Side, str, str], ...] = ()
    #: Whether it emits start edges and end edges (:mod:`rstream.items.edges`).
    edges: bool = False
    schema: pa.Schema = field(init=False)

    def keeps(self, side: Side) -> bool:
        """Return whether every output row has a row of the side."""
        return side == "left" or self.how == "inner"

    def describe(self) -> str:
        kind = "" if self.how == "inner" else f"{self.how} "
        where = "" if self.where is None else f" where {bare(self.where)}"
        return f"temporal {kind}join on {self.pairs}{where}{with_edges(self.edges)}"

    @property
    def partitioning(self) -> Partitioning:
        """Return the partitioning by the keys, under every name of a key in the output.

        These are all keys, unless both sides are already partitioned by the same part of them.
        """
        sides = self.left.partitioning, self.right.partitioning
        if sides[0].is_single and sides[1].is_single:
            return SINGLE
        pairs = list(zip(self.left_on, self.right_on, strict=True))
        part = sides[0].positions(self.left_on)
        if part is not None and part == sides[1].positions(self.right_on):
            pairs = [pairs[i] for i in part]
        # Without a match the right key of a left join is null, so it does not decide the partition.
        return keyed(self.columns, pairs, (True, self.how == "inner"))

    @property
    def is_point(self) -> bool:
        """Whether a side has only points, since the overlap with a point is a point."""
        return self.left.is_point or (self.how == "inner" and self.right.is_point)


@dataclass(frozen=True, slots=True)
class IntervalJoin(SideBySide):
    """Pairs with equal keys whose starts are close; a pair is a point at the later start.

    ``right.vs - left.vs`` is in ``[lo_us, hi_us]``. A row without a match is a point at the last
    instant at which a match was possible. ``where`` is part of a match; inner joins have a filter
    above them instead.
    """

    left: LogicalNode
    right: LogicalNode
    left_on: tuple[str, ...]
    right_on: tuple[str, ...]
    #: Output columns: side, column there, name in the output.
    columns: tuple[tuple[Side, str, str], ...]
    lo_us: int
    hi_us: int
    how: IntervalKind = "inner"
    label: str = ""
    where: Node | None = None
    #: The columns that ``where`` reads, as in ``columns``.
    reads: tuple[tuple[Side, str, str], ...] = ()
    schema: pa.Schema = field(init=False)

    def describe(self) -> str:
        kind = "" if self.how == "inner" else f"{self.how} "
        where = "" if self.where is None else f" where {bare(self.where)}"
        bounds = f"{format_us(self.lo_us)} to {format_us(self.hi_us)}"
        return f"interval {kind}join on {self.pairs} within {bounds}{where}"

    def keeps(self, side: Side) -> bool:
        """Return whether every output row has a row of the side."""
        kinds = ("inner", "right") if side == "right" else ("inner", "left", "semi", "anti")
        return self.how in kinds

    def lag_us(self, side: Side) -> tuple[int, int]:
        """Return how much later than a row of the side its output starts, us: least and most."""
        lo, hi = (self.lo_us, self.hi_us) if side == "left" else (-self.hi_us, -self.lo_us)
        return max(lo, 0), max(hi, 0)

    @property
    def partitioning(self) -> Partitioning:
        """Return the partitioning by the keys, under the names of the sides that every row has."""
        if self.left.partitioning.is_single and self.right.partitioning.is_single:
            return SINGLE
        pairs = list(zip(self.left_on, self.right_on, strict=True))
        part = self.left.partitioning.positions(self.left_on)
        if part is not None and part == self.right.partitioning.positions(self.right_on):
            pairs = [pairs[i] for i in part]
        return keyed(self.columns, pairs, (self.keeps("left"), self.keeps("right")))

    is_point = True


@dataclass(frozen=True, slots=True)
class Clip(TwoSided):
    """Left events, each ended by the start of the first later right event with equal keys."""

    left: LogicalNode
    right: LogicalNode
    left_on: tuple[str, ...]
    right_on: tuple[str, ...]
    label: str = ""
    #: Whether it emits start edges and end edges (:mod:`rstream.items.edges`).
    edges: bool = False

    @property
    def schema(self) -> pa.Schema:
        return self.left.schema

    def describe(self) -> str:
        return f"clip on {self.pairs}{with_edges(self.edges)}"

    def columns_needed(self, wanted: Set[str]) -> tuple[Set[str], ...]:
        return (wanted | set(self.left_on), set(self.right_on))

    def narrowed(self, inputs: tuple[LogicalNode, ...], wanted: Set[str]) -> Clip:
        del wanted
        left, right = inputs
        return replace(self, left=left, right=only(right, set(self.right_on)))

    @property
    def partitioning(self) -> Partitioning:
        return self.left.partitioning

    @property
    def is_point(self) -> bool:
        return self.left.is_point


@dataclass(frozen=True, slots=True)
class AsOf(SideBySide):
    """Left events, each with the right event of its key that is nearest to its start."""

    left: LogicalNode
    right: LogicalNode
    left_on: tuple[str, ...]
    right_on: tuple[str, ...]
    #: Output columns: side, column there, name in the output.
    columns: tuple[tuple[Side, str, str], ...]
    strategy: Strategy
    tolerance_us: int | None
    how: AsOfKind
    label: str = ""
    #: Whether left rows have start edges and end edges (:mod:`rstream.items.edges`).
    edges: bool = False
    schema: pa.Schema = field(init=False)

    def describe(self) -> str:
        kind = "" if self.how == "inner" else f"{self.how} "
        within = "" if self.tolerance_us is None else f" within {format_us(self.tolerance_us)}"
        join = f"{self.strategy} as-of {kind}join on {self.pairs}{within}"
        return f"{join}{with_edges(self.edges)}"

    @property
    def partitioning(self) -> Partitioning:
        """Return the left input's partitioning: its events stay in their vertex."""
        names: dict[str, frozenset[str]] = {}
        for side, column, output in self.columns:
            if side == "left":
                names[column] = names.get(column, frozenset()) | {output}
        return self.left.partitioning.through(names)

    @property
    def is_point(self) -> bool:
        return self.left.is_point
