"""What an aggregate function is: its lanes, how they are made and merged, and what comes of them.

A *lane* is an accumulator column that travels between the two phases of an aggregation. A function
needs one lane or several (a mean is a sum and a count), and functions share lanes (``variance`` and
``stddev`` differ in what they make of the same moments). So a :class:`LaneKind` says how values are
kept, an :class:`AggregateFunction` what is asked of them. The modules of the accumulators define
both, and :mod:`rvertex.aggregates.registry` has them by name.
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

#: What a function is told besides its column: ddof, k, q, a separator, or the user's object.
Argument = int | float | str | Custom | None


@dataclass(frozen=True, slots=True, eq=False)
class LaneKind:
    """How the values of a group are kept. ``name`` stands in the columns of partial rows."""

    name: str
    #: The lane's type over values of a type that the function takes.
    lane_type: Callable[[pa.DataType, Argument], pa.DataType]
    #: Makes the lane from events.
    accumulator: Callable[[Lane], Accumulator]
    #: Merges the lanes of partial rows; of a holistic function there are none.
    merger: Callable[[Lane], Accumulator]
    #: Over lanes of a type: the suffixes of the int64 columns that the lane has besides its own.
    suffixes: Callable[[pa.DataType], tuple[str, ...]] = lambda _: ()
    #: Over lanes of a type: what folds two lanes into one, exactly and in any order; None: nothing.
    fold: Callable[[pa.DataType], np.ufunc | None] = lambda _: None
    #: No result depends on the order of rows, but for those of equal ``vs``, even without a fold.
    is_order_free: bool = False
    #: What lanes merge to is such a lane again, and no longer than its parts make it.
    merges_again: bool = True
    #: Lanes of one column that differ in the argument are different lanes.
    keeps_argument: bool = True
    #: The lanes of so many columns may be kept as one, which then has the type that
    #: ``shared_type`` makes of their common one.
    columns_max: int = 1
    shared_type: Callable[[pa.DataType], pa.DataType] | None = None

    @property
    def shared_prefix(self) -> str:
        """How the name of a lane of several columns begins, before their names as JSON."""
        return f"@{self.name} of "


@dataclass(frozen=True, slots=True)
class Lane:
    """One accumulator: ``kind`` of ``column`` with values of ``type``, kept in column ``name``.

    ``others``: columns whose values are kept together with those of ``column``.
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
        told = "" if self.argument is None else f"; {self.argument}"
        return f"@{self.kind.name}({'' if self.column is None else self.column}{told})"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it is made of."""
        assert self.column is not None, self
        return (self.column, *self.others)

    @property
    def only_column(self) -> str:
        """The only column of a lane that is not shared."""
        (column,) = self.columns
        return column

    @property
    def side_names(self) -> tuple[str, ...]:
        """Its int64 columns beside ``name``: of times, or of carries."""
        return tuple(f"{self.name}.{suffix}" for suffix in self.kind.suffixes(self.type))

    @property
    def fields(self) -> list[pa.Field]:
        """The columns of the lane in partial rows."""
        sides = [pa.field(name, pa.int64()) for name in self.side_names]
        return [pa.field(self.name, self.type), *sides]

    @property
    def is_order_free(self) -> bool:
        """Whether it does not depend on the order of rows, but for those of equal ``vs``."""
        return self.kind.is_order_free or self.kind.fold(self.type) is not None

    def accumulator(self) -> Accumulator:
        """The accumulator that makes the lane from events."""
        return self.kind.accumulator(self)

    def merger(self) -> Accumulator:
        """The accumulator that merges the lane of partial rows."""
        return self.kind.merger(self)


@dataclass(frozen=True, slots=True)
class Merged:
    """The lanes of windows, merged: of each lane of a function its columns, in their order."""

    lanes: tuple[tuple[pa.Array, ...], ...]
    #: What was asked for.
    column: str | None
    output: str
    argument: Argument
    #: Which of the columns of a shared lane was asked for.
    place: int = 0

    @property
    def value(self) -> pa.Array:
        """The first column of the first lane."""
        return self.lanes[0][0]


@dataclass(frozen=True, slots=True, eq=False)
class AggregateFunction:
    """A function by the ``name`` that plans hold and ``explain`` shows."""

    name: str
    lanes: tuple[LaneKind, ...]
    #: Which types of values it takes, and what error messages call them.
    takes: Callable[[pa.DataType], bool] = lambda _: True
    needs: str = "a type that it takes"
    #: The result's type, given that of the first lane.
    result_type: Callable[[pa.DataType, Argument], pa.DataType] = lambda kind, _: kind
    #: The result column.
    finish: Callable[[Merged], pa.Array] = lambda merged: merged.value
    #: Whether it needs all values of a window at once; else its lanes merge.
    is_holistic: Callable[[Argument], bool] = lambda _: False
    #: Without a column it counts rows.
    takes_rows: bool = False
    #: Its values come with ranks, as :func:`rvertex.aggregates.ranked.arg_extremes.ranked_type`.
    takes_ranks: bool = False
    #: True and false count as 1 and 0; the planner converts them.
    adds_booleans: bool = False
    #: Of rows that tie it takes one by their sequence, which sessions' partial rows do not keep.
    needs_sequence: bool = False
    #: Its result shows in which order rows began, as a list does.
    shows_order: bool = False


#: What takes numbers, and what takes values that :func:`has_order` has, for messages.
A_NUMBER = "a number: cast it"
AN_ORDER = "a type that has an order: of a list, map or struct take an item"


def is_number(kind: pa.DataType) -> bool:
    """Integers, floats and decimals."""
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def has_order(kind: pa.DataType) -> bool:
    """Whether values of the type can be compared: no lists, structs or nulls."""
    return not (pa.types.is_nested(kind) or pa.types.is_null(kind))
