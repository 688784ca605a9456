"""The broker of the test kit, where tests and benchmarks import it from."""

from streamscope.testing.servers.broker import (
    ANSWER_S_MAX,
    QUIET,
    Broker,
    Record,
    free_port,
    send,
)

__all__ = ["ANSWER_S_MAX", "QUIET", "Broker", "Record", "free_port", "send"]
