"""Columns in folder names keep their types when written and read, for every use.

Not covered: folders that do not follow Hive's convention.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import jobmanager
import streamscope as ss
from planner.errors import InvalidPlanError
from planner.logical.nodes import Source
from planner.physical.lower import lower
from rstream.store.blobs import open_store
from rvertex.errors import SourceSchemaError
from rvertex.sources.discover import discover, infer_schema
from rvertex.sources.formats import parquet
from rvertex.sources.formats.rows.folders import NULL, folder_columns, folder_values
from rvertex.sources.mixed import look
from rvertex.sources.spec import Parquet
from tests.support.budget import one_in
from tests.support.jobs import WAIT_S

if TYPE_CHECKING:
    from pathlib import Path

    from rvertex.sources.spec import Format

AT = dt.datetime(2026, 1, 1, 0, 0, 1, 500_000)  # noqa: DTZ001 - without a zone
FIRST, SECOND = dt.date(2026, 1, 1), dt.date(2026, 1, 2)


def put(folder: Path, format: Format = "parquet", **columns: list[Any]) -> Path:
    """Write a file with these columns. Return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.table(columns)
    if format == "parquet":
        pq.write_table(table, folder / "x.parquet")
    elif format == "csv":
        pacsv.write_csv(table, folder / "x.csv")
    else:
        rows = (str(row).replace("'", '"') for row in table.to_pylist())
        (folder / "x.json").write_text("".join(f"{row}\n" for row in rows))
    return folder


def two_days(top: Path, format: Format = "parquet") -> Path:
    put(top / "day=2026-01-01", format, t=[1, 3], k=["a", "b"])
    put(top / "day=2026-01-02", format, t=[2, 4], k=["a", "c"])
    return top


def read(path: object, format: Format = "parquet", **given: Any) -> ss.Stream:
    make = {"parquet": ss.Stream.from_parquet, "csv": ss.Stream.from_csv}
    return make.get(format, ss.Stream.from_json)(path, vs="t", **given)


def collected(rows: ss.Stream, *names: str) -> list[tuple[Any, ...]]:
    table = ss.collect(rows, executor="local")
    return sorted(zip(*(table[name].to_pylist() for name in names), strict=True))


def looked_at(rows: ss.Stream) -> tuple[str, ...]:
    """The notes on the files of a source."""
    assert isinstance(rows.plan, Source)
    return tuple(look(rows.plan.spec, discover(rows.plan.spec)))


@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
def test_folder_names_become_a_column(tmp_path: Path, format: Format) -> None:
    rows = read(two_days(tmp_path, format), format)
    assert rows.schema.field("day").type == pa.date32()
    whole = [(1, "a", FIRST), (2, "a", SECOND), (3, "b", FIRST), (4, "c", SECOND)]
    assert collected(rows, "t", "k", "day") == whole
    counted = rows.group_by("day").window(ss.tumbling("1h")).agg(n=ss.agg.count())
    assert collected(counted, "day", "n") == [(FIRST, 2), (SECOND, 2)]
    only = rows.filter(ss.col("day") == FIRST).select("t")
    assert collected(only, "t") == [(1,), (3,)]
    assert collected(rows.select("day"), "day") == [(FIRST,)] * 2 + [(SECOND,)] * 2


@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
def test_folder_names_can_be_the_time(tmp_path: Path, format: Format) -> None:
    two_days(tmp_path, format)
    for given in ({}, {"delay": "1d"}, {"delay": "0s", "late": "adjust"}):
        make = getattr(ss.Stream, f"from_{format}")
        rows = make(tmp_path, vs="day", **given)
        table = ss.collect(rows.select("day"), executor="local")
        assert sorted(table["day"].to_pylist()) == [FIRST] * 2 + [SECOND] * 2
        day_us = 86_400_000_000
        starts = [20_454 * day_us] * 2 + [20_455 * day_us] * 2
        assert sorted(table["_vs"].to_pylist()) == starts


def units_read(rows: ss.Stream) -> list[str]:
    plan = lower(rows.to_parquet("out"), root="r")
    paths = {u.path for v in plan.vertices if v.source for u in v.source.units if not u.only_times}
    return sorted(path.split("/")[-2] for path in paths)


@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
def test_folders_that_a_filter_excludes_are_not_opened(
    tmp_path: Path, format: Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files in folders that a filter excludes are not opened: one of them is unreadable."""
    top = two_days(tmp_path, format)
    (top / "day=2026-01-03").mkdir()
    (top / "day=2026-01-03" / f"x.{format}").write_bytes(b"\xff\xfe nothing that can be read\n")
    rows = read(top, format)
    wanted = rows.filter(ss.col("day") <= SECOND).with_columns(u=ss.col("t") + 1)
    late = wanted.filter(ss.col("day") > FIRST)
    assert collected(late.select("t"), "t") == [(2,), (4,)]
    assert units_read(late) == ["day=2026-01-02"]
    nothing = rows.filter(ss.col("day") == dt.date(1999, 1, 1))
    assert collected(nothing.select("t"), "t") == []


def test_with_an_explicit_delay_excluded_files_are_read_for_their_times(tmp_path: Path) -> None:
    """With an explicit delay, times of excluded files are read: their rows advance time."""
    rows = read(two_days(tmp_path), delay="10s").filter(ss.col("day") == FIRST)
    assert units_read(rows) == ["day=2026-01-01"]
    assert collected(rows, "t", "k") == [(1, "a"), (3, "b")]
    kept = read(two_days(tmp_path), on_bad_row="skip").filter(ss.col("day") == FIRST)
    assert units_read(kept) == ["day=2026-01-01", "day=2026-01-02"]


def test_a_source_with_two_readers_is_read_completely(tmp_path: Path) -> None:
    rows = read(two_days(tmp_path))
    both = rows.filter(ss.col("day") == FIRST).union(rows.filter(ss.col("k") == "c"))
    assert collected(both, "t") == [(1,), (3,), (4,)]


VALUES: list[tuple[list[str], pa.DataType, list[Any]]] = [
    (["1", "-20"], pa.int64(), [1, -20]),
    (["01", "12"], pa.int64(), [1, 12]),
    (["00501", "12"], pa.string(), ["00501", "12"]),
    (["9223372036854775808"], pa.string(), ["9223372036854775808"]),
    (["1", "2.5"], pa.float64(), [1.0, 2.5]),
    (["2026-01-01"], pa.date32(), [FIRST]),
    (["2026-02-30"], pa.string(), ["2026-02-30"]),
    (
        ["2026-01-01%2000%3A00%3A01.5"],
        pa.timestamp("us"),
        [AT],
    ),
    (
        ["2026-01-01T00:00:01Z"],
        pa.timestamp("us", "UTC"),
        [dt.datetime(2026, 1, 1, 0, 0, 1, tzinfo=dt.UTC)],
    ),
    (["1", NULL], pa.int64(), [1, None]),
    ([NULL], pa.string(), [None]),
    (["a%2Fb%3Dc%20d+e", "ü"], pa.string(), ["a/b=c d+e", "ü"]),
    (["true"], pa.string(), ["true"]),
    ([""], pa.string(), [""]),
    (["x=y"], pa.string(), ["x=y"]),
]


@pytest.mark.filterwarnings("ignore:.*of its folders is int64")
@pytest.mark.parametrize(("written", "kind", "values"), VALUES, ids=str)
def test_folder_columns_have_a_type_that_fits_all_values(
    tmp_path: Path, written: list[str], kind: pa.DataType, values: list[Any]
) -> None:
    for k, text in enumerate(written):
        put(tmp_path / f"v={text}", t=[k])
    rows = read(tmp_path)
    assert rows.schema.field("v").type == kind
    assert [v for _, v in collected(rows, "t", "v")] == values


def test_names_of_folders_below_the_source_are_values() -> None:
    def values(source: str, file: str) -> dict[str, str | None]:
        return folder_values(source.split(), file)

    assert values("/d", "/d/a=1/sub/b=2/x.csv") == {"a": "1", "b": "2"}
    assert values("/d/a=1", "/d/a=1/b=2/x.csv") == {"a": "1", "b": "2"}
    assert values("/r=5/d", "/r=5/d/a=1/x.csv") == {"a": "1"}
    assert values("/d/a=1/x.csv", "/d/a=1/x.csv") == {"a": "1"}
    assert values("/d/a=*/x*.csv", "/d/a=1/x1.csv") == {"a": "1"}
    assert values("/d/y=2/a=*", "/d/y=2/a=1/x1.csv") == {"y": "2", "a": "1"}
    assert values("/d/one\n/e", "/e/a=1/x.csv") == {"a": "1"}
    assert values("s3://b/d", "s3://b/d/a%20b=1/_c=2/x.csv") == {"a b": "1", "_c": "2"}
    assert values("/d", f"/d/a={NULL}/=2/x=1.csv") == {"a": None}
    with pytest.raises(SourceSchemaError, match=r"column 'a': two of the folders"):
        values("/d", "/d/a=1/a=2/x.csv")
    assert folder_columns("text", "/d", ["/d/a=1/x.txt"]) == pa.schema([])


def test_types_of_folder_columns_can_be_declared(tmp_path: Path) -> None:
    for month in ("01", "12"):
        put(tmp_path / f"month={month}", t=[int(month)])
    rows = read(tmp_path)
    (note,) = looked_at(rows)
    assert "column 'month' of its folders is int64, so 01 is 1; set schema=" in note
    text = read(tmp_path, schema={"month": "string"})
    assert collected(text, "month") == [("01",), ("12",)]
    assert looked_at(text) == ()
    only = text.filter(ss.col("month") == "12")
    assert units_read(only) == ["month=12"]
    given = read(tmp_path, schema={"month": pa.schema([pa.field("m", pa.int8())]).field(0).type})
    assert given.schema.field("month").type == pa.int8()


@pytest.mark.parametrize("name", ["a", "z"], ids=["first", "last"])
def test_a_file_outside_of_such_folders_has_null(tmp_path: Path, name: str) -> None:
    two_days(tmp_path)
    pq.write_table(pa.table({"t": [9], "k": ["z"]}), tmp_path / f"{name}.parquet")
    rows = read(tmp_path)
    (note,) = looked_at(rows)
    told = f"'day' is null in 1 of 3 files, which are in no folder day=..., such as {tmp_path}"
    assert f"{told}/{name}.parquet" in note
    with pytest.warns(match="column 'day' is null"):
        table = ss.collect(rows, executor="local")
    assert dict(zip(table["t"].to_pylist(), table["day"].to_pylist(), strict=True))[9] is None
    assert collected(rows.filter(ss.col("day") == FIRST), "t") == [(1,), (3,)]


def test_a_value_of_another_type_is_rejected_by_name(tmp_path: Path) -> None:
    top = put(tmp_path / "v=1", t=[1]).parent
    rows = read(top)
    put(top / "v=x", t=[2])
    with pytest.raises(
        SourceSchemaError, match=r"the folder is named v=x, which is not int64; read"
    ):
        collected(rows, "t")


def test_a_column_in_files_and_folder_names_must_agree(tmp_path: Path) -> None:
    for format in ("parquet", "csv", "json"):
        top = tmp_path / format
        put(top / "v=01", format, t=[1, 2], v=[1, 1])
        put(top / "v=2", format, t=[3], v=[2])
        assert collected(read(top, format), "t", "v") == [(1, 1), (2, 1), (3, 2)]
        put(top / "v=3", format, t=[4, 5], v=[3, 4])
        told = rf"v=3/x\.{format}: column 'v': a row has 4 but its folder is named v=3"
        with pytest.raises(ss.StreamEngineError, match=told):
            collected(read(top, format), "t", "v")
        assert len(collected(read(top, format).select("t"), "t")) == 5, "nobody reads it"


def test_a_folder_column_that_only_some_files_contain(tmp_path: Path) -> None:
    put(tmp_path / "v=1", t=[1])
    put(tmp_path / "v=2", t=[2], v=[7])
    with pytest.raises(SourceSchemaError, match="but in the first file only the folder"):
        collected(read(tmp_path), "t")


def test_bad_rows_have_their_positions(tmp_path: Path) -> None:
    put(tmp_path / "day=2026-01-01", "csv", t=["1", "3"])
    folder = put(tmp_path / "day=2026-01-02", "csv", t=["2"])
    (folder / "x.csv").write_text("t\n2\nx\n")
    rows = read(tmp_path, "csv", on_bad_row="dead_letter", schema={"t": "int64"})
    job = jobmanager.run(rows.to_parquet(), root=str(tmp_path / "_job"), executor="local")
    job.wait(WAIT_S)
    assert sorted(job.to_arrow()["day"].to_pylist()) == [FIRST, FIRST, SECOND]
    (dead,) = ss.read_dead_letters(str(tmp_path / "_job")).to_pylist()
    assert (dead["line"], dead["value"]) == (3, "x")


def test_folders_of_an_object_store(tmp_path: Path) -> None:
    store = open_store(f"memory://{tmp_path}/table")
    for k, day in enumerate(("2026-01-01", "2026-01-02")):
        store.put(f"day={day}/x.csv", f"t\n{k}\n".encode())
    rows = read(f"memory://{tmp_path}/table", "csv")
    assert collected(rows, "t", "day") == [(0, FIRST), (1, SECOND)]
    assert units_read(rows.filter(ss.col("day") > FIRST)) == ["day=2026-01-02"]
    one = read(f"memory://{tmp_path}/table/day=*/*.csv", "csv")
    assert collected(one, "t", "day") == [(0, FIRST), (1, SECOND)]


def test_sql_reads_folder_columns(tmp_path: Path) -> None:
    two_days(tmp_path)
    text = (
        f"CREATE TABLE days (t BIGINT, k VARCHAR, day DATE, WATERMARK FOR t AS t) "
        f"WITH (path = '{tmp_path}', format = 'parquet'); "
        "SELECT t, day FROM days WHERE day = DATE '2026-01-02'"
    )
    assert collected(ss.sql(text), "t", "day") == [(2, SECOND), (4, SECOND)]


ITEMS = {
    "text": ("string", ["01", "", "a/b=c %", None, "2026-01-01"]),
    "day": ("date", [FIRST, SECOND, None]),
    "at": ("timestamp", [dt.datetime(2026, 1, 1, 1, 2, 3, 4, tzinfo=dt.UTC), None]),
    "local": (pa.timestamp("us"), [dt.datetime(2026, 1, 1, 1, 2, 3, 4), None]),  # noqa: DTZ001
    "small": ("int8", [-1, 5, None]),
    "ok": ("bool", [True, False, None]),
    "x": ("double", [0.1, 1e300, -2.0, None]),
    "price": ("decimal(5, 2)", [Decimal("1.20"), Decimal("-3.00"), None]),
    "raw": ("binary", [b"a", b"\xff/", None]),
    "long": ("duration", [dt.timedelta(seconds=1, microseconds=5), None]),
    "tod": (pa.time64("us"), [dt.time(1, 2, 3, 4), None]),
}


@pytest.mark.parametrize("name", one_in(4, ITEMS))
def test_output_of_partition_by_can_be_read_back(tmp_path: Path, name: str) -> None:
    kind, values = ITEMS[name]
    items = [ss.event(k, n=k, **{name: value}) for k, value in enumerate(values)]
    rows = ss.Stream.from_items({"n": "int64", name: kind}, items)
    query = rows.to_parquet(str(tmp_path / "table"), partition_by=name, start="start", end=None)
    jobmanager.run(query, root=str(tmp_path / "job"), executor="local").wait(WAIT_S)
    back = ss.Stream.from_parquet(tmp_path / "table", vs="start")
    assert back.schema.field(name).type == rows.schema.field(name).type
    table = ss.collect(back, executor="local")
    found = zip(table["n"].to_pylist(), table[name].to_pylist(), strict=True)
    assert sorted(found, key=lambda row: row[0]) == list(enumerate(values))


def test_a_list_cannot_name_folders(tmp_path: Path) -> None:
    """``partition_by`` a list is an error when the query is built, not at the end of the job."""
    rows = ss.Stream.from_items({"n": "int64", "l": pa.list_(pa.int64())}, [])
    with pytest.raises(InvalidPlanError, match=r"'l': a column of type list<.*> cannot name"):
        rows.to_parquet(str(tmp_path), partition_by="l")


def test_types_equal_those_of_the_writer(tmp_path: Path) -> None:
    assert parquet.folder_types(str(put(tmp_path / "v=1", t=[1]) / "x.parquet")) == {}
    assert infer_schema(Parquet(), str(tmp_path)).field("v").type == pa.int64()
