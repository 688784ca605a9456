"""A subscription continues across changes of its job, without gaps and repeats.

Cannot catch: a subscriber in another process (tests/jobmanager/delivery/test_standalone.py).
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from jobmanager.driver.running.deploying import deploy, rescale, roll_back
from rstream.errors import OutputTakenBackError
from tests.support.changed_jobs import COUNTS, ChangedJob
from tests.support.jobs import WAIT_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa

    from jobmanager.driver.subscription import Subscription

TOTALS = COUNTS.replace("ss.agg.count()", 'ss.agg.count(), total=ss.agg.sum("x")')
#: The vertices that write the output have other ids.
RENAMED = f'{COUNTS}.name("sums")'
Place = tuple[int, int]


class Subscriber:
    """Reads a subscription in a thread. ``rows``: by partition and seq, the values of a row."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self.rows: dict[Place, tuple[object, ...]] = {}
        self.repeats, self.removed = 0, list[OutputTakenBackError]()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while True:  # ends with the job
            try:
                for batch in self._subscription:
                    self._take(batch)
                return
            except OutputTakenBackError as error:
                self.removed.append(error)
                ends = self._subscription.positions
                kept = {at: row for at, row in self.rows.items() if at[1] < ends.get(at[0], 0)}
                self.rows = kept

    def _take(self, batch: pa.RecordBatch) -> None:
        for row in batch.to_pylist():
            at = row["partition"], row["_seq"]
            self.repeats += at in self.rows
            self.rows[at] = row["key"], row["n"], row.get("total")

    def has_ended(self) -> bool:
        self._thread.join(WAIT_S)
        return not self._thread.is_alive()


def subscribed(changed: ChangedJob, name: str, text: str) -> Subscriber:
    changed.append(2)
    job = changed.run(changed.query(name, text))
    changed.has_read_all()
    return Subscriber(job.subscribe())


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["deploy", "rescale", "rename"])
def test_it_follows_a_changed_job(verb: str, tmp_path: Path) -> None:
    """It missed the partitions that a rescale added, without any message."""
    changed = ChangedJob(tmp_path)
    verbs: dict[str, Callable[[], object]] = {
        "deploy": lambda: deploy(changed.query("totals", TOTALS), changed.root, yes=True),
        "rescale": lambda: rescale(changed.root, parallelism=4, wait_s=WAIT_S),
        "rename": lambda: deploy(changed.query("renamed", RENAMED), changed.root, yes=True),
    }
    subscriber = subscribed(changed, "counts", COUNTS)
    verbs[verb]()
    changed.append(3)
    changed.has_read_all()
    rows = [(row["key"], row["n"], row.get("total")) for row in changed.finish()]
    assert subscriber.has_ended()
    assert not subscriber.repeats
    assert not subscriber.removed
    assert sorted(map(str, subscriber.rows.values())) == sorted(map(str, rows))


@pytest.mark.slow
def test_rows_that_a_rollback_removes_are_an_error_and_others_follow(tmp_path: Path) -> None:
    changed = ChangedJob(tmp_path)
    subscriber = subscribed(changed, "counts", COUNTS)
    rescale(changed.root, parallelism=3, wait_s=WAIT_S)
    before = len(subscriber.rows)
    changed.append(3)
    changed.has_emitted_all()
    changed.watch.until(lambda status: len(subscriber.rows) > before)
    roll_back(changed.root, wait_s=WAIT_S)
    rows = [(row["key"], row["n"], row.get("total")) for row in changed.finish()]
    assert subscriber.has_ended()
    assert subscriber.removed
    assert not subscriber.repeats
    assert sorted(map(str, subscriber.rows.values())) == sorted(map(str, rows))
