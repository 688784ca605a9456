"""A damaged output is no longer marked as complete.

Not covered: how a job reacts (tests/jobmanager/test_lost_output.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jobmanager.storage.output_check import OutputCheck
from jobmanager.storage.output_claim import is_complete, mark_success
from planner import Stream, event
from planner.physical.lower import lower
from rstream import open_store
from rstream.store.seals import SEAL_NAME
from tests.support.content import items, open_inline

if TYPE_CHECKING:
    from pathlib import Path


def test_the_success_mark_is_removed_before_damage_is_reported(tmp_path: Path) -> None:
    query = Stream.from_items({"x": "int64"}, [event(1, x=1)]).to_parquet()
    plan = lower(query, root=str(tmp_path), parallelism=1)
    ((name, uri),) = plan.sink_streams()
    stream = open_inline(uri)
    stream.write(0, items(0, 40))
    stream.close()
    mark_success(plan.output, {"job": "j"}, [uri])
    check, ends = OutputCheck(plan), {name: 40}
    assert check(ends, contents=True) == []
    assert is_complete(plan.output)
    store = open_store(uri)
    segments = [file for file in store.list() if file.endswith(".parquet")]
    store.delete(segments[1])
    (found,) = check(ends, contents=False)
    assert (found.stream, found.seq) == (name, 16)
    assert not is_complete(plan.output)


@pytest.mark.parametrize("mark", [0, 20, 32])
def test_items_deleted_by_retention_count_only_in_the_digest(mark: int, tmp_path: Path) -> None:
    query = Stream.from_items({"x": "int64"}, [event(1, x=1)]).to_parquet()
    plan = lower(query, root=str(tmp_path), parallelism=1)
    ((_, uri),) = plan.sink_streams()
    stream = open_inline(uri, keeps_digest=True)
    stream.write(0, items(0, 40))
    stream.flush()
    mark_success(plan.output, {"job": "j"}, [uri])
    _, whole, digest = OutputCheck(plan).read_all()
    stream.garbage_collect(mark)
    stream.close()
    left = 40 - mark // 16 * 16
    open_store(uri).delete(SEAL_NAME)
    mark_success(plan.output, {"job": "j"}, [uri])
    files, events, found = OutputCheck(plan).read_all()
    assert (whole, found) == (35, digest)
    assert (files, events) == (-(-left // 16), sum(seq % 7 != 6 for seq in range(40 - left, 40)))
