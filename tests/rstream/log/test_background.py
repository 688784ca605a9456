"""Background threads: order, failures, delays, closing."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from rstream import InlineBackground, ThreadBackground

WAIT_S = 120.0


def test_a_thread_runs_tasks_in_order_and_reports_failures() -> None:
    background = ThreadBackground("test")
    seen: list[int] = []
    futures = [background.submit(partial(seen.append, i)) for i in range(20)]
    failing = background.submit(lambda: 1 // 0)
    for future in futures:
        future.result(WAIT_S)
    assert seen == list(range(20))
    with pytest.raises(ZeroDivisionError):
        failing.result(WAIT_S)
    background.close()
    with pytest.raises(RuntimeError, match="closed"):
        background.submit(lambda: None).result(WAIT_S)


def test_no_thread_is_left_after_close() -> None:
    background = ThreadBackground("closed-test")
    background.submit_later(1e6, lambda: None)
    background.submit(lambda: None).result(WAIT_S)
    threads = [t for t in threading.enumerate() if t.name.startswith("closed-test-")]
    assert sorted(t.name for t in threads) == ["closed-test-0", "closed-test-timer"]
    background.close()
    for thread in threads:
        thread.join(WAIT_S)
        assert not thread.is_alive()


def test_delayed_tasks_run_when_due() -> None:
    background = ThreadBackground("test")
    seen: list[str] = []

    def wait_for(name: str, delay_s: float) -> None:
        done = threading.Event()

        def task() -> None:
            seen.append(name)
            done.set()

        background.submit_later(delay_s, task)
        assert done.wait(WAIT_S)

    background.submit_later(60.0, lambda: seen.append("never"))
    wait_for("soon", 0.0)
    wait_for("late", 0.02)
    background.close()
    background.submit_later(0.0, lambda: seen.append("after close"))
    assert seen == ["soon", "late"]


def test_inline_tasks_run_at_once_and_nested_ones_afterwards() -> None:
    background = InlineBackground()
    seen: list[str] = []

    def outer() -> None:
        background.submit(lambda: seen.append("inner"))
        seen.append("outer")

    assert background.submit(outer).done()
    background.submit_later(9.0, lambda: seen.append("delayed"))
    assert seen == ["outer", "inner"]
    background.run_delayed()
    assert seen == ["outer", "inner", "delayed"]
    background.close()
