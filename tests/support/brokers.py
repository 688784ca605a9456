"""Exports the test kit's broker for tests and benchmarks."""

from streamscope.testing.servers.broker import (
    ANSWER_S_MAX,
    QUIET,
    Broker,
    Record,
    free_port,
    send,
)

__all__ = ["ANSWER_S_MAX", "QUIET", "Broker", "Record", "free_port", "send"]
