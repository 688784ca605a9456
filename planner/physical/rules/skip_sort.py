"""Finds sources that need not sort their rows, because no later operator depends on the order.

A source sorts rows that are out of order. If rows only pass filters and projections into counts,
sums of integers, extremes of integers and times, and values by rank, per window of points or per
session, they can be added to their panes unsorted
(:mod:`rvertex.operators.windows.panes.pane_aggregate`): the output is the same, item for item.
Panes must not be much shorter than the source's disorder and its grid of CTIs, or too many would be
open.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rvertex.operators.filter import Filter
from rvertex.operators.project import Project
from rvertex.operators.windows.arithmetic import Windows
from rvertex.operators.windows.hopping import PartialAggregate, WindowAggregate
from rvertex.operators.windows.session_phases import PartialSession

if TYPE_CHECKING:
    from planner.physical.stage_builder import StageBuilder
    from rvertex.sources.spec import SourceSpec

#: The greatest delay of a source, in panes.
_DELAY_PANES_MAX = 4


def skip_sort(builder: StageBuilder) -> None:
    """Turn off sorting in the stage's source, if that does not change the output."""
    if not builder.partitions or any(node.codes for node in builder.nodes):
        return
    at = next((k for k, op in enumerate(builder.operators) if not _is_by_row(op)), None)
    if at is None:
        return
    payload = builder.partitions[0].spec.schema
    for operator in builder.operators[:at]:
        payload = operator.output_schema([payload])
    aggregate = builder.operators[at]
    if not isinstance(aggregate, PartialAggregate | WindowAggregate | PartialSession):
        return
    if not aggregate.is_order_free(payload) or not _is_fine(builder.partitions[0].spec, aggregate):
        return
    builder.operators[at] = replace(aggregate, any_order=True)
    builder.shows[0] += ", not sorted"
    builder.partitions = tuple(
        replace(part, spec=replace(part.spec, sorts=False)) for part in builder.partitions
    )


def _is_by_row(operator: object) -> bool:
    return isinstance(operator, Filter | Project)


def _is_fine(
    spec: SourceSpec, aggregate: PartialAggregate | WindowAggregate | PartialSession
) -> bool:
    """Return whether only a few panes are open at the same time."""
    if spec.kind.gives_items or spec.delay_quantile is not None:
        return False
    if isinstance(aggregate, PartialSession):
        unit = aggregate.pane_us
    else:
        unit = Windows(aggregate.size_us, aggregate.every_us).pane.size
    return spec.cti_every_us <= unit and spec.delay_us <= _DELAY_PANES_MAX * unit
