"""assert_deterministic: all planted bugs are detected; healthy queries raise no alarm.

Not covered: a bug that needs other rows.
"""

from __future__ import annotations

from typing import Any

import pytest

import streamscope as ss
from rstream.errors import UsageError
from streamscope.testing import Input, NotDeterministicError, assert_deterministic
from tests.testing.planted import BUGS, CLICKS, HEALTHY, per_row, stamped

#: The others start a process, or run a thousand copies of the input.
FAST = {"number in a global dictionary", "size of the batch", "clock", "random number", "filter"}


def cases(found: dict[str, Any]) -> list[Any]:
    return [
        pytest.param(name, marks=[] if name in FAST else pytest.mark.slow, id=name)
        for name in found
    ]


def test_there_are_twenty_queries_of_each_kind() -> None:
    assert len(BUGS) >= 20
    assert len(HEALTHY) >= 20


@pytest.mark.parametrize("name", cases(BUGS))
def test_a_planted_bug_is_detected(name: str) -> None:
    with pytest.raises(NotDeterministicError):
        assert_deterministic(BUGS[name], {"clicks": CLICKS})


@pytest.mark.parametrize("name", cases(HEALTHY))
def test_a_correct_query_passes(name: str) -> None:
    assert_deterministic(HEALTHY[name], {"clicks": CLICKS})


def test_a_failure_shows_the_run_the_rows_and_the_cause() -> None:
    with pytest.raises(NotDeterministicError) as failed:
        assert_deterministic(per_row(stamped), {"clicks": CLICKS})
    first, *_, last = str(failed.value).splitlines()
    assert first == "the query gave another answer (a second run, seed=0) (- first, + then):"
    assert last == "the code uses a clock, a random number, or a variable that outlives the run"
    assert "- | 11s   | 11s1us | ann  |" in str(failed.value)


def test_rows_with_a_delay_arrive_within_it() -> None:
    """Rows arrive within the delay: late rows would be dropped, and results would differ."""
    schema = Input({"user": "string", "n": "int64"}, delay="3s")
    rows = [{"time": f"{t}s", "user": "ab"[t % 2], "n": t} for t in range(12)]

    def summed(clicks: ss.Stream) -> ss.Stream:
        return clicks.group_by("user").window(ss.tumbling("4s")).agg(n=ss.agg.sum("n"))

    assert_deterministic(summed, {"clicks": (schema, rows)})


def test_inputs_of_the_query_are_required() -> None:
    with pytest.raises(UsageError, match="the query does not read clocks"):
        assert_deterministic("SELECT n FROM clicks", {"clicks": CLICKS, "clocks": CLICKS})


def test_declared_nondeterminism_is_not_tested() -> None:
    def strong(clicks: ss.Stream) -> ss.Stream:
        return clicks.apply(stamped, {"user": "string", "made": "int64"}, deterministic=False)

    with pytest.raises(UsageError, match="stamped is declared deterministic=False"):
        assert_deterministic(strong, {"clicks": CLICKS})


@pytest.mark.spark
def test_the_batch_is_compared() -> None:
    assert_deterministic(HEALTHY["windows"], {"clicks": CLICKS}, runs=1, spark=True)
