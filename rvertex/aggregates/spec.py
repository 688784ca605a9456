"""What an aggregate is, and how it is taken apart into lanes and put together again.

An :class:`AggregateSpec` is lowered to *lanes*: the accumulator columns that travel between the two
phases (a mean is a sum and a count; two aggregates may share a lane). Lanes are merged by the same
accumulators that make them, except that counts are merged by summing and first/last by time.

Semantics: ``count`` without a column counts rows; all others skip nulls and are null where nothing
is left (``count`` and ``count_distinct``: 0), but ``first``, ``last`` and user aggregates include
nulls. NaN is greater than every number. The functions of :data:`GATHERED` see all values of a
window at once (:mod:`rvertex.aggregates.holistic`), so they are never taken apart into phases or
panes; those of :mod:`rvertex.aggregates.mergeable` are, and a user's aggregate with ``merge``
(:mod:`rvertex.aggregates.user_defined`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.dictionaries import plain_type
from rvertex.aggregates.accumulators import (
    Accumulator,
    CountRows,
    CountValues,
    Extreme,
    MergedCounts,
    ProductFloat,
    SumFloat,
    is_numpy_ordered,
)
from rvertex.aggregates.arg_extremes import (
    Ranked,
    has_numbers,
    is_ranked_type,
    plain_ranked,
    value_type,
    values_of,
)
from rvertex.aggregates.arg_values import RankedByValue
from rvertex.aggregates.arrow_accumulators import ArrowFold, Pick
from rvertex.aggregates.distinct import COLUMNS_MAX
from rvertex.aggregates.exact_sums import ExactSum, exact_means, has_carry
from rvertex.aggregates.holistic import GATHERED, Gathered, gathered_type
from rvertex.aggregates.mergeable import MERGED, lane_of, lane_type, open_distinct, open_lane
from rvertex.aggregates.mergeable import result as merged_result
from rvertex.aggregates.user_defined import Custom, UserFold, user_results
from rvertex.errors import OperatorTypeError, SumOverflowError, UnknownColumnError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: Over values of :func:`rvertex.aggregates.arg_extremes.ranked_type`: the one of the greatest or
#: least rank.
RANKED = ("max_by", "min_by")
FUNCTIONS = (
    *("count", "sum", "product", "mean", "min", "max", "first", "last"),
    *RANKED,
    *MERGED,
    *GATHERED,
)
#: How a lane of several columns is named, in front of their names as JSON.
_TOGETHER = "@distinct of "
_MERGED_LANES = tuple(lane_of(function) for function in MERGED)
#: What a function is told besides its column: ddof, k, q, or the user's object.
Argument = int | float | Custom | None


@dataclass(frozen=True, slots=True)
class AggregateSpec:
    """One aggregate: ``output = function(column)``; ``column`` None only for ``count``."""

    function: str
    column: str | None
    output: str
    argument: Argument = None

    def __post_init__(self) -> None:
        if self.function not in FUNCTIONS:
            known = ", ".join(FUNCTIONS)
            raise OperatorTypeError(
                "aggregate", f"there is no {self.function!r}; there are {known}"
            )
        if self.column is None and self.function != "count":
            raise OperatorTypeError("aggregate", f"{self.function} needs a column")

    @property
    def is_gathered(self) -> bool:
        """Whether it needs all values of a window at once."""
        return self.function in GATHERED and not _merges(self.argument)


@dataclass(frozen=True, slots=True)
class Lane:
    """One accumulator: ``function(column)`` with values of ``type``, kept in column ``name``.

    ``others``: columns whose different values are kept together with those of ``column``.
    """

    function: str
    column: str | None
    type: pa.DataType
    argument: Argument = None
    others: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        if self.others:
            return _TOGETHER + json.dumps([self.column, *self.others])
        told = "" if self.argument is None else f"; {self.argument}"
        return f"@{self.function}({'' if self.column is None else self.column}{told})"

    @property
    def time_name(self) -> str:
        return f"{self.name}.vs"

    @property
    def carry_name(self) -> str | None:
        """The column of carries; None for what has none."""
        is_exact = self.function == "sum" and has_carry(self.type)
        return f"{self.name}.carry" if is_exact else None

    @property
    def fields(self) -> list[pa.Field]:
        """The columns of the lane in partial rows."""
        value = pa.field(self.name, self.type)
        if self.function in ("first", "last"):
            return [value, pa.field(self.time_name, pa.int64())]
        if self.carry_name is not None:
            return [value, pa.field(self.carry_name, pa.int64())]
        return [value]

    def accumulator(self) -> Accumulator:
        """The accumulator that makes the lane from events."""
        if self.function == "count":
            return CountRows() if self.column is None else CountValues(self.column)
        assert self.column is not None, self
        if isinstance(self.argument, Custom) and self.argument.merges:
            return UserFold(self.column, self.argument, merges=False)
        if self.function == "distinct":
            return open_distinct((self.column, *self.others), self.type)
        if self.function in _MERGED_LANES:
            return open_lane(self.function, self.column, self.type, self.argument, merges=False)
        if self.function in GATHERED:
            return Gathered(self.function, self.column, self.type, self.argument)
        return _folding(self.function, self.column, self.type)

    def merger(self) -> Accumulator:
        """The accumulator that merges the lane of partial rows."""
        if self.function in ("first", "last"):
            return Pick(self.name, self.type, is_last=self.function == "last", by=self.time_name)
        if isinstance(self.argument, Custom):
            return UserFold(self.name, self.argument, merges=True)
        if self.function == "distinct":
            return open_distinct((str(self.column), *self.others), self.type, self.name)
        if self.function in _MERGED_LANES:
            return open_lane(self.function, self.name, self.type, self.argument, merges=True)
        if self.function == "count":
            return MergedCounts(self.name)
        if self.carry_name is not None:
            return ExactSum(self.name, self.type, self.carry_name)
        return _folding(self.function, self.name, self.type)


def lanes_of(aggregates: Sequence[AggregateSpec], payload: pa.Schema) -> tuple[Lane, ...]:
    """The lanes that ``aggregates`` over events of ``payload`` need, each once.

    Raises:
        UnknownColumnError: an aggregate over a column that is not there.
        OperatorTypeError: a column of a type that the function cannot take.
    """
    lanes: dict[str, Lane] = {}
    for spec in aggregates:
        kind = None if spec.column is None else _column_type(payload, spec.column)
        for function in _lane_functions(spec.function):
            lane = _lane(spec, function, _lane_type(spec, function, kind))
            lanes[lane.name] = lane
    return _together(lanes.values())


def lanes_in(aggregates: Sequence[AggregateSpec], partial: pa.Schema) -> tuple[Lane, ...]:
    """The lanes of ``aggregates`` as found in the schema of partial rows."""
    lanes: dict[str, Lane] = {}
    together = _members(partial.names)
    for spec in aggregates:
        for function in _lane_functions(spec.function):
            name = _lane_name(spec, function)
            if name in together:
                (name, members) = together[name]
                kind = _column_type(partial, name)
                lanes[name] = Lane(function, members[0], kind, others=members[1:])
            else:
                lanes[name] = _lane(spec, function, _column_type(partial, name))
    return tuple(lanes.values())


def result_fields(aggregates: Sequence[AggregateSpec], lanes: Sequence[Lane]) -> list[pa.Field]:
    """The output columns of the aggregates."""
    types = {lane.name: lane.type for lane in lanes}
    return [pa.field(spec.output, _result_type(spec, types)) for spec in aggregates]


def _result_type(spec: AggregateSpec, types: Mapping[str, pa.DataType]) -> pa.DataType:
    if spec.function == "mean":
        return pa.float64()
    if isinstance(spec.argument, Custom):
        return spec.argument.target.type
    if spec.function == "count_distinct":
        return pa.int64()
    kind = types[_lane_name(spec, lane_of(spec.function))]
    if spec.function in ("variance", "stddev"):
        return pa.float64()
    return value_type(kind) if spec.function in RANKED else kind


def results(aggregates: Sequence[AggregateSpec], columns: Mapping[str, pa.Array]) -> list[pa.Array]:
    """The output columns, given the merged lanes by column name."""
    out = []
    together = _members(columns)
    for spec in aggregates:
        if spec.function in ("sum", "mean"):
            out.append(_added(spec, columns))
            continue
        name, place = _lane_name(spec, lane_of(spec.function)), 0
        if name in together:
            (name, members) = together[name]
            place = members.index(str(spec.column))
        column = columns[name]
        if spec.function in MERGED:
            column = merged_result(spec.function, column, spec.argument, place)
        if isinstance(spec.argument, Custom) and spec.argument.merges:
            column = user_results(spec.argument, column)
        out.append(values_of(column) if spec.function in RANKED else column)
    return out


def _together(lanes: Iterable[Lane]) -> tuple[Lane, ...]:
    """The lanes, those of different values of one type together, so many at a time."""
    out: list[Lane] = []
    last: dict[pa.DataType, int] = {}
    for lane in lanes:
        at = last.get(lane.type) if lane.function == "distinct" else None
        if at is not None and len(out[at].others) < COLUMNS_MAX - 1:
            out[at] = replace(out[at], others=(*out[at].others, str(lane.column)))
            continue
        if lane.function == "distinct":
            last[lane.type] = len(out)
        out.append(lane)
    return tuple(
        replace(lane, type=lane_type("distinct", lane.type.value_type, 1 + len(lane.others)))
        if lane.others
        else lane
        for lane in out
    )


def _members(names: Iterable[str]) -> dict[str, tuple[str, tuple[str, ...]]]:
    """By the name that a lane would have alone: the lane it is kept in, and the columns of that."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for name in names:
        if name.startswith(_TOGETHER):
            members = tuple(json.loads(name.removeprefix(_TOGETHER)))
            found |= {Lane("distinct", m, pa.null()).name: (name, members) for m in members}
    return found


def is_order_free(aggregates: Sequence[AggregateSpec], payload: pa.Schema) -> bool:
    """Whether no result depends on the order of rows, but for those of equal ``vs``.

    Sums of doubles do, and so do extremes of doubles: 0.0 and -0.0 are equal.
    """
    for lane in lanes_of(aggregates, payload):
        kind = lane.type
        is_exact = is_numpy_ordered(kind) and not pa.types.is_floating(kind)
        in_extremes = lane.function in ("min", "max") and is_exact
        in_sums = lane.function == "sum" and pa.types.is_integer(kind)
        if lane.function not in ("count", *RANKED) and not in_extremes and not in_sums:
            return False
    return True


def _merges(argument: Argument) -> bool:
    return isinstance(argument, Custom) and argument.merges


def _lane_functions(function: str) -> tuple[str, ...]:
    return ("sum", "count") if function == "mean" else (lane_of(function),)


def _lane(spec: AggregateSpec, function: str, kind: pa.DataType) -> Lane:
    """A lane of the aggregate; how moments are divided is no matter of the lane."""
    return Lane(function, spec.column, kind, None if function == "moments" else spec.argument)


def _lane_name(spec: AggregateSpec, function: str) -> str:
    return _lane(spec, function, pa.null()).name


def _column_type(payload: pa.Schema, column: str) -> pa.DataType:
    if column not in payload.names:
        raise UnknownColumnError("aggregate", column, tuple(payload.names))
    return plain_ranked(plain_type(payload.field(column).type))


def _lane_type(spec: AggregateSpec, function: str, kind: pa.DataType | None) -> pa.DataType:
    if function == "count":
        return pa.int64()
    assert kind is not None, spec
    if function == "sum":
        return _sum_type(spec, kind)
    if function == "product":
        _sum_type(spec, kind)
        return pa.float64()
    if isinstance(spec.argument, Custom) and spec.argument.merges:
        return spec.argument.state_type
    if function in _MERGED_LANES:
        if gathered_type(spec.function, kind, spec.argument) is None:
            raise _wrong_type(spec, kind, "a type that it takes")
        return lane_type(function, kind)
    if function in GATHERED:
        found = gathered_type(function, kind, spec.argument)
        if found is None:
            raise _wrong_type(spec, kind, "a type that it takes")
        return found
    if function in RANKED and not is_ranked_type(kind):
        raise _wrong_type(spec, kind, "a value with its rank")
    if function in ("min", "max") and (pa.types.is_nested(kind) or pa.types.is_null(kind)):
        raise _wrong_type(spec, kind, "a type that has an order")
    return kind


def _sum_type(spec: AggregateSpec, kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_integer(kind):
        return pa.int64()
    if types.is_floating(kind):
        return pa.float64()
    if types.is_decimal256(kind):
        return pa.decimal256(76, kind.scale)
    if types.is_decimal(kind):
        return pa.decimal128(38, kind.scale)
    raise _wrong_type(spec, kind, "a number")


def _wrong_type(spec: AggregateSpec, kind: pa.DataType, needed: str) -> OperatorTypeError:
    return OperatorTypeError(spec.function, f"column {spec.column!r} is {kind}, not {needed}")


def _folding(function: str, column: str, kind: pa.DataType) -> Accumulator:
    if function in ("first", "last"):
        return Pick(column, kind, is_last=function == "last", by=None)
    if function in RANKED:
        ranked = Ranked if has_numbers(kind) else RankedByValue
        return ranked(column, kind, is_max=function == "max_by")
    if function == "product":
        return ProductFloat(column)
    if function == "sum":
        return ExactSum(column, kind) if has_carry(kind) else SumFloat(column)
    if is_numpy_ordered(kind):
        return Extreme(column, kind, is_max=function == "max")
    return ArrowFold(column, kind, function)


def _added(spec: AggregateSpec, columns: Mapping[str, pa.Array]) -> pa.Array:
    """A sum, which has to fit into its type, or a mean, which always does."""
    sums = columns[_lane_name(spec, "sum")]
    carry_name = _lane(spec, "sum", sums.type).carry_name
    carries = None if carry_name is None else columns[carry_name]
    if spec.function == "mean":
        counts = columns[_lane_name(spec, "count")]
        return _mean(sums, counts) if carries is None else exact_means(sums, carries, counts)
    if carries is not None and carries.to_numpy(zero_copy_only=False).any():
        raise SumOverflowError(str(spec.column), str(sums.type), spec.output)
    return sums


def _mean(sums: pa.Array, counts: pa.Array) -> pa.Array:
    empty = sums.is_null().to_numpy(zero_copy_only=False)
    total = sums.fill_null(0).to_numpy(zero_copy_only=False)
    count = counts.to_numpy(zero_copy_only=False)
    with np.errstate(all="ignore"):
        mean = total / np.maximum(count, 1)
    mean[np.isnan(mean)] = np.nan
    return pa.array(mean, mask=empty)
