"""Text by rank (``max_by``, ``min_by``) stays a dictionary until its row is the one that is taken.

Where text is carried as dictionaries (:mod:`planner.physical.dictionaries`), windows get it plain.
But of the values with a rank that a projection makes right in front of a window, only the best are
looked at, so it is these that are decoded. Nothing but the time it takes depends on it.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

from planner.expressions.nodes import Call, Column
from rstream.items.dictionaries import is_dictionary, plain_type
from rvertex.aggregates.ranked.arg_extremes import ranked_type
from rvertex.operators.project import Project
from rvertex.operators.windows.hopping import PartialAggregate, WindowAggregate

if TYPE_CHECKING:
    import pyarrow as pa

    from planner.physical.stage_builder import StageBuilder
    from rvertex.operators.protocol import Evaluator

_WINDOWS = (PartialAggregate, WindowAggregate)


def late_decode(builder: StageBuilder) -> None:
    """Let the window aggregate of a source's stage have its ranked text undecoded."""
    if not builder.partitions:
        return
    payload = builder.partitions[0].spec.schema
    for k, (operator, aggregate) in enumerate(itertools.pairwise(builder.operators)):
        if isinstance(operator, Project) and isinstance(aggregate, _WINDOWS):
            if aggregate.points and not any(a.is_holistic for a in aggregate.aggregates):
                builder.operators[k] = _with_ranked_text(operator, aggregate, payload)
            return
        payload = operator.output_schema([payload])


def _with_ranked_text(
    project: Project, aggregate: PartialAggregate | WindowAggregate, payload: pa.Schema
) -> Project:
    others = {a.column for a in aggregate.aggregates if not a.definition.takes_ranks}
    columns = tuple(
        (name, source if name in others else _undecoded(source, payload))
        for name, source in project.columns
    )
    return replace(project, columns=columns)


def _undecoded(source: Evaluator | str, payload: pa.Schema) -> Evaluator | str:
    """A value with its rank, the value as it is carried; anything else as it is."""
    if not isinstance(source, Call) or source.function != "ranked":
        return source
    rank, time, value = source.args
    if not isinstance(value, Column) or value.name not in payload.names:
        return source
    kind = payload.field(value.name).type
    if not is_dictionary(kind) or value.type != plain_type(kind):
        return source
    assert rank.type is not None, source
    args = (rank, time, replace(value, type=kind))
    return replace(source, args=args, type=ranked_type(rank.type, kind))
