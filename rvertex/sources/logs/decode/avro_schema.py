"""Converts Avro schemas to Arrow columns, and to the schemas by which values are read.

A logical type that Avro does not define, or that does not fit its base type, is ignored, as the
specification demands. A union of several types becomes a struct with fields ``member0``,
``member1``, ..., of which one has a value. A union of int and long, or of float and double, becomes
the wider of the two.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from rvertex.sources.logs.decode import avro_values as values

if TYPE_CHECKING:
    from collections.abc import Callable

#: A parsed Avro schema: a record is a dict with "type": "record".
AvroSchema: TypeAlias = dict[str, Any]

#: Most types in a record, including the types of nested records.
TYPES_MAX = 10_000
_DECIMAL_DIGITS_MAX = 76
_UUID_BYTES = 16
_PRIMITIVES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
#: Unions in which a value of one type is also a value of the other -> the wider type.
_WIDER = {frozenset({"int", "long"}): "long", frozenset({"float", "double"}): "double"}
#: Key of a record, beside its fields: definitions of types that the fields use.
_OTHERS = "streamscope.types"
_NAMED = ("record", "error", "enum", "fixed")


class UnreadableAvroError(ValueError):
    """A field has a type that fits no column, or the schema is invalid."""

    def __init__(self, reason: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.reason, self.path = reason, path

    def __str__(self) -> str:
        return f"field {'.'.join(self.path)!r}: {self.reason}" if self.path else self.reason


@dataclass(frozen=True, slots=True)
class AvroColumn:
    """An Avro type and the Arrow type of its column."""

    arrow: pa.DataType
    #: Converts a value of fastavro to a value that Arrow accepts; None: no conversion is needed.
    convert: Callable[[Any], Any] | None = None
    #: Whether values can be decoded in blocks: as a column, and as elements or fields of a column.
    in_blocks: bool = True
    within_blocks: bool = True


def _by_rows(arrow: pa.DataType, convert: Callable[[Any], Any] | None = None) -> AvroColumn:
    return AvroColumn(arrow, convert, in_blocks=False, within_blocks=False)


_LOGICAL: dict[tuple[Any, Any], AvroColumn] = {
    ("date", "int"): AvroColumn(pa.date32()),
    ("time-millis", "int"): _by_rows(pa.time32("ms"), values.as_time("ms")),
    ("time-micros", "long"): _by_rows(pa.time64("us"), values.as_time("us")),
    ("timestamp-millis", "long"): AvroColumn(pa.timestamp("ms", "UTC")),
    ("timestamp-micros", "long"): AvroColumn(pa.timestamp("us", "UTC")),
    ("timestamp-nanos", "long"): _by_rows(pa.timestamp("ns", "UTC")),
    ("local-timestamp-millis", "long"): AvroColumn(pa.timestamp("ms")),
    ("local-timestamp-micros", "long"): AvroColumn(pa.timestamp("us")),
    ("local-timestamp-nanos", "long"): _by_rows(pa.timestamp("ns")),
    ("uuid", "string"): AvroColumn(pa.string()),
}


def parse_avro_schema(text: str) -> AvroSchema:
    """Parse a record's schema.

    Raises:
        ValueError: the text is not the schema of a record.
    """
    schema = json.loads(text)
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise ValueError("an Avro schema for rows must be a record")
    if not isinstance(schema.get("fields"), list):
        raise ValueError("an Avro record needs a list of fields")
    return schema


def with_types(schema: AvroSchema, others: list[Any]) -> AvroSchema:
    """Add the definitions of types from other schemas."""
    return {**schema, _OTHERS: others} if others else schema


def arrow_columns(schema: AvroSchema) -> pa.Schema:
    """Return the columns of the fields.

    Raises:
        UnreadableAvroError: the type of a field fits no column.
    """
    types = AvroTypes(schema)
    return pa.schema([(name, types.column(name).arrow) for name in types.names])


class AvroTypes:
    """The fields of a record: their columns, and the schema by which fastavro reads them.

    The schema for fastavro has no logical types: fastavro would round decimals, and return times as
    Python objects, which are slower and end with the year 9999. It also would not return which type
    of a union a value has. So each type of a union becomes a record of one field, which has the
    same bytes.
    """

    def __init__(self, schema: AvroSchema) -> None:
        """Read the fields of ``schema``. Raises UnreadableAvroError if the schema is invalid."""
        self._defined: dict[str, AvroSchema] = {}
        self._written: set[str] = set()
        self._open: list[str] = []
        #: Whether a record contains itself.
        self.is_recursive = False
        self._count = 0
        try:
            self._define([*schema.get(_OTHERS, ()), schema], "")
            self._space = space_within(schema, "")
            self._fields = {str(f["name"]): f["type"] for f in schema["fields"]}
            self.wire: Any = self._wire(schema, "")
        except (KeyError, TypeError, AttributeError, RecursionError) as error:
            raise UnreadableAvroError(f"not an Avro schema ({error!r})") from error

    @property
    def names(self) -> list[str]:
        """The names of the record's fields."""
        return list(self._fields)

    @property
    def are_in_blocks(self) -> bool:
        """Whether values of all fields can be decoded in blocks."""
        try:
            return all(self.column(name).in_blocks for name in self._fields)
        except UnreadableAvroError:
            return False

    def column(self, name: str) -> AvroColumn:
        """Return the column of a field.

        Raises:
            UnreadableAvroError: its type fits no column.
        """
        self._count = 0
        try:
            return self._column(self._fields[name], self._space, ())
        except UnreadableAvroError as error:
            raise UnreadableAvroError(error.reason, (name, *error.path)) from None
        except (KeyError, TypeError, AttributeError) as error:
            raise UnreadableAvroError(f"not an Avro type ({error!r})", (name,)) from error

    def _define(self, kind: Any, space: str) -> None:
        """Record the types that have a name."""
        if isinstance(kind, list):
            for member in kind:
                self._define(member, space)
        elif isinstance(kind, dict):
            if kind["type"] in _NAMED:
                full = full_name(kind, space)
                made = {**kind, "name": full}
                if self._defined.setdefault(full, made) != made:
                    raise UnreadableAvroError(f"the type {full!r} is defined twice")
                space = space_within(kind, space)
            inner = [kind.get("items"), kind.get("values"), *(f["type"] for f in _fields(kind))]
            self._define([*inner, kind["type"] if kind["type"] not in _NAMED else None], space)

    def _resolved(self, kind: Any, space: str) -> tuple[Any, bool]:
        """Return a type without wrapping objects, and whether it was a reference to a name.

        A named type gets its full name, so types within it need no outer ``space``.
        """
        if isinstance(kind, list):
            return kind, False
        if isinstance(kind, str):
            if kind in _PRIMITIVES or kind == "null":
                return {"type": kind}, False
            full = kind if "." in kind or not space else f"{space}.{kind}"
            if full not in self._defined:
                raise UnreadableAvroError(f"the type {kind!r} is not defined")
            return self._defined[full], True
        if isinstance(kind["type"], dict | list):
            return self._resolved(kind["type"], space)
        if kind["type"] in _NAMED:
            return self._defined[full_name(kind, space)], False
        if kind["type"] in (*_PRIMITIVES, "null", "array", "map"):
            return kind, False
        return self._resolved(kind["type"], space)

    # ---- schemas for fastavro

    def _wire(self, kind: Any, space: str) -> Any:
        plain, _ = self._resolved(kind, space)
        if isinstance(plain, list):
            return self._wire_union(plain, space)
        name = plain["type"]
        if name == "array":
            return {"type": name, "items": self._wire(plain["items"], space)}
        if name == "map":
            return {"type": name, "values": self._wire(plain["values"], space)}
        if name not in _NAMED:
            return name
        full = plain["name"]
        if full in self._written:
            self.is_recursive |= full in self._open
            return full
        self._written.add(full)
        if name in ("enum", "fixed"):
            what = "symbols" if name == "enum" else "size"
            return {"type": name, "name": full, what: plain[what]}
        inner = space_within(plain, space)
        self._open.append(full)
        fields = [
            {"name": f["name"], "type": self._wire(f["type"], inner)} for f in plain["fields"]
        ]
        self._open.pop()
        return {"type": "record", "name": full, "fields": fields}

    def _wire_union(self, kinds: list[Any], space: str) -> list[Any]:
        members, wider = self._members(kinds, space)
        if wider is not None or len(members) < 2:
            return [self._wire(kind, space) for kind in kinds]
        made: list[Any] = []
        for kind in kinds:
            if kind not in members:
                made.append("null")
                continue
            name = f"member{members.index(kind)}"
            record = f"streamscope.union{len(self._written)}"
            self._written.add(record)
            field = {"name": name, "type": self._wire(kind, space)}
            made.append({"type": "record", "name": record, "fields": [field]})
        return made

    def _members(self, kinds: list[Any], space: str) -> tuple[list[Any], str | None]:
        """Return a union's types except null, and the type that fits the values of all of them."""
        resolved = [(kind, self._resolved(kind, space)[0]) for kind in kinds]
        members = [kind for kind, type_ in resolved if type_ != {"type": "null"}]
        plain = [type_["type"] for _, type_ in resolved if "logicalType" not in type_]
        is_plain = len(plain) == len(kinds)
        return members, _WIDER.get(frozenset(plain) - {"null"}) if is_plain else None

    # ---- columns

    def _column(self, kind: Any, space: str, within: tuple[str, ...]) -> AvroColumn:
        """Return the column of a type. ``within``: the records that contain the type."""
        self._count += 1
        if self._count > TYPES_MAX:
            raise UnreadableAvroError(f"it has more than {TYPES_MAX:,} types in it")
        type_, is_reference = self._resolved(kind, space)
        if isinstance(type_, list):
            made = self._union(type_, space, within)
        elif type_["type"] == "array":
            made = _list_of(self._column(type_["items"], space, within))
        elif type_["type"] == "map":
            made = _map_of(self._column(type_["values"], space, within))
        elif type_["type"] in ("record", "error"):
            made = self._record(type_, within)
        else:
            made = _leaf(type_)
        return replace(made, in_blocks=False, within_blocks=False) if is_reference else made

    def _record(self, record: AvroSchema, within: tuple[str, ...]) -> AvroColumn:
        full = record["name"]
        if full in within:
            raise UnreadableAvroError(f"the record {full!r} contains itself")
        if not record["fields"]:
            raise UnreadableAvroError(f"the record {full!r} has no fields")
        space, columns = space_within(record, ""), {}
        for field in record["fields"]:
            try:
                columns[field["name"]] = self._column(field["type"], space, (*within, full))
            except UnreadableAvroError as error:
                raise UnreadableAvroError(error.reason, (field["name"], *error.path)) from None
        return _struct_of(columns)

    def _union(self, kinds: list[Any], space: str, within: tuple[str, ...]) -> AvroColumn:
        members, wider = self._members(kinds, space)
        if wider is not None and len(members) > 1:
            return _by_rows(_PRIMITIVES[wider])
        columns = [self._column(member, space, within) for member in members]
        if len(columns) == 1:
            is_block = columns[0].within_blocks and len(kinds) == 2
            return replace(columns[0], in_blocks=is_block, within_blocks=is_block)
        if not columns:
            return _by_rows(pa.string())
        made = _struct_of({f"member{k}": column for k, column in enumerate(columns)})
        return _by_rows(made.arrow, made.convert)


def _leaf(type_: AvroSchema) -> AvroColumn:
    name, logical = type_["type"], type_.get("logicalType")
    if logical == "decimal" and name in ("bytes", "fixed"):
        digits, scale = type_.get("precision"), type_.get("scale", 0)
        if isinstance(digits, int) and isinstance(scale, int) and 0 <= scale <= digits > 0:
            if digits > _DECIMAL_DIGITS_MAX:
                reason = f"a decimal of {digits} digits; a column has at most {_DECIMAL_DIGITS_MAX}"
                raise UnreadableAvroError(reason)
            make = pa.decimal128 if digits <= 38 else pa.decimal256
            return _by_rows(make(digits, scale), values.as_decimal(scale))
    if logical == "uuid" and name == "fixed" and type_["size"] == _UUID_BYTES:
        return _by_rows(pa.string(), values.as_uuid)
    if (logical, name) in _LOGICAL:
        return _LOGICAL[logical, name]
    if name == "null":
        return _by_rows(pa.string())
    if name == "enum":
        return AvroColumn(pa.string(), within_blocks=False)
    arrow = pa.binary() if name == "fixed" else _PRIMITIVES[name]
    is_empty = name == "fixed" and type_["size"] == 0  # polars panics on it
    return _by_rows(arrow) if is_empty or logical is not None else AvroColumn(arrow)


def _list_of(items: AvroColumn) -> AvroColumn:
    convert = None if items.convert is None else values.each(items.convert)
    return AvroColumn(pa.list_(items.arrow), convert, items.within_blocks, items.within_blocks)


def _map_of(items: AvroColumn) -> AvroColumn:
    convert = None if items.convert is None else values.each_value(items.convert)
    return _by_rows(pa.map_(pa.string(), items.arrow), convert)


def _struct_of(columns: dict[str, AvroColumn]) -> AvroColumn:
    converts = {name: c.convert for name, c in columns.items() if c.convert is not None}
    are_in_blocks = all(c.within_blocks for c in columns.values())
    arrow = pa.struct([(name, c.arrow) for name, c in columns.items()])
    return AvroColumn(arrow, values.members(converts), are_in_blocks, are_in_blocks)


def _fields(kind: AvroSchema) -> list[dict[str, Any]]:
    """Return the fields of a record. Raises an error if two have the same name."""
    fields: list[dict[str, Any]] = kind.get("fields", [])
    for name, times in Counter(f["name"] for f in fields).items():
        if times > 1:
            raise UnreadableAvroError("it occurs more than once", (name,))
    return fields


def full_name(kind: AvroSchema, space: str) -> str:
    """Return the name of a type with its namespace."""
    name, own = str(kind["name"]), kind.get("namespace", space)
    return name if "." in name or not own else f"{own}.{name}"


def space_within(kind: AvroSchema, space: str) -> str:
    """Return the namespace for names within a record."""
    return full_name(kind, space).rpartition(".")[0]
