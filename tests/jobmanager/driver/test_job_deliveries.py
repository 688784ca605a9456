"""Which output items the deliveries and subscriptions of a driver still need.

Not covered: what retention then deletes (tests/jobmanager/delivery/test_retention.py).
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, cast

import pytest

from jobmanager.config import JobConfig
from jobmanager.driver.job_deliveries import JobDeliveries, _Subscriptions
from jobmanager.storage.root import JobRoot
from planner import Stream, event, sinks
from planner.physical.lower import lower
from rstream import MemoryBlobs
from tests.jobmanager.delivery.test_retention import subscribed
from tests.jobmanager.driver.test_driver import Scene
from tests.support.content import items, open_inline

if TYPE_CHECKING:
    from pathlib import Path

    from jobmanager.driver.subscription import Subscription


class Opened:
    """Stands for a subscription, which a set refers to weakly."""


@pytest.mark.parametrize("is_delivered", [True, False])
def test_the_slowest_open_delivery_decides(tmp_path: Path, is_delivered: bool) -> None:
    stream = Stream.from_items({"x": "int64"}, [event(1, x=1)])
    query = stream.deliver(sinks.console()) if is_delivered else stream.to_parquet()
    plan = lower(query, root=str(tmp_path), parallelism=1)
    ((_, uri),) = plan.sink_streams()
    output = open_inline(uri)
    output.write(0, items(0, 40))
    output.close()
    store = MemoryBlobs()
    found = JobDeliveries(plan, JobRoot(store), "j", Scene(store).driver, JobConfig())
    for _, _, part in found._deliveries._parts:
        part._delivered_seq = 30
    with found.opening() as opening:
        first, second = (subscribed(plan, opening.kept_from) for _ in range(2))
        for one in (first, second):
            opening.keep_for(one)
    next(first)
    assert found._needed() == {0: 0}
    next(second)
    next(second)
    assert found._needed() == first.positions == {0: 16}
    first.close()
    assert found._needed() == {0: min(32, *([30] if is_delivered else [32]))}
    second.close()
    assert found._needed() == ({0: 30} if is_delivered else {})


def test_subscriptions_are_opened_while_retention_reads_them() -> None:
    """A set that grows meanwhile would end the thread of the retention."""
    found, is_over, failures = _Subscriptions(), threading.Event(), list[RuntimeError]()

    def read() -> None:
        while not (is_over.is_set() or failures):
            try:
                found.present()
            except RuntimeError as error:
                failures.append(error)

    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    reader = threading.Thread(target=read)
    try:
        reader.start()
        opened = [cast("Subscription", Opened()) for _ in range(3_000)]
        for one in opened:
            found.add(one)
    finally:
        is_over.set()
        sys.setswitchinterval(interval_s)
        reader.join()
    assert not failures
    assert len(found.present()) == len(opened)
