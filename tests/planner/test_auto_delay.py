"""``delay="auto"``: for files with rows in any order, no row is late and all are sorted.

Not covered: the cost over real files (benchmarks), and files that change while a job runs but keep
their time order.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from planner import InvalidPlanError, Stream, agg, col, sql, tumbling
from planner.batch.rows import source_events
from planner.cost import dealing
from planner.errors import TooMuchToSortError, UnsortableTimesError
from planner.explain.text import explain
from planner.logical.nodes import Source
from planner.physical.lower import lower
from rstream.items.batch import CTI, KIND, VE, VS, Items
from rstream.types import INF_TIME
from rvertex.errors import SourceOrderChangedError, SourceRowError
from rvertex.sources import disorder
from rvertex.vertex.rvertex import RVertex
from tests.support.budget import examples
from tests.support.plan_runner import Schedule, answer, run_plan, sorted_rows

if TYPE_CHECKING:
    from planner.physical.plan import PhysicalPlan

READERS = {"csv": Stream.from_csv, "json": Stream.from_json, "parquet": Stream.from_parquet}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disorder, "BLOCK_ROWS", 3)
    monkeypatch.setattr(disorder, "FEW_ROWS", 0)
    monkeypatch.setattr(disorder, "GAIN_MIN", 0.0)


def write(folder: Path, format: str, files: list[list[int]], group_rows: int = 4) -> str:
    """Files with times ``t`` and row numbers ``n`` across all files."""
    folder.mkdir(exist_ok=True)
    n = 0
    for k, times in enumerate(files):
        path = folder / f"{k}.{format}"
        table = pa.table({"t": pa.array(times, pa.int64()), "n": range(n, n + len(times))})
        n += len(times)
        if format == "parquet":
            pq.write_table(table, path, row_group_size=group_rows)
        elif format == "csv":
            pacsv.write_csv(table, path)
        else:
            path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    return str(folder)


def sources(plan: PhysicalPlan) -> list[Any]:
    return [v.source for v in plan.vertices if v.source is not None]


a_file = st.lists(st.integers(0, 60), min_size=1, max_size=14)
schedules = st.builds(
    Schedule,
    st.lists(st.integers(0, 1_000), min_size=2, max_size=9).map(tuple),
    rows_max=st.integers(1, 6),
    restores=st.booleans(),
)


@examples(5)
@given(
    st.sampled_from(sorted(READERS)),
    st.lists(a_file | a_file.map(sorted), min_size=1, max_size=5),
    st.integers(1, 3),
    st.integers(1, 5),
    schedules,
)
def test_with_an_automatic_delay_no_row_is_late(
    tmp_path_factory: pytest.TempPathFactory,
    format: str,
    files: list[list[int]],
    partitions: int,
    group_rows: int,
    schedule: Schedule,
) -> None:
    path = write(tmp_path_factory.mktemp("any") / "data", format, files, group_rows)
    stream = READERS[format](path, vs="t", partitions=partitions)
    plan = lower(stream.to_parquet(cti_every=7), root="memory://auto")
    assert plan.side_streams() == {}
    whole, cut = answer(plan), answer(plan, schedule=schedule)
    assert whole.equals(cut)
    assert sorted(whole.column("n").to_pylist()) == list(range(sum(map(len, files))))
    assert isinstance(stream.plan, Source)
    rows, last_cti = source_events(stream.plan, 2, 7)
    assert sorted_rows(rows) == sorted_rows(whole)
    ctis = [t for t in _ctis(plan) if t < INF_TIME]
    assert max(ctis, default=None) == (last_cti if ctis else None)
    counted = stream.group_by().window(tumbling("10us")).agg(n=agg.count(), most=agg.max("n"))
    mine = answer(lower(counted.to_parquet(), root="memory://auto"), schedule=schedule)
    assert sorted_rows(mine) == sorted_rows(_counted_by_duckdb(whole.select([VS, "n"])))


def _counted_by_duckdb(rows: pa.Table) -> pa.Table:
    """Count and maximum per ten microseconds."""
    connection = duckdb.connect()
    connection.register("given", rows)
    start = f"{VS} // 10 * 10"
    found = connection.sql(
        f"SELECT {start} AS {VS}, {start} + 10 AS {VE}, count(*) AS n, max(n) AS most FROM given "
        f"GROUP BY {start}"
    )
    assert found is not None
    table: pa.Table = found.to_arrow_table()
    return table


def _ctis(plan: PhysicalPlan) -> list[int]:
    batches = [items.batch for streams in run_plan(plan).values() for items in streams]
    found = [b.filter(pa.compute.field(KIND) == CTI).column(VS).to_pylist() for b in batches]
    return [time for times in found for time in times]


def test_a_price_list_sorted_by_product(tmp_path: Path) -> None:
    """Each of ten files has the prices of one product over the same days."""
    path = write(tmp_path / "prices", "csv", [list(range(0, 500, 5)) for _ in range(10)])
    stream = Stream.from_csv(path, vs="t", partitions=1)
    plan = lower(stream.to_parquet(), root="memory://prices")
    found = answer(plan)
    assert found.num_rows == 1_000
    assert np.array_equal(found.column(VS).to_numpy(), np.repeat(np.arange(0, 500, 5), 10))
    assert "delay=auto (495us, found)" in explain(plan)


def test_files_are_read_in_the_order_of_their_times(tmp_path: Path) -> None:
    """The order of names is wrong: 10 comes before 2.

    Row groups go from the newest to the oldest.
    """
    path = write(tmp_path / "months", "json", [[20, 21], [0, 1], [10, 11]])
    (source,) = sources(lower(Stream.from_json(path, vs="t", partitions=1).to_parquet(), root="r"))
    assert [Path(unit.path).stem for unit in source.units] == ["1", "2", "0"]
    assert source.spec.delay_us == 0
    falling = write(tmp_path / "falling", "parquet", [[8, 9, 6, 7, 4, 5]], group_rows=2)
    stream = Stream.from_parquet(falling, vs="t", partitions=1)
    (source,) = sources(lower(stream.to_parquet(), root="r"))
    assert [unit.row_group for unit in source.units] == [2, 1, 0]
    assert source.spec.delay_us == 0


def test_an_explicit_delay_disables_the_search(tmp_path: Path) -> None:
    path = write(tmp_path / "data", "csv", [[20, 21], [0, 1]])
    stream = Stream.from_csv(path, vs="t", delay="5us", partitions=1)
    (source,) = sources(plan := lower(stream.to_parquet(), root="r"))
    assert [Path(unit.path).stem for unit in source.units] == ["0", "1"]
    assert answer(plan).num_rows == 2
    assert list(plan.side_streams()) == ["late/s01-data"]


def test_the_time_may_be_an_expression(tmp_path: Path) -> None:
    path = write(tmp_path / "data", "parquet", [[5, 3, 9, 1]])
    stream = Stream.from_parquet(path, vs=col("t") * 10 - col("n"), partitions=1)
    plan = lower(stream.to_parquet(), root="r")
    assert sources(plan)[0].spec.delay_us == 90 - 2 - (10 - 3)
    assert answer(plan).column(VS).to_pylist() == [7, 29, 50, 88]


def test_a_row_without_a_time_is_named_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("t,k\n1,a\n,b\n")
    with pytest.raises(SourceRowError, match=r"a\.csv: data row 2 \(line 3\).*'t': .*null"):
        lower(Stream.from_csv(str(tmp_path), vs="t").to_parquet(), root="r")


def test_waiting_rows_have_a_limit_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "data", "csv", [list(range(100)), list(range(100))])
    query = Stream.from_csv(path, vs="t", partitions=1).to_parquet()
    lower(query, root="r")
    monkeypatch.setattr(dealing, "WAITING_BYTES_MAX", 1_000)
    with pytest.raises(TooMuchToSortError, match="ORDER BY t") as caught:
        lower(query, root="r")
    assert "10" in str(caught.value)
    assert "WAITING_BYTES_MAX" in str(caught.value)
    lower(Stream.from_csv(path, vs="t", delay="1s", partitions=1).to_parquet(), root="r")
    lower(Stream.from_csv(path, vs="t", partitions=2).to_parquet(), root="r")


def test_times_too_far_apart_for_any_delay_are_rejected(tmp_path: Path) -> None:
    path = write(tmp_path / "data", "parquet", [[2**62, -(2**62) - 5]])
    with pytest.raises(UnsortableTimesError, match="check the unit"):
        lower(Stream.from_parquet(path, vs="t").to_parquet(), root="r")


def test_a_row_added_after_planning_ends_the_job(tmp_path: Path) -> None:
    """Changed files are detected by size and date; these files have kept both."""
    path = write(tmp_path / "data", "csv", [[1, 2, 30, 40]])
    plan = lower(Stream.from_csv(path, vs="t", partitions=1).to_parquet(), root="r")
    vertex = RVertex(plan.vertices[0], pending_rows_max=10)
    columns = [pa.array(values, pa.int64()) for values in ([1, 30, 2], [2, 31, 3], [1, 30, 2])]
    rows = pa.record_batch([*columns, pa.array([0, 1, 2])], names=[VS, VE, "t", "n"])
    with pytest.raises(
        SourceOrderChangedError, match=r"row 2 .* starts at 2, but none of its rows"
    ):
        vertex.offer(0, Items(0, rows))


def test_sql_finds_the_delay_too(tmp_path: Path) -> None:
    path = write(tmp_path / "data", "csv", [[5, 1]])
    for option in ("", ", delay = 'auto'"):
        declared = f"CREATE STREAM d WITH (path = '{path}', format = 'csv', vs = t{option});"
        stream = sql(f"{declared} SELECT n FROM d")
        assert isinstance(stream, Stream)
        plan = lower(stream.to_parquet(), root="r")
        assert "delay=auto (4us, found)" in explain(plan)
        assert answer(plan).num_rows == 2


def test_items_must_respect_their_ctis() -> None:
    from planner import cti, event

    with pytest.raises(InvalidPlanError, match=r"items\[3\]: the event starts at 9, before the CT"):
        Stream.from_items({"k": "int64"}, [event(5, k=1), cti(10), event(10, k=2), event(9, k=3)])
