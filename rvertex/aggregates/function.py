"""The definition of an aggregate function: its lanes, how to build and merge them, and its result.

A *lane* is an accumulator column that travels between the two phases of an aggregation. A function
needs one or several lanes (a mean is a sum and a count), and functions share lanes (``variance``
and ``stddev`` compute different results from the same moments). So a :class:`LaneKind` defines how
values are accumulated, and an :class:`AggregateFunction` defines the result. The modules of the
accumulators define both; :mod:`rvertex.aggregates.registry` lists them by name.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from rvertex.aggregates.user_defined import Custom

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from rvertex.aggregates.accumulators import Accumulator

#: A function's parameter besides its column: ddof, k, q, a separator, or an object of the user.
Argument = int | float | str | Custom | None


@dataclass(frozen=True, slots=True, eq=False)
class LaneKind:
    """Defines how the values of a group are accumulated.

    ``name`` is a part of lane column names.
    """

    name: str
    #: The lane's type, given the type of the values.
    lane_type: Callable[[pa.DataType, Argument], pa.DataType]
    #: Opens the accumulator that builds the lane from events.
    accumulator: Callable[[Lane], Accumulator]
    #: Opens the accumulator that merges lanes of partial rows; raises for holistic functions.
    merger: Callable[[Lane], Accumulator]
    #: Given the lane's type: suffixes of the names of its additional int64 columns.
    suffixes: Callable[[pa.DataType], tuple[str, ...]] = lambda _: ()
    #: Given the lane's type: the ufunc that merges two lanes exactly and in any order, or None.
    fold: Callable[[pa.DataType], np.ufunc | None] = lambda _: None
    #: Whether row order matters only among rows of equal ``vs``.
    is_order_free: bool = False
    #: Whether merged lanes can be merged again: they have this kind and no redundant entries.
    merges_again: bool = True
    #: Whether aggregates with different arguments need different lanes.
    keeps_argument: bool = True
    #: Most columns that may share one lane. A shared lane has the type that ``shared_type``
    #: returns for the lane type of a single column.
    columns_max: int = 1
    shared_type: Callable[[pa.DataType], pa.DataType] | None = None

    @property
    def shared_prefix(self) -> str:
        """The prefix of the name of a shared lane. The column names follow it, as JSON."""
        return f"@{self.name} of "


@dataclass(frozen=True, slots=True)
class Lane:
    """An accumulator of ``kind`` over ``column``, stored in a column ``name`` of type ``type``.

    ``others``: further columns that share this lane.
    """

    kind: LaneKind
    column: str | None
    type: pa.DataType
    argument: Argument = None
    others: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        if self.others:
            return self.kind.shared_prefix + json.dumps([self.column, *self.others])
        argument = "" if self.argument is None else f"; {self.argument}"
        return f"@{self.kind.name}({'' if self.column is None else self.column}{argument})"

    @property
    def columns(self) -> tuple[str, ...]:
        """The event columns that the lane accumulates."""
        assert self.column is not None, self
        return (self.column, *self.others)

    @property
    def only_column(self) -> str:
        """The event column of a lane that is not shared."""
        (column,) = self.columns
        return column

    @property
    def side_names(self) -> tuple[str, ...]:
        """The names of the additional int64 columns: times or carries."""
        return tuple(f"{self.name}.{suffix}" for suffix in self.kind.suffixes(self.type))

    @property
    def fields(self) -> list[pa.Field]:
        """The columns of the lane in partial rows."""
        sides = [pa.field(name, pa.int64()) for name in self.side_names]
        return [pa.field(self.name, self.type), *sides]

    @property
    def is_order_free(self) -> bool:
        """Whether row order matters only among rows of equal ``vs``."""
        return self.kind.is_order_free or self.kind.fold(self.type) is not None

    def accumulator(self) -> Accumulator:
        """Open the accumulator that builds the lane from events."""
        return self.kind.accumulator(self)

    def merger(self) -> Accumulator:
        """Open the accumulator that merges the lane of partial rows."""
        return self.kind.merger(self)


@dataclass(frozen=True, slots=True)
class Merged:
    """The merged lanes of an aggregate: a tuple of columns per lane, one value per window."""

    lanes: tuple[tuple[pa.Array, ...], ...]
    #: The aggregate's column, output name and argument.
    column: str | None
    output: str
    argument: Argument
    #: The index of ``column`` among the columns of a shared lane.
    place: int = 0

    @property
    def value(self) -> pa.Array:
        """The first column of the first lane."""
        return self.lanes[0][0]


@dataclass(frozen=True, slots=True, eq=False)
class AggregateFunction:
    """An aggregate function; ``name`` is its name in plans and in ``explain``."""

    name: str
    lanes: tuple[LaneKind, ...]
    #: Whether it accepts a type of values; and the name of the accepted types in error messages.
    takes: Callable[[pa.DataType], bool] = lambda _: True
    needs: str = "a type that it takes"
    #: The result's type, given the type of the first lane.
    result_type: Callable[[pa.DataType, Argument], pa.DataType] = lambda kind, _: kind
    #: Computes the result column from the merged lanes.
    finish: Callable[[Merged], pa.Array] = lambda merged: merged.value
    #: Whether it needs all values of a window at once. If not, partial lanes are merged.
    is_holistic: Callable[[Argument], bool] = lambda _: False
    #: Whether it works without a column, on rows.
    takes_rows: bool = False
    #: Whether its input has ranks: :func:`rvertex.aggregates.ranked.arg_extremes.ranked_type`.
    takes_ranks: bool = False
    #: Whether booleans count as 1 and 0; the planner converts them.
    adds_booleans: bool = False
    #: Whether row order decides ties. Partial rows of sessions lose that order.
    needs_sequence: bool = False
    #: Whether the result shows the order in which rows started, as a list does.
    shows_order: bool = False


#: Accepted types, as in error messages: numbers, and types for which :func:`has_order` is true.
A_NUMBER = "a number: cast it"
AN_ORDER = "a type that can be ordered: of a list, map or struct, use one item"


def is_number(kind: pa.DataType) -> bool:
    """Return whether the type is an integer, float or decimal."""
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def has_order(kind: pa.DataType) -> bool:
    """Return whether values of the type can be compared: false for lists, structs and nulls."""
    return not (pa.types.is_nested(kind) or pa.types.is_null(kind))
