"""Moves a filter right behind a source into the source, which then sorts fewer rows.

A stable sort of the kept rows equals the kept rows of a stable sort, so the output is the same,
item for item. Only a total predicate can move: it fails for no row, not even for a late one, and
reads no lifetime, which lateness may change.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rvertex.operators.filter import Filter

if TYPE_CHECKING:
    from planner.physical.stage_builder import StageBuilder


def filter_early(builder: StageBuilder) -> None:
    """Move the first filter of a source's stage into the source."""
    first = builder.operators[0] if builder.operators else None
    if not builder.partitions or not isinstance(first, Filter) or not first.is_total:
        return
    del builder.operators[0]
    builder.partitions = tuple(
        replace(part, spec=replace(part.spec, keep=first.predicate)) for part in builder.partitions
    )
