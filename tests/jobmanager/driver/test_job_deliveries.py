"""Which output items the deliveries and subscriptions of a driver still need.

Not covered: what retention then deletes (tests/jobmanager/delivery/test_retention.py).
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, cast

import pytest

from jobmanager.config import JobConfig
from jobmanager.delivery.wiring import ThreadWiring
from jobmanager.driver.job_deliveries import JobDeliveries, _Subscriptions
from jobmanager.storage.root import JobRoot
from planner import Stream, event, sinks
from planner.physical.lower import lower
from rstream import MemoryBlobs
from rstream.errors import OperatingError
from tests.jobmanager.delivery.test_retention import subscribed
from tests.jobmanager.driver.test_driver import Scene
from tests.support.content import items, open_inline
from tests.support.jobs import until

if TYPE_CHECKING:
    from pathlib import Path

    from jobmanager.driver.subscription import Subscription
    from rvertex.sinks.protocol import Destination
    from rvertex.sinks.spec import DeliveryPlace, SinkSpec


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


class Away(ThreadWiring):
    """A destination that cannot be reached."""

    def destination(  # type: ignore[override]
        self, spec: SinkSpec, place: DeliveryPlace
    ) -> Destination:
        raise OperatingError("it is away")


@pytest.mark.parametrize("is_resumed", [True, False])
def test_a_destination_that_is_away_after_a_restart_may_be_ahead(
    tmp_path: Path, is_resumed: bool
) -> None:
    """A change would deliver again what the destination has and the output lacks."""
    stream = Stream.from_items({"x": "int64"}, [event(1, x=1)])
    query = stream.deliver(sinks.parquet(str(tmp_path / "to")))
    plan = lower(query, root=str(tmp_path / "root"), parallelism=1)
    ((_, uri),) = plan.sink_streams()
    output = open_inline(uri)
    output.write(0, items(0, 40))
    output.close()
    store, wiring = MemoryBlobs(), Away()
    root, driver = JobRoot(store), Scene(store).driver
    found = JobDeliveries(plan, root, "j", driver, JobConfig(), wiring, is_resumed=is_resumed)
    ((_, _, part),) = found._deliveries._parts
    found.start()
    try:
        until(lambda: part.state == "waiting")
        assert found.have_caught_up is not is_resumed
        part.has_checked = True
        assert found.have_caught_up
    finally:
        found.stop()


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
