"""Listeners of a stream: which are called, and in which order."""

from __future__ import annotations

from rstream.log.listeners import Listeners


def test_listeners_are_called_once_and_the_newest_first() -> None:
    calls: list[str] = []
    listeners = Listeners(lambda: calls.append("host"))

    def reader() -> None:
        calls.append("reader")

    listeners.add(reader)
    listeners.add(reader)
    assert len(listeners) == 2
    listeners.call()
    assert calls == ["reader", "host"]


def test_a_listener_removed_during_a_call_affects_no_other() -> None:
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
