"""From its onset on, a branch emits the rows of a job that always ran its query.

Not covered: an onset that is later than necessary, within the bound of each case.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from jobmanager.cli.branching.branch import prepare
from jobmanager.cli.branching.onset import Onset, onsets
from jobmanager.driver.running.changes import pending
from jobmanager.storage.savepoints import read_savepoint
from rstream import open_reader
from rstream.items.batch import only_events
from rstream.log.durable import DurableLog
from rstream.store.blobs import open_store
from tests.support.budget import one_in
from tests.support.changed_jobs import COUNTS, ODD, OTHERS, QUICK, STATEFUL, ChangedJob, whole_job
from tests.support.jobs import WAIT_S

if TYPE_CHECKING:
    from pathlib import Path

    from jobmanager import Job
    from jobmanager.cli.branching.branch import Branch

#: By query: how long after the last row that was read its rows may begin to be its own, us.
QUERIES = {
    "tumbling": (COUNTS, 0),
    "hopping": (STATEFUL["hopping"], 0),
    "sessions": (STATEFUL["sessions"], 150_000),
    "own_totals": (STATEFUL["own_totals"], 700_000),
    # Results of the first window are valid for 700 ms.
    "two_stages": (STATEFUL["two_stages"], 700_000),
    "interval": (STATEFUL["interval"], 300_000),
    "union": (STATEFUL["union"], 0),
    "snapshots": (OTHERS["snapshots"], 600_000),
    "left": (OTHERS["left"], 400_000),
    "at_the_end": (f"{COUNTS}.point_at_end()", 700_000),
    "shifted": (f'{COUNTS}.shift("3s")', 3_000_000),
}
LAST_READ_US = 2_000_000


def onset_of(made: Branch) -> Onset:
    outcome = pending.outcome_of(made.root.store, made.change.id)
    assert outcome is not None
    saved = read_savepoint(made.root.store, outcome["savepoint"])
    (found,) = onsets(made.root, saved, made.comparison).values()
    return found


def rows_from(job: Job, begin_us: int) -> Counter[str]:
    found: Counter[str] = Counter()
    for stream, uri in job.plan.sink_streams():
        reader = open_reader(open_store(uri), DurableLog(open_store(uri), stream).mark)
        while (items := reader.read_next()) is not None:
            rows = only_events(items.batch).to_pylist()
            found.update(str(row) for row in rows if row["_vs"] >= begin_us)
        reader.close()
    return found


def branched(folder: Path, old: str, new: str) -> tuple[ChangedJob, Branch, Job]:
    """Branch a job that has read two seconds of rows; the branch reads three more, and ends."""
    changed = ChangedJob(folder)
    changed.append(2)
    changed.run(changed.query("old", old))
    changed.has_read_all()
    made = prepare(changed.query("new", new), changed.root)
    job = made.start(config=QUICK)
    changed.append(6)
    job.stop(finish=True)
    assert job.wait(WAIT_S)["state"] == "finished"
    changed.finish()
    return changed, made, job


@pytest.mark.parametrize("name", one_in(len(QUERIES), QUERIES))
def test_rows_from_the_onset_on_equal_those_of_the_new_query_alone(
    name: str, tmp_path: Path
) -> None:
    text, most_us = QUERIES[name]
    other = re.sub(r"\brows\b(?!=)", 'rows.filter(ss.col("x") % 3 != 1)', text)
    changed, made, branch = branched(tmp_path, text, other)
    onset = onset_of(made)
    assert not onset.mixed
    assert onset.time_us <= LAST_READ_US + most_us
    whole = whole_job(changed, other)
    rows = rows_from(branch, onset.time_us)
    assert rows == rows_from(whole, onset.time_us)
    assert rows


@pytest.mark.slow
def test_stages_that_use_rows_of_any_age_are_named(tmp_path: Path) -> None:
    other = ODD.replace("rows.group_by", 'rows.filter(ss.col("x") > 3).group_by')
    _, made, _ = branched(tmp_path, ODD, other)
    assert onset_of(made).mixed == {"s02-even"}
