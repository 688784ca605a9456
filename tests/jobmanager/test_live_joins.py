"""Time-bounded joins of two topics while both grow and the job is cancelled.

Not covered: kills of workers and of the driver; ``python -m tests.kills --only near`` does them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import jobmanager
from planner import Stream, col, sql
from tests.support.feed import SCHEMA, Feed
from tests.support.jobs import WAIT_S, with_limits
from tests.support.live import Watch, answer_rows, finish

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.brokers import Broker

QUICK = with_limits(checkpoint_interval_s=0.05, lease_s=0.5)
LO, HI = -20_000, 30_000
ROWS = 60


def joined(events: Stream, others: Stream, how: str) -> Stream:
    theirs = others.select("key", u=col("t"))
    return events.join(theirs, on="key", within=(LO, HI), how=how)


def rows_of(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    return Counter((row["_vs"], row["key"], row.get("t"), row.get("u")) for row in rows)


class Both:
    """Two growing topics."""

    def __init__(self, broker: Broker) -> None:
        self.feeds = [Feed(broker, 2), Feed(broker, 2)]

    def write(self, second: int) -> None:
        for number, feed in enumerate(self.feeds):
            for partition in range(2):
                feed.write(partition, 2 * second + number * (second % 2), ROWS)

    def joined(self, how: str, **options: Any) -> Stream:
        events, others = (feed.stream(**options) for feed in self.feeds)
        return joined(events, others, how)

    def were_read(self, status: dict[str, Any]) -> bool:
        """Whether the sources have reached the ends of both topics."""
        sources = [v["inputs"] for v in status["vertices"] if v["stage"][:3] in ("s01", "s02")]
        found = sum(sum(inputs[: len(inputs) // 2]) for inputs in sources)
        return bool(found >= sum(feed.sent for feed in self.feeds))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["full", "anti"])
def test_each_joined_row_is_emitted_once_after_any_number_of_restarts(
    broker: Broker, tmp_path: Path, how: str
) -> None:
    both, watch = Both(broker), Watch()
    query = both.joined(how).to_parquet()
    both.write(0)
    root = str(tmp_path / "job")
    job = jobmanager.run(query, root=root, executor="local", config=QUICK, on_status=watch)
    for second in range(1, 4):
        watch.until(both.were_read)
        job.cancel()
        assert job.wait(WAIT_S)["state"] == "cancelled"
        both.write(second)
        watch = Watch()
        job = jobmanager.resume(root, on_status=watch, config=QUICK)
    watch.until(both.were_read)
    assert finish(job)["state"] == "finished"
    whole = jobmanager.collect(both.joined(how, until="latest"), executor="local")
    found = rows_of(answer_rows(job))
    assert found == rows_of(whole.to_pylist())
    alone = [row for row in found if row[2] is None or row[3] is None]
    assert len(alone) > 10
    assert how == "anti" or len(found) > len(alone)


@pytest.mark.slow
def test_sql_over_two_topics(broker: Broker, tmp_path: Path) -> None:
    both = Both(broker)
    for second in range(3):
        both.write(second)
    text = (
        "SELECT a.key, a.t, b.t AS u FROM a LEFT JOIN b ON a.key = b.key "
        f"AND b.t BETWEEN a.t - {-LO} AND a.t + {HI}"
    )
    a, b = (feed.stream(until="latest") for feed in both.feeds)
    made = sql(text, {"a": a, "b": b})
    assert isinstance(made, Stream)
    found = jobmanager.collect(made, executor="local").to_pylist()
    whole = jobmanager.collect(joined(a, b, "left"), executor="local").to_pylist()
    assert rows_of(found) == rows_of(whole)
    assert SCHEMA["t"] == "int64"
