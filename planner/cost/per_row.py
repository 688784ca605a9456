"""What a row costs, by kind of work: core microseconds and bytes.

Rough by intention: chosen from whole jobs, rounded up, so that they hold a share of what hosts and
streams cost besides. ``benchmarks/bench_operator_costs.py`` measures the operators alone beside
them: most take a third to nine tenths of what stands here, steps that work row by row less than a
fifth, ``clip`` a sixth, ``chop`` twice as much. What the model decides follows from orders of
magnitude.
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

#: ``_vs`` and ``_ve``.
LIFETIME_BYTES = 16.0
#: Elements per list, where nothing is known.
EXPLODE_FACTOR = 4.0
#: Flushed as Parquet and uploaded, and sent to another vertex.
FLUSH_BYTES_PER_S, EXCHANGE_US = 200e6, 0.05
#: Opening, closing and naming segments.
FLUSH_S_PER_SEGMENT, FLUSH_INTERVAL_S = 0.003, StreamLimits().flush_interval_ms / 1_000
#: Where no format of files or streams says it.
_MESSAGE_US = 2.0
_PER_COLUMN_US, _REORDER_US, MERGE_US = 0.006, 0.03, 0.04
_FILTER_US, _COMPUTE_US, _LIFETIME_US = 0.03, 0.015, 0.04
_GROUP_US, _LANE_US, _GATHER_US = 0.06, 0.02, 0.4
#: Of a frame, where nothing is known.
_FRAME_ROWS = 10.0
_JOIN_IN_US, _JOIN_OUT_US, _STITCH_US, _USER_US = 0.25, 0.1, 0.3, 3.0


def read_us(spec: SourceSpec) -> float:
    """To read, convert and order a row of a source."""
    columns = len(spec.columns) or len(spec.schema)
    row_us = FORMATS[spec.format].row_us if spec.format in FORMATS else _MESSAGE_US
    return row_us + _PER_COLUMN_US * columns + _REORDER_US


def work_us(node: object, rows_in: float, rows_out: float) -> float:
    """All rows of a node together; what is not listed here is code of users."""
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
    """A value in memory, where no sample tells."""
    try:
        return float(kind.bit_width / 8)
    except ValueError:
        return 24.0


def lane_bytes(aggregates: int) -> float:
    """The accumulators of a group."""
    return 24.0 * (aggregates + 1)
