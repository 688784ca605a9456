"""Timers by the wall clock: event time is the arrival of the rows, and idle="clock" advances it.

The advance of time is recorded with the input, so a replay fires the same timers at the same items.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pytest

import jobmanager
import streamscope as ss
from jobmanager.replay.replaying import replay
from jobmanager.storage.root import JobRoot
from tests.support.jobs import with_limits
from tests.support.live import Watch, answer_rows, finish

if TYPE_CHECKING:
    from pathlib import Path

SILENCE_US = 300_000
QUICK = with_limits(checkpoint_interval_s=0.05, lease_s=0.5)


class Silence(ss.KeyedProcess):
    """Reports a device that has sent nothing for 300 ms."""

    output: ClassVar = {"last": "int64"}
    last: int = 0

    def on_event(self, event: Any, ctx: Any) -> None:
        self.last = event.n
        ctx.set_timer(event.vs + SILENCE_US)

    def on_timer(self, timer: Any, ctx: Any) -> None:
        ctx.emit(self.last)


@pytest.mark.slow
def test_a_timer_fires_by_the_clock_without_further_rows(tmp_path: Path) -> None:
    log, root = str(tmp_path / "log"), str(tmp_path / "job")
    with ss.Appender(log, {"device": pa.string(), "n": pa.int64()}) as appender:
        appender.append([{"device": "a", "n": 1}, {"device": "b", "n": 2}])
        rows = ss.Stream.from_rstream(
            log, vs="received_at", follow=True, delay="2s", idle="clock", idle_after="50ms"
        )
        silent = rows.group_by("device").process(Silence)
        out = silent.to_rstream(str(tmp_path / "out"))
        watch = Watch()
        job = jobmanager.run(
            out, root=root, executor="local", config=QUICK, on_status=watch, retain="all"
        )
        watch.until(lambda status: status["events_out"] >= 2)  # and no row arrived meanwhile
        appender.append([{"device": "a", "n": 3}])
        watch.until(lambda status: status["events_out"] >= 3)
    finish(job)
    plan = JobRoot(root).read_plan()
    assert plan is not None
    for vertex in plan.vertices:
        found = replay(root, vertex.id)
        assert found.is_equal, found
    fired = [(row["device"], row["last"]) for row in answer_rows(job)]
    assert sorted(fired) == [("a", 1), ("a", 3), ("b", 2)]
