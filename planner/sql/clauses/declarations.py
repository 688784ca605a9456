"""``CREATE STREAM name [(column type, ...)] WITH (option = value, ...)``.

A declaration with ``vs`` is a source, one without can be the target of INSERT INTO. Nothing is read
before the stream is used. ``${name}`` in the text of an option is replaced by a variable.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from planner.api.sources import AUTO, FileOptions, file_source
from planner.api.stream import Stream
from planner.expressions.nodes import Column
from planner.sql.expressions.scalars import Expressions
from planner.sql.expressions.scope import Scope, Visible
from planner.sql.reading.literals import data_type, interval_us, plain_value
from rvertex.sources.discover import infer_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.api.expressions import Expr
    from planner.logical.query import Query
    from planner.sql.reading.parsing import SqlText
    from rvertex.sources.spec import Format

OPTIONS = (
    *("path", "format", "vs", "ve", "delay", "late", "partitions"),
    *("delimiter", "null_values", "cti_every", "start", "end"),
)
_FORMATS: dict[str, Format] = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".jsonl": "json",
    ".json": "json",
    ".txt": "text",
}
_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Declaration:
    """What CREATE STREAM said."""

    text: SqlText
    variables: Mapping[str, str]
    name: exp.Expr
    #: Name of the option -> its value.
    options: Mapping[str, exp.Expr]
    columns: tuple[exp.ColumnDef, ...]

    def source(self) -> Stream:
        """The stream of the files.

        Raises:
            SqlError: the options do not fit, or the files cannot be read.
        """
        if "path" not in self.options:
            raise self.text.error(self.name, "CREATE STREAM needs path = '...'")
        path, format_ = self._text("path"), self._format()
        for option in ("cti_every", "start", "end"):
            if option in self.options:
                raise self._error(option, f"{option} is an option of a target of INSERT INTO")
        if format_ == "text":
            return self._text_source(path)
        if format_ == "rstream":
            return self._stream_source(path)
        if "vs" not in self.options:
            raise self.text.error(self.name, "a stream that is read needs vs = column")
        for option in ("delimiter", "null_values"):
            if option in self.options and format_ != "csv":
                raise self._error(option, "only CSV has a delimiter and null_values")
        plain = self._plain_options()
        with self.text.located(self.options["path"]):
            found = infer_schema(format_, path, plain.reader_options(format_))
        schema = self._schema(found)
        given = replace(plain, **self._times(found, schema), schema=schema or None)
        with self.text.located(self.name):
            return Stream(file_source(format_, path, given))

    def _plain_options(self) -> FileOptions:
        """What the statement says that does not depend on the columns of the files."""
        csv: dict[str, Any] = {}
        if "delimiter" in self.options:
            csv["delimiter"] = self._text("delimiter")
        if "null_values" in self.options:
            csv["null_values"] = self._text("null_values").split(",")
        late, partitions = self._late(), self._partitions()
        return FileOptions(vs=None, late=late, partitions=partitions, **csv)

    def target(self, stream: Stream) -> Query:
        """The query that writes ``stream`` to the files."""
        for option in self.options:
            if option not in ("path", "format", "cti_every", "start", "end"):
                raise self._error(option, f"{option} is not an option of a target of INSERT INTO")
        every = self._duration("cti_every") if "cti_every" in self.options else None
        path = self._text("path") if "path" in self.options else None
        format_ = self._text("format") if "format" in self.options else "parquet"
        names: dict[str, Any] = {
            role: self._column(role) for role in ("start", "end") if role in self.options
        }
        if self.columns or format_ not in ("parquet", "rstream"):
            raise self._error("format", "a target of INSERT INTO is 'parquet' or 'rstream'")
        with self.text.located(self.name):
            if format_ == "rstream":
                if path is None:
                    raise self._error("format", "an rstream needs path = '...'")
                if names:
                    raise self._error(next(iter(names)), "times of an rstream are _vs and _ve")
                return stream.to_rstream(path, cti_every=every)
            return stream.to_parquet(path, cti_every=every, **names)

    def _column(self, option: str) -> str | None:
        """The name of a column, or NULL for none."""
        return None if isinstance(self.options[option], exp.Null) else self._text(option)

    def _text_source(self, path: str) -> Stream:
        for option in self.options:
            if option not in ("path", "format", "partitions"):
                raise self._error(option, f"{option} is not an option of text files")
        with self.text.located(self.name):
            return Stream.from_text(path, partitions=self._partitions())

    def _stream_source(self, path: str) -> Stream:
        """What another job has written; times and CTIs are in it."""
        for option in self.options:
            if option not in ("path", "format"):
                raise self._error(option, f"{option} is not an option of an rstream")
        with self.text.located(self.name):
            return Stream.from_rstream(path)

    def _times(self, found: pa.Schema, overrides: dict[str, pa.DataType]) -> dict[str, Any]:
        types = [(f.name, overrides.get(f.name, f.type)) for f in found]
        schema = pa.schema(types)
        ve = self.options.get("ve")
        end: Any = None
        if ve is not None:
            end = self._end(ve, schema)
        delay = self._delay() if "delay" in self.options else AUTO
        return {"vs": self._time(self.options["vs"], schema), "ve": end, "delay": delay}

    def _end(self, node: exp.Expr, schema: pa.Schema) -> Any:
        """A length, as ``'+1h'`` or an INTERVAL, or a column or expression."""
        is_text = isinstance(node, exp.Literal) and node.is_string
        if is_text and node.name.startswith("+"):
            return interval_us(exp.Literal.string(node.name[1:]), self.text)
        if isinstance(node, exp.Interval):
            return interval_us(node, self.text)
        return self._time(node, schema)

    def _time(self, node: exp.Expr, schema: pa.Schema) -> str | Expr:
        """A column, by name or in quotes, or an expression over the columns of the files."""
        if (isinstance(node, exp.Literal) and node.is_string) or isinstance(node, exp.Var):
            column = exp.column(node.name)
            column.this.update_positions(node)
            node = column
        whole = Scope(Stream(_Columns(schema)), _visible(schema))  # type: ignore[arg-type]
        made = Expressions(self.text, whole, {}).compile(node)
        return made.node.name if isinstance(made.node, Column) else made

    def _schema(self, found: pa.Schema) -> dict[str, pa.DataType]:
        """The types that the statement gives to columns."""
        types: dict[str, pa.DataType] = {}
        for column in self.columns:
            if column.args.get("kind") is None or column.args.get("constraints"):
                raise self.text.error(column, "a column is a name and a type")
            if column.name not in found.names:
                known = ", ".join(found.names)
                raise self.text.error(column, f"no column {column.name!r}; there are: {known}")
            types[column.name] = data_type(column.args["kind"], column, self.text)
        return types

    def _format(self) -> Format:
        if "format" in self.options:
            named = self._text("format").lower()
            formats: dict[str, Format] = {f: f for f in (*_FORMATS.values(), "rstream")}
            if named not in formats:
                known = ", ".join(formats)
                raise self._error("format", f"no format {named!r}; there are {known}")
            return formats[named]
        found = _FORMATS.get(PurePosixPath(self._text("path")).suffix)
        if found is None:
            raise self.text.error(self.name, "the path does not tell: give format = '...'")
        return found

    def _late(self) -> Any:
        late = self._text("late") if "late" in self.options else "drop"
        if late not in ("drop", "adjust", "error"):
            raise self._error("late", "late is 'drop', 'adjust' or 'error'")
        return late

    def _partitions(self) -> int | None:
        if "partitions" not in self.options:
            return None
        count = plain_value(self.options["partitions"], self.text)
        if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= 1024:
            raise self._error("partitions", "partitions is a whole number from 1 to 1024")
        return count

    def _delay(self) -> int | str:
        """A length of time, ``'auto'``, or the percentile of an estimated one, as ``'p99'``."""
        node = self.options["delay"]
        is_text = isinstance(node, exp.Literal) and node.is_string
        is_named = is_text and (node.name.startswith("p") or node.name == AUTO)
        return node.name if is_named else self._duration("delay")

    def _duration(self, option: str) -> int:
        us = interval_us(self.options[option], self.text)
        if us < 0:
            raise self._error(option, f"{option} cannot be negative")
        return us

    def _text(self, option: str) -> str:
        """The text of an option, with its variables."""
        node = self.options[option]
        if isinstance(node, exp.Column | exp.Var):
            return node.name
        value = plain_value(node, self.text)
        if not isinstance(value, str):
            raise self._error(option, f"{option} is a text in single quotes")
        return _VARIABLE.sub(lambda found: self._variable(found[1], node), value)

    def _variable(self, name: str, node: exp.Expr) -> str:
        if name not in self.variables:
            raise self.text.error(node, f"no value for ${{{name}}}; give one with --set {name}=...")
        return self.variables[name]

    def _error(self, option: str, reason: str) -> Exception:
        return self.text.error(self.options.get(option, self.name), reason)


def declared(node: exp.Create, text: SqlText, variables: Mapping[str, str]) -> Declaration:
    """What a CREATE STREAM without AS says."""
    table = node.this
    columns = tuple(table.expressions) if isinstance(table, exp.Schema) else ()
    for column in columns:
        if not isinstance(column, exp.ColumnDef):
            raise text.error(column, "a column is a name and a type")
    name = table.this if isinstance(table, exp.Schema) else table
    options: dict[str, exp.Expr] = {}
    properties = node.args.get("properties")
    for option in properties.expressions if properties is not None else ():
        key = option.this.name.lower() if isinstance(option, exp.Property) else ""
        if key not in OPTIONS:
            raise text.error(option, f"no such option; there are: {', '.join(OPTIONS)}")
        if key in options:
            raise text.error(option, f"{key} is given twice")
        options[key] = option.args["value"]
    return Declaration(text, variables, name, options, columns)


@dataclass(frozen=True, slots=True)
class _Columns:
    """Stands for rows of files before they are a stream."""

    schema: pa.Schema


def _visible(schema: pa.Schema) -> tuple[Visible, ...]:
    return tuple(Visible("", name, name) for name in schema.names)
