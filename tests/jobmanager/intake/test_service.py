"""The intake service without a protocol: free space, answers, and the batches of one call.

Not covered: errors in HTTP and Flight (test_server, test_flight).
"""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from jobmanager.intake.config import IntakeConfig, IntakeLimits
from jobmanager.intake.errors import BodyTooLargeError, NoTokenError, UnknownStreamError
from jobmanager.intake.flight_put import Put
from jobmanager.intake.producer import Producer
from jobmanager.intake.service import IntakeService, Room
from jobmanager.intake.tokens import check_token
from rstream import AppendLimits, open_log
from rstream.clock import ManualClock
from rstream.errors import StreamEngineError, UnknownProducerError

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = pa.schema([("n", pa.int64())])
WAIT_S = 120.0


def rows(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": list(range(count))}, schema=SCHEMA)


def config(folder: Path, **limits: Any) -> IntakeConfig:
    chosen = replace(IntakeLimits(), **limits)
    gathers = AppendLimits(commit_wait_ms=20)
    return IntakeConfig(str(folder), {"a": SCHEMA}, chosen, gathers)


def test_free_room_is_the_limit_and_a_single_request_may_exceed_it() -> None:
    room = Room(5)
    assert room.take(9), "nothing else is under way"
    assert not room.take(1)
    room.give_back(9)
    assert room.take(3)
    assert room.take(2)
    assert not room.take(1)
    room.give_back(2)
    assert room.take(1)


def test_rejected_and_answered_requests_free_their_room(tmp_path: Path) -> None:
    service = IntakeService(config(tmp_path))
    with service.under_way("a", rows(3), Producer()) as future:
        assert service._rows.used == 3
        future.result(WAIT_S)
    with pytest.raises(UnknownStreamError), service.under_way("none", rows(3), Producer()):
        pass
    with service.room(), service.room_for_bytes(7):
        assert (service._posts.used, service._bytes.used) == (1, 7)
    assert (service._rows.used, service._posts.used, service._bytes.used) == (0, 0, 0)
    service.close()


def test_a_log_that_cannot_be_opened_does_not_affect_others(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    streams = {"a": SCHEMA, "missing": None}
    with pytest.raises(StreamEngineError):
        IntakeService(IntakeConfig(str(tmp_path), streams))
    assert not [t for t in set(threading.enumerate()) - before if t.name.startswith("log-")]


@pytest.mark.parametrize("given", ["", "Bearer wrong", "Basic good", "good", "Bearer good x"])
def test_a_token_needs_its_scheme(given: str) -> None:
    check_token("bearer good", [b"other", b"good"])
    with pytest.raises(NoTokenError):
        check_token(given, [b"other", b"good"])


def numbered(number: int) -> bytes:
    return json.dumps({"producer": "p", "number": number}).encode()


def test_after_a_rejection_no_batch_is_acknowledged(tmp_path: Path) -> None:
    """Posts that were passed to the log before the refusal are rejected, too."""
    service, answers, is_taken = IntakeService(config(tmp_path)), list[bytes](), threading.Event()

    def answer(told: bytes) -> None:
        assert is_taken.wait(WAIT_S)
        answers.append(told)

    def take() -> None:
        with Put(service, "a", answer) as put:
            put.take(rows(1), numbered(5))
            put.take(rows(1), b"")
            is_taken.set()

    with pytest.raises(UnknownProducerError):
        take()
    (told,) = answers
    assert "error" in json.loads(told)
    service.close()


def test_a_call_waits_for_its_own_batches_before_it_is_rejected(tmp_path: Path) -> None:
    service, answers = IntakeService(config(tmp_path, rows_in_flight_max=5)), list[bytes]()
    with Put(service, "a", answers.append) as put:
        for _ in range(4):
            put.take(rows(4), b"")
    assert [json.loads(told)["last_seq"] for told in answers] == [3, 7, 11, 15]
    service.close()
    assert open_log(f"{tmp_path}/a").read_next(100) is not None


def test_a_caller_counts_as_silent_from_when_its_response_is_due(tmp_path: Path) -> None:
    """A call does not count as silent before its response is due, because it waits for it."""
    service, clock = IntakeService(config(tmp_path)), ManualClock()
    is_told, is_read = threading.Event(), threading.Event()

    def answer(told: bytes) -> None:
        is_told.set()
        assert is_read.wait(WAIT_S)

    with Put(service, "a", answer, clock=clock) as put:
        clock.advance(5_000_000)
        assert put.active_s == 0
        put.take(rows(1), b"")
        assert is_told.wait(WAIT_S)
        for now_s, active_s in ((20, 20), (35, 35), (50, 35)):
            clock.advance(now_s * 1_000_000 - clock.now_us())
            assert put.active_s == active_s
        is_read.set()
        put.drain(WAIT_S)
        assert put.active_s == 50
    service.close()


def test_a_batch_may_not_exceed_the_limit_of_a_body(tmp_path: Path) -> None:
    service, answers = IntakeService(config(tmp_path, body_bytes_max=80)), list[bytes]()

    def take() -> None:
        with Put(service, "a", answers.append) as put:
            put.take(rows(10), b"")
            put.take(rows(11), b"")

    with pytest.raises(BodyTooLargeError):
        take()
    assert [next(iter(json.loads(told))) for told in answers] == ["first_seq", "error"]
    service.close()
