"""Every Avro type, nullable and nested, is read as fastavro reads it, in blocks or one by one.

Not covered: types that fastavro misreads; fixed decimals of other implementations.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import uuid
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from planner import Stream
from planner.errors import InvalidPlanError
from rvertex.sources.logs.decode.avro import AvroDecoder
from rvertex.sources.logs.decode.avro_schema import AvroTypes, UnreadableAvroError, arrow_columns

if TYPE_CHECKING:
    from collections.abc import Callable

fastavro = pytest.importorskip("fastavro", reason="Avro is an extra")
AT = dt.datetime(2020, 2, 3, 4, 5, 6, 7_000)  # noqa: DTZ001 - local times have no zone
UTC = AT.replace(tzinfo=dt.UTC)


def logical(name: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def fixed(name: str, size: int, **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **more}


CENTS = {"logicalType": "decimal", "precision": 5, "scale": 2}
ID = uuid.UUID(int=2**100 + 5)
MAP = {"type": "map", "values": "long"}
ENUM = {"type": "enum", "name": "E", "symbols": ["a", "b"]}
POINT = {"type": "record", "name": "P", "fields": [{"name": "x", "type": "long"}]}
TYPES: dict[str, tuple[Any, list[Any]]] = {
    "boolean": ("boolean", [True, False]),
    "int": ("int", [0, -5, 2**31 - 1]),
    "long": ("long", [1, -(2**63), 2**63 - 1]),
    "float": ("float", [0.5, float("inf")]),
    "double": ("double", [0.1]),
    "bytes": ("bytes", [b"a", b""]),
    "string": ("string", ["a", "", "é"]),
    "enum": (ENUM, ["a", "b"]),
    "fixed": (fixed("F", 3), [b"abc"]),
    "date": (logical("date", "int"), [dt.date(2020, 2, 3)]),
    "time-millis": (logical("time-millis", "int"), [dt.time(1, 2, 3, 4_000)]),
    "time-micros": (logical("time-micros", "long"), [dt.time(1, 2, 3, 4)]),
    "timestamp-millis": (logical("timestamp-millis", "long"), [UTC]),
    "timestamp-micros": (logical("timestamp-micros", "long"), [UTC.replace(microsecond=7)]),
    "timestamp-nanos": (logical("timestamp-nanos", "long"), [1_580_702_706_000_000_000]),
    "local-millis": (logical("local-timestamp-millis", "long"), [AT]),
    "local-micros": (logical("local-timestamp-micros", "long"), [AT.replace(microsecond=7)]),
    "local-nanos": (logical("local-timestamp-nanos", "long"), [1_580_702_706_000_000_000]),
    "uuid": (logical("uuid", "string"), [ID]),
    "uuid in bytes": (fixed("U", 16, logicalType="uuid"), [ID.bytes]),
    "decimal": ({"type": "bytes", **CENTS}, [Decimal("1.23"), Decimal("-999.99")]),
    "decimal of scale 0": (logical("decimal", "bytes", precision=4), [Decimal("-7")]),
    "wide decimal": (
        logical("decimal", "bytes", precision=50, scale=10),
        [Decimal("1234567890123456789012345678901234567890.0123456789")],
    ),
    "fixed decimal": (fixed("D", 3, **CENTS), [Decimal("1.23"), Decimal("-999.99")]),
    "logical type of its own": (logical("json", "string"), ["{}"]),
    "logical type on another type": (logical("date", "string"), ["2020"]),
    "duration": (fixed("L", 12, logicalType="duration"), [b"0" * 12]),
    "map": (MAP, [{"a": 1}, {}]),
    "map of records": ({"type": "map", "values": ["null", POINT]}, [{"a": {"x": 1}, "b": None}]),
    "long or int": (["int", "long"], [1, 2**40]),
    "double or float": (["float", "double"], [0.5, 0.1]),
    "long or string": (["long", "string"], [1, "a"]),
    "enum or bytes or record": ([ENUM, "bytes", POINT], ["a", b"a", {"x": 1}]),
    "null": ("null", [None]),
    "alone in a union": (["long"], [1]),
    "record": (POINT, [{"x": 1}]),
}
Shape = tuple["Callable[[Any], Any]", "Callable[[list[Any]], list[Any]]"]


def struct(kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": "S", "fields": [{"name": "y", "type": kind}]}


def nullable(kind: Any) -> Any:
    others = kind if isinstance(kind, list) else [kind]
    return ["null", *others] if kind != "null" else kind


SHAPES: dict[str, Shape] = {
    "alone": (lambda kind: kind, lambda found: found),
    "null first": (nullable, lambda found: [*found, None]),
    "null last": (
        lambda kind: (
            [*(kind if isinstance(kind, list) else [kind]), "null"] if kind != "null" else kind
        ),
        lambda found: [*found, None],
    ),
    "list": (lambda kind: {"type": "array", "items": kind}, lambda found: [found, []]),
    "list of nullable": (
        lambda kind: {"type": "array", "items": nullable(kind)},
        lambda found: [[*found, None], []],
    ),
    "nullable list": (
        lambda kind: nullable({"type": "array", "items": kind}),
        lambda found: [found, None],
    ),
    "struct": (struct, lambda found: [{"y": value} for value in found]),
    "nullable struct of nullable": (
        lambda kind: nullable(struct(nullable(kind))),
        lambda found: [None, *({"y": value} for value in [*found, None])],
    ),
    "list of structs": (
        lambda kind: {"type": "array", "items": nullable(struct(kind))},
        lambda found: [[None, *({"y": value} for value in found)]],
    ),
    "map": (lambda kind: {"type": "map", "values": kind}, lambda found: [{"k": v} for v in found]),
    "nullable map of lists": (
        lambda kind: nullable({"type": "map", "values": {"type": "array", "items": kind}}),
        lambda found: [{"k": found, "l": []}, None],
    ),
}


def record(kind: Any) -> dict[str, Any]:
    fields = [("a", "string"), ("b", kind), ("c", "int")]
    described = [{"name": name, "type": kind} for name, kind in fields]
    return {"type": "record", "name": "R", "namespace": "n", "fields": described}


def written(schema: dict[str, Any], values: list[Any]) -> list[bytes]:
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    found = []
    for k, value in enumerate(values):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, {"a": "x", "b": value, "c": k})
        found.append(out.getvalue())
    return found


def as_avro(kind: pa.DataType, value: Any) -> Any:
    """A column value as fastavro represents it."""
    if value is None:
        return None
    if pa.types.is_list(kind):
        return [as_avro(kind.value_type, inner) for inner in value]
    if pa.types.is_map(kind):
        return {key: as_avro(kind.item_type, inner) for key, inner in value}
    if pa.types.is_struct(kind):
        found = {f.name: as_avro(f.type, value[f.name]) for f in kind}
        if "member0" not in found:
            return found
        (member,) = [inner for inner in found.values() if inner is not None]
        return member
    return value


def normal(value: Any) -> Any:
    """The value that fastavro returns, with identifiers in bytes as text."""
    if isinstance(value, list):
        return [normal(inner) for inner in value]
    if isinstance(value, dict):
        return {key: normal(inner) for key, inner in value.items()}
    return str(ID) if value in (ID, ID.bytes) else value


def check_as_fastavro_reads_it(schema: dict[str, Any], values: list[Any]) -> None:
    columns = arrow_columns(schema)
    assert columns.names == ["a", "b", "c"]
    kind = columns.field("b").type
    bodies = written(schema, values)
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    oracle = [fastavro.schemaless_reader(io.BytesIO(body), parsed, None)["b"] for body in bodies]
    found = AvroDecoder(columns, schema).decode(bodies)
    assert not found.bad, found.bad
    assert found.rows.column("c").to_pylist() == list(range(len(values)))
    column = found.rows.column("b")
    if "timestamp[ns" in str(kind):
        kind = counted(kind)
        column = column.cast(kind)
    assert [as_avro(kind, value) for value in column.to_pylist()] == normal(oracle)


def counted(kind: pa.DataType) -> pa.DataType:
    """The type with whole numbers for nanoseconds, which fastavro does not support."""
    if pa.types.is_list(kind):
        return pa.list_(counted(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(pa.string(), counted(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([(f.name, counted(f.type)) for f in kind])
    return pa.int64()


@pytest.mark.parametrize("shape", SHAPES)
def test_all_types_are_read_like_fastavro(shape: str) -> None:
    make, spread = SHAPES[shape]
    for name, (kind, values) in TYPES.items():
        if isinstance(kind, list) and "null" in shape and len(kind) == 1:
            continue  # the same as the type itself
        try:
            check_as_fastavro_reads_it(record(make(kind)), spread(values))
        except AssertionError as error:
            raise AssertionError(f"{name}, {shape}: {error}") from error


def reads(schema: dict[str, Any], columns: pa.Schema, bodies: list[bytes]) -> Any:
    """The rows, and the reasons why the others are bad."""
    found = AvroDecoder(columns, schema).decode(bodies)
    return found.rows.to_pylist(), {k: str(bad) for k, bad in found.bad.items()}


def of_fields(*fields: tuple[str, Any], **more: Any) -> dict[str, Any]:
    described = [{"name": name, "type": kind} for name, kind in fields]
    return {"type": "record", "name": "R", "fields": described, **more}


def body_of(schema: dict[str, Any], row: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), row)
    return out.getvalue()


def test_a_named_type_can_be_reused_from_another_namespace() -> None:
    address = of_fields(("city", "string"), ("kind", ENUM)) | {"name": "x.y.Address"}
    schema = of_fields(
        ("home", address),
        ("work", ["null", "x.y.Address"]),
        ("all", {"type": "array", "items": "x.y.Address"}),
        ("kind", "x.y.E"),
        namespace="n",
    )
    home, work = {"city": "Rome", "kind": "a"}, {"city": "Oslo", "kind": "b"}
    row = {"home": home, "work": work, "all": [home, work], "kind": "b"}
    columns = arrow_columns(schema)
    struct = pa.struct([("city", pa.string()), ("kind", pa.string())])
    assert columns.types == [struct, struct, pa.list_(struct), pa.string()]
    rows, bad = reads(
        schema, columns, [body_of(schema, row), body_of(schema, row | {"work": None})]
    )
    assert (rows, bad) == ([row, row | {"work": None}], {})


NODE = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "v", "type": "long"}, {"name": "next", "type": ["null", "Node"]}],
}
UNREADABLE: list[tuple[Any, str]] = [
    (NODE, r"field 'b\.next': the record 'Node' contains itself"),
    (struct({"type": "record", "name": "N", "fields": []}), r"field 'b\.y': the record 'N' has no"),
    (logical("decimal", "bytes", precision=77), r"field 'b': a decimal of 77 digits"),
    ("of.Another", r"the type 'of\.Another' is not defined"),
    ({"type": "map"}, r"not an Avro schema"),
    ({"type": "enum", "symbols": ["a"]}, r"not an Avro schema"),
]


@pytest.mark.parametrize(("kind", "told"), UNREADABLE, ids=str)
def test_types_without_a_column_type_are_rejected_at_planning(kind: Any, told: str) -> None:
    schema = of_fields(("a", "long"), ("b", kind))
    with pytest.raises(UnreadableAvroError, match=told):
        arrow_columns(schema)
    with pytest.raises(InvalidPlanError, match=told):
        Stream.from_kafka("t", servers="s", vs="a", delay="0s", format="avro", schema=schema)


def test_fields_beside_an_unsupported_one_are_read() -> None:
    schema = of_fields(("node", NODE), ("a", "long"), ("tags", MAP))
    row = {"node": {"v": 1, "next": {"v": 2, "next": None}}, "a": 7, "tags": {"k": 1}}
    rows, bad = reads(schema, pa.schema([("a", pa.int64())]), [body_of(schema, row)])
    assert (rows, bad) == ([{"a": 7}], {})
    asked = pa.schema([("node", pa.struct([("v", pa.int64())]))])
    found = AvroDecoder(asked, Numbered(schema)).decode([b"\0\0\0\0\7" + body_of(schema, row)])
    told = "schema 7 of the registry: field 'node.next': the record 'Node' contains itself"
    assert {k: str(bad) for k, bad in found.bad.items()} == {0: told}


class Numbered:
    """A registry that returns this schema for every number."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema

    def schema(self, number: int) -> dict[str, Any]:
        assert number == 7
        return self._schema


def test_a_type_that_is_defined_twice_is_rejected() -> None:
    with pytest.raises(UnreadableAvroError, match=r"the type 'E' is defined twice"):
        arrow_columns(of_fields(("a", ENUM), ("b", ENUM | {"symbols": ["c"]})))


def test_two_fields_with_one_name_are_rejected() -> None:
    with pytest.raises(UnreadableAvroError, match=r"field 'a': it occurs more than once"):
        arrow_columns(of_fields(("a", "long"), ("a", "string")))


@pytest.mark.parametrize(
    ("kind", "body", "told"),
    [
        ({"type": "bytes", **CENTS}, b"\x06\x0f\x42\x40", "precision"),
        (fixed("D", 3, **CENTS), b"\x0f\x42\x40", "precision"),
        (logical("time-millis", "int"), b"\x80\x90\xdf\xc0\x07", "is not a time of day"),
        (logical("time-micros", "long"), b"\x01", "-1 is not a time of day"),
    ],
)
def test_a_value_outside_of_its_type_is_bad(kind: Any, body: bytes, told: str) -> None:
    """A decimal with too many digits for its Avro type is a bad value."""
    schema = of_fields(("b", kind))
    rows, bad = reads(schema, arrow_columns(schema), [body])
    assert rows == []
    assert told in bad[0]


@pytest.mark.parametrize("more", [[], [("m", MAP)]], ids=["blocks", "rows"])
def test_a_writer_type_that_does_not_match_the_plan_is_bad(more: list[Any]) -> None:
    """A value of another type than in the plan is bad: true is not 1, 0.5 is no integer."""
    plan = pa.schema([("b", pa.int64())])
    for kind, value, is_good in (
        ("boolean", True, False),
        ("int", 5, True),
        ("double", 2.0, True),
        ("double", 2.5, False),
        ("string", "7", False),
    ):
        schema = of_fields(("b", kind), *more)
        row = {"b": value, "m": {}}
        rows, bad = reads(schema, plan, [body_of(schema, row)])
        assert (len(rows), len(bad)) == ((1, 0) if is_good else (0, 1)), kind


def test_which_types_are_decoded_in_blocks() -> None:
    """Common types keep the fast path."""
    fast = {name for name, (kind, _) in TYPES.items() if AvroTypes(record(kind)).are_in_blocks}
    assert fast == {
        *("boolean", "int", "long", "float", "double", "bytes", "string", "enum", "fixed"),
        *("date", "timestamp-millis", "timestamp-micros", "local-millis", "local-micros"),
        *("uuid", "record"),
    }
    assert not AvroTypes(record(nullable(ENUM))).are_in_blocks
    assert AvroTypes(record(nullable(struct(nullable("long"))))).are_in_blocks


def test_columns_may_be_named_type() -> None:
    """A dict of columns with a column "type" is not an Avro schema."""
    columns = {"type": "string", "at": "timestamp"}
    config = {"schema.registry.url": "http://registry"}
    rows = Stream.from_kafka(
        "t", servers="s", vs="at", delay="0s", format="avro", schema=columns, config=config
    )
    assert rows.schema.names == ["type", "at"]
