"""Folders whose files differ: converted values stay equal, others are an error.

Not covered: types that are in no test.
"""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rvertex.errors import SourceRowError, SourceSchemaError
from rvertex.sources.discover import discover, infer_schema
from rvertex.sources.formats.registry import FORMATS
from rvertex.sources.mixed import fits, look
from rvertex.sources.spec import Parquet
from tests.rvertex.sources.conftest import make_spec, only_partition, read_rows

if TYPE_CHECKING:
    from pathlib import Path

    from rvertex.sources.spec import Format, SourceSpec

AT = datetime(2020, 2, 3, 4, 5, 6, 7)  # noqa: DTZ001 - Arrow's own, without a zone
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int8": (pa.int8(), [0, -5, 127]),
    "int32": (pa.int32(), [0, 2**31 - 1]),
    "int64": (pa.int64(), [1, 2**53 + 1, -(2**63)]),
    "uint64": (pa.uint64(), [1, 2**64 - 1]),
    "float32": (pa.float32(), [0.5, 3.0, 2.0**60]),
    "float64": (pa.float64(), [0.1, 4.0, 1e300]),
    "decimal": (pa.decimal128(10, 2), [Decimal("19.99"), Decimal("7.00")]),
    "wide decimal": (pa.decimal128(30, 4), [Decimal("0.1234"), Decimal(10) ** 20]),
    "text": (pa.string(), ["7", "", "2020-02-03"]),
    "large text": (pa.large_string(), ["7", "x"]),
    "codes": (pa.dictionary(pa.int32(), pa.string()), ["7", "x"]),
    "bytes": (pa.binary(), [b"7"]),
    "bool": (pa.bool_(), [True, False]),
    "date": (pa.date32(), [date(2020, 2, 3)]),
    "date64": (pa.date64(), [date(2020, 2, 3)]),
    "ms": (pa.timestamp("ms"), [AT.replace(microsecond=8_000)]),
    "us": (pa.timestamp("us"), [AT, datetime(2020, 1, 1)]),  # noqa: DTZ001
    "ns": (pa.timestamp("ns"), [AT]),
    "us UTC": (pa.timestamp("us", "UTC"), [AT]),
    "time": (pa.time64("us"), [time(1, 2, 3, 4)]),
    "short time": (pa.time32("s"), [time(1, 2, 3)]),
    "duration": (pa.duration("us"), [timedelta(microseconds=1_500_001)]),
    "duration in s": (pa.duration("s"), [timedelta(seconds=3)]),
    "list": (pa.list_(pa.int32()), [[1, 2], []]),
    "list of text": (pa.list_(pa.string()), [["1"]]),
    "two": (pa.list_(pa.int64(), 2), [[1, 2]]),
    "struct": (pa.struct([("x", pa.int64())]), [{"x": 2**40}, None]),
    "short struct": (pa.struct([("x", pa.int8())]), [{"x": 1}]),
    "other struct": (pa.struct([("y", pa.int64())]), [{"y": 1}]),
    "map": (pa.map_(pa.string(), pa.int64()), [[("a", 1)]]),
    "map of text": (pa.map_(pa.string(), pa.string()), [[("a", "1")]]),
    "nothing": (pa.null(), [None]),
}


@pytest.mark.parametrize("there", VALUES)
def test_compatible_types_keep_every_value(there: str) -> None:
    """A value stays the same or is an error; it is never changed to fit the type."""
    for wanted in VALUES:
        check_conversion(there, wanted)


def check_conversion(there: str, wanted: str) -> None:
    (kind, values), (target, _) = VALUES[there], VALUES[wanted]
    if not fits(kind, target):
        assert there != wanted
        return
    plain = target.value_type if pa.types.is_dictionary(target) else target
    for value in values:
        column = pa.array([value], kind)
        column = column.dictionary_decode() if pa.types.is_dictionary(kind) else column
        try:
            found = column.cast(plain)
        except pa.ArrowInvalid:
            continue
        assert is_same(found, column), (value, found)


def is_same(found: pa.Array, column: pa.Array) -> bool:
    try:
        return bool(found.cast(column.type).equals(column))
    except pa.ArrowException:  # it cannot be converted back; Python compares numbers exactly
        return bool(found.to_pylist() == column.to_pylist())


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        *(("text", "int64"), ("int64", "text"), ("bool", "int64"), ("int64", "bool")),
        *(("us", "date"), ("us", "us UTC"), ("int64", "us"), ("us", "int64"), ("text", "us")),
        *(("float64", "float32"), ("decimal", "float64"), ("float64", "decimal")),
        *(("list", "list of text"), ("bytes", "text")),
        *(("struct", "other struct"), ("map", "map of text"), ("map", "list")),
    ],
)
def test_ambiguous_types_are_incompatible(there: str, wanted: str) -> None:
    assert not fits(VALUES[there][0], VALUES[wanted][0])


def folder_of(tmp_path: Path, second: dict[str, list[Any]]) -> Path:
    first = pa.table({"time": [1, 2], "k": ["a", "b"], "x": [0.5, 1.5]})
    pq.write_table(first, tmp_path / "a.parquet")
    pq.write_table(pa.table(second), tmp_path / "b.parquet")
    return tmp_path


def test_an_incompatible_type_is_rejected_by_name(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, {"time": ["3"], "k": ["c"], "x": [2.5]})
    spec = make_spec("parquet", folder)
    told = r"b\.parquet: column 'time': it is string here, but int64 in the plan.*schema=\{\"time\""
    with pytest.raises(SourceSchemaError, match=told):
        look(spec, discover(spec))
    with pytest.raises(SourceSchemaError, match=told):
        read_rows(only_partition(spec))
    named = make_spec("parquet", folder, casts=("time",))
    assert look(named, discover(named)) == ()
    assert read_rows(only_partition(named))["time"].to_pylist() == [1, 2, 3]


def test_a_wider_type_is_checked_value_by_value(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, {"time": [3.0, 4.0], "k": ["c", "d"], "x": [2, 3]})
    spec = make_spec("parquet", folder)
    assert look(spec, discover(spec)) == ()
    assert read_rows(only_partition(spec))["x"].to_pylist() == [0.5, 1.5, 2.0, 3.0]
    folder = folder_of(tmp_path, {"time": [3.0, 4.5], "k": ["c", "d"], "x": [2, 3]})
    with pytest.raises(SourceRowError, match=r"b\.parquet: .*column 'time': .*4\.5"):
        read_rows(only_partition(spec_again(spec)))


def spec_again(spec: SourceSpec) -> SourceSpec:
    return make_spec(spec.format, spec.path)


@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
def test_columns_that_only_later_files_have_are_named(tmp_path: Path, format: Format) -> None:
    rows = {"time": [1], "k": ["a"], "x": [0.5]}
    for n, more in enumerate([{}, {"y": [1]}, {}, {"y": [2], "z": [3]}]):
        table = pa.table({**rows, **more})
        path = tmp_path / f"f{n}.{format}"
        if format == "parquet":
            pq.write_table(table, path)
        elif format == "csv":
            rest = [[str(cell) for cell in row.values()] for row in table.to_pylist()]
            path.write_text("".join(",".join(row) + "\n" for row in [table.column_names, *rest]))
        else:
            path.write_text("".join(f"{row}\n".replace("'", '"') for row in table.to_pylist()))
    spec = make_spec(format, tmp_path)
    (note,) = look(spec, discover(spec))
    assert note == (
        f"source {tmp_path}: not read: y, z that the first file does not have, in 2 of 4 files "
        f"({tmp_path}/f1.{format}, {tmp_path}/f3.{format})"
    )
    alone = make_spec(format, tmp_path / f"f1.{format}")
    assert look(alone, discover(alone)) == ()


#: Types with equal values.
ALIKE: list[list[pa.DataType]] = [
    [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())],
    [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(4)],
    [pa.time32("s"), pa.time64("us")],
    [pa.duration("s"), pa.duration("ns")],
    [pa.date32(), pa.date64()],
    [pa.timestamp("s"), pa.timestamp("ns")],
    [pa.timestamp("s", "UTC"), pa.timestamp("us", "UTC")],
    [pa.bool_()],
    [pa.list_(pa.int8()), pa.large_list(pa.int8()), pa.list_(pa.int8(), 2)],
    [pa.list_(pa.string()), pa.large_list(pa.string_view())],
    [pa.struct([("x", pa.date32())]), pa.struct([("x", pa.date64())])],
    [pa.struct([("y", pa.date32())])],
    [pa.struct([("x", pa.date32()), ("y", pa.date32())])],
    [pa.map_(pa.string(), pa.binary()), pa.map_(pa.large_string(), pa.binary_view())],
    [pa.map_(pa.binary(), pa.string())],
]


def test_types_of_a_family_fit_and_no_others() -> None:
    for k, these in enumerate(ALIKE):
        for n, others in enumerate(ALIKE):
            is_day = these[0] == pa.date32() and others[0] == pa.timestamp("s")
            for there in these:
                assert fits(pa.null(), there)
                for wanted in others:
                    assert fits(there, wanted) == (k == n or is_day), (there, wanted)


@pytest.mark.parametrize(
    ("format", "first", "second"),
    [
        ("csv", "t,v,w\n", "t,v,w\n2026-01-01,9,\n2026-01-01,10,y\n"),
        ("csv", "t,v,w\n2026-01-01,,x\n", "t,w,v\n2026-01-01,,9\n"),
        ("json", "\n", '{"t": "2026-01-01", "v": 9, "w": null}\n'),
        ("json", '{"t": "2026-01-01", "v": null, "w": "x"}\n', '{"t": "2026-01-01", "v": 9}\n'),
    ],
)
def test_a_column_without_values_in_the_first_file_has_the_type_of_the_next(
    format: Format, first: str, second: str, tmp_path: Path
) -> None:
    """The type is not text, because then the maximum of 9 and 10 would be 9."""
    for name, text in (("a", first), ("b", ""), ("c", "\0"), ("d", second)):
        (tmp_path / f"{name}.{'jsonl' if format == 'json' else format}").write_text(text)
    schema = infer_schema(FORMATS[format].kind(), str(tmp_path))
    assert (schema.field("v").type, schema.field("w").type) == (pa.int64(), pa.string())
    assert schema.names == ["t", "v", "w"]


def test_the_columns_are_those_of_the_first_file(tmp_path: Path) -> None:
    pq.write_table(pa.table({"t": [1], "v": pa.nulls(1)}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"t": ["x"], "v": [2], "more": [3]}), tmp_path / "b.parquet")
    pq.write_table(pa.table({"t": [1], "v": ["x"]}), tmp_path / "c.parquet")
    assert infer_schema(Parquet(), str(tmp_path)) == pa.schema(
        [("t", pa.int64()), ("v", pa.int64())]
    )
