"""A filter right behind a source is asked by the source, before it orders its rows.

What the filter would drop need not be sorted. A stable sort of what is kept is what is kept of the
sorted, so the output is the same, item for item. Only a predicate that is total may be asked: it
fails for no row, not even for one that is late, and reads no lifetime, which lateness may change.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rvertex.operators.filter import Filter

if TYPE_CHECKING:
    from planner.physical.stage_builder import StageBuilder


def filter_early(builder: StageBuilder) -> None:
    """Put the first filter of a source's stage into the source."""
    first = builder.operators[0] if builder.operators else None
    if not builder.partitions or not isinstance(first, Filter) or not first.is_total:
        return
    del builder.operators[0]
    builder.partitions = tuple(
        replace(part, spec=replace(part.spec, keep=first.predicate)) for part in builder.partitions
    )
