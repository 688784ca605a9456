"""Replay, audit and lineage of jobs whose state was spilled to disk, without their scratch folder.

Not covered: state that does not fit into the memory of the replaying process.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import jobmanager
from jobmanager.replay.recorded import Recorded
from jobmanager.replay.replaying import Replay, replay, replay_all
from jobmanager.replay.rows.answer_rows import AnswerRow, recorded_events
from jobmanager.replay.rows.auditing import audit
from jobmanager.replay.rows.whys import lineage_of
from jobmanager.storage.root import JobRoot
from tests.jobmanager.test_spilled_state import (
    events,
    keyed,
    options,
    query,
    small,
)
from tests.support.jobs import WAIT_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from planner import Query

__all__ = ["events", "small"]
pytestmark = pytest.mark.slow
SECOND = 1_000_000


@pytest.mark.parametrize("make", [query, keyed])
def test_spilled_state_is_replayed_from_every_checkpoint(
    make: Callable[[Path], Query],
    events: Path,
    tmp_path: Path,
) -> None:
    given = options(tmp_path, "job", 1_000)
    root = given["root"]
    job = jobmanager.run(
        make(events), executor="local", retain="all", checkpoint_bytes=4_096, **given
    )
    status = job.wait(WAIT_S)
    assert sum(vertex["spills"] for vertex in status["vertices"]) > 0
    for path in tmp_path.iterdir():
        if path.name not in ("job", "events.parquet"):
            shutil.rmtree(path)
    found = list(replay_all(root))
    assert all(isinstance(one, Replay) and one.is_equal for one in found), found
    starts = set()
    for second in (10, 20, 30):
        for vertex in Recorded(JobRoot(root)).plan.vertices:
            one = replay(root, vertex.id, from_=second * SECOND, until=(second + 5) * SECOND)
            assert one.is_equal, one
            starts.add(one.checkpoint)
    assert any(starts), "a replay begins at a checkpoint"
    assert audit(root, 0.2, seed=3).is_equal
    plan = Recorded(JobRoot(root)).plan
    stream, batch = next((s, b) for s, b in recorded_events(plan) if b.num_rows)
    row = AnswerRow(stream, batch.slice(0, 1))
    _, lineage = lineage_of(Recorded(JobRoot(root)), row)
    assert lineage.is_smallest
