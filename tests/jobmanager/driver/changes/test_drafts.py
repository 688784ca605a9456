"""A change is drafted while the hosts end; the draft of another cut is dropped with its fences.

Cannot catch: a death during the draft (test_killed_in_change.py, tests/sim/test_changes.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from jobmanager.driver.running.changes import apply, stopped
from jobmanager.driver.running.changes.drafting import draft_change
from jobmanager.driver.running.changes.ends import next_generation, outputs_of
from jobmanager.driver.running.deploying import rescale
from rstream.store.fences import Fence, put_fence
from tests.support.changed_jobs import COUNTS, ChangedJob, whole_answer
from tests.support.jobs import WAIT_S

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow
def test_only_the_draft_of_the_same_cut_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = ChangedJob(tmp_path)
    changed.append(2)
    changed.run(changed.query("counts", COUNTS))
    changed.has_read_all()
    with monkeypatch.context() as patch:
        patch.delattr(apply, "draft_change")  # so the change can only use a draft made before
        assert rescale(changed.root, parallelism=3, wait_s=WAIT_S)["state"] == "done"
    changed.append()
    changed.has_read_all()
    drafts: list[Any] = []

    def of_another_cut(root: Any, plan: Any, *given: Any) -> Any:
        drafts.append(replace(draft_change(root, plan, *given), basis=()))
        if len(drafts) == 1:  # its fences hide all rows, so the job does not stop at a cut
            for _, uri in outputs_of(plan):
                put_fence(root.open_store(uri), Fence(0, next_generation(root), root.epoch))
        return drafts[-1]

    monkeypatch.setattr(stopped, "draft_change", of_another_cut)
    assert rescale(changed.root, parallelism=2, wait_s=WAIT_S)["state"] == "done"
    assert len(drafts) == 2
    changed.append()
    changed.has_read_all()
    assert changed.finish() == whole_answer(changed, COUNTS)
