"""Replay, lineage, difference and state of jobs that were rescaled or got another query.

Not covered: changes whose first checkpoints were deleted by a running job (``--retain``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jobmanager.driver.running.deploying import deploy, rescale, roll_back
from jobmanager.replay.errors import CannotReplayError, NoSuchRowError
from jobmanager.replay.recorded import Recorded
from jobmanager.replay.replaying import Replay, replay, replay_all
from jobmanager.replay.rows.auditing import audit
from jobmanager.replay.rows.bisecting import bisect
from jobmanager.replay.rows.capsules import make_capsule, open_capsule
from jobmanager.replay.rows.diffing import diff
from jobmanager.replay.rows.whys import why
from jobmanager.replay.state_at import read_state
from jobmanager.storage.query_file import load_query
from jobmanager.storage.root import JobRoot
from tests.support.changed_jobs import COUNTS, STATEFUL, ChangedJob, whole_answer
from tests.support.jobs import WAIT_S
from tests.support.retained import contents

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

pytestmark = pytest.mark.slow
TOTALS = COUNTS.replace("ss.agg.count()", 'ss.agg.count(), total=ss.agg.sum("x")')


def all_equal(root: str) -> list[Replay]:
    """Replay each vertex; a running job may have nothing durable to compare with yet."""
    found = [one for one in replay_all(root) if isinstance(one, Replay)]
    assert [one.vertex for one in found] == list(Recorded(JobRoot(root)).plan.topological_order())
    assert all(one.is_equal for one in found), found
    assert all(one.checkpoint.endswith("-000000.ckpt") for one in found), found
    return found


def condition(row: dict[str, Any]) -> str:
    start = row["window_start"].strftime("TIMESTAMP '%Y-%m-%d %H:%M:%S.%f'")
    return f"key = {row['key']} AND window_start = {start}"


@pytest.mark.parametrize("name", ["counts", "two_stages", "interval"])
def test_vertices_of_a_rescaled_job_start_at_the_change(name: str, tmp_path: Path) -> None:
    """After a rescale, channels begin with items that no vertex had read before it."""
    changed, query = ChangedJob(tmp_path), {"counts": COUNTS, **STATEFUL}[name]
    changed.append(2)
    changed.run(changed.query("query", query), retain="all")
    changed.has_read_all()
    for width in (5, 3):
        rescale(changed.root, parallelism=width, wait_s=WAIT_S)
        changed.append()
        changed.has_read_all()
    all_equal(changed.root)
    rows = changed.finish()
    before = contents(tmp_path / "job")
    found = all_equal(changed.root)
    assert sum(one.compared_items for one in found) > 0
    assert audit(changed.root, 0.2, seed=1).is_equal
    assert diff(changed.root, load_query(str(tmp_path / "query.py"))).is_equal
    if name == "counts":
        for row in (rows[0], rows[len(rows) // 2], rows[-1]):
            assert why(changed.root, condition(row)).rows == row["n"]
    assert contents(tmp_path / "job") == before


def test_rows_of_a_former_query_are_reported(tmp_path: Path) -> None:
    changed = ChangedJob(tmp_path)
    changed.append(2)
    changed.run(changed.query("counts", COUNTS), retain="all")
    changed.has_read_all()
    deploy(changed.query("totals", TOTALS), changed.root, yes=True, wait_s=WAIT_S)
    changed.append()
    changed.has_read_all()
    all_equal(changed.root)
    rows = changed.finish()
    found = all_equal(changed.root)
    assert sum(one.compared_items for one in found) > 0
    with pytest.raises(NoSuchRowError, match="a former one did: the job was changed since"):
        why(changed.root, condition(rows[0]))
    assert why(changed.root, condition(rows[-1])).rows == rows[-1]["n"]
    # Rows before the change have no total; one window has the total since the change.
    whole = [row["total"] for row in whole_answer(changed, TOTALS)]
    differing = sum(row["total"] != total for row, total in zip(rows, whole, strict=True))
    compared = diff(changed.root, load_query(str(tmp_path / "totals.py")))
    assert 0 < differing == compared.changed < compared.old_rows == len(rows)
    again = replay(changed.root, found[-1].vertex, code=load_query(str(tmp_path / "counts.py")))
    assert (again.is_equal, again.compared_items) == (True, 0)
    with pytest.raises(CannotReplayError, match="the job was changed after that time"):
        read_state(changed.root, found[-1].vertex, at=100_000)


def test_replay_of_a_job_that_was_rolled_back(tmp_path: Path) -> None:
    changed = ChangedJob(tmp_path)
    changed.append(2)
    changed.run(changed.query("counts", COUNTS), retain="all")
    changed.has_read_all()
    deploy(changed.query("totals", TOTALS), changed.root, yes=True, wait_s=WAIT_S)
    changed.append()
    changed.has_emitted_all()
    roll_back(changed.root, wait_s=WAIT_S)
    changed.append()
    changed.has_read_all()
    all_equal(changed.root)
    rows = changed.finish()
    all_equal(changed.root)
    for row in (rows[0], rows[len(rows) // 2], rows[-1]):
        assert why(changed.root, condition(row)).rows == row["n"]
    assert bisect(changed.root, row="m > 99").wrong_rows == sum(row["m"] > 99 for row in rows)
    make_capsule(changed.root, condition(rows[-1]), str(tmp_path / "row.zip"))
    assert open_capsule(str(tmp_path / "row.zip"), trust=True).is_reproduced()
    assert diff(changed.root, load_query(str(tmp_path / "counts.py"))).is_equal


def test_replay_behind_code_that_is_not_deterministic(tmp_path: Path) -> None:
    """Readers of code that is not deterministic use its recorded output; it is not replayed."""
    code = 'lambda b: {"key": b.column("key"), "x": b.column("x")}, {"key": "int64", "x": "int64"}'
    strong = COUNTS.replace("rows.", f"rows.apply({code}, deterministic=False).")
    changed = ChangedJob(tmp_path)
    changed.append(2)
    changed.run(changed.query("strong", strong), retain="all")
    changed.has_read_all()
    rows = changed.finish()
    refused, *found = replay_all(changed.root)
    assert isinstance(refused, CannotReplayError)
    assert len(found) == 2
    assert all(isinstance(one, Replay) and one.is_equal for one in found), found
    assert sum(one.compared_items for one in found if isinstance(one, Replay)) > 0
    assert diff(changed.root, load_query(str(tmp_path / "strong.py"))).is_equal
    with pytest.raises(CannotReplayError, match="declared not deterministic"):
        why(changed.root, condition(rows[0]))
