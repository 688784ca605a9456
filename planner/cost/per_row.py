"""The cost of a row, by kind of work: core microseconds and bytes.

The numbers are rough on purpose: measured on whole jobs and rounded up, so they include a share of
the cost of hosts and streams. ``benchmarks/bench_operator_costs.py`` measures the operators alone
and prints both: most take a third to nine tenths of the number here, steps that work row by row
less than a fifth, ``clip`` a sixth, ``chop`` twice as much. The model's decisions depend on orders
of magnitude only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.expressions.nodes import Column
from planner.logical import nodes as logical
from rstream.limits import StreamLimits
from rvertex.sources.formats.registry import FORMATS

if TYPE_CHECKING:
    import pyarrow as pa

    from rvertex.sources.spec import SourceSpec

#: The size of ``_vs`` and ``_ve``, bytes.
LIFETIME_BYTES = 16.0
#: Elements per list, if there are no statistics.
EXPLODE_FACTOR = 4.0
#: The rate of flushing to Parquet and uploading, bytes/s; the cost of sending a row, us.
FLUSH_BYTES_PER_S, EXCHANGE_US = 200e6, 0.05
#: The cost of opening, closing and naming a segment, s, and the time between segments, s.
FLUSH_S_PER_SEGMENT, FLUSH_INTERVAL_S = 0.003, StreamLimits().flush_interval_ms / 1_000
#: The cost of a message whose format is not listed, us.
_MESSAGE_US = 2.0
_PER_COLUMN_US, _REORDER_US, MERGE_US = 0.006, 0.03, 0.04
_FILTER_US, _COMPUTE_US, _LIFETIME_US = 0.03, 0.015, 0.04
_GROUP_US, _LANE_US, _GATHER_US = 0.06, 0.02, 0.4
#: Rows per frame, if there are no statistics.
_FRAME_ROWS = 10.0
_JOIN_IN_US, _JOIN_OUT_US, _STITCH_US, _USER_US = 0.25, 0.1, 0.3, 3.0


def read_us(spec: SourceSpec) -> float:
    """Return the cost to read, convert and sort a row of a source, us."""
    columns = len(spec.columns) or len(spec.schema)
    row_us = FORMATS[spec.format].row_us if spec.format in FORMATS else _MESSAGE_US
    return row_us + _PER_COLUMN_US * columns + _REORDER_US


def work_us(node: object, rows_in: float, rows_out: float) -> float:
    """Return the cost of all rows of a node, us; nodes that are not listed are user code."""
    match node:
        case logical.Filter() | logical.Extremes():
            return rows_in * _FILTER_US
        case logical.Project(columns=columns):
            computed = sum(not isinstance(expr, Column) for _, expr in columns)
            return rows_in * _COMPUTE_US * computed
        case logical.Explode() | logical.Lifetime():
            return (rows_in + rows_out) * _LIFETIME_US / 2
        case logical.Source() | logical.Sink() | logical.Sinks() | logical.Union():
            return 0.0
        case logical.Exchange() | logical.Recover() | logical.Limited():
            return 0.0
        case logical.TwoSided():
            return rows_in * _JOIN_IN_US + rows_out * _JOIN_OUT_US
        case logical.Stitch() | logical.Sorted() | logical.Distinct():
            return rows_in * _STITCH_US
        case logical.Over(aggregates=aggregates, first=first):
            held = 1.0 if first is None else _FRAME_ROWS
            return rows_in * (_GATHER_US + _LANE_US * held * len(aggregates))
        case logical.WindowAgg(aggregates=aggregates):
            each = _GROUP_US + _LANE_US * len(aggregates)
            return rows_in * (each if node.can_be_split else each + _GATHER_US) + rows_out * each
        case logical.DataWindowAgg(aggregates=aggregates):
            each = _GROUP_US if node.phase == "partial" else _GATHER_US
            return rows_in * (each + _LANE_US * len(aggregates))
        case _:
            return rows_in * _USER_US


def width_bytes(kind: pa.DataType) -> float:
    """Return the size of a value in memory, if no sample shows it."""
    try:
        return float(kind.bit_width / 8)
    except ValueError:
        return 24.0


def lane_bytes(aggregates: int) -> float:
    """Return the size of a group's accumulators, bytes."""
    return 24.0 * (aggregates + 1)
