"""The functions ``count``, ``sum``, ``product`` and ``mean``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rvertex.aggregates.accumulators import (
    CountRows,
    CountValues,
    MergedCounts,
    ProductFloat,
    SumFloat,
)
from rvertex.aggregates.exact_sums import ExactSum, exact_means, has_carry
from rvertex.aggregates.function import A_NUMBER, AggregateFunction, LaneKind, is_number
from rvertex.errors import SumOverflowError

if TYPE_CHECKING:
    from rvertex.aggregates.accumulators import Accumulator
    from rvertex.aggregates.function import Argument, Lane, Merged


def _sum_type(kind: pa.DataType, _: Argument) -> pa.DataType:
    types = pa.types
    if types.is_integer(kind):
        return pa.int64()
    if types.is_floating(kind):
        return pa.float64()
    if types.is_decimal256(kind):
        return pa.decimal256(76, kind.scale)
    assert types.is_decimal(kind), kind
    return pa.decimal128(38, kind.scale)


def _count(lane: Lane) -> Accumulator:
    return CountRows() if lane.column is None else CountValues(lane.column)


def _sum(lane: Lane) -> Accumulator:
    column = lane.only_column
    return ExactSum(column, lane.type) if has_carry(lane.type) else SumFloat(column)


def _merged_sum(lane: Lane) -> Accumulator:
    if not has_carry(lane.type):
        return SumFloat(lane.name)
    (carry,) = lane.side_names
    return ExactSum(lane.name, lane.type, carry)


def _fitting_sum(merged: Merged) -> pa.Array:
    """Return the sum. Raises SumOverflowError if it overflows its type."""
    sums, *carries = merged.lanes[0]
    if carries and carries[0].to_numpy(zero_copy_only=False).any():
        raise SumOverflowError(str(merged.column), str(sums.type), merged.output)
    return sums


def _mean(merged: Merged) -> pa.Array:
    """Return the mean, which cannot overflow."""
    (sums, *carries), (counts,) = merged.lanes
    if carries:
        return exact_means(sums, carries[0], counts)
    empty = sums.is_null().to_numpy(zero_copy_only=False)
    total = sums.fill_null(0).to_numpy(zero_copy_only=False)
    count = counts.to_numpy(zero_copy_only=False)
    with np.errstate(all="ignore"):
        mean = total / np.maximum(count, 1)
    mean[np.isnan(mean)] = np.nan
    return pa.array(mean, mask=empty)


_COUNTS = LaneKind(
    "count",
    lane_type=lambda *_: pa.int64(),
    accumulator=_count,
    merger=lambda lane: MergedCounts(lane.name),
    fold=lambda _: np.add,
)
_SUMS = LaneKind(
    "sum",
    lane_type=_sum_type,
    accumulator=_sum,
    merger=_merged_sum,
    suffixes=lambda kind: ("carry",) if has_carry(kind) else (),
    fold=lambda kind: np.add if pa.types.is_integer(kind) else None,
)
_PRODUCTS = LaneKind(
    "product",
    lane_type=lambda *_: pa.float64(),
    accumulator=lambda lane: ProductFloat(lane.only_column),
    merger=lambda lane: ProductFloat(lane.name),
)

FUNCTIONS = (
    AggregateFunction("count", (_COUNTS,), takes_rows=True),
    AggregateFunction(
        "sum",
        (_SUMS,),
        takes=is_number,
        needs=A_NUMBER,
        finish=_fitting_sum,
        adds_booleans=True,
    ),
    AggregateFunction("product", (_PRODUCTS,), takes=is_number, needs=A_NUMBER),
    AggregateFunction(
        "mean",
        (_SUMS, _COUNTS),
        takes=is_number,
        needs=A_NUMBER,
        result_type=lambda *_: pa.float64(),
        finish=_mean,
        adds_booleans=True,
    ),
)
