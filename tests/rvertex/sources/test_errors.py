"""Errors of a file name the file, row, line and column; after a repair the job continues."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rvertex import errors
from rvertex.sources.discover import discover, infer_schema
from rvertex.sources.formats import json_lines
from rvertex.sources.readers import open_reader
from rvertex.sources.spec import Csv, Json, Parquet, Text
from tests.rvertex.sources.conftest import COLUMNS, make_spec, only_partition, read_rows

if TYPE_CHECKING:
    from pathlib import Path

    from rstream.errors import StreamEngineError
    from rvertex.sources.spec import Format, SourceSpec

GOOD_CSV = "time,k,x\n1,a,1\n2,b,2\n3,c,3\n"


def failure(spec: SourceSpec, kind: type[StreamEngineError]) -> Any:
    """The error of reading everything, after pickling."""
    with pytest.raises(kind) as caught:
        read_rows(only_partition(spec))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert spec.path in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("format", "text", "row", "line", "column", "value"),
    [
        ("csv", 'time,k,x\n1,"a\nb",1\n\n,b,2\n', 2, 5, "time", "None"),
        ("csv", "time,k,x\n1,a,1\nsoon,b,2\n", 2, 3, "time", "'soon'"),
        ("csv", "time,k,x\n1,a,1\n2,b,2\n3,c,many\n", 3, 4, "x", "'many'"),
        ("csv", "time,k,x\n1,a,1\n2,b\n", 2, 3, None, "2,b"),
        ("json", '{"time": 1}\n\n{"k": "b"}\n', 2, 3, "time", "None"),
        ("json", '{"time": 1}\n{"time": "soon"}\n{"time": 2}', 2, 2, "time", '"soon"'),
        ("json", '{"time": 1}\n{"time": 2\n{"time": 3}', 2, 2, None, '{"time": 2'),
        ("json", '{"time": 1}\n[1]\n', 2, 2, None, "[1]"),
    ],
)
def test_a_bad_row_is_named(
    tmp_path: Path, format: Format, text: str, row: int, line: int, column: str | None, value: str
) -> None:
    path = tmp_path / f"a.{format}"
    path.write_text(text)
    error = failure(make_spec(format, path), errors.SourceRowError)
    assert (error.row, error.line, error.column, error.value) == (row, line, column, value)
    assert f"data row {row} (line {line}), counted from 1" in str(error)


def test_a_row_with_other_fields_that_is_not_utf_8_does_not_affect_types(
    tmp_path: Path,
) -> None:
    """Arrow passes such a row to Python as text, which failed for bytes that are not UTF-8."""
    path = tmp_path / "a.csv"
    path.write_bytes(b"time,k,x\n1,a,1\n2,\xe9,2,2\n3,\xe9,3\n")
    found = infer_schema(Csv(), str(path))
    assert [str(kind) for kind in found.types] == ["int64", "string", "int64"]


@pytest.mark.parametrize("place", range(7))
@pytest.mark.parametrize("format", ["csv", "json", "parquet"])
def test_a_bad_row_is_found_at_any_position(tmp_path: Path, format: Format, place: int) -> None:
    """The first of two bad rows is named; its value does not fit the plan's type."""
    path = tmp_path / f"a.{format}"
    values = [row + 0.5 if row in (place, 6) else float(row) for row in range(7)]
    if format == "parquet":
        pq.write_table(pa.table({"time": range(7), "k": ["a"] * 7, "x": values}), path)
    elif format == "csv":
        path.write_text("time,k,x\n" + "".join(f"{t},a,{x:g}\n" for t, x in enumerate(values)))
    else:
        lines = (f'{{"time": {t}, "k": "a", "x": {x:g}}}\n' for t, x in enumerate(values))
        path.write_text("".join(lines))
    whole = COLUMNS.set(2, pa.field("x", pa.int64()))
    error = failure(make_spec(format, path, schema=whole, columns=whole), errors.SourceRowError)
    assert (error.row, error.column, error.value.strip("'")) == (place + 1, "x", f"{place}.5")
    said = "another type holds all values of 'x', set schema={\"x\": ...}; set on_bad"
    assert said in str(error), "to leave such rows out is not the only remedy"


@pytest.mark.parametrize("nulls", ["", "n/a"])
def test_an_empty_field_without_an_entry_in_null_values(tmp_path: Path, nulls: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text("time,k,x\n1,a,\n")
    spec = make_spec("csv", path, null_values=nulls.split(","))
    if nulls == "":
        assert read_rows(only_partition(spec))
    else:
        error = failure(spec, errors.SourceRowError)
        assert 'not of type double, and null_values= does not name ""' in str(error)


def test_rows_are_numbered_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "CHUNK_BYTES", 64)
    path = tmp_path / "a.json"
    lines = [f'{{"time": {i}}}' for i in range(100)]
    lines[70] = '{"time": []}'
    path.write_text("\n".join(lines))
    error = failure(make_spec("json", path), errors.SourceRowError)
    assert (error.row, error.line, error.column) == (71, 71, "time")


def test_a_bad_time_string(tmp_path: Path) -> None:
    columns = pa.schema([("at", pa.string())])
    path = tmp_path / "a.csv"
    path.write_text("at\n2013-01-01T00:00:00Z\n2013-01-01 00:00\n2013-99-01\n")
    spec = make_spec("csv", path, schema=columns, columns=columns, vs="at")
    error = failure(spec, errors.SourceRowError)
    assert "data row 3 (line 4), counted from 1, column 'at'" in str(error)
    assert "not an ISO-8601 time: '2013-99-01'; if times have another format" in str(error)
    assert 'vs=col("at").str.to_timestamp("%d.%m.%Y"), in SQL TO_TIMESTAMP(at, ' in str(error)


def test_a_number_in_a_text_column_of_times(tmp_path: Path) -> None:
    columns = pa.schema([("at", pa.string())])
    path = tmp_path / "a.csv"
    path.write_text("at\n5\nTotal\n")
    spec = make_spec("csv", path, schema=columns, columns=columns, vs="at")
    error = failure(spec, errors.SourceRowError)
    assert "column 'at' is text because of another value, and only columns of whole" in str(error)
    assert 'set schema={"at": "int64"}; set on_bad_row=' in str(error)


@pytest.mark.parametrize("text", ['[{"t": 1}]', '{\n"t": 1\n}', '{"t": 1}{"t": 2}'])
def test_json_that_is_not_in_lines(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(errors.CorruptSourceError, match="in one line; write each object in one"):
        infer_schema(Json(), str(tmp_path / "a.json"))


def test_a_null_time_in_parquet_is_numbered_across_row_groups(tmp_path: Path) -> None:
    rows = [{"time": None if i == 17 else i, "k": "a", "x": 0.0} for i in range(20)]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist(rows, COLUMNS), path, row_group_size=5)
    error = failure(make_spec("parquet", path), errors.SourceRowError)
    assert (error.row, error.line, error.column, error.reason) == (
        18,
        None,
        "time",
        "the time is null",
    )


def test_an_event_must_end_after_it_starts(tmp_path: Path) -> None:
    columns = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n2000000,2000000\n")
    spec = make_spec("csv", path, schema=columns, columns=columns, vs="a", ve="b")
    error = failure(spec, errors.SourceRowError)
    assert (error.row, error.column, error.reason) == (2, "b", "ends before it starts")
    assert "1970-01-01 00:00:02" in error.value
    path.write_text(f"a,b\n1,2\n{2**63 - 1},3\n")
    spec = make_spec("csv", path, schema=columns, columns=columns, vs="a")
    assert "after the last possible time" in failure(spec, errors.SourceRowError).reason


def test_a_missing_column_is_named_with_the_columns_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("time,k\n1,a\n")
    error = failure(make_spec("csv", tmp_path / "a.csv"), errors.SourceSchemaError)
    assert str(error).endswith("column 'x': not in the file, which has time, k")
    pq.write_table(pa.table({"time": [1], "x": [1.0]}), tmp_path / "a.parquet")
    error = failure(make_spec("parquet", tmp_path / "a.parquet"), errors.SourceSchemaError)
    assert str(error).endswith("column 'k': not in the file, which has time, x")


def test_a_column_of_another_type(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"time": ["no"], "k": ["a"], "x": [1.0]}), path)
    error = failure(make_spec("parquet", path), errors.SourceSchemaError)
    assert "column 'time': it is string here, but int64 in the plan" in str(error)
    error = failure(make_spec("csv", _good_csv(tmp_path), vs="x"), errors.SourceSchemaError)
    assert "double cannot be a time" in str(error)


def test_a_corrupt_footer_and_a_corrupt_page(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1 this is not it")
    with pytest.raises(errors.CorruptSourceError, match=r"a\.parquet: corrupt"):
        discover(make_spec("parquet", path))
    rows = pa.table({"time": range(100), "k": ["a"] * 100, "x": [0.0] * 100}, schema=COLUMNS)
    pq.write_table(rows, path, row_group_size=50, compression="zstd")
    spec = make_spec("parquet", path)
    partition = only_partition(spec, is_watched=False)
    good = path.read_bytes()
    at = pq.ParquetFile(path).metadata.row_group(1).column(0).data_page_offset
    path.write_bytes(good[:at] + b"\xff" * 40 + good[at + 40 :])
    reader = open_reader(partition, 0)
    first = reader.read_next(1000)
    assert first is not None
    assert first.num_rows == 50
    with pytest.raises(errors.CorruptSourceError, match=r"a\.parquet, row group 1: corrupt"):
        reader.read_next(1000)
    path.write_bytes(good)
    assert read_rows(partition, 50)["time"].to_pylist() == list(range(50, 100))


def test_a_corrupt_text_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(b"not gzip")
    failure(make_spec("csv", path), errors.CorruptSourceError)
    with pytest.raises(errors.CorruptSourceError, match=r"a\.csv\.gz"):
        infer_schema(Csv(), str(path))
    (tmp_path / "a.json").write_text("{}}")
    with pytest.raises(errors.CorruptSourceError, match=r"a\.json"):
        infer_schema(Json(), str(tmp_path / "a.json"))


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"fine\nl\xffne\n")
    columns = infer_schema(Text(), str(path))
    spec = make_spec("text", path, schema=columns, columns=columns, vs=None)
    error = failure(spec, errors.SourceRowError)
    assert (error.row, error.line, error.column) == (2, 2, "line")


def test_a_path_without_files(tmp_path: Path) -> None:
    with pytest.raises(errors.SourceNotFoundError, match="No such file"):
        discover(make_spec("csv", tmp_path / "absent.csv"))
    with pytest.raises(errors.SourceNotFoundError, match="no non-empty csv file matches"):
        discover(make_spec("csv", tmp_path / "*.csv"))
    with pytest.raises(errors.SourceNotFoundError, match="no non-empty parquet file"):
        infer_schema(Parquet(), str(tmp_path))


@pytest.mark.parametrize("format", ["parquet", "csv", "json", "text"])
def test_a_file_that_is_missing_for_a_while(tmp_path: Path, format: Format) -> None:
    columns = COLUMNS if format != "text" else pa.schema([("line", pa.string())])
    vs = None if format == "text" else "time"
    for name in ("a", "b"):
        _write_good(tmp_path / name, format)
    partition = only_partition(make_spec(format, tmp_path, schema=columns, columns=columns, vs=vs))
    reader = open_reader(partition, 0)
    assert reader.read_next(1) is not None
    (tmp_path / "b").rename(tmp_path / "_away")
    rest = reader.read_next(2)
    assert rest is not None
    assert rest.num_rows == 2
    with pytest.raises(errors.SourceVanishedError, match="No such file"):
        reader.read_next(2)
    (tmp_path / "_away").rename(tmp_path / "b")
    assert read_rows(partition, 3).num_rows == 3


def test_a_file_that_changed_since_discovery(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    _write_good(path, "parquet")
    partition = only_partition(make_spec("parquet", path), is_watched=False)
    pq.write_table(pa.table({"time": [1], "k": ["a"], "x": [1.0]}), path)
    with pytest.raises(errors.SourceChangedError, match=r"row group 0: .* 3 rows then, 1 now"):
        read_rows(partition)
    columns = pa.schema([("line", pa.string())])
    text = make_spec("text", tmp_path / "t", schema=columns, columns=columns, vs=None)
    (tmp_path / "t").write_text("a\nb\n")
    lines = only_partition(text, is_watched=False)
    (tmp_path / "t").write_text("a\nb\nc\n")
    with pytest.raises(errors.SourceChangedError, match="2 rows then, 3 now"):
        read_rows(lines)


def test_a_duplicate_column_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,a\n1,2\n")
    with pytest.raises(errors.SourceSchemaError, match="more than once"):
        infer_schema(Csv(), str(path))


def _good_csv(folder: Path) -> Path:
    path = folder / "good.csv"
    path.write_text(GOOD_CSV)
    return path


def _write_good(path: Path, format: Format) -> None:
    if format == "parquet":
        rows = {"time": [1, 2, 3], "k": ["a", "b", "c"], "x": [1.0, 2.0, 3.0]}
        pq.write_table(pa.table(rows, schema=COLUMNS), path)
    elif format == "csv":
        path.write_text(GOOD_CSV)
    elif format == "json":
        path.write_text("".join(f'{{"time": {i}, "k": "a", "x": 1.0}}\n' for i in (1, 2, 3)))
    else:
        path.write_text("a\nb\nc\n")


def test_a_binary_file_is_reported_with_printable_text(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_bytes(b"PAR1,k\n1,a\n\x00\x07\x1b[2J,b,2,3\r\n")
    columns = infer_schema(Csv(), str(path))
    spec = make_spec("csv", path, schema=columns, columns=columns, vs="PAR1")
    assert str(failure(spec, errors.SourceRowError)).isprintable()


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b"", 0),
        (b" \n\r\n ", 0),
        (b"{}", 1),
        (b'{"a": 1}\n{"a": 2}\n', 2),
        (b'{"a": 1}\r\n{"a": 2}\r\n', 2),
        (b'{"a": 1}\n\n  {"a": 2}  \n\t{}\r\n{}', 4),
        (b'{"a": 1}{"a": 2}', 1),
        (b'{"a":\n1}', None),
        (b'{"a": 1}\n[1]\n{}', None),
        (b'[{"a": 1}]', None),
        (b'{"a": 1}\n7', None),
    ],
)
def test_objects_over_several_lines(text: bytes, lines: int | None) -> None:
    assert json_lines.object_lines(text) == lines
