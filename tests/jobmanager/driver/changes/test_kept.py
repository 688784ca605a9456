"""A change without effect: every kind of state survives a stop and restart with the same rows.

Cannot catch: conversions (test_deploy.py), several source partitions of a broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jobmanager.driver.running.deploying import deploy
from tests.support.changed_jobs import STATEFUL, ChangedJob, whole_answer
from tests.support.jobs import WAIT_S

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow
@pytest.mark.parametrize("name", STATEFUL)
def test_the_answer_is_that_of_a_job_that_never_changed(name: str, tmp_path: Path) -> None:
    changed = ChangedJob(tmp_path)
    changed.append(2)
    changed.run(changed.query("first", STATEFUL[name]))
    again = changed.query("again", STATEFUL[name])
    changed.has_read_all()
    comparison = deploy(again, changed.root, yes=True, wait_s=WAIT_S).comparison
    assert {row.verdict for row in comparison.rows} == {"kept"}
    assert not comparison.refusals
    changed.append(2)
    deploy(again, changed.root, yes=True, wait_s=WAIT_S)  # in the middle of the rows
    changed.has_read_all()
    assert changed.finish() == whole_answer(changed, STATEFUL[name])
