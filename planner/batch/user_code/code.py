"""User code in the batch twin: the same functions, in Spark's Python workers, on Arrow batches.

Code that works row by row (``apply``, filters and projections with user functions) gets Spark's
batches. A keyed process or an operator runs once per key over all its events, in the order of the
stream as far as the batch knows it. Poison events are skipped as in the stream.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from planner.batch.spark_sql.containers import restored
from planner.batch.spark_sql.frame import PLACE, Frame
from planner.batch.temporal.event_order import agreed, orders
from planner.batch.user_code.matches import match_rows
from planner.batch.user_code.operators import operator_rows
from planner.batch.user_code.processes import process_rows
from planner.expressions.spark.errors import MARK, UnsupportedInBatchError
from planner.expressions.spark.types import physical, type_name
from planner.logical import nodes as logical
from planner.physical.stages import stateless_spec
from rstream.clock import SystemClock
from rstream.errors import StreamEngineError
from rstream.items.batch import VE, VS, event_schema
from rvertex.checkpoint.value_log import World
from rvertex.events.arrays import as_one_array
from rvertex.events.run import NO_CTIS, Run
from rvertex.operators.ordered.matching.match import MatchRows
from rvertex.operators.user.apply import Apply
from rvertex.operators.user.call_once import CallOnce
from rvertex.operators.user.keyed_process import KeyedProcessing
from rvertex.operators.user.lookup import Lookup
from rvertex.user_code.context import ValueJournal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rvertex.operators.protocol import OperatorSpec
    from rvertex.operators.user.transform import UserOperator

_IS_EVENT = "_is_event"


@dataclass(frozen=True, slots=True)
class _RowByRow:
    """A stateless operator over batches of a DataFrame; Spark sends it to its workers."""

    spec: OperatorSpec
    below: pa.Schema
    above: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Process Spark's batches, whose sizes Spark chooses."""
        for batch in batches:
            events = _events(batch, self.below)
            try:
                made = self.spec.open([self.below]).process([Run(events, NO_CTIS)]).events
            except StreamEngineError as error:
                raise RuntimeError(f"{MARK}{error}{MARK}") from error
            yield _stored(made)


@dataclass(frozen=True, slots=True)
class _Fetched:
    """A lookup over batches of a DataFrame; it repeats the calls of the stream, without a cache."""

    spec: Lookup
    below: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Process Spark's batches; each task of Spark makes ``concurrency`` calls at a time."""
        operator = replace(self.spec, cache_us=None).open([self.below])
        values = ValueJournal()
        operator.use_values(values, World(SystemClock()))
        for batch in batches:
            try:
                made = operator.process([Run(_events(batch, self.below), NO_CTIS)]).events
            except StreamEngineError as error:
                raise RuntimeError(f"{MARK}{error}{MARK}") from error
            values.forget(values.next_index)
            yield _stored(made)


@dataclass(frozen=True, slots=True)
class _KeyByKey:
    """A process or operator over all events of a key; Spark sends it to its workers."""

    spec: KeyedProcessing | UserOperator | MatchRows
    below: pa.Schema
    #: The last finite CTI (watermark) of the stream, us.
    reached: int

    def __call__(self, table: pa.Table) -> pa.Table:
        """Process all rows of one key."""
        if _IS_EVENT in table.schema.names:
            table = table.filter(table.column(_IS_EVENT))
        places = table.column(PLACE) if PLACE in table.schema.names else None
        events = _events(table.combine_chunks(), self.below)
        try:
            made = [self._rows(order) for order in orders(events, places)]
            return pa.Table.from_batches([_stored(agreed(made, self._name))])
        except StreamEngineError as error:
            raise RuntimeError(f"{MARK}{error}{MARK}") from error

    @property
    def _name(self) -> str:
        if isinstance(self.spec, MatchRows):
            return "match"
        is_process = isinstance(self.spec, KeyedProcessing)
        return (self.spec.process if is_process else self.spec.code).name  # type: ignore[union-attr]

    def _rows(self, events: pa.RecordBatch) -> pa.RecordBatch:
        if isinstance(self.spec, KeyedProcessing):
            return process_rows(self.spec, events, self.reached)
        if isinstance(self.spec, MatchRows):
            return match_rows(self.spec, events)
        return operator_rows(self.spec, events)


def with_user_code(node: logical.LogicalNode, below: Frame) -> Frame:
    """Return the events of a node that has user code.

    Raises:
        UnsupportedInBatchError: the code reads outside values, which only the stream has recorded.
    """
    schema = _spark_schema(node.schema)
    if isinstance(node, logical.UserStep) and isinstance(node.spec, Lookup):
        fetched = _Fetched(node.spec, below.schema)
        made = below.df.drop(PLACE).mapInArrow(fetched, schema)
        return Frame(made, node.schema, below.lifetime_us)
    if isinstance(node, logical.UserStep) and isinstance(node.spec, CallOnce):
        reason = "a batch would make calls again that may be made only once"
        raise UnsupportedInBatchError(node.describe(), reason)
    if any(code.draws_values for code in node.codes):
        raise UnsupportedInBatchError(
            node.describe(),
            "ctx.now, ctx.random and ctx.lookup would return other values than the job recorded",
        )
    is_keyed = isinstance(node, logical.UserStep) and not isinstance(node.spec, Apply)
    if is_keyed or isinstance(node, logical.Match):
        assert isinstance(node, logical.UserStep | logical.Match), node
        assert not isinstance(node.spec, Apply | CallOnce | Lookup), node
        keyed = _KeyByKey(node.spec, below.schema, below.reached)
        keys = [below.columns[key] for key in node.input_keys[0] or ()]
        df = below.df if keys else _with_sentinel(below.df)
        made = df.groupBy(*keys).applyInArrow(lambda table: keyed(table), schema)
    else:
        spec = node.spec if isinstance(node, logical.UserStep) else _stateless(node)
        rows = below.df.drop(PLACE)
        made = rows.mapInArrow(_RowByRow(spec, below.schema, node.schema), schema)
    return Frame(made, node.schema, below.lifetime_us)


def _stateless(node: logical.LogicalNode) -> OperatorSpec:
    assert isinstance(node, logical.Filter | logical.Project), node
    return stateless_spec(node, node.input.schema)


def _with_sentinel(df: Any) -> Any:
    """Add one row that is no event, because Spark calls no function for zero rows."""
    one = df.sparkSession.sql(f"select false as {_IS_EVENT}")
    return df.selectExpr("*", f"true as {_IS_EVENT}").unionByName(one, allowMissingColumns=True)


def _spark_schema(schema: pa.Schema) -> str:
    columns = [f"`{VS}` bigint", f"`{VE}` bigint"]
    columns += [f"c{i} {type_name(kind)}" for i, kind in enumerate(schema.types)]
    return ", ".join(columns)


def _events(rows: pa.RecordBatch | pa.Table, payload: pa.Schema) -> pa.RecordBatch:
    """Convert rows from Spark's form to events."""
    schema = event_schema(payload)
    if isinstance(rows, pa.Table):
        columns = [as_one_array(column) for column in rows.columns[: len(schema)]]
    else:
        columns = rows.columns
    arrays = [restored(column, f.type) for column, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _stored(events: pa.RecordBatch) -> pa.RecordBatch:
    """Convert events to Spark's form."""
    names = [VS, VE, *(f"c{i}" for i in range(events.num_columns - 2))]
    stored = [column.cast(physical(column.type)) for column in events.columns]
    return pa.RecordBatch.from_arrays(stored, names=names)
