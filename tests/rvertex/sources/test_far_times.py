"""Times outside of Python's calendar: before year 1 and after 9999."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import jobmanager
from jobmanager.errors import JobFailedError
from planner import Stream, agg, col, tumbling

if TYPE_CHECKING:
    from pathlib import Path

YEAR_10000_US = 253_402_300_800_000_000
YEAR_0_US = -62_135_596_800_000_001


@pytest.fixture
def far(tmp_path: Path) -> str:
    times = pa.array([YEAR_0_US, 1, YEAR_10000_US, YEAR_10000_US + 5], pa.timestamp("us"))
    pq.write_table(pa.table({"t": times, "x": [1, 2, 3, 4]}), tmp_path / "far.parquet")
    return str(tmp_path / "far.parquet")


def test_distant_times_are_read(far: str) -> None:
    """They are read although Python's datetimes cannot represent the statistics in the file."""
    rows = Stream.from_parquet(far, vs="t", delay="0s")
    found = jobmanager.collect(rows.filter(col("x") > 1))
    assert found["_vs"].to_pylist() == [1, YEAR_10000_US, YEAR_10000_US + 5]
    counted = jobmanager.collect(rows.group_by().window(tumbling("1d")).agg(n=agg.count()))
    assert counted["n"].to_pylist() == [1, 1, 2]


def test_a_filter_on_a_distant_time_skips_no_row_wrongly(far: str) -> None:
    rows = Stream.from_parquet(far, vs="t", delay="0s").with_columns(when=col("t"))
    assert jobmanager.collect(rows.filter(col("when") > "2020-01-01")).num_rows == 2


def test_an_invalid_time_is_named(tmp_path: Path) -> None:
    seconds = pa.array([1, 2**52], pa.timestamp("ms"))
    times = seconds.cast(pa.int64()).cast(pa.timestamp("s"))
    pa_table = pa.table({"t": times, "x": [1, 2]})
    pq.write_table(pa_table, tmp_path / "far.parquet")
    stream = Stream.from_parquet(str(tmp_path / "far.parquet"), vs="t", delay="0s")
    with pytest.raises(JobFailedError, match=r"row 2, counted from 1, column 't'.*\d{16}"):
        jobmanager.collect(stream)
