"""A change that changes nothing: every kind of state goes through a cut and gives the same rows.

Cannot catch: conversions (test_deploy.py), several source partitions of a broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jobmanager.driver.running.deploying import deploy
from tests.support.changed_jobs import ChangedJob, whole_answer

if TYPE_CHECKING:
    from pathlib import Path

BY_KEY = 'rows.group_by("key")'
COUNTS = f'{BY_KEY}.window(ss.tumbling("700ms")).agg(n=ss.agg.count(), m=ss.agg.max("x"))'
QUERIES = {
    "hopping": f'{BY_KEY}.window(ss.hopping("1s", "300ms")).agg(t=ss.agg.sum("x"))',
    "holistic": f'{BY_KEY}.window(ss.tumbling("700ms")).agg(m=ss.agg.quantile("x", 0.5))',
    "sessions": 'rows.filter(ss.col("x") < 3).group_by("key").window(ss.session("150ms"))'
    '.agg(n=ss.agg.count(), last=ss.agg.last("x"))',
    "own_totals": f'rows.join({COUNTS}, on="key").select("key", "x", "n", "m")',
    "two_stages": f'{COUNTS}.group_by("n").window(ss.tumbling("2100ms")).agg(k=ss.agg.count())',
    "deduplicated": 'rows.deduplicate("x", within="400ms").select("key", "x")',
    "interval": 'rows.filter(ss.col("x") < 40).join(rows.filter(ss.col("x") > 60), on="key", '
    'within=("-200ms", "100ms")).select("key", "x", y="x_right")',
    "union": 'rows.filter(ss.col("x") < 40).union(rows.filter(ss.col("x") > 60)).group_by("key")'
    '.window(ss.tumbling("500ms")).agg(n=ss.agg.count())',
}


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
def test_the_answer_is_that_of_a_job_that_never_changed(name: str, tmp_path: Path) -> None:
    changed = ChangedJob(tmp_path)
    changed.append(2)
    changed.run(changed.query("first", QUERIES[name]))
    again = changed.query("again", QUERIES[name])
    changed.has_read_all()
    comparison = deploy(again, changed.root, yes=True, wait_s=60).comparison
    assert {row.verdict for row in comparison.rows} == {"kept"}
    assert not comparison.refusals
    changed.append(2)
    deploy(again, changed.root, yes=True, wait_s=60)  # in the midst of the rows
    changed.has_read_all()
    assert changed.finish() == whole_answer(changed, QUERIES[name])
