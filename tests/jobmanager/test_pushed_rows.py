"""Queries over a log of pushed rows: they read the rows of the planning time, by any time column.

Not covered: a log that grows while a job follows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import jobmanager
from planner import InvalidPlanError, Stream, agg, tumbling
from rstream import Appender, AppendLimits

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = pa.schema([("time", pa.timestamp("us", "UTC")), ("room", pa.string()), ("n", pa.int64())])
#: In microseconds, up to 3 out of order.
TIMES = (3, 1, 2, 6, 4, 5, 9, 7, 8, 12, 10, 11)


@pytest.fixture
def appender(tmp_path: Path) -> Appender:
    """A log with some rows in segments and some not."""
    found = Appender(str(tmp_path / "log"), SCHEMA, limits=AppendLimits(segment_commits_max=4))
    for k, time in enumerate(TIMES):
        found.append([{"time": time, "room": "ab"[k % 2], "n": k}], producer="p", number=k)
    return found


def counted(stream: Stream) -> list[tuple[int, str, int]]:
    table = stream.group_by("room").window(tumbling(4)).agg(n=agg.count())
    rows = jobmanager.collect(table, executor="local").to_pylist()
    return sorted((r["_vs"], r["room"], r["n"]) for r in rows)


def test_a_growing_log_can_be_read_as_a_batch(appender: Appender) -> None:
    stream = Stream.from_rstream(appender.uri, vs="time")
    found = jobmanager.collect(stream, executor="local")
    assert found["_vs"].to_pylist() == sorted(TIMES)
    assert found.column_names == ["_vs", "_ve", "received_at", "time", "room", "n"]
    expected = counted(stream)
    assert sum(n for _, _, n in expected) == len(TIMES)
    appender.close()
    assert counted(stream) == expected
    files = Stream.from_parquet(appender.uri.removeprefix("file://"), vs="time", partitions=1)
    assert counted(files) == expected


def test_units_do_not_change_when_commits_become_segments(appender: Appender) -> None:
    """The plan is made, then all rows move into segments, then they are read."""
    from rvertex.sources.discover import discover
    from rvertex.sources.readers import open_reader
    from rvertex.sources.spec import SourcePartition

    plan = Stream.from_rstream(appender.uri, vs="time", delay="10s").plan
    spec = plan.spec  # type: ignore[attr-defined]
    units = discover(spec)
    assert len(units) > 2
    appender.append([{"time": 99}])
    appender.close()
    for first in (0, 5, len(TIMES)):
        reader, numbers = open_reader(SourcePartition(spec, units, 0), first), []
        while (batch := reader.read_next(2)) is not None:
            numbers += batch["n"].to_pylist()
        assert numbers == list(range(first, len(TIMES)))


def test_late_rows_of_a_log_are_handled_like_those_of_files(appender: Appender) -> None:
    stream = Stream.from_rstream(appender.uri, vs="time", delay="1us", late="adjust")
    with pytest.warns(jobmanager.LateRowsWarning, match="4 of 12 rows"):
        assert jobmanager.collect(stream, executor="local").num_rows == len(TIMES)
    arrivals = Stream.from_rstream(appender.uri, vs="received_at")
    found = jobmanager.collect(arrivals, executor="local")
    assert found["n"].to_pylist() == list(range(len(TIMES)))
    appender.close()


def test_an_empty_log_is_an_empty_table(tmp_path: Path) -> None:
    Appender(str(tmp_path), SCHEMA).close()
    for delay in ("auto", "10s"):
        stream = Stream.from_rstream(str(tmp_path), vs="time", delay=delay)
        assert jobmanager.collect(stream, executor="local").num_rows == 0


def test_a_log_needs_a_time_column_and_an_output_has_its_times(
    appender: Appender, tmp_path: Path
) -> None:
    with pytest.raises(InvalidPlanError, match="set vs= to the column with the start of an event"):
        Stream.from_rstream(appender.uri)
    with pytest.raises(InvalidPlanError, match="already has times and CTIs"):
        Stream.from_rstream(str(tmp_path), vs="time")
    appender.close()


@pytest.mark.slow
def test_deleted_rows_are_named(appender: Appender, tmp_path: Path) -> None:
    appender.close()
    stream = Stream.from_rstream(appender.uri, vs="time", delay="10s")
    sorted((tmp_path / "log").glob("*.parquet"))[1].unlink()
    with pytest.raises(jobmanager.JobFailedError, match="seq 3 was lost"):
        jobmanager.collect(stream, executor="local")
