"""Binds a query to test inputs: its sources read the rows that the test pushes.

A function of streams and a SQL text get streams with the schemas of the inputs. An existing
``Stream`` or ``Query`` keeps its sources, with their time columns, delays and rules for late and
bad rows. Such a source is named by its label: its ``.name(...)``, or its file, topic or table.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pyarrow as pa

from planner.api.names import checked_label
from planner.api.sources import SchemaLike, checked_choice
from planner.api.stream import Query, Stream
from planner.durations import Duration, duration_us
from planner.errors import UnknownColumnError
from planner.expressions.types import data_type, schema_of
from planner.logical.nodes import Source
from planner.logical.query import only_output
from planner.logical.traversal import topological, transform
from planner.physical.lower import lower
from planner.sql.entry import sql
from rstream.errors import UsageError
from rstream.format.table import TIME_TYPE
from rstream.items.batch import EVENT, KIND, RESERVED, VE, VS, empty_events
from rstream.items.exact import exact_rows
from rvertex.sources.events import faults_of
from rvertex.sources.formats.rows.bad_rows import BadRow, with_bad
from rvertex.sources.spec import Checks, Json, OnBadRow, SourceSpec
from streamscope.testing.tables import Table, rows, time_of, value_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.logical.nodes import LogicalNode
    from planner.logical.traversal import Shared
    from planner.physical.plan import PhysicalPlan
    from rvertex.sources.spec import LatePolicy

#: A query: SQL, a function of streams, a ``Stream`` or a ``Query``.
QueryLike = Any
#: Rows: a table literal, :func:`rows` of one, dictionaries, or an Arrow table.
RowsLike = Any
_ROOT = "memory://test"


@dataclass(frozen=True, slots=True)
class Input:
    """An input of a query under test.

    ``vs``: the column with the time of a row. Without it, a literal has a column ``time``, or
    ``start`` and ``end`` if ``spans=True``. ``delay``: the watermark is the greatest time minus the
    delay, as in a job. Without it, only ``advance_watermark`` moves the watermark, and rows may
    arrive in any order.
    """

    schema: SchemaLike
    vs: str | None = None
    spans: bool = False
    delay: Duration | None = None
    late: LatePolicy = "drop"
    on_bad_row: OnBadRow = "fail"

    def spec(self, name: str) -> SourceSpec:
        """Return the specification of the source named ``name``."""
        payload = pa.schema([f.with_nullable(True) for f in _schema(self.schema)])
        vs = self.vs or ("start" if self.spans else "time")
        ve = "end" if self.spans else None
        if self.vs is not None and self.vs not in payload.names:
            raise UnknownColumnError(self.vs, tuple(payload.names), "vs")
        added = [n for n in (vs, ve) if n is not None and n not in payload.names]
        checked_choice("on_bad_row", self.on_bad_row, get_args(OnBadRow))
        return SourceSpec(
            kind=Json(),
            path=name,
            schema=payload,
            columns=pa.schema([*payload, *((n, TIME_TYPE) for n in added)]),
            vs=vs,
            ve=ve,
            delay_us=0 if self.delay is None else duration_us(self.delay, what="delay"),
            late=self.late,
            checks=Checks(self.on_bad_row),
        )


def _schema(given: SchemaLike) -> pa.Schema:
    if isinstance(given, Table):
        return given.schema
    if isinstance(given, str):
        pairs = (pair.partition(":") for pair in given.split(","))
        return pa.schema([(name.strip(), data_type(kind.strip())) for name, _, kind in pairs])
    return schema_of(given)


def input_of(given: Input | SchemaLike) -> Input:
    """Make an input from an input, a schema, or rows in a literal."""
    if isinstance(given, Input):
        return given
    if isinstance(given, str) and given.lstrip().startswith("|"):
        given = rows(given)
    return Input(given, spans=isinstance(given, Table) and given.has_spans)


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """A query whose sources are test inputs."""

    query: Query
    #: For each input: whether it has a delay, so that its watermark follows its rows.
    follows: dict[str, bool]

    @property
    def names(self) -> tuple[str, ...]:
        """The inputs, in the order in which the query reads them."""
        return tuple(dict.fromkeys(node.spec.path for node in _sources(self.query.plan)))

    def plan(self, *, parallelism: int = 1, partitions: int = 1) -> PhysicalPlan:
        """Return the physical plan. ``partitions``: number of partitions of every input."""

        def dealt(node: LogicalNode, shared: Shared) -> LogicalNode:
            del shared
            return replace(node, partitions=partitions) if isinstance(node, Source) else node

        logical = transform(self.query.plan, dealt)
        return lower(
            replace(self.query, plan=logical),  # type: ignore[arg-type]
            root=_ROOT,
            parallelism=parallelism,
            discover=lambda spec: (),
            look=lambda spec, units: None,
        )


def bound(query: QueryLike, inputs: Mapping[str, Any] | None) -> BoundQuery:
    """Bind a query to test inputs.

    Raises:
        UsageError: ``query`` is not a query, or an input is missing or unused.
    """
    given = {name: input_of(value) for name, value in (inputs or {}).items()}
    streams = {n: Stream(Source(i.spec(n), 1, checked_label(n))) for n, i in given.items()}
    parsed = _query(query, streams)
    follows = {name: i.delay is not None for name, i in given.items()}

    def replaced(node: LogicalNode, shared: Shared) -> LogicalNode:
        del shared
        if not isinstance(node, Source) or node.spec.path in given:
            return node
        if node.spec.items is not None:
            raise UsageError("from_items() has its rows: test a function of streams instead")
        follows[node.label] = node.spec.delay_origin == "given"
        return replace(node, spec=_pushed(node), partitions=1)

    plan = transform(parsed.plan, replaced)
    made = BoundQuery(replace(parsed, plan=plan, deliveries=(), publishing=None), follows)  # type: ignore[arg-type]
    unread = sorted(given.keys() - {*made.names})
    if unread:
        raise UsageError(f"the query does not read {', '.join(unread)}")
    return made


def _query(query: QueryLike, streams: Mapping[str, Stream]) -> Query:
    if isinstance(query, str):
        query = sql(query, streams)
    elif callable(query) and not isinstance(query, Stream | Query):
        named = inspect.signature(query).parameters
        is_named = all(name in named for name in streams)
        query = query(**streams) if is_named else query(*streams.values())
    if isinstance(query, Stream):
        return query.to_parquet(technical_columns=True)
    if isinstance(query, Query):
        return only_output(query, "a test")
    raise UsageError(
        f"a query is SQL, a Stream, a Query or a function of streams, not a {type(query).__name__}"
    )


def _pushed(node: Source) -> SourceSpec:
    """Return the specification of a source, changed to read rows that the test pushes."""
    spec = node.spec
    return replace(
        spec,
        kind=Json(casts=spec.files.casts),
        path=node.label,
        live=None,
        delay_origin="given",
    )


def _sources(plan: LogicalNode) -> list[Source]:
    return [node for node in topological(plan) if isinstance(node, Source)]


def batches_of(spec: SourceSpec, given: RowsLike, *, follows: bool) -> list[pa.RecordBatch]:
    """Convert rows to batches of a source; bad rows are in separate batches.

    ``follows``: whether the watermark follows the rows.

    Raises:
        UsageError: a row is bad, and the source has no rule for bad rows.
    """
    raw, wrong = _raw(spec, given)
    good = [k for k in range(raw.num_rows) if k not in wrong]
    events, faults = faults_of(spec, raw.take(pa.array(good, pa.int64())), spec.path)
    bad = wrong | {good[k]: BadRow(f.reason, f.column, f.value) for k, f in faults.items()}
    if bad and spec.checks.on_bad_row == "fail":
        row, fault = min(bad.items())
        raise UsageError(
            f"{spec.path}: row {row + 1}, column {fault.column!r}: {fault.value!r} {fault.reason}; "
            'give Input(..., on_bad_row="dead_letter") to test bad rows'
        )
    left = empty_events(spec.row_schema) if events is None else events
    pieces = []
    for is_bad, places in groupby(range(raw.num_rows), key=bad.__contains__):
        here = list(places)
        if is_bad:
            piece = with_bad(left.slice(0, 0), {k: bad[n] for k, n in enumerate(here)})
            times = [pa.array(np.zeros(len(here), np.int64))] * 2  # a bad row has no time
            columns = [*times, *piece.columns[2:]]
            pieces.append(pa.RecordBatch.from_arrays(columns, schema=piece.schema))
        else:
            piece, left = left.slice(0, len(here)), left.slice(len(here))
            pieces.append(piece if follows else as_items(piece))
    return pieces


def _raw(spec: SourceSpec, given: RowsLike) -> tuple[pa.RecordBatch, dict[int, BadRow]]:
    """Return the source's columns of the rows, and by number the rows with a wrong type."""
    table = rows(given) if isinstance(given, str) else given
    if isinstance(table, pa.Table | pa.RecordBatch):
        table = _with_times(spec, table).to_pylist()
    if isinstance(table, Table):
        return _parsed(spec, table)
    if not isinstance(table, Iterable):
        raise UsageError(f"rows must be a text table or dictionaries, not {table!r}")
    found = [{n: _plain(n, v, spec) for n, v in dict(row).items()} for row in table]
    for row in found:
        _check_names(spec, list(row))
    try:
        return exact_rows(found, spec.columns), {}
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"{spec.path}: the rows do not fit its schema: {error}") from None


def _with_times(spec: SourceSpec, table: pa.Table | pa.RecordBatch) -> pa.Table:
    """Rename ``_vs`` and ``_ve`` of events to the time columns of the source."""
    if VS not in table.column_names:
        return table
    names = {VS: spec.vs, VE: spec.ve} if spec.vs not in spec.schema.names else {}
    kept = [n for n in table.column_names if n not in RESERVED or names.get(n) is not None]
    return table.select(kept).rename_columns([names.get(n, n) for n in kept])


def _plain(name: str, value: Any, spec: SourceSpec) -> Any:
    is_time = name in spec.columns.names and pa.types.is_timestamp(spec.columns.field(name).type)
    if is_time and isinstance(value, str | int):
        return pa.scalar(time_of(str(value)), TIME_TYPE).as_py()
    return value


def _parsed(spec: SourceSpec, table: Table) -> tuple[pa.RecordBatch, dict[int, BadRow]]:
    _check_names(spec, table.names)
    columns, wrong = [], {}
    for field in spec.columns:
        cells = table.column(field.name) if field.name in table.names else [""] * len(table)
        values = []
        for k, cell in enumerate(cells):
            try:
                values.append(value_of(cell, field.type))
            except ValueError:
                values.append(None)
                line = " | ".join(table.cells[k]).encode()
                wrong[k] = BadRow(f"is no {field.type}", field.name, cell, raw=line)
        columns.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=spec.columns), wrong


def _check_names(spec: SourceSpec, names: Iterable[str]) -> None:
    for name in names:
        if name not in spec.columns.names:
            raise UnknownColumnError(name, tuple(spec.columns.names), f"input {spec.path}")


def as_items(events: pa.RecordBatch) -> pa.RecordBatch:
    """Convert events to items of a stream whose watermark does not follow the rows."""
    kind = pa.repeat(pa.scalar(EVENT, pa.int8()), events.num_rows)
    schema = pa.schema([pa.field(KIND, pa.int8()), *events.schema])
    return pa.RecordBatch.from_arrays([kind, *events.columns], schema=schema)
