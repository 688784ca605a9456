"""A declared table, and the definition of a connector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from planner.api.expressions import col
from planner.api.sources import checked_rows
from planner.api.stream import Stream
from planner.errors import InvalidPlanError
from planner.expressions.nodes import Column
from planner.expressions.types import TIMESTAMP_UTC, is_number
from planner.sql.expressions.engines.of_engine import normal_json
from planner.sql.expressions.scalars import Expressions
from planner.sql.expressions.scope import Scope, Visible, scope_of
from planner.sql.reading.errors import sql_type
from planner.sql.reading.literals import interval_us

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.api.expressions import Expr
    from planner.logical.query import Query
    from planner.sql.reading.errors import SqlError
    from planner.sql.reading.parsing import SqlText
    from planner.sql.tables.columns import Columns
    from planner.sql.tables.options import Given

#: CREATE STREAM adds columns to those of its files; other tables have only declared columns.
STREAM = "STREAM"


@dataclass(frozen=True, slots=True)
class Table:
    """The declaration of a CREATE STREAM, SOURCE, TABLE or SINK, as connectors use it."""

    word: str
    given: Given
    columns: Columns

    @property
    def text(self) -> SqlText:
        return self.given.text

    @property
    def title(self) -> str:
        """The name of the table in messages."""
        return f"CREATE {self.word}"

    def time_options(
        self,
        vs: exp.Expr | None,
        ve: exp.Expr | None,
        schema: pa.Schema,
        *,
        marked: bool = True,
    ) -> dict[str, Any]:
        """Return ``vs`` and ``ve`` over the columns that rows have, and the watermark's delay.

        ``marked``: whether the watermark is on such a column.
        """
        mark = self.columns.watermark if marked else None
        options: dict[str, Any] = {}
        if mark is not None:
            if vs is not None:
                raise self.text.error(vs, "WATERMARK FOR also sets the time column")
            if "delay" in self.given.values:
                raise self.given.error("delay", "WATERMARK FOR also sets how late rows may be")
            options["delay"] = self.columns.delay_us
            column = exp.column(mark.name)
            column.this.update_positions(mark.this)
            vs = self.columns.computed.get(mark.name, column)
        if vs is not None:
            options["vs"] = self._time(vs, schema)
        if ve is not None and type(ve) is not exp.Null:
            options["ve"] = self._end(ve, schema)
        return options

    def no_time(self) -> SqlError:
        """Return the error for a table without a time: no option and no watermark declares it."""
        if self.word == STREAM:
            return self.given.error("", "a stream that is read needs vs = column")
        return self.given.error(
            "",
            "name the time column: WATERMARK FOR ts AS ts - INTERVAL '5' SECOND; for a "
            "file whose rows have no time, such as a lookup table, write static = TRUE",
        )

    def check_columns(self, columns: pa.Schema) -> None:
        """Raise for declared columns that rows do not have."""
        for name, node in self.columns.nodes.items():
            if name in self.columns.metadata:
                raise self.text.error(node, "files have no METADATA columns")
            if name not in columns.names and name not in self.columns.computed:
                known = ", ".join(columns.names)
                raise self.text.error(node, f"no column {name!r}; there are: {known}")

    def declared(self, stream: Stream, *, besides: str | None = None) -> Stream:
        """Add computed columns; keep only declared columns, except for CREATE STREAM.

        A row with a null in a NOT NULL column, or a text longer than the n of a VARCHAR(n) that
        the dialect checks, is a bad row of its source. ``besides``: a column
        that marks rows which only end their key, and so have null in all other columns.
        """
        required = self.columns.not_null
        if besides is not None:
            required = tuple(name for name in required if name in self.columns.primary_key)
        lengths = self.columns.lengths
        if required or lengths:
            stream = Stream(checked_rows(stream.plan, required, lengths))
        zoned = [
            col(name).cast(TIMESTAMP_UTC).alias(name)
            for name in self.columns.zoned
            if name in stream.schema.names and stream.schema.field(name).type == pa.timestamp("us")
        ]
        if zoned:  # the columns are declared with a time zone; a time without one is UTC
            stream = stream.with_columns(*zoned)
        made = [normal_json(col(n)).alias(n) for n in self.jsonb if n in stream.schema.names]
        stream = stream.with_columns(*made) if made else stream
        for name, node in self.columns.computed.items():
            whole = scope_of(stream, self.given.name.name)
            value = Expressions(self.text, whole, {}).compile(node)
            with self.text.located(node):
                stream = stream.with_columns(value.alias(name))
        if self.word == STREAM or not self.columns.names:
            return stream
        return stream.select(*self.columns.names, *([] if besides is None else [besides]))

    @property
    def jsonb(self) -> list[str]:
        """The columns whose values are written in the form in which PostgreSQL stores JSONB."""
        if self.text.engine.name != "postgres":
            return []
        kinds = {name: node.args.get("kind") for name, node in self.columns.nodes.items()}
        return [n for n, kind in kinds.items() if kind is not None and kind.is_type("JSONB")]

    def matched(self, stream: Stream) -> Stream:
        """Return the written columns under the target's names; types must fit.

        Raises:
            SqlError: there are more or fewer columns, or one has another type.
        """
        if self.columns.computed or self.columns.metadata:
            at = next(iter((*self.columns.computed, *self.columns.metadata)))
            raise self.text.error(
                self.columns.nodes[at], "the columns of a target have only a name and a type"
            )
        for name in self.columns.not_null:
            raise self.text.error(
                self.columns.nodes[name],
                f"NOT NULL of a target is not checked: leave it out, and write WHERE {name} IS NOT "
                "NULL in the query",
            )
        for name, longest in self.columns.lengths.items():
            raise self.text.error(
                self.columns.nodes[name],
                f"VARCHAR({longest}) of a target is not checked: write VARCHAR, and LEFT({name}, "
                f"{longest}) in the query",
            )
        names = self.columns.names
        if not names:
            return stream
        if len(names) != len(stream.schema):
            counts = f"the SELECT has {len(stream.schema)} columns, the target {len(names)}"
            raise self.given.error("", f"{counts}: {', '.join(names)}")
        columns = []
        for name, field in zip(names, stream.schema, strict=True):
            wanted = self.columns.types[name]
            value = col(field.name)
            if field.type != wanted:
                reason = (
                    f"column {name!r} is {sql_type(str(wanted))}, and {field.name!r} is "
                    f"{sql_type(str(field.type))}; write CAST({field.name} AS ...)"
                )
                if not (_fits(field.type, wanted) or self._is_assigned(field.type, wanted)):
                    raise self.text.error(self.columns.nodes[name], reason)
                value = value.cast(wanted)
            columns.append(value.alias(name))
        return stream.select(*columns)

    def _is_assigned(self, kind: pa.DataType, wanted: pa.DataType) -> bool:
        """Return whether the dialect casts a number when it is inserted into another type."""
        engine = self.text.engine.name
        if pa.types.is_decimal(wanted):
            is_exact = pa.types.is_decimal(kind) or pa.types.is_integer(kind)
            return bool(engine) and is_exact
        return engine == "spark" and is_number(kind) and is_number(wanted)

    def _end(self, node: exp.Expr, schema: pa.Schema) -> Any:
        """Parse ``ve``: a length, such as ``'+1h'`` or an INTERVAL, or a column or expression."""
        is_text = isinstance(node, exp.Literal) and node.is_string
        if is_text and node.name.startswith("+"):
            return interval_us(exp.Literal.string(node.name[1:]), self.text)
        if isinstance(node, exp.Interval):
            return interval_us(node, self.text)
        return self._time(node, schema)

    def _time(self, node: exp.Expr, schema: pa.Schema) -> str | Expr:
        """Parse a time: a column, by name or in quotes, or an expression over the rows' columns."""
        if (isinstance(node, exp.Literal) and node.is_string) or isinstance(node, exp.Var):
            column = exp.column(node.name)
            column.this.update_positions(node)
            node = column
        visible = tuple(Visible("", name, name) for name in schema.names)
        whole = Scope(Stream(_Columns(schema)), visible)  # type: ignore[arg-type]
        made = Expressions(self.text, whole, {}).compile(node)
        return made.node.name if isinstance(made.node, Column) else made


@dataclass(frozen=True, slots=True)
class Source:
    """The reading side of a connector: its record of options, and how to make a stream of it."""

    options: type[Any]
    open: Callable[[Table, Any], Stream]


@dataclass(frozen=True, slots=True)
class Sink:
    """The writing side of a connector."""

    options: type[Any]
    write: Callable[[Table, Any, Stream], Query]


@dataclass(frozen=True, slots=True)
class Connector:
    """An external system; a side that is None is not supported."""

    name: str
    source: Source | None
    sink: Sink | None


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of a source's rows, before a stream exists."""

    schema: pa.Schema


def _fits(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether every value of a type has an equal value in another."""
    from planner.expressions.types import common_type

    try:
        return bool(common_type(kind, wanted) == wanted)
    except InvalidPlanError:
        return False
