"""Backgrounds: order, failures, delays, closing."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from rstream import InlineBackground, ThreadBackground


def test_thread_runs_in_order_and_reports_failures() -> None:
    background = ThreadBackground("test")
    seen: list[int] = []
    futures = [background.submit(partial(seen.append, i)) for i in range(20)]
    failing = background.submit(lambda: 1 // 0)
    for future in futures:
        future.result(5)
    assert seen == list(range(20))
    with pytest.raises(ZeroDivisionError):
        failing.result(5)
    background.close()
    with pytest.raises(RuntimeError, match="closed"):
        background.submit(lambda: None).result(5)


def test_delayed_tasks_run_when_due() -> None:
    background = ThreadBackground("test")
    seen: list[str] = []
    done = threading.Event()

    def late() -> None:
        seen.append("late")
        done.set()

    background.submit_later(0.02, late)
    background.submit_later(0.0, lambda: seen.append("soon"))
    background.submit_later(60.0, lambda: seen.append("never"))
    assert done.wait(5)
    background.close()
    background.submit_later(0.0, lambda: seen.append("after close"))
    assert seen == ["soon", "late"]


def test_inline_runs_at_once_and_nested_after() -> None:
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
