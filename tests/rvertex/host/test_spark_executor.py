"""What the Spark executor does with processes that wait, without Spark: only its context is fake.

Not covered: how Spark starts and cancels jobs (tests/spark/test_parked_hosts.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rvertex.host.environment import HostLimits
from rvertex.host.host import HostSpec
from rvertex.host.parking import Parked
from rvertex.host.spark import executor as module
from rvertex.host.spark.executor import SparkExecutor, _Task
from tests.support.jobs import WAIT_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SECRET = "s"


class Context:
    """Spark's, with the groups of the jobs that were cancelled."""

    master = "local[2]"

    def __init__(self) -> None:
        self.cancelled: list[str] = []

    def getConf(self) -> dict[str, str]:  # noqa: N802 - as Spark names it
        return {}

    def cancelJobGroup(self, group: str) -> None:  # noqa: N802 - as Spark names it
        self.cancelled.append(group)


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch) -> Context:
    context = Context()
    monkeypatch.setattr(module, "spark_context", lambda *_, **__: context)
    return context


def opened(former: SparkExecutor | None = None) -> SparkExecutor:
    return SparkExecutor({}, master=None, hosts=2, daemon_module="", former=former)


def spec(root: Path, host: str, replaces: str = "") -> HostSpec:
    return HostSpec(host, "job", str(root), "nowhere", SECRET, HostLimits(), replaces=replaces)


def with_parked(root: Path, ended: Callable[[str, str], None]) -> tuple[SparkExecutor, Parked]:
    """Return the executor after a change, and the parked process of h0.0; that of h1.0 hangs."""
    former = opened()
    for host in ("h0.0", "h1.0"):
        former._processes.began(_Task(f"group of {host}", ended), host)
    parked = Parked(spec(root, "h0.0"), former.park(SECRET))
    with former._changed:
        assert former._changed.wait_for(lambda: len(former._processes.running) == 1, WAIT_S)
    return opened(former), parked


def test_a_host_that_hangs_is_cancelled_even_if_a_parked_process_replaces_it(
    tmp_path: Path, context: Context
) -> None:
    executor, parked = with_parked(tmp_path, lambda *_: None)
    executor.start(spec(tmp_path, "h1.1", replaces="h1.0"), lambda *_: None)
    following = parked.wait()
    assert following is not None
    assert following[0].host == "h1.1"
    assert context.cancelled == ["group of h1.0"]
    executor._dismiss_unused()


def test_a_leg_that_ends_early_releases_its_inherited_processes(
    tmp_path: Path, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RELEASE_WAIT_S", 0.01)
    executor, parked = with_parked(tmp_path, lambda *_: None)
    executor.release()
    assert parked._inbox.get(timeout=WAIT_S) == b"", "it exits at once"
    parked._link.close()
    assert sorted(context.cancelled) == ["group of h0.0", "group of h1.0"], "they did not end"


def test_a_stop_continues_without_a_place_to_wait(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOPBACK", "203.0.113.1")  # of no machine: no port opens
    executor = opened()
    assert executor.park(SECRET) == ""
    executor.close(0.0)
    assert not context.cancelled
