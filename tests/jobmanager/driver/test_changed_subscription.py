"""A subscription continues across changes of its job, without gaps and repeats.

Not covered: a subscriber in another process (tests/jobmanager/delivery/test_standalone.py).
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from jobmanager import Job
from jobmanager.delivery.output_tap import Endpoints
from jobmanager.driver.job_deliveries import JobDeliveries
from jobmanager.driver.running.deploying import deploy, rescale, roll_back
from jobmanager.driver.subscription import Subscription
from planner import Stream
from planner.errors import UnknownOutputError
from planner.logical.query import together
from planner.physical.lower import lower
from rstream import open_store
from rstream.errors import OutputTakenBackError
from rstream.store.fences import fences_in
from tests.support.changed_jobs import COUNTS, ChangedJob, whole_answer
from tests.support.jobs import WAIT_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa

    from planner.physical.plan import PhysicalPlan

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


class LateLook:
    """The present plan of an ended job, for a subscription that starts with the former plan.

    ``in_read``: the change appears to happen during the first read of rows from after it.
    """

    def __init__(self, former: PhysicalPlan, plan: PhysicalPlan, *, in_read: bool) -> None:
        self._former, self._plan, self._is_changed = former, plan, not in_read
        stores = (open_store(uri) for _, uri in former.sink_streams())
        self._ends = [min(fence.seq for fence in fences_in(store.list())) for store in stores]
        self._subscription: Subscription | None = None
        self._subscription = Subscription(
            former,
            endpoints=Endpoints(),
            secret="",
            has_ended=lambda: True,
            raise_failure=lambda: None,
            start={},
            kept_from={},
            progress=False,
            present=self._present,
        )
        self.read = Subscriber(self._subscription)

    def _present(self) -> PhysicalPlan:
        if self._subscription is not None:
            positions = self._subscription.positions
            self._is_changed |= any(positions[k] > end for k, end in enumerate(self._ends))
        return self._plan if self._is_changed else self._former


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["deploy", "rescale", "rename"])
def test_a_subscription_follows_a_changed_job(verb: str, tmp_path: Path) -> None:
    """A rescale adds partitions, which a subscription once missed without any message.

    The change comes before the subscription first reads the plan, or during a read.
    """
    changed = ChangedJob(tmp_path)
    verbs: dict[str, Callable[[], object]] = {
        "deploy": lambda: deploy(changed.query("totals", TOTALS), changed.root, yes=True),
        "rescale": lambda: rescale(changed.root, parallelism=4, wait_s=WAIT_S),
        "rename": lambda: deploy(changed.query("renamed", RENAMED), changed.root, yes=True),
    }
    subscriber = subscribed(changed, "counts", COUNTS)
    assert changed.job is not None
    former = changed.job.plan
    verbs[verb]()
    changed.append(3)
    changed.has_read_all()
    rows = [(row["key"], row["n"], row.get("total")) for row in changed.finish()]
    late = [LateLook(former, changed.job.plan, in_read=in_read) for in_read in (False, True)]
    for one in (subscriber, *(look.read for look in late)):
        assert one.has_ended()
        assert not one.repeats
        assert not one.removed
        assert sorted(map(str, one.rows.values())) == sorted(map(str, rows))


@pytest.mark.slow
def test_a_rollback_raises_an_error_and_other_rows_follow(tmp_path: Path) -> None:
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


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_subscription_that_is_opened_during_a_change_keeps_its_rows(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next deliveries, which delete rows, must know it.

    It is opened before they begin; or they begin before it is opened at the former ones.
    """
    changed = ChangedJob(tmp_path)
    changed.append(2)
    job = changed.run(changed.query("counts", COUNTS))
    changed.has_read_all()
    former, opened, first = job._run.deliveries, list[Subscription](), list[Subscription]()
    keep, subscribe = JobDeliveries.keep_for_those_of, Job._subscription

    def changes() -> None:
        rescale(changed.root, parallelism=5, wait_s=WAIT_S)
        changed.watch.until(lambda status: job._run.deliveries is not former)

    def keep_and_open(self: JobDeliveries, other: JobDeliveries) -> None:
        keep(self, other)
        opened.append(job.subscribe())

    def change_and_subscribe(self: Job, *arguments: Any, **named: Any) -> Subscription:
        monkeypatch.undo()
        changes()
        first.append(subscribe(self, *arguments, **named))
        return first[0]

    if moment == "before":
        monkeypatch.setattr(JobDeliveries, "keep_for_those_of", keep_and_open)
        changes()
    else:
        monkeypatch.setattr(Job, "_subscription", change_and_subscribe)
        opened.append(job.subscribe())
    assert job._run.deliveries is not None
    assert opened[0] in job._run.deliveries._subscriptions.present()
    assert [one.is_open for one in first] == [False] * (moment == "after")
    assert changed.finish() == whole_answer(changed, COUNTS)


def test_a_subscription_to_a_removed_output_stays_an_error() -> None:
    query = Stream.from_items({"x": "int64"}, []).to_parquet()
    plans = [
        lower(together(dict.fromkeys(names, query)), root="memory://job", parallelism=1)
        for names in ("abc", "ab")
    ]
    present = [plans[0]]
    with Subscription(
        plans[0].output_named("c"),
        endpoints=Endpoints(),
        secret="",
        has_ended=lambda: False,
        raise_failure=lambda: None,
        start={},
        kept_from={},
        progress=False,
        present=lambda: present[-1],
    ) as subscription:
        present.append(plans[1])
        for _ in range(2):
            with pytest.raises(UnknownOutputError):
                next(subscription)
