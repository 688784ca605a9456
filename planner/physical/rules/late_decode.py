"""Decodes the text values of ``max_by`` and ``min_by`` only for the rows that win.

Where text is carried as dictionaries (:mod:`planner.physical.dictionaries`), windows get plain
text. If a projection right in front of a window adds a rank to a value, only the best values are
needed, so only these are decoded. This changes the time, not the result.
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
    """Pass ranked text undecoded to the window aggregate of a source's stage."""
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
    """Return a ranked value without its decoding; return other columns unchanged."""
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
