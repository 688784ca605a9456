"""The health of a job: each condition with its sentence, and since when it holds."""

from __future__ import annotations

from typing import Any

import pytest

from jobmanager.state.health import CHANGE, HealthBook, health_line, reasons_of, with_health
from rstream.errors import StoreError

S = 1_000_000


def status(**fields: Any) -> dict[str, Any]:
    return {"job": "j", "state": "running", "error": "", "root": "/jobs/j", **fields}


def delivery(state: str, error: str = "") -> dict[str, Any]:
    return {"delivery": "postgres:t", "partition": 1, "state": state, "error": error}


HELD = {"vertex": "s01.0", "time_us": 7, "health": "waiting", "reason": "clip waits", "advice": ""}


def lookup(**counts: int) -> dict[str, Any]:
    given = {"calls": 12, "failures": 0, "median_us": 90_000, "p99_us": 90_000, "running": 4}
    return {"vertex": "s01.0", "function": "price", "oldest_us": 80_000, **given, **counts}


@pytest.mark.parametrize(
    ("fields", "health", "words"),
    [
        ({"calls": [lookup()]}, "ok", ""),
        ({"calls": [lookup(p99_us=300_000, running=0)]}, "ok", ""),
        (
            {"calls": [lookup(p99_us=300_000, failures=2)]},
            "ok",
            "price in s01.0 is slow: 4 calls in progress, 12 made, 2 failed, median 0.09 s, "
            "p99 0.30 s",
        ),
        ({"calls": [lookup(oldest_us=6 * S, running=1)]}, "waiting", "has not answered for 6 s"),
        ({}, "ok", ""),
        ({"deliveries": [delivery("delivering")]}, "ok", ""),
        ({"deliveries": [delivery("opening")]}, "ok", "connects to its destination"),
        (
            {"deliveries": [delivery("failed", "permission denied")]},
            "degraded",
            "the delivery postgres:t, partition 1 has ended: permission denied",
        ),
        (
            {"deliveries": [delivery("waiting", "Connection refused")]},
            "waiting",
            "postgres:t, partition 1 waits for its destination: Connection refused",
        ),
        (
            {"deliveries": [delivery("opening", "Connection refused")]},
            "waiting",
            "Connection refused",
        ),
        ({"waiting": "store: /x: OSError: No space left"}, "waiting", "waits for the store: /x"),
        ({"waiting": CHANGE}, "waiting", "waits for a change of the job"),
        (
            {"vertices": [{"vertex": "s00.0", "waiting": "Kafka at x: no answer for 3 s"}]},
            "waiting",
            "s00.0 waits for Kafka at x",
        ),
        (
            {"vertices": [{"vertex": "s00.0", "waiting": "Kafka at x"}], "state": "finished"},
            "ok",
            "",
        ),
        (
            {
                "vertices": [{"vertex": "s00.0", "host": "h0.0", "waiting": "a confirmation"}],
                "hosts": [{"host": "h0.0", "busy": "s01.0 did not return"}],
            },
            "ok",
            "",
        ),
        (
            {"deliveries": [{**delivery("delivering"), "call_s": 7.2, "lag_items": 3_000}]},
            "waiting",
            "postgres:t, partition 1 has not answered for 7 s: 3,000 items are left",
        ),
        ({"deliveries": [{**delivery("delivering"), "call_s": 2.0, "lag_items": 3}]}, "ok", ""),
        ({"waiting": "store: store: /x: no space"}, "waiting", "waits for the store: /x"),
        ({"held": [HELD]}, "waiting", "clip waits"),
        ({"held": [{**HELD, "health": "ok"}]}, "ok", "clip waits"),
        (
            {"losses": [{"host": "h0.1", "count": 1}], "trouble": "it broke"},
            "waiting",
            "h0.1 was restarted once without progress; last error: it broke",
        ),
        (
            {"losses": [{"host": "h0.3", "count": 3}], "trouble": "it broke"},
            "degraded",
            "h0.3 was restarted 3 times",
        ),
        (
            {"failing": [{"vertex": "s01.0", "count": 2}], "trouble": "s01.0: no answer"},
            "degraded",
            "s01.0 was restarted 2 times without progress; last error: s01.0: no answer",
        ),
        ({"state": "failed", "error": "broken"}, "degraded", "broken"),
        ({"state": "finished"}, "ok", ""),
    ],
)
def test_each_condition_has_its_message(fields: dict[str, Any], health: str, words: str) -> None:
    found = with_health(status(**fields))
    assert found["health"] == health
    assert words in health_line(found)
    assert bool(found["reasons"]) == bool(words)


def test_an_open_window_is_not_in_the_summary() -> None:
    found = status(held=[{**HELD, "health": "ok", "reason": "s01.0 waits", "is_window": True}])
    assert [row["reason"] for row in with_health(found)["reasons"]] == ["s01.0 waits"]
    assert health_line(found) == ""


def test_the_most_severe_reason_is_first_and_the_others_are_counted() -> None:
    rows = [delivery("waiting", "away"), delivery("failed", "denied")]
    found = status(deliveries=rows, held=[HELD])
    assert [reason.health for reason in reasons_of(found)] == ["degraded", "waiting", "waiting"]
    line = health_line(found)
    assert line.startswith("degraded: the delivery postgres:t, partition 1 has ended: denied")
    assert "and 2 more" in line
    advice = with_health(found)["reasons"][0]["advice"]
    assert advice == "after the correction: jobmanager deliver /jobs/j --retry"


def test_a_full_disk_says_what_to_do() -> None:
    error = StoreError("/jobs/j/x", "OSError: [Errno 28] No space left on device")
    assert str(error).endswith(
        "free space there or raise the limit, then `jobmanager resume` an ended job"
    )
    (reason,) = reasons_of(status(waiting=str(error)))
    assert reason.reason.endswith("No space left on device")
    assert reason.advice.startswith("free space there")


def test_the_start_of_a_condition_is_kept_while_its_text_changes() -> None:
    book = HealthBook()
    for at_s in (10, 11):
        found = book.look(status(waiting=f"store: away for {at_s} s"), at_s * S)
        assert [row["since_us"] for row in found["reasons"]] == [10 * S]
    assert book.look(status(), 12 * S) == {"health": "ok", "reasons": []}
    again = book.look(status(waiting="store: away"), 13 * S)
    assert [row["since_us"] for row in again["reasons"]] == [13 * S]


def test_advancing_time_is_not_reported_as_held() -> None:
    """At any moment something delays time; only a lasting delay counts."""
    book = HealthBook()
    for second in range(10):
        moving = book.look(status(held=[{**HELD, "time_us": second}]), second * S)
        assert moving["health"] == "ok"
    assert book.look(status(held=[HELD]), 20 * S)["health"] == "ok"
    held = book.look(status(held=[HELD]), 22 * S)
    assert held["health"] == "waiting"
    assert held["reasons"][0]["since_us"] == 20 * S


def test_a_note_of_the_job_manager_is_kept_until_another_job_starts() -> None:
    noted = status(health="waiting", reasons=[{"health": "waiting", "reason": "as noted"}])
    assert with_health(noted)["reasons"][0]["reason"] == "as noted"
    gone = with_health({**noted, "state": "interrupted", "error": "its job manager is gone"})
    assert gone["health"] == "degraded"
    assert gone["reasons"][0]["reason"] == "its job manager is gone"
