"""Jobs continued day by day have the same output as one run over all files, item by item.

Not covered: files that are written so slowly that two scans see the same half of one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import jobmanager
from jobmanager.errors import (
    DaysOverError,
    NoJobError,
    NotContinuedError,
    QueryChangedError,
    TypesChangedError,
)
from jobmanager.storage.root import JobRoot
from planner import Query, Stream, agg, col, sinks, tumbling
from planner.errors import InvalidPlanError
from planner.logical.growing_files import with_growing_files
from planner.logical.nodes import Source
from planner.physical.lower import lower
from rstream import InlineBackground, RStream
from rstream.errors import UsageError
from tests.rooms import ROOT
from tests.support.content import PAYLOAD, items
from tests.support.jobs import WAIT_S, items_by_partition, outcome, output_items, with_limits
from tests.support.live import FILE_ROWS, write_file

if TYPE_CHECKING:
    from pathlib import Path

#: Half a second without progress ends a day whose last windows a join holds back.
QUICK = replace(with_limits(lease_s=0.3), stop_lag_s=0.5)
DAYS = 3
FILES_PER_DAY = 2


def query_of(folder: Path, *, size: str = "1500ms", follow: bool = True) -> Query:
    """Counts in windows that are open at the end of a file, joined with the counted rows."""
    live: dict[str, Any] = {"follow": True, "poll_every": "20ms"} if follow else {}
    events = Stream.from_json(str(folder), vs="t", delay="100ms", **live)
    counts = events.group_by("key").window(tumbling(size)).agg(n=agg.count(), last=agg.max("t"))
    rows = events.filter(col("t") % 7 == 0).select("key", "t")
    return counts.join(rows, on="key").to_parquet()


def write_day(folder: Path, day: int) -> None:
    for number in range(FILES_PER_DAY):
        write_file(folder, day * FILES_PER_DAY + number)


def run_day(root: Path, query: Query | None = None, **options: Any) -> dict[str, Any]:
    options = {"executor": "local", "config": QUICK, **options}
    job = jobmanager.run(query, root=str(root), continue_=True, **options)
    return job.wait(WAIT_S)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run the query once over all files."""
    folder, root = tmp_path_factory.mktemp("in"), tmp_path_factory.mktemp("once") / "job"
    for day in range(DAYS):
        write_day(folder, day)
    return run_day(root, query_of(folder), finish=True)


@pytest.mark.slow
def test_daily_runs_equal_one_run(tmp_path: Path, expected: dict[str, Any]) -> None:
    folder, root = tmp_path / "in", tmp_path / "job"
    folder.mkdir()
    before: dict[str, Any] = {}
    for day in range(DAYS):
        write_day(folder, day)
        is_last = day == DAYS - 1
        status = run_day(root, query_of(folder) if day < 2 else None, finish=is_last)
        assert status["state"] == ("finished" if is_last else "stopped")
        items = items_by_partition(status["output"])
        for name, former in before.items():
            assert items[name][: len(former)] == former, "what was out stays"
        if not is_last:
            closed_us = (day + 1) * FILES_PER_DAY * 1_000_000
            assert max(row[2] for part in items.values() for row in part) < closed_us, (
                "no window is cut"
            )
        before = items
    assert outcome(status) == outcome(expected)
    assert list(before.values()) == output_items(expected["output"])
    with pytest.raises(DaysOverError, match="its windows were closed"):
        run_day(root)
    assert run_day(root, finish=True)["state"] == "finished", "asked again it stands"


@pytest.mark.slow
def test_a_day_without_files_changes_nothing(tmp_path: Path) -> None:
    folder, root = tmp_path / "in", tmp_path / "job"
    folder.mkdir()
    write_day(folder, 0)
    # without a join, the first day ends when all of it is processed, however long that takes
    counted = query_of(folder).plan.inputs[0].inputs[0]
    first = run_day(root, Stream(counted).to_parquet())
    second = run_day(root)
    assert output_items(second["output"]) == output_items(first["output"])
    assert second["events_in"] == first["events_in"], "the state of yesterday is there"


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.05, 0.6, 0.95])
def test_a_kill_in_the_middle_of_the_second_day(
    share: float, tmp_path: Path, expected: dict[str, Any]
) -> None:
    folder, root = tmp_path / "in", tmp_path / "job"
    folder.mkdir()
    write_day(folder, 0)
    run_day(root, query_of(folder))
    write_day(folder, 1)
    rows = int(share * FILES_PER_DAY * FILE_ROWS)
    command = [sys.executable, "-m", "tests.support.killed_day", str(root), str(rows)]
    assert subprocess.run(command, cwd=ROOT, check=False, timeout=WAIT_S).returncode == -9
    assert jobmanager.resume(str(root), config=QUICK).wait(WAIT_S)["state"] == "stopped"
    write_day(folder, 2)
    status = run_day(root, finish=True)
    assert outcome(status) == outcome(expected)
    assert output_items(status["output"]) == output_items(expected["output"])


@pytest.mark.slow
@pytest.mark.parametrize("change", ["changed", pytest.param("gone", marks=pytest.mark.slow)])
def test_files_that_were_read_must_stay(change: str, tmp_path: Path) -> None:
    folder, root = tmp_path / "in", tmp_path / "job"
    folder.mkdir()
    write_day(folder, 0)
    first = run_day(root, query_of(folder))
    file = folder / "0001.json"
    if change == "gone":
        file.unlink()
    else:
        file.write_text(file.read_text() + '{"t": 1999999, "key": 1}\n')
    write_file(folder, 2)
    with pytest.raises(jobmanager.JobFailedError, match=rf"0001\.json: {change} since the job"):
        run_day(root)
    job = jobmanager.resume(str(root), accept_changed_inputs=True, config=QUICK)
    status = job.wait(WAIT_S)
    assert status["state"] == "stopped"
    assert status["events_in"] > first["events_in"], "it goes on with the new one"


@pytest.mark.slow
def test_another_query_is_rejected(tmp_path: Path) -> None:
    folder, other, root = tmp_path / "in", tmp_path / "other", tmp_path / "job"
    for place in (folder, other):
        place.mkdir()
        write_file(place, 0)
    run_day(root, query_of(folder))
    with pytest.raises(QueryChangedError, match="it computes something else"):
        run_day(root, query_of(folder, size="2s"))
    with pytest.raises(QueryChangedError, match=r"it now reads .*other"):
        run_day(root, query_of(other))
    with pytest.raises(UsageError, match="keeps the rows that a delivery still needs"):
        jobmanager.resume(str(root), retention="delivered")
    assert JobRoot(str(root)).read_status()["state"] == "stopped", "the job has not failed by that"
    assert run_day(root, query_of(folder))["state"] == "stopped", "the same is not"


def test_a_stream_shortened_by_retention_is_the_same_query(tmp_path: Path) -> None:
    uri, hashes, begins = str(tmp_path / "s"), [], []
    stream = RStream.open(uri, PAYLOAD, background=InlineBackground(), keeps_digest=True)
    for seq in (0, 4, 8):
        stream.write(seq, items(seq, seq + 4))
        stream.flush(0)
    for mark in (0, 8):
        stream.garbage_collect(mark)
        plan = lower(Stream.from_rstream(uri, follow=True).to_parquet(), root="r")
        begins += [u.first_seq for v in plan.vertices if v.source for u in v.source.units]
        hashes.append(plan.plan_hash)
    stream.close()
    assert begins == [0, 8]
    assert hashes[0] == hashes[1]


def test_queries_that_cannot_be_continued_are_rejected(tmp_path: Path) -> None:
    folder, root = tmp_path / "in", tmp_path / "job"
    folder.mkdir()
    write_file(folder, 0)
    with pytest.raises(NoJobError):
        run_day(root)
    with pytest.raises(UsageError, match="needs root="):
        jobmanager.run(query_of(folder), continue_=True)
    with pytest.raises(UsageError, match="needs continue_=True"):
        jobmanager.run(query_of(folder), root=str(root), finish=True)
    auto = Stream.from_json(str(folder), vs="t")
    with pytest.raises(InvalidPlanError, match="future files are unknown"):
        run_day(root, auto.to_parquet())
    single = Stream.from_json(str(folder / "0000.json"), vs="t", delay="1s")
    with pytest.raises(InvalidPlanError, match="no source of the query can grow"):
        run_day(root, single.to_parquet())
    assert not root.exists(), "nothing was begun"
    whole = query_of(folder, follow=False)
    jobmanager.run(whole, root=str(root), executor="local").wait(WAIT_S)
    with pytest.raises(NotContinuedError, match="started without --continue"):
        run_day(root)


@pytest.mark.parametrize("policy", ["fail", "skip", "dead_letter"])
def test_the_rule_for_bad_rows_applies_on_later_days(policy: Any, tmp_path: Path) -> None:
    write_file(tmp_path, 0)
    query = Stream.from_json(str(tmp_path), vs="t", delay="1s", on_bad_row=policy).to_parquet()
    (source,) = with_growing_files(query).plan.inputs
    assert isinstance(source, Source)
    assert source.spec.live is not None
    assert source.spec.checks.on_bad_row == policy


@pytest.mark.slow
def test_bad_rows_of_each_day_are_excluded_and_kept(tmp_path: Path) -> None:
    folder, root = tmp_path / "in", tmp_path / "job"
    folder.mkdir()
    query = None
    for day in range(2):
        rows = f"t,key\n{day}000000,1\n{day}000001\nnoon,3\n"
        (folder / f"{day}.csv").write_text(rows)
        if day == 0:
            types = {"t": "int64"}
            events = Stream.from_csv(
                str(folder), vs="t", delay="1s", schema=types, on_bad_row="dead_letter"
            )
            query = events.to_parquet()
        status = run_day(root, query)
        assert (status["state"], status["bad_rows"]) == ("stopped", 2 * day + 2)
    letters = jobmanager.read_dead_letters(str(root)).to_pylist()
    assert [(row["line"], row["column"]) for row in letters] == [(3, None), (4, "t")] * 2


@pytest.mark.slow
def test_plain_folders_and_single_files(tmp_path: Path) -> None:
    """A folder grows, a single file is read once; rows are delivered at the end of each day."""
    folder, root, table = tmp_path / "in", tmp_path / "job", tmp_path / "table"
    folder.mkdir()
    write_day(folder, 0)
    names = tmp_path / "names.json"
    names.write_text("".join(f'{{"t": 0, "until": 9000000, "key": {k}}}\n' for k in range(4)))
    tiers = Stream.from_json(str(names), vs="t", ve="until")
    events = Stream.from_json(str(folder), vs="t", delay="100ms")
    counts = events.group_by("key").window(tumbling("500ms")).agg(n=agg.count())
    query = counts.join(tiers, on="key").deliver(sinks.parquet(str(table)))
    rows = []
    for day in range(DAYS):
        if day:
            write_day(folder, day)
        status = run_day(root, query, finish=day == DAYS - 1)
        rows.append(pq.read_table(table).num_rows)
        assert rows[-1] == status["events_out"], "all that is out was delivered"
    assert rows == sorted(set(rows))
    whole = jobmanager.collect(counts.join(tiers, on="key"))
    assert rows[-1] == whole.num_rows
    assert os.path.exists(f"{root}/output/_SUCCESS")


@pytest.mark.slow
@pytest.mark.parametrize("first", ["t,v\n", "t,v\n0,x\n"], ids=["header only", "text"])
def test_other_types_in_the_first_file_are_named(tmp_path: Path, first: str) -> None:
    """The error used to say that the query had changed and computed something else."""
    folder, root = tmp_path / "in", str(tmp_path / "job")
    folder.mkdir()
    (folder / "b.csv").write_text("t,v\n1,1\n2,2\n")

    def query(**given: object) -> Query:
        rows = Stream.from_csv(str(folder), vs="t", delay="1s", on_bad_row="skip", **given)  # type: ignore[arg-type]
        return rows.window(tumbling("1s")).agg(v=agg.max("v")).to_parquet()

    jobmanager.run(query(), root=root, continue_=True, executor="local").wait(WAIT_S)
    (folder / "a.csv").write_text(first)
    (folder / "c.csv").write_text("t,v\n3,3\n")
    if first.endswith("x\n"):
        with pytest.raises(TypesChangedError, match=r"column 'v' was int64 and is now string"):
            jobmanager.run(query(), root=root, continue_=True, executor="local")
    again = query(schema={"v": "int64"})
    job = jobmanager.run(again, root=root, continue_=True, executor="local")
    assert job.wait(WAIT_S)["state"] in ("stopped", "finished")
