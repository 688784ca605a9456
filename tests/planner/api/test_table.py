"""Tables without times, intervals without an end, and notes on columns that became text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import jobmanager
from jobmanager.driver.notes import NoteWarning
from planner import InvalidPlanError, Stream, col, event, sql
from planner.batch.rows import source_events
from planner.physical.lower import lower
from rstream.types import INF_TIME
from rvertex.errors import SourceRowError

if TYPE_CHECKING:
    from pathlib import Path

PRODUCTS = {"id": [1, 2], "name": ["tea", "cup"]}
ORDERS = Stream.from_items({"id": "int64"}, [event(-5, id=2), event(7, id=1), event(8, id=3)])
PAIRS = [(-5, 2, "cup"), (7, 1, "tea")]


def files(folder: Path) -> list[str]:
    pq.write_table(pa.table(PRODUCTS), folder / "p.parquet")
    (folder / "p.csv").write_text("id,name\n1,tea\n2,cup\n")
    (folder / "p.jsonl").write_text('{"id":1,"name":"tea"}\n{"id":2,"name":"cup"}\n')
    return [str(folder / f"p.{end}") for end in ("parquet", "csv", "jsonl")]


def rows(stream: Stream) -> list[tuple[Any, ...]]:
    return [(row["_vs"], row["id"], row["name"]) for row in jobmanager.collect(stream).to_pylist()]


def test_a_table_is_always_valid(tmp_path: Path) -> None:
    for data in (files(tmp_path)[1], pa.table(PRODUCTS)):
        assert rows(ORDERS.join(Stream.table(data), on="id")) == PAIRS
    options = f"path = '{tmp_path}/p.csv', static = TRUE"
    declared = f"CREATE TABLE p (id BIGINT, name VARCHAR) WITH ({options})"
    query = f"{declared}; SELECT o.id, p.name FROM o JOIN p ON o.id = p.id"
    assert rows(sql(query, {"o": ORDERS})) == PAIRS


def test_all_kinds_of_tables_have_the_same_rows(tmp_path: Path) -> None:
    data = [*files(tmp_path), pa.table(PRODUCTS), pa.table(PRODUCTS).to_batches()[0], PRODUCTS]
    found = [source_events(Stream.table(d).plan, 2, 1_000)[0] for d in data]  # type: ignore[arg-type]
    assert all(table == found[0] for table in found)
    assert found[0]["_ve"].to_pylist() == [INF_TIME] * 2


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ("products", {}, 'set format to "parquet" or "csv" or "json"'),
        (7, {}, "takes a path or a table of Arrow"),
        ({"_vs": [1]}, {}, "is reserved"),
        (pa.table([[1], [2]], names=["x", "x"]), {}, "has the column 'x' more than once"),
        ({"x": ["a"]}, {"schema": {"x": "int64"}}, "column 'x'"),
    ],
)
def test_objects_that_are_not_tables_are_rejected(data: object, options: Any, message: str) -> None:
    with pytest.raises(InvalidPlanError, match=message):
        Stream.table(data, **options)


def test_static_tables_of_sql_have_no_times(tmp_path: Path) -> None:
    path = files(tmp_path)[0]
    with pytest.raises(Exception, match="rows of a static table have no times: no vs"):
        sql(f"CREATE TABLE p WITH (path = '{path}', static = TRUE, vs = id); SELECT id FROM p")


def test_null_is_an_open_end_and_rows_may_be_sorted_by_key(tmp_path: Path) -> None:
    """A versioned table as in a warehouse, sorted by key; the newest version has no end."""
    path = tmp_path / "prices.csv"
    path.write_text("k,since,until,price\na,0,5,1\na,5,,2\nb,2,9,7\n")
    prices = Stream.from_csv(str(path), vs="since", ve="until")
    asked = [event(t, k=k) for t in (1, 4, 6, 1_000) for k in "ab"]
    found = jobmanager.collect(Stream.from_items({"k": "string"}, asked).join(prices, on="k"))
    assert sorted((row["_vs"], row["k"], row["price"]) for row in found.to_pylist()) == [
        *((1, "a", 1), (4, "a", 1), (4, "b", 7)),
        *((6, "a", 2), (6, "b", 7), (1_000, "a", 2)),
    ]
    path.write_text("k,since,until,price\na,0,,1\na,,5,2\n")
    with pytest.raises(SourceRowError, match=r"data row 2 .*column 'since': the time is null"):
        jobmanager.collect(prices)


def test_a_column_that_a_few_values_made_text_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    lines = [f'{i},"n{i}\n",{i}.5' for i in range(5)]
    path.write_text("\n".join(["t,name,price", *lines, "5,x,n/a", "6,y,7"]) + "\n")
    stream = Stream.from_csv(str(path), vs="t")
    (note,) = lower(stream.to_parquet(), root="r").notes
    assert "column 'price' is text because of line 12" in note
    assert "'n/a' (85.7% of the first values are numbers)" in note
    assert lower(stream.select("name").to_parquet(), root="r").notes == ()
    with pytest.warns(NoteWarning, match="is text because of"):
        jobmanager.collect(stream)
    for better in ({"null_values": ("", "n/a")}, {"schema": {"price": "string"}}):
        read = Stream.from_csv(str(path), vs="t", **better)  # type: ignore[arg-type]
        assert lower(read.to_parquet(), root="r").notes == ()
    numbers = Stream.from_csv(str(path), vs="t", null_values=["n/a"]).filter(col("price") > 3)
    assert jobmanager.collect(numbers).num_rows == 3


@pytest.mark.parametrize(("form", "exact"), [("csv", "string"), ("json", "decimal(38, 0)")])
def test_whole_numbers_that_are_read_as_others_are_reported(
    tmp_path: Path, form: str, exact: str
) -> None:
    """Two different ids would become equal: a double has only 53 bits."""
    path, far = tmp_path / f"a.{form}", 2**64 - 1
    rows = [(1, 9007199254740992, 1.5), (2, far, 0.1234567890123456789), (3, 7, 2.0)]
    if form == "csv":
        lines = ["t,id,x", *(f"{t},{n},{x}" for t, n, x in rows)]
    else:
        lines = [f'{{"t": {t}, "id": {n}, "x": {x}}}' for t, n, x in rows]
    path.write_text("\n".join(lines) + "\n")
    read = Stream.from_csv if form == "csv" else Stream.from_json
    stream = read(str(path), vs="t")
    (note,) = lower(stream.to_parquet(), root="r").notes
    assert f"column 'id' is double, so {far} of {path} is read as {2**64}; set" in note
    assert f'schema={{"id": "{exact}"}}' in note
    assert lower(stream.select("x").to_parquet(), root="r").notes == ()
    for kind in (exact, "uint64", "double"):
        given = read(str(path), vs="t", schema={"id": kind})
        assert lower(given.to_parquet(), root="r").notes == ()
        kept = [int(v) for v in jobmanager.collect(given)["id"].to_pylist()]
        assert (kept[1] == far) is (kind != "double")


def test_numbers_in_a_struct_are_not_confused_with_a_column_of_that_name(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(f'{{"t": 1, "id": 1.5, "of": {{"id": {2**60 + 1}}}}}\n')
    stream = Stream.from_json(str(path), vs="t")
    assert lower(stream.to_parquet(), root="r").notes == ()
