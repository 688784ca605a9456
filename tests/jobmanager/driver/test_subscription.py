"""Live output: each item once and in order while it is written, also if its writers fail.

Not covered: a killed process (tests/spark), or that output is late.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import jobmanager
from jobmanager import JobConfig, JobFailedError
from jobmanager.delivery.output_tap import Endpoints, Writers
from planner import Stream, agg, tumbling
from rstream.items.batch import RESERVED
from rvertex.messages import Endpoint, Locate
from tests.jobmanager.driver.test_job import PACE
from tests.support.jobs import (
    ROWS,
    WAIT_S,
    ItemRows,
    output_items,
    two_exchanges,
    with_limits,
    write_events,
)
from tests.support.trouble import Disturber, Gate, cut_off

if TYPE_CHECKING:
    from pathlib import Path

    from jobmanager.driver.subscription import Subscription

CONFIG = with_limits(JobConfig(tick_s=0.02), checkpoint_interval_s=0.05, step_rows_max=200)


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_events(tmp_path_factory.mktemp("events") / "events.parquet")


@pytest.fixture(scope="module")
def finished(events: Path, tmp_path_factory: pytest.TempPathFactory) -> jobmanager.Job:
    root = str(tmp_path_factory.mktemp("finished") / "job")
    job = jobmanager.run(two_exchanges(events), root=root, executor="local")
    job.wait(WAIT_S)
    return job


def received(subscription: Subscription, batches: int | None = None) -> list[ItemRows]:
    """Return the items of a subscription with progress per partition, as ``output_items`` does."""
    items: dict[int, ItemRows] = {k: [] for k in subscription.positions}
    for count, batch in enumerate(subscription, start=1):
        for row in batch.to_pylist():
            items[row.pop("partition")].append(tuple(row.values()))
        if count == batches:
            break
    return [items[k] for k in sorted(items)]


@pytest.mark.usefixtures("brittle_lines")
@pytest.mark.parametrize(
    ("recovery", "which"),
    [("checkpoint", [0, 1]), pytest.param("replication", [1], marks=pytest.mark.slow)],
)
def test_a_live_subscription_returns_the_output(
    recovery: str,
    which: list[int],
    events: Path,
    finished: jobmanager.Job,
    gate: Gate,
    tmp_path: Path,
) -> None:
    """Hosts are disconnected twice during the job; the subscriber gets each item once."""
    disturber = Disturber([ROWS // 4, ROWS // 2], partial(cut_off, which), gate)
    job = jobmanager.run(
        two_exchanges(events),
        root=str(tmp_path / "job"),
        executor="local",
        hosts=2,
        paced=PACE,
        config=CONFIG,
        on_status=disturber,
        recovery=recovery,
    )
    with job.subscribe(progress=True) as subscription:
        seen = received(subscription)
    status = job.wait(WAIT_S)
    assert disturber.calls == 2
    assert status["restarts"] >= disturber.calls
    assert seen == output_items(finished.output)


def test_output_is_seen_before_the_job_has_ended(events: Path, gate: Gate, tmp_path: Path) -> None:
    gate.close_at(ROWS // 2)
    job = jobmanager.run(
        two_exchanges(events), root=str(tmp_path / "job"), executor="local", paced=PACE
    )
    with job.subscribe() as subscription:
        first = next(subscription)
        assert job.status()["state"] == "running"
    assert first.schema.names[:4] == ["partition", "_seq", "_vs", "_ve"]
    job.cancel()
    job.wait(WAIT_S)
    assert sum(batch.num_rows for batch in job.subscribe()) >= first.num_rows


def test_a_subscription_to_a_finished_job_returns_its_output(finished: jobmanager.Job) -> None:
    for job in (finished, jobmanager.resume(finished.root)):
        assert received(job.subscribe(progress=True)) == output_items(finished.output)
    events = [batch for batch in finished.subscribe() if batch.num_rows]
    assert sum(batch.num_rows for batch in events) == finished.status()["events_out"]
    assert not set(RESERVED) & set(events[0].schema.names) - {"_seq", "_vs", "_ve"}


def test_a_subscription_continues_where_another_one_stopped(finished: jobmanager.Job) -> None:
    with finished.subscribe(progress=True) as first:
        begun = received(first, batches=1)
    rest = received(finished.subscribe(start=first.positions, progress=True))
    together = [a + b for a, b in zip(begun, rest, strict=True)]
    assert any(begun)
    assert any(rest)
    assert together == output_items(finished.output)


def test_a_subscription_to_a_failed_job_raises_the_error_of_wait(
    events: Path, tmp_path: Path
) -> None:
    source = Stream.from_parquet(str(events), vs="t", delay=0, late="error")
    query = source.group_by("key").window(tumbling("1s")).agg(n=agg.count())
    job = jobmanager.run(query, root=str(tmp_path / "job"), executor="local")
    with pytest.raises(JobFailedError, match="late"):
        list(job.subscribe())


def test_outdated_news_of_a_writer_are_ignored() -> None:
    endpoints, told = Endpoints(), list[Any]()
    endpoints.listen(1, lambda: told.append(endpoints.find("v")))
    for version, address in [(3, "a"), (2, "b"), (3, "a"), (4, "c")]:
        endpoints.note(Locate("v", version, (Endpoint(version, "h", address),)))
    endpoints.note(Locate("v", 5, ()))
    assert told == [Writers(3, ((3, "a"),)), Writers(4, ((4, "c"),)), Writers(5, ())]
    endpoints.listen(1, None)
    endpoints.note(Locate("v", 6, (Endpoint(6, "h", "d"),)))
    assert len(told) == 3
