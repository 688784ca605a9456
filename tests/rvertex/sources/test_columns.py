"""No column is lost, renamed or confused with another, for any names in the files of a source.

Not covered: columns that first appear after the first few MB of a JSON file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamscope as ss
from rvertex.errors import SourceRowError, SourceSchemaError
from rvertex.sources.discover import discover, infer_schema
from rvertex.sources.mixed import look
from rvertex.sources.spec import Json, Parquet
from tests.rvertex.sources.conftest import make_spec, only_partition, read_rows

if TYPE_CHECKING:
    from pathlib import Path

    from rvertex.sources.spec import Format

TWICE = "column 'k': the file has this column more than once"


def write_twice(path: Path, format: Format) -> None:
    """A file with one row that has column k twice."""
    if format == "csv":
        path.write_text("time,k,x,k\n2,b,1.5,c\n")
        return
    columns = [pa.array([2]), pa.array(["b"]), pa.array([1.5]), pa.array(["c"])]
    pq.write_table(pa.Table.from_arrays(columns, ["time", "k", "x", "k"]), path)


@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_a_duplicate_column_in_a_later_file_is_rejected(tmp_path: Path, format: Format) -> None:
    first = {"time": [1], "k": ["a"], "x": [0.5]}
    if format == "csv":
        (tmp_path / "a.csv").write_text("time,k,x\n1,a,0.5\n")
    else:
        pq.write_table(pa.table(first), tmp_path / "a.parquet")
    write_twice(tmp_path / f"b.{format}", format)
    spec = make_spec(format, tmp_path)
    with pytest.raises(SourceSchemaError, match=rf"b\.{format}: {TWICE}"):
        look(spec, discover(spec))
    with pytest.raises(SourceSchemaError, match=rf"b\.{format}: {TWICE}"):
        read_rows(only_partition(spec))


def test_a_duplicate_field_in_a_struct_is_rejected(tmp_path: Path) -> None:
    struct = pa.struct([("x", pa.int64()), ("x", pa.int64())])
    row = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], fields=list(struct))
    pq.write_table(pa.table({"time": [1], "s": row}), tmp_path / "a.parquet")
    with pytest.raises(SourceSchemaError, match=r"column 's\.x': the file has this column more"):
        infer_schema(Parquet(), str(tmp_path))


@pytest.mark.parametrize("struct_first", [True, False])
def test_a_column_with_a_dot_and_a_struct_with_that_field(
    tmp_path: Path, struct_first: bool
) -> None:
    """Arrow reads both columns if this name is requested; only one of them is wanted."""
    struct = [{"b": f"no {k % 3}"} for k in range(9000)]
    dotted = [f"yes {k % 3}" for k in range(9000)]
    pair = {"a": struct, "a.b": dotted} if struct_first else {"a.b": dotted, "a": struct}
    pq.write_table(pa.table({"time": range(9000), **pair}), tmp_path / "a.parquet")
    rows = ss.Stream.from_parquet(tmp_path, vs="time")
    only = ss.collect(rows.filter(ss.col("a.b") >= "yes").select("a.b"), executor="local")
    assert only["a.b"].to_pylist() == dotted
    both = ss.collect(rows, executor="local")
    assert (both["a.b"].to_pylist(), both["a"].to_pylist()) == (dotted, struct)
    assert ss.collect(rows.select("a"), executor="local")["a"].to_pylist() == struct
    late = ss.Stream.from_parquet(tmp_path, vs="time", delay="0s").select("a.b")
    assert ss.collect(late, executor="local")["a.b"].to_pylist() == dotted


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"time": 2, "k": "b", "x": 1.5, "k": "c"}', r"column 'k': the key 'k' occurs more"),
        ('{"time": 2, "k": "b", "x": 1.5, "\\u006b": "c"}', r"the key 'k' occurs more"),
    ],
)
def test_a_duplicate_json_key_is_reported_as_such(tmp_path: Path, line: str, told: str) -> None:
    (tmp_path / "a.json").write_text('{"time": 1, "k": "a", "x": 0.5}\n' + line + "\n")
    with pytest.raises(SourceRowError, match=told):
        read_rows(only_partition(make_spec("json", tmp_path)))


def test_struct_fields_that_only_later_files_have_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"time": 1, "s": {"x": 1}, "l": [{"y": 1}]}\n')
    (tmp_path / "b.json").write_text('{"time": 2, "s": {"x": 1, "z": 2}, "l": [{"w": 1}]}\n')
    found = infer_schema(Json(), str(tmp_path))
    spec = make_spec("json", tmp_path, columns=found, schema=found)
    (note,) = look(spec, discover(spec))
    assert "not read: s.z, l.w that the first file does not have, in 1 of 2 files" in note
