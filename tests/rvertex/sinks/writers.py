"""Writers in their own processes, which are killed and suspended at any moment."""

from __future__ import annotations

import multiprocessing
import os
import signal
from typing import TYPE_CHECKING, Any

from tests.rvertex.sinks.places import SCHEMA, items, progress

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

    from rvertex.sinks.protocol import DeliveryProgress, Destination
    from tests.rvertex.sinks.places import Place

ANSWER_WAIT_S = 120.0
_context = multiprocessing.get_context("forkserver")
#: Modules that a new process starts with; otherwise each takes a second to start.
_context.set_forkserver_preload(
    [
        *("pytest", "tests.rvertex.sinks.conformance", "tests.rvertex.sinks.test_postgres"),
        *("tests.rvertex.sinks.kafka.test_transactions", "tests.rvertex.sinks.test_parquet"),
        "tests.rvertex.sinks.test_function",
    ]
)


class Writer:
    """A writer of a partition, with the calls of a destination."""

    def __init__(self, place: Place, partition: int) -> None:
        self._partition = partition
        self._calls, theirs = _context.Pipe()
        self._process = _context.Process(target=_serve, args=(place, partition, theirs))
        self._process.start()
        theirs.close()

    def open(self, epoch: int) -> DeliveryProgress | None:
        """Return the result of opening the destination."""
        self.begin("open", epoch)
        found: DeliveryProgress | None = self.answer()
        return found

    def write(self, first_seq: int, next_seq: int) -> None:
        self.begin("write", first_seq, next_seq)
        self.answer()

    def commit(self, next_seq: int) -> None:
        self.begin("commit", next_seq)
        self.answer()

    def begin(self, call: str, *numbers: int) -> None:
        """Start a call without waiting for its result."""
        self._calls.send((call, numbers))

    def answer(self) -> Any:
        """Return the result of the call, or raise its error."""
        assert self._calls.poll(ANSWER_WAIT_S), "no answer"
        found = self._calls.recv()
        if isinstance(found, BaseException):
            raise found
        return found

    def freeze(self) -> None:
        """SIGSTOP: it keeps its locks and connections, and does not notice that time passes."""
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, wherever it is."""
        self._process.kill()
        self._process.join()
        self._process.close()
        self._calls.close()


def perform(destination: Destination, partition: int, call: str, numbers: tuple[int, ...]) -> Any:
    """Make a call with the rows and digests of the suite."""
    match call:
        case "open":
            return destination.open(*numbers)
        case "write":
            return destination.write(items(partition, *numbers))
        case "commit":
            return destination.commit(progress(partition, *numbers))
    raise AssertionError(call)


def _serve(place: Place, partition: int, calls: Connection) -> None:
    destination = place.destination(partition, SCHEMA)
    for call, numbers in _received(calls):
        try:
            calls.send(perform(destination, partition, call, numbers))
        except Exception as error:
            calls.send(error)


def _received(calls: Connection) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Receive calls until the parent is gone."""
    try:
        while True:
            yield calls.recv()
    except EOFError:
        return
