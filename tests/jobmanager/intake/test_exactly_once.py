"""The server is killed again and again while producers post: the log has each row number once.

Not covered: a loss of power (tests/rstream/store/test_local_files.py).
"""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.flight as flight
import pytest

from rstream import open_log, open_store
from rstream.intake.producers import Ack
from tests.support.flight_intake import act, call_options, connected, metadata
from tests.support.intake import ANSWER_WAIT_S, DOORS, TOKEN, IntakeProcess, write_config
from tests.support.pushed import SCHEMA, Ledger, parquet_rows, rows

if TYPE_CHECKING:
    from pathlib import Path

PRODUCERS, NUMBERS, KILLS = 6, 24, 2
#: Batches of a producer that does not wait for answers.
STREAMED = 6000


class Producers:
    """Threads that post to the running server until all rows are acknowledged."""

    def __init__(self) -> None:
        self.ledger, self.lock = Ledger(), threading.Lock()
        self.server: IntakeProcess | None = None
        self.repeats = 0
        self.progress = threading.Condition()
        self.failures: list[BaseException] = []

    def run(self, producer: str) -> None:
        try:
            for number in range(NUMBERS):
                self.push(producer, number)
        except BaseException as error:
            self.failures.append(error)
            raise

    def push(self, producer: str, number: int) -> None:
        given = rows(producer, number).to_pylist()
        while True:  # ends when the number is acknowledged
            server = self.server
            try:
                assert server is not None
                answer = server.post(given, producer=producer, number=number)
            except (OSError, http.client.HTTPException):
                with self.progress:  # until there is another server
                    self.progress.wait_for(
                        lambda dead=server: self.server is not dead, ANSWER_WAIT_S
                    )
                continue
            if answer.may_repeat:
                continue
            assert answer.status == 200, answer
            with self.progress:
                self.ledger.note(producer, number, Ack(**answer.body))
                self.repeats += answer.body["is_repeat"]
                self.progress.notify_all()
            return


@pytest.mark.parametrize("over", DOORS)
@pytest.mark.slow
def test_a_repeated_request_gets_the_lost_response(tmp_path: Path, over: str) -> None:
    """The server dies after the rows are durable and before it sends the response."""
    config, hold = write_config(tmp_path, f"faulty://{tmp_path}/logs"), tmp_path / "hold"
    store = open_store(str(tmp_path / "logs" / "clicks"))
    given = rows("p", 0).to_pylist()
    with IntakeProcess(config, over=over, held_by=hold) as server, ThreadPoolExecutor(1) as pool:
        hold.touch()
        answer = pool.submit(server.post, given, producer="p", number=0)
        while open_log(store).read_next() is None:  # then the writer reads its file
            assert not answer.done()
        server.send(signal.SIGKILL)
        with pytest.raises((OSError, http.client.HTTPException)):
            answer.result(ANSWER_WAIT_S)
    with IntakeProcess(config, over=over) as server:
        again = server.post(given, producer="p", number=0)
        assert (again.status, again.body["is_repeat"], again.body["first_seq"]) == (200, True, 0)
        assert server.post(rows("p", 1).to_pylist(), producer="p", number=1).status == 200
        assert server.stop() == 0
    assert [number for _, number, _ in parquet_rows(store)] == [0, 1, 1]


@pytest.mark.parametrize("over", DOORS)
@pytest.mark.slow
def test_each_number_is_stored_once_after_any_kill(tmp_path: Path, over: str) -> None:
    config = write_config(tmp_path)
    producers = Producers()
    names = [f"p{k}" for k in range(PRODUCERS)]
    threads = [threading.Thread(target=producers.run, args=(name,)) for name in names]
    every = PRODUCERS * NUMBERS // (KILLS + 1)
    for kill in range(KILLS + 1):
        with IntakeProcess(config, over=over) as server:
            with producers.progress:
                producers.server = server
                producers.progress.notify_all()
            if not kill:
                for thread in threads:
                    thread.start()
            if kill < KILLS:
                with producers.progress:
                    acked = (kill + 1) * every
                    assert producers.progress.wait_for(
                        lambda acked=acked: len(producers.ledger.acks) >= acked, ANSWER_WAIT_S
                    )
                server.send(signal.SIGKILL)
                server.process.wait()
                continue
            for thread in threads:
                thread.join(ANSWER_WAIT_S)
            assert server.stop() == 0
    assert not producers.failures
    store = open_store(str(tmp_path / "logs" / "clicks"))
    found = producers.ledger.check(store)
    assert {(p, n) for p, n, _ in found} == {(p, n) for p in names for n in range(NUMBERS)}
    assert parquet_rows(store) == found


class Streaming:
    """A producer that sends without waiting for responses, and resumes at its position."""

    def __init__(self, name: str, numbers: int) -> None:
        self.ledger, self.progress = Ledger(), threading.Condition()
        self._name, self._numbers = name, numbers
        self.calls = 0

    def run(self, server: IntakeProcess) -> None:
        """Send the rows missing in the log. Return when all are sent or the server is gone."""
        self.calls += 1
        options = call_options(TOKEN, ANSWER_WAIT_S)
        with contextlib.suppress(pa.ArrowException, OSError), connected(server.flight_url) as to:
            place = flight.FlightDescriptor.for_path("clicks")
            status, position = act(
                to, "open-producer", {"stream": "clicks", "producer": self._name}, options
            )
            assert status == 200, position
            first = position["next_number"]
            writer, reader = to.do_put(place, SCHEMA, options)
            answers = threading.Thread(target=self._note, args=(reader, first))
            answers.start()
            try:
                for number in range(first, self._numbers):
                    told = metadata(producer=self._name, epoch=position["epoch"], number=number)
                    writer.write_with_metadata(rows(self._name, number), told)
                writer.done_writing()
            finally:
                answers.join()
                writer.close()

    def _note(self, reader: flight.FlightMetadataReader, number: int) -> None:
        with contextlib.suppress(pa.ArrowException, OSError):
            while (told := reader.read()) is not None:
                with self.progress:
                    self.ledger.note(self._name, number, Ack(**json.loads(told.to_pybytes())))
                    self.progress.notify_all()
                number += 1


@pytest.mark.slow
def test_pipelined_batches_are_stored_once_after_any_kill(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    streaming = Streaming("p", STREAMED)
    acks = streaming.ledger.acks
    for kill in range(1, KILLS + 2):
        with IntakeProcess(config, over="flight") as server:
            thread = threading.Thread(target=streaming.run, args=(server,))
            thread.start()
            with streaming.progress:
                wanted = min(STREAMED, kill * STREAMED // (KILLS + 2))
                assert streaming.progress.wait_for(lambda n=wanted: len(acks) >= n, ANSWER_WAIT_S)
            if kill <= KILLS:
                server.send(signal.SIGKILL)
                thread.join(ANSWER_WAIT_S)
                continue
            thread.join(ANSWER_WAIT_S)
            assert server.stop() == 0
    store = open_store(str(tmp_path / "logs" / "clicks"))
    found = streaming.ledger.check(store)
    assert {number for _, number, _ in found} == set(range(STREAMED))
    assert parquet_rows(store) == found
    assert streaming.calls == KILLS + 1
