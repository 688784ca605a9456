"""Code of users in the batch twin: the same functions, in Spark's Python workers, on Arrow batches.

What works row by row has a counterpart, with the same events passed over as poison: ``apply``, and
filters and projections with functions of users in them. A keyed process and an operator work on a
sequence of events, which a batch does not have, so they are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from planner import logical
from planner.spark_sql.errors import MARK, UnsupportedInBatchError
from planner.spark_sql.types import physical, type_name
from planner.stages import stateless_spec
from rstream.batch import VE, VS, event_schema
from rstream.errors import StreamEngineError
from rvertex.operators.apply import Apply
from rvertex.run import NO_CTIS, Run

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rvertex.operators.protocol import OperatorSpec


@dataclass(frozen=True, slots=True)
class _RowByRow:
    """A stateless operator over batches of a DataFrame; Spark sends it to its workers."""

    spec: OperatorSpec
    below: pa.Schema
    above: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches as they come; which rows come together is Spark's choice."""
        schema = event_schema(self.below)
        names = [VS, VE, *(f"c{i}" for i in range(len(self.above)))]
        for batch in batches:
            columns = [c.cast(f.type) for c, f in zip(batch.columns, schema, strict=True)]
            events = pa.RecordBatch.from_arrays(columns, schema=schema)
            try:
                made = self.spec.open([self.below]).process([Run(events, NO_CTIS)]).events
            except StreamEngineError as error:
                raise RuntimeError(f"{MARK}{error}{MARK}") from error
            stored = [column.cast(physical(column.type)) for column in made.columns]
            yield pa.RecordBatch.from_arrays(stored, names=names)


def with_user_code(node: logical.LogicalNode, df: Any, below: pa.Schema) -> Any:
    """The DataFrame of a node that holds code of users, over that of its input.

    Raises:
        UnsupportedInBatchError: it is a keyed process or an operator of the user's.
    """
    match node:
        case logical.UserStep(spec=Apply() as spec):
            made: OperatorSpec = spec
        case logical.Filter() | logical.Project():
            made = stateless_spec(node)
        case _:
            raise UnsupportedInBatchError(
                str(node), "it works on a sequence of events, which a batch does not have"
            )
    columns = [f"`{VS}` bigint", f"`{VE}` bigint"]
    columns += [f"c{i} {type_name(kind)}" for i, kind in enumerate(node.schema.types)]
    return df.mapInArrow(_RowByRow(made, below, node.schema), ", ".join(columns))
