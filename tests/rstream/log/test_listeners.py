"""Listeners of a stream: which are called, and in which order."""

from __future__ import annotations

from rstream.log.listeners import Listeners


def test_the_newest_is_called_first_and_each_once() -> None:
    calls: list[str] = []
    listeners = Listeners(lambda: calls.append("host"))

    def reader() -> None:
        calls.append("reader")

    listeners.add(reader)
    listeners.add(reader)
    assert len(listeners) == 2
    listeners.call()
    assert calls == ["reader", "host"]


def test_one_that_leaves_while_all_are_called_is_missed_by_nobody() -> None:
    calls: list[str] = []
    listeners = Listeners(None)
    listeners.add(lambda: calls.append("other"))

    def leaves() -> None:
        calls.append("leaves")
        listeners.remove(leaves)

    listeners.add(leaves)
    listeners.call()
    listeners.call()
    assert calls == ["leaves", "other", "other"]
    listeners.remove(leaves)
    assert len(listeners) == 1
