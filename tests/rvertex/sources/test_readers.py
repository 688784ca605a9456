"""Every format: a reader opened at any row returns the same rows from there as a full read.

Not covered: effects of files with many blocks on remote stores.
"""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from rstream.items.batch import CTI, EVENT, item_schema
from rstream.store.blobs import open_store
from rvertex.errors import SourceNotFoundError
from rvertex.sources.discover import assign, discover, infer_schema
from rvertex.sources.formats import delimited, json_lines
from rvertex.sources.formats.registry import FORMATS
from rvertex.sources.formats.row_groups import marked
from rvertex.sources.readers import open_reader
from rvertex.sources.spec import Csv, Parquet, Text, Unit
from tests.rvertex.sources.conftest import COLUMNS, make_spec, only_partition, read_rows

if TYPE_CHECKING:
    from pathlib import Path

    from rvertex.sources.spec import Format, SourcePartition

ROWS = 60


def table(start: int = 0, rows: int = ROWS) -> pa.Table:
    """Rows with nulls in the payload and unusual text."""
    numbers = range(start, start + rows)
    return pa.table(
        {
            "time": [1_000 * i for i in numbers],
            "k": [
                None if i % 7 == 0 else f'é "{i}",\n' if i % 5 == 0 else f"k{i}" for i in numbers
            ],
            "x": [None if i % 11 == 0 else i / 8 for i in numbers],
        },
        schema=COLUMNS,
    )


def write(format: Format, folder: Path) -> None:
    """Three files of ROWS // 3 rows; Parquet with row groups of 7."""
    folder.mkdir(exist_ok=True)
    third = ROWS // 3
    for number in range(3):
        part = table(number * third, third)
        if format == "parquet":
            pq.write_table(part, folder / f"{number}.parquet", row_group_size=7)
        elif format == "csv":
            pacsv.write_csv(part, folder / f"{number}.csv")
        else:
            lines = [json.dumps(row) for row in part.to_pylist()]
            (folder / f"{number}.jsonl").write_text("\n\n".join(lines) + "\n")


def expected() -> pa.Table:
    """The events of all three files."""
    rows = table()
    times = rows["time"]
    ends = pa.chunked_array([pa.array([t + 1 for t in times.to_pylist()])])
    return pa.table({"_vs": times, "_ve": ends, **{n: rows[n] for n in COLUMNS.names}})


@pytest.fixture(params=["parquet", "csv", "json"])
def partition(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> SourcePartition:
    """Files larger than a block, so every reader crosses block boundaries."""
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 200)
    monkeypatch.setattr(json_lines, "CHUNK_BYTES", 100)
    write(request.param, tmp_path)
    return only_partition(make_spec(request.param, tmp_path))


def test_a_source_is_read_completely(partition: SourcePartition) -> None:
    assert read_rows(partition).to_pydict() == expected().to_pydict()


def test_reading_from_any_row_with_any_batch_size(partition: SourcePartition) -> None:
    whole = expected()
    for first_row in range(ROWS + 1):
        rows = read_rows(partition, first_row, rows_max=1 + first_row % 9)
        assert rows.num_rows == ROWS - first_row
        if first_row < ROWS:
            assert rows.to_pydict() == whole.slice(first_row).to_pydict()


def test_a_partition_survives_pickling(partition: SourcePartition) -> None:
    again = pickle.loads(pickle.dumps(partition))
    assert again == partition
    assert read_rows(again).num_rows == ROWS


@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
def test_schema_is_inferred(tmp_path: Path, format: Format) -> None:
    write(format, tmp_path)
    assert infer_schema(FORMATS[format].kind(), str(tmp_path)) == COLUMNS


def test_units_are_assigned_round_robin(tmp_path: Path) -> None:
    write("parquet", tmp_path)
    spec = make_spec("parquet", tmp_path)
    units = discover(spec)
    assert [(u.path[-9:], u.row_group, u.rows) for u in units] == [
        (f"{f}.parquet", g, 6 if g == 2 else 7) for f in range(3) for g in range(3)
    ]
    first, second = assign(spec, units, 2)
    assert first.units == units[0::2]
    assert second.units == units[1::2]
    assert read_rows(first).num_rows + read_rows(second).num_rows == ROWS
    assert assign(spec, units, 20)[19].units == ()
    assert open_reader(assign(spec, units, 20)[19], 0).read_next(5) is None


def test_files_of_a_folder_are_read_by_name_without_hidden_and_other_files(tmp_path: Path) -> None:
    for name in ("b.csv", "a/z.csv", "10.csv", "9.csv", "noending"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("time,k,x\n1,a,1.5\n")
    (tmp_path / "_SUCCESS").write_text("{}")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "c.csv").write_text("garbage")
    (tmp_path / "other.parquet").write_text("garbage")
    (tmp_path / "empty.csv").touch()
    units = discover(make_spec("csv", tmp_path))
    names = [u.path.removeprefix(str(tmp_path) + "/") for u in units]
    assert names == ["10.csv", "9.csv", "a/z.csv", "b.csv", "noending"]


def test_columns_are_pruned_and_times_need_not_be_payload(tmp_path: Path) -> None:
    write("parquet", tmp_path)
    schema, columns = pa.schema([("x", pa.float64())]), pa.schema([*COLUMNS][::2])
    rows = read_rows(only_partition(make_spec("parquet", tmp_path, schema=schema, columns=columns)))
    assert rows.column_names == ["_vs", "_ve", "x"]
    assert rows["x"].to_pylist() == table()["x"].to_pylist()


def test_the_end_is_from_a_column_or_a_duration_or_one_microsecond_later(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("from,to\n2013-01-01T00:00:00Z,2013-01-01T01:00:00Z\n")
    columns = infer_schema(Csv(), str(path))
    fields = {"schema": columns, "columns": columns, "vs": "from"}
    start = 1_356_998_400_000_000
    for ve, length in ((None, 1), (5, 5), ("to", 3_600_000_000)):
        rows = read_rows(only_partition(make_spec("csv", path, **fields, ve=ve)))
        assert (rows["_vs"][0].as_py(), rows["_ve"][0].as_py()) == (start, start + length)


class HalfTime:
    """An expression such as the planner's."""

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        return pa.array([t // 2 for t in batch.column("time").to_pylist()])


def test_the_time_may_be_an_expression(tmp_path: Path) -> None:
    write("json", tmp_path)
    rows = read_rows(only_partition(make_spec("json", tmp_path, vs=HalfTime())))
    assert rows["_vs"].to_pylist() == [500 * i for i in range(ROWS)]


def test_later_files_are_cast_to_the_types_of_the_plan(tmp_path: Path) -> None:
    narrow = pa.table({"time": pa.array([1], pa.int32()), "x": pa.array([2.0], pa.float32())})
    narrow = narrow.append_column("k", pa.array(["v"]).dictionary_encode())
    pq.write_table(narrow, tmp_path / "a.parquet")
    assert infer_schema(Parquet(), str(tmp_path)).field("k").type == pa.string()
    rows = read_rows(only_partition(make_spec("parquet", tmp_path)))
    assert rows.to_pylist() == [{"_vs": 1, "_ve": 2, "time": 1, "k": "v", "x": 2.0}]


def test_csv_options_and_compression(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv.gz"
    with pa.output_stream(str(path), compression="gzip") as out:
        out.write(b"time\tk\tx\n1\t-\t2.5\n\n2\tb\t-\n")
    spec = make_spec("csv", path, delimiter="\t", null_values=("-",))
    assert infer_schema(spec.kind, str(path)).names == ["time", "k", "x"]
    rows = read_rows(only_partition(spec))
    assert rows["k"].to_pylist() == [None, "b"]
    assert rows["x"].to_pylist() == [2.5, None]


def test_text_lines_are_numbered_across_all_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_lines, "CHUNK_BYTES", 10)
    (tmp_path / "a.txt").write_bytes(b"one\n\ntwo\r\nno end, and longer than a chunk")
    (tmp_path / "b.txt").write_bytes("grün\n".encode())
    columns = infer_schema(Text(), str(tmp_path))
    spec = make_spec("text", tmp_path, schema=columns, columns=columns, vs=None)
    rows = read_rows(only_partition(spec))
    assert rows["line"].to_pylist() == ["one", "", "two", "no end, and longer than a chunk", "grün"]
    assert rows["_vs"].to_pylist() == [0, 1, 2, 3, 4]
    second = assign(spec, discover(spec), 2)[1]
    assert second.units == (Unit(str(tmp_path / "b.txt"), rows=1, rows_before=4),)
    assert read_rows(second)["_vs"].to_pylist() == [4]


def test_items_keep_their_kind_and_every_partition_has_all_ctis() -> None:
    payload = pa.schema([("x", pa.int64())])
    rows = [(EVENT, 1, 2, 10), (CTI, 2, 2, None), (EVENT, 3, 9, 20), (EVENT, 3, 4, 30)]
    names = item_schema(payload).names
    items = pa.RecordBatch.from_pylist(
        [dict(zip(names, row, strict=True)) for row in rows], schema=item_schema(payload)
    )
    spec = make_spec("items", "", schema=payload, columns=pa.schema([]), vs=None, rows=items)
    whole = only_partition(spec)
    assert read_rows(whole).to_pylist() == items.to_pylist()
    assert read_rows(whole, 2, rows_max=1).to_pylist() == items.to_pylist()[2:]
    parts = assign(spec, discover(spec), 2)
    assert [read_rows(p)["x"].to_pylist() for p in parts] == [[10, None, 30], [None, 20]]


@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
def test_files_in_an_object_store_are_read_like_local_ones(tmp_path: Path, format: Format) -> None:
    write(format, tmp_path)
    store = open_store(f"memory://sources-{format}")
    for path in sorted(tmp_path.iterdir()):
        store.put(f"in/{path.name}", path.read_bytes())
    folder = f"memory://sources-{format}/in"
    partition = only_partition(make_spec(format, folder))
    assert next(u.path for u in partition.units).startswith(folder + "/0.")
    assert read_rows(partition, 10).num_rows == ROWS - 10
    single = only_partition(make_spec(format, partition.units[0].path))
    assert read_rows(single).num_rows == ROWS // 3
    with pytest.raises(SourceNotFoundError, match=r"absent.*No such file"):
        discover(make_spec(format, folder + "/absent"))


def test_columns_needed_only_for_late_rows_are_read_if_rows_may_be_late(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    times = [0, 10, 20, 30, 21, 31]
    columns = {"time": times, "k": list("abcdef"), "x": [0.5] * 6}
    pq.write_table(pa.table(columns), path, row_group_size=2)
    payload = pa.schema([COLUMNS.field("k")])
    spec = make_spec("parquet", path, schema=payload, late_schema=COLUMNS, delay_us=5)
    partition = marked(only_partition(spec))
    rows = read_rows(partition)
    assert rows.schema.names == ["_vs", "_ve", "time", "k", "x"]
    assert rows["k"].to_pylist() == list("abcdef")
    assert rows["x"].to_pylist() == [None] * 4 + [0.5, 0.5]
    assert read_rows(partition, 3).equals(rows.slice(3))
    pq.write_table(pa.table(columns), path, row_group_size=2, write_statistics=False)
    untold = marked(only_partition(spec))
    assert read_rows(untold).equals(rows), "the reader knows what it has read before"
    for first in range(len(times)):
        found = read_rows(untold, first)
        assert found.drop_columns("x").equals(rows.slice(first).drop_columns("x"))
        if first <= times.index(21):
            assert found["x"].to_pylist()[times.index(21) - first] == 0.5, "it is late"
