"""Limits of logs of pushed rows hold for every way to reach them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rstream import MemoryBlobs
from rstream.errors import AppenderBusyError, AppenderClosedError, TooManyProducersError
from rstream.intake.appender import Appender
from rstream.intake.commits import commit_name, list_log, unpack_commit
from rstream.intake.writer import Append, LogWriter
from rstream.limits import AppendLimits
from rstream.store.segment_names import parse_segment_name
from tests.rstream.intake.test_appender import Gate
from tests.support.pushed import LIMITS, SCHEMA, append, write_pending

#: The bytes of an append of two rows while it waits, and in a segment.
TWO_ROWS = pa.RecordBatch.from_pylist([{"part": 1}, {"part": 2}], schema=SCHEMA)
APPEND_BYTES = TWO_ROWS.nbytes + 256


@pytest.mark.parametrize(
    ("limits", "rows_max"),
    [
        (AppendLimits(), 20),
        (AppendLimits(commit_rows_max=5), 4),
        (AppendLimits(commit_rows_max=1), 2),
        (AppendLimits(commit_bytes_max=3 * APPEND_BYTES), 6),
        (AppendLimits(commit_bytes_max=3 * APPEND_BYTES - 1), 4),
        (AppendLimits(commit_bytes_max=1), 2),
    ],
)
def test_the_size_of_a_commit_is_limited(limits: AppendLimits, rows_max: int) -> None:
    store = Gate()
    with Appender(store, SCHEMA, limits=limits) as appender:
        store.may_go.clear()
        store.waits.clear()
        futures = [appender.submit(TWO_ROWS)]
        assert store.waits.wait(60)  # its commit is under way, and the others wait for the next
        futures += [appender.submit(TWO_ROWS) for _ in range(10)]
        store.may_go.set()
        assert [future.result(60).first_seq for future in futures] == list(range(0, 22, 2))
        names = [commit_name(*commit) for commit in list_log(store).commits]
        found = [unpack_commit(name, store.get(name)).rows.num_rows for name in names]
    assert max(found) == rows_max, found


@pytest.mark.parametrize(
    "limits",
    [
        AppendLimits(segment_commits_max=3),
        AppendLimits(segment_rows_max=5),
        AppendLimits(segment_bytes_max=3 * TWO_ROWS.nbytes),
    ],
)
def test_the_size_of_a_segment_is_limited(limits: AppendLimits) -> None:
    """The first segment has the fence among its commits."""
    store = MemoryBlobs()
    writer = LogWriter(store, SCHEMA, limits=limits)
    for _ in range(12):
        writer.commit([Append(TWO_ROWS)])
        write_pending(writer)
    found = [seqs for name in store.list() if (seqs := parse_segment_name(name)) is not None]
    assert {len(seqs) for seqs in found[1:]} == {6}, found


@pytest.mark.parametrize(
    "limits",
    [AppendLimits(waiting_appends_max=3), AppendLimits(waiting_bytes_max=3 * 256)],
)
def test_the_queue_of_appends_is_limited(limits: AppendLimits) -> None:
    store = Gate()
    with Appender(store, SCHEMA, limits=limits) as appender:
        store.may_go.clear()
        for _ in range(3):
            appender.submit([{"part": 1}])
        with pytest.raises(AppenderBusyError, match="3 appends with"):
            appender.submit([{"part": 1}])
        store.may_go.set()
    with pytest.raises(AppenderClosedError):
        appender.submit([{"part": 1}])


@pytest.mark.parametrize("is_together", [False, True])
def test_the_number_of_producers_is_limited_also_within_one_commit(is_together: bool) -> None:
    """Simultaneous appends share a commit; each new producer counts."""
    writer = LogWriter(MemoryBlobs(), SCHEMA, limits=AppendLimits(producers_max=3))
    asked = [append("a", 0), append("a", 1), Append(None, "b", 0), append("b", 0), append("c", 0)]
    asked += [append("d", 0), Append(None, "e", None), append("c", 1)]
    commits = [asked] if is_together else [[one] for one in asked]
    results = [result for commit in commits for result in writer.commit(commit)]
    refused = [isinstance(result, TooManyProducersError) for result in results]
    assert refused == [False] * 5 + [True, True, False], results


def test_the_base_before_the_newest_is_kept() -> None:
    """A listing that runs while a base is replaced has one of the two."""
    store = MemoryBlobs()
    writer, made = LogWriter(store, SCHEMA, limits=LIMITS), list[object]()
    for number in range(12):
        writer.commit([append("a", number)])
        write_pending(writer)
        found = list_log(store).bases
        made += [base for base in found if base not in made]
        assert list(found) == made[-2:]
    assert len(made) > 2
