"""A stream on disk is a plain Parquet folder: pyarrow and DuckDB read it while it grows, S3 too.

Not covered: faults of other versions of these readers. Tests with Spark are in tests/spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pyarrow.dataset
import pytest

from rstream import RStream, open_store, read_events
from tests.support.content import PAYLOAD, items, read_all, rows_of, small_limits

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "stream"


def test_pyarrow_and_duckdb_read_a_growing_folder(folder: Path) -> None:
    stream = RStream.open(str(folder), PAYLOAD, limits=small_limits())
    for end in (30, 77):
        stream.append(items(stream.next_seq, end))
        stream.flush()
        (folder / "00000000000000009999-00000000000000010000.parquet.1.1.tmp").write_bytes(b"x")
        expected = items(0, end).to_pylist()
        table = pyarrow.dataset.dataset(folder, exclude_invalid_files=True).to_table()
        assert table.sort_by("_seq")["_seq"].to_pylist() == list(range(end))
        query = f"select * exclude _seq from '{folder}/*.parquet' order by _seq"
        found = duckdb.sql(query)
        assert found is not None
        assert found.to_arrow_table().to_pylist() == expected
    stream.garbage_collect(40)
    stream.close()
    names = [p.name for p in folder.iterdir()]
    assert "_low_water_mark" in names
    dataset = pyarrow.dataset.dataset(folder, format="parquet", exclude_invalid_files=True)
    assert dataset.to_table(columns=["_seq"]).num_rows < 77


@pytest.mark.parametrize("where", ["memory", pytest.param("s3", marks=pytest.mark.slow)])
def test_a_stream_in_an_object_store_is_reopened_and_collected(
    where: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    root = f"memory:/{tmp_path}" if where == "memory" else request.getfixturevalue("s3_bucket")
    uri = f"{root}/job/stream"
    stream = RStream.open(uri, PAYLOAD, limits=small_limits(segment_rows_max=100))
    stream.append(items(0, 250))
    stream.close()
    again = RStream.open(uri, PAYLOAD, limits=small_limits(), durability="sync")
    assert again.next_seq == 250
    again.append(items(250, 260))
    assert rows_of(read_all(again.register(0))) == items(0, 260).to_pylist()
    again.garbage_collect(150)
    again.close()
    reopened = RStream.open(uri, PAYLOAD)
    assert (reopened.first_seq, reopened.next_seq) == (150, 260)
    reopened.close()
    assert len(open_store(root).list("job/stream")) == 4
    assert read_events(uri).num_rows == sum(seq % 7 != 6 for seq in range(150, 260))
