"""An output that is damaged is no longer marked as complete.

Cannot catch: what a job makes of it (tests/jobmanager/test_lost_output.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobmanager.storage.output_check import OutputCheck
from jobmanager.storage.output_claim import is_complete, mark_success
from planner import Stream, event
from planner.physical.lower import lower
from rstream import open_store
from tests.support.content import items, open_inline

if TYPE_CHECKING:
    from pathlib import Path


def test_the_mark_goes_before_anybody_is_told_of_the_damage(tmp_path: Path) -> None:
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
