"""Estimates each part of a plan before it runs: rows, bytes, state and core seconds.

Estimates are computed from the sources up. Those of a source come from its files and from hints;
without either they are assumed, and marked so. Rates are per second of *event time*: a job that
reads files runs faster than that, a paced or live job runs at that rate.

Work is in seconds of one core of a small machine of 2025; only ratios matter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import TYPE_CHECKING

from planner.cost.per_row import (
    EXPLODE_FACTOR,
    LIFETIME_BYTES,
    lane_bytes,
    read_us,
    width_bytes,
    work_us,
)
from planner.cost.selectivity import selectivity
from planner.expressions.nodes import Column, Literal
from planner.logical import nodes as logical
from planner.logical.traversal import NodeMap, topological
from planner.logical.windows import CountWindow, RunningSession, SessionWindow
from rvertex.operators.lifetimes.chop import Chop
from rvertex.operators.lifetimes.extend import Extend
from rvertex.operators.lifetimes.point_at_end import PointAtEnd
from rvertex.operators.lifetimes.set_duration import SetDuration

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from planner.cost.statistics import Statistics
    from rvertex.sources.spec import SourceSpec
    from rvertex.sources.statistics import ColumnSample, SourceStatistics

US_PER_S = 1e6
#: Assumptions for a source without statistics.
ROWS_ASSUMED, SPAN_S_ASSUMED, DISTINCT_ASSUMED = 1e6, 3600.0, 1000.0
#: The longest lifetime in estimates, us: an event without an end is valid for the whole input.
LIFETIME_US_MAX = 1e16
#: The share of a window's results that is expected to remain after ``keep_extremes``.
_EXTREME_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class Estimate:
    """The output stream of a node, and the cost of the node itself."""

    rows: float
    #: Event time from the first to the last start, s; at least 1 us.
    span_s: float
    #: Mean lifetime, us.
    lifetime_us: float
    #: Bytes per row in memory by payload column.
    column_bytes: Mapping[str, float]
    #: The number of distinct values by column, where known.
    distinct: Mapping[str, float]
    #: The number of input rows of the node.
    rows_in: float
    core_s: float
    state_bytes: float
    #: Whether a source that it depends on has no statistics.
    is_assumed: bool = False

    @property
    def rows_per_s(self) -> float:
        """Events per second of event time."""
        return self.rows / self.span_s

    @property
    def row_bytes(self) -> float:
        return LIFETIME_BYTES + sum(self.column_bytes.values())

    @property
    def bytes(self) -> float:
        return self.rows * self.row_bytes

    @property
    def alive_rows(self) -> float:
        """Rows that are valid at an instant."""
        return min(self.rows, self.rows_per_s * self.lifetime_us / US_PER_S)

    def groups(self, keys: tuple[str, ...]) -> float:
        """Return the number of distinct values of the keys together."""
        count = 1.0
        for key in keys:
            count *= self.distinct.get(key, DISTINCT_ASSUMED)
        return max(1.0, min(count, self.rows))


def estimates(root: logical.LogicalNode, known: Statistics) -> NodeMap[Estimate]:
    """Return an estimate for every node."""
    estimated: NodeMap[Estimate] = NodeMap()
    for node in topological(root):
        inputs = [estimated[child] for child in node.inputs]
        estimated[node] = (
            _source(node, known) if isinstance(node, logical.Source) else estimate_of(node, inputs)
        )
    return estimated


def estimate_of(node: logical.LogicalNode, inputs: list[Estimate]) -> Estimate:
    """Return the estimate of a node, given those of its inputs."""
    made = _stream(node, inputs)
    rows_in = sum(e.rows for e in inputs)
    return replace(
        made,
        column_bytes=_widths(node.schema, made.column_bytes),
        rows_in=rows_in,
        core_s=work_us(node, rows_in, made.rows) / US_PER_S,
        state_bytes=_state_bytes(node, inputs, made),
        is_assumed=any(e.is_assumed for e in inputs),
    )


def _widths(schema: pa.Schema, known: Mapping[str, float]) -> dict[str, float]:
    return {f.name: known.get(f.name, width_bytes(f.type)) for f in schema}


def _stream(node: logical.LogicalNode, inputs: list[Estimate]) -> Estimate:
    """Return rows, lifetimes, widths and distinct values of the output."""
    below = inputs[0]
    match node:
        case logical.Filter(predicate=predicate):
            return _scaled(below, selectivity(predicate, below.distinct))
        case logical.Project(columns=columns):
            origins = {name: e.name for name, e in columns if isinstance(e, Column)}
            constant = {name: 1.0 for name, e in columns if isinstance(e, Literal)}
            return replace(
                below,
                column_bytes=_renamed(below.column_bytes, origins),
                distinct={**_renamed(below.distinct, origins), **constant},
            )
        case logical.Explode(column=column):
            rest = {name: n for name, n in below.distinct.items() if name != column}
            return replace(below, rows=below.rows * EXPLODE_FACTOR, distinct=rest)
        case logical.Union():
            return _united(inputs)
        case logical.Join() | logical.IntervalJoin():
            return _joined(node, *inputs)
        case logical.AsOf():
            origins = {out: column for side, column, out in node.columns if side == "left"}
            widths = {name: width for e in inputs[::-1] for name, width in e.column_bytes.items()}
            return replace(below, column_bytes=widths, distinct=_renamed(below.distinct, origins))
        case logical.Lifetime():
            return _with_lifetime(node, below)
        case logical.Extremes():
            return _scaled(below, _EXTREME_SHARE)
        case logical.Distinct(on=on):
            return replace(below, rows=max(below.groups(on), below.rows / 2))
        case logical.Limited(rows=rows):
            return replace(below, rows=min(float(rows), below.rows))
        case logical.Stitch(on=on):
            return replace(below, rows=max(below.groups(on), below.rows / 4))
        case logical.WindowAgg():
            return _windowed(node, below)
        case logical.DataWindowAgg():
            return _of_data_windows(node, below)
        case _:
            return below


def _renamed(known: Mapping[str, float], origins: Mapping[str, str]) -> dict[str, float]:
    return {name: known[old] for name, old in origins.items() if old in known}


def _scaled(below: Estimate, share: float) -> Estimate:
    rows = max(1.0, below.rows * share) if below.rows else 0.0
    return replace(below, rows=rows, distinct=_at_most(below.distinct, rows))


def _at_most(distinct: Mapping[str, float], rows: float) -> dict[str, float]:
    return {name: min(n, rows) for name, n in distinct.items()}


def _united(inputs: list[Estimate]) -> Estimate:
    rows = sum(e.rows for e in inputs)
    weight = max(1.0, rows)
    names = [n for n in inputs[0].distinct if all(n in e.distinct for e in inputs)]
    return replace(
        inputs[0],
        rows=rows,
        span_s=max(e.span_s for e in inputs),
        lifetime_us=sum(e.lifetime_us * e.rows for e in inputs) / weight,
        distinct={n: max(e.distinct[n] for e in inputs) for n in names},
    )


def _joined(node: logical.Join | logical.IntervalJoin, left: Estimate, right: Estimate) -> Estimate:
    """Estimate pairs: a left event pairs with right events of its key whose lifetimes overlap."""
    if isinstance(node, logical.IntervalJoin):
        left, right = (replace(e, lifetime_us=us) for e, us in _waiting(node, left, right))
    keys = max(left.groups(node.left_on), right.groups(node.right_on))
    span_s = max(left.span_s, right.span_s)
    together_us = min(left.lifetime_us + right.lifetime_us, span_s * US_PER_S)
    pairs = left.rows * right.rows / span_s * (together_us / US_PER_S) / keys
    alone = {"left": left.rows, "right": right.rows, "full": left.rows + right.rows}
    pairs = pairs + alone.get(node.how, 0.0)
    rows = left.rows if node.how in ("semi", "anti") else pairs
    sides = {"left": left, "right": right}
    distinct = {
        name: sides[side].distinct[column]
        for side, column, name in node.columns
        if column in sides[side].distinct
    }
    widths = {
        name: sides[side].column_bytes[column]
        for side, column, name in node.columns
        if column in sides[side].column_bytes
    }
    lifetime_us = (
        1.0
        if isinstance(node, logical.IntervalJoin)
        else (min(left.lifetime_us, right.lifetime_us) if node.how == "inner" else left.lifetime_us)
    )
    return replace(
        left,
        rows=rows,
        span_s=span_s,
        lifetime_us=lifetime_us,
        column_bytes=widths,
        distinct=_at_most(distinct, rows),
    )


def _waiting(
    node: logical.IntervalJoin, left: Estimate, right: Estimate
) -> tuple[tuple[Estimate, float], ...]:
    """Return for each side its rows, and how long, in us, they wait for matches in the state."""
    lags = (node.lag_us("left")[1], node.lag_us("right")[1])
    return tuple((e, float(max(1, lag))) for e, lag in zip((left, right), lags, strict=True))


def _with_lifetime(node: logical.Lifetime, below: Estimate) -> Estimate:
    match node.change:
        case SetDuration(duration_us=d):
            return replace(below, lifetime_us=float(d))
        case Extend(duration_us=d):
            return replace(below, lifetime_us=max(1.0, below.lifetime_us + d))
        case PointAtEnd():
            return replace(below, lifetime_us=1.0)
        case Chop(period_us=period):
            pieces = below.lifetime_us / period + 1.0
            rows = below.rows * min(pieces, 1e6)
            return replace(below, rows=rows, lifetime_us=min(below.lifetime_us, float(period)))
        case _:
            return below


def _windowed(node: logical.WindowAgg, below: Estimate) -> Estimate:
    """Estimate one row per window and group with events; partial results: per pane and group."""
    if node.phase == "final":
        return replace(below, lifetime_us=float(node.size_us))
    overlaps = (
        (node.size_us + below.lifetime_us) / node.every_us if node.phase == "complete" else 1.0
    )
    windows = below.span_s * US_PER_S / node.every_us + 1.0
    rows = min(below.rows * max(1.0, overlaps), windows * below.groups(node.keys))
    kept = {key: below.distinct[key] for key in node.keys if key in below.distinct}
    return replace(below, rows=rows, lifetime_us=float(node.size_us), distinct=kept)


def _of_data_windows(node: logical.DataWindowAgg, below: Estimate) -> Estimate:
    kept = {key: below.distinct[key] for key in node.keys if key in below.distinct}
    match node.window:
        case CountWindow(count=count):
            rows = below.rows / count
        case SessionWindow() if node.phase == "partial":
            panes = below.span_s * US_PER_S / node.pane_us + 1.0
            rows = min(below.rows, panes * below.groups(node.keys))
        case SessionWindow():
            rows = max(below.groups(node.keys), below.rows / 10)
        case RunningSession():
            rows = below.rows
        case _ if node.endless:
            rows = below.rows
        case _:
            rows = 2 * below.rows
    return replace(below, rows=rows, distinct=_at_most(kept, rows))


def _state_bytes(node: logical.LogicalNode, inputs: list[Estimate], made: Estimate) -> float:
    """Estimate the bytes that the node keeps at an instant."""
    match node:
        case logical.Join() | logical.Clip():
            return sum(e.alive_rows * e.row_bytes for e in inputs)
        case logical.IntervalJoin():
            waiting = (replace(e, lifetime_us=us) for e, us in _waiting(node, *inputs))
            return sum(e.alive_rows * e.row_bytes for e in waiting)
        case logical.AsOf(tolerance_us=tolerance_us):
            left, right = inputs
            if tolerance_us is None:
                return right.groups(node.right_on) * right.row_bytes
            reach_s = tolerance_us / US_PER_S
            waits = 0.0 if node.strategy == "backward" else left.rows_per_s * reach_s
            held = min(right.rows, right.rows_per_s * reach_s) * right.row_bytes
            return min(left.rows, waits) * left.row_bytes + held
        case logical.Stitch(on=on) | logical.Distinct(on=on):
            return inputs[0].groups(on) * made.row_bytes
        case logical.Over():
            return _framed_rows(node, inputs[0]) * inputs[0].row_bytes
        case logical.Lifetime() if not node.is_stateless:
            return inputs[0].alive_rows * inputs[0].row_bytes
        case logical.WindowAgg():
            open_windows = node.size_us / node.every_us + 1.0
            if not node.can_be_split:
                held = inputs[0].rows_per_s * (node.size_us + inputs[0].lifetime_us) / US_PER_S
                return min(inputs[0].rows, held) * inputs[0].row_bytes
            per_group = lane_bytes(len(node.aggregates)) + made.row_bytes
            return min(inputs[0].groups(node.keys) * open_windows, inputs[0].rows) * per_group
        case logical.DataWindowAgg() if node.runs:
            return inputs[0].groups(node.keys) * (lane_bytes(len(node.aggregates)) + made.row_bytes)
        case logical.DataWindowAgg():
            return min(inputs[0].rows, 10 * inputs[0].groups(node.keys)) * inputs[0].row_bytes
        case _:
            return 0.0


def _framed_rows(node: logical.Over, below: Estimate) -> float:
    """Return how many rows later frames may include."""
    groups = below.groups(node.keys)
    if node.first is None:
        return groups
    held = groups * node.first if node.rows else below.rows_per_s * node.first / US_PER_S
    return min(below.rows, held)


def _source(node: logical.Source, statistics: Statistics) -> Estimate:
    stats = statistics.of(node.spec)
    rows = float(stats.rows) if stats is not None and stats.rows is not None else ROWS_ASSUMED
    span_s = _span_s(stats, node.hints.rate_per_s, rows)
    made = Estimate(
        rows=rows,
        span_s=span_s,
        lifetime_us=_lifetime_us(node.spec, stats),
        column_bytes={},
        distinct={},
        rows_in=rows,
        core_s=rows * read_us(node.spec) / US_PER_S,
        state_bytes=0.0,
        is_assumed=stats is None or stats.rows is None,
    )
    columns = stats.columns if stats is not None else {}
    sampled = stats.sample_rows if stats is not None else 0
    known = {n: c.bytes_per_row for n, c in columns.items()}
    made = replace(
        made,
        column_bytes=_widths(node.schema, known),
        distinct={
            **{n: _distinct(c, sampled, rows) for n, c in columns.items() if sampled},
            **{name: float(count) for name, count in node.hints.keys},
        },
    )
    delay_us = stats.delay_us if stats and node.spec.delay_origin == "auto" else node.spec.delay_us
    held_s = min(delay_us / US_PER_S, made.span_s)
    return replace(made, state_bytes=made.rows_per_s * held_s * made.row_bytes)


def _span_s(statistics: SourceStatistics | None, rate_per_s: float | None, rows: float) -> float:
    if rate_per_s is not None:
        return max(rows / rate_per_s, 1 / US_PER_S)
    if statistics is None or statistics.first_us is None or statistics.last_us is None:
        return SPAN_S_ASSUMED
    return (statistics.last_us - statistics.first_us + 1) / US_PER_S


def _lifetime_us(spec: SourceSpec, statistics: SourceStatistics | None) -> float:
    if spec.length_us is not None:
        return float(spec.length_us)
    if statistics is not None:
        return min(statistics.mean_lifetime_us, LIFETIME_US_MAX)
    return float(spec.max_duration_us or 1)


def _distinct(column: ColumnSample, sampled: int, rows: float) -> float:
    """Estimate the distinct values of ``rows`` rows from a sample (guaranteed-error estimator).

    Each value that the sample has once stands for several.
    """
    repeated = column.distinct - column.singletons
    scale = sqrt(max(1.0, rows / sampled))
    return max(1.0, min(rows, repeated + column.singletons * scale))
