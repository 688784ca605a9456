"""The server is killed again and again while producers post: each number is in the log once.

Cannot catch: a loss of power (tests/rstream/store/test_local_files.py).
"""

from __future__ import annotations

import http.client
import signal
import threading
from typing import TYPE_CHECKING

import pytest

from rstream import open_store
from rstream.intake.producers import Ack
from tests.support.intake import IntakeProcess, write_config
from tests.support.pushed import Ledger, parquet_rows, rows

if TYPE_CHECKING:
    from pathlib import Path

PRODUCERS, NUMBERS, KILLS = 6, 24, 4
AGAIN = (429, 503)


class Producers:
    """Threads that post until all is acknowledged, whichever server is there."""

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
                answer = server.post(given, Producer_Id=producer, Sequence_Number=number)
            except (OSError, http.client.HTTPException):
                with self.progress:  # until there is another one
                    self.progress.wait_for(lambda dead=server: self.server is not dead, 60)
                continue
            if answer.status in AGAIN:
                continue
            assert answer.status == 200, answer
            with self.progress:
                self.ledger.note(producer, number, Ack(**answer.body))
                self.repeats += answer.body["is_repeat"]
                self.progress.notify_all()
            return


@pytest.mark.slow
def test_each_number_is_there_once_whatever_is_killed(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    producers = Producers()
    names = [f"p{k}" for k in range(PRODUCERS)]
    threads = [threading.Thread(target=producers.run, args=(name,)) for name in names]
    every = PRODUCERS * NUMBERS // (KILLS + 1)
    for kill in range(KILLS + 1):
        with IntakeProcess(config) as server:
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
                        lambda acked=acked: len(producers.ledger.acks) >= acked, 60
                    )
                server.send(signal.SIGKILL)
                server.process.wait()
                continue
            for thread in threads:
                thread.join(60)
            assert server.stop() == 0
    assert not producers.failures
    store = open_store(str(tmp_path / "logs" / "clicks"))
    found = producers.ledger.check(store)
    assert {(p, n) for p, n, _ in found} == {(p, n) for p in names for n in range(NUMBERS)}
    assert parquet_rows(store) == found
