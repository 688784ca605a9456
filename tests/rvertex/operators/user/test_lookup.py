"""Lookups: order, records, cache and failures, with any cuts, restores and kills.

The functions record their calls, so a test can check which answers were fetched again.

Not covered: two processes at once, and killed processes (tests/jobmanager/test_lookup.py).
"""

from __future__ import annotations

import asyncio
import functools
import random
import threading
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import streamscope as ss
from planner.errors import InvalidPlanError
from planner.physical.lower import lower
from planner.user_code import user_code
from rstream.items.batch import EVENT, KIND
from rvertex.checkpoint.calls import may_pass
from rvertex.operators.user.answers import key_of
from rvertex.operators.user.call_once import CallOnce
from rvertex.user_code.context import CallPolicy, Drawn, ValueJournal
from rvertex.user_code.errors import UnknownCallError, UserCodeError
from streamscope.testing.clocks import VirtualClock
from streamscope.testing.plan_run import PlanRun, Schedule
from tests.support.budget import seeds
from tests.support.builders import ev, make_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.physical.plan import PhysicalPlan
    from rvertex.events.run import Run

PRICE = {"price": "float64"}
#: Calls by argument, in the present test.
CALLED: Counter[Any] = Counter()


@pytest.fixture(autouse=True)
def nothing_called() -> None:
    CALLED.clear()


def skus(values: list[int | None], *, step_us: int = 1) -> ss.Stream:
    return ss.Stream.from_items(
        {"sku": "int64"}, [ss.event(k * step_us, sku=value) for k, value in enumerate(values)]
    )


def plan_of(stream: ss.Stream) -> PhysicalPlan:
    return lower(stream.to_parquet(), root="memory://lookup", parallelism=1)


def answer(stream: ss.Stream, schedule: Schedule | None = None, **answers: Any) -> list[Any]:
    """The rows of a stream, run in this process."""
    run = PlanRun(plan_of(stream), VirtualClock(0, 0, answers))
    run.read_sources()
    run.settle(schedule or Schedule((0,), 1000))
    run.require_end()
    sink = run.plan.vertex(run.plan.topological_order()[-1])
    written = run.streams[sink.output_streams[0]]
    rows = [row for items in written for row in items.batch.to_pylist()]
    return [row for row in rows if row[KIND] == EVENT]


def slow_first(sku: int) -> float:
    """The first call of every few takes longest."""
    time.sleep(0.004 if sku % 7 == 0 else 0)
    return sku * 2.0


async def slow_first_async(sku: int) -> dict[str, float]:
    await asyncio.sleep(0.004 if sku % 7 == 0 else 0)
    return {"price": sku * 2.0, "more": 1.0}


def in_lists(asked: list[int]) -> list[float]:
    assert 1 <= len(asked) <= 5
    return [sku * 2.0 for sku in asked]


class Shop:
    """A client that each instance opens once."""

    def open(self) -> None:
        self.factor = 2.0

    def __call__(self, sku: int) -> float:
        return sku * self.factor


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (slow_first, {}),
        (slow_first_async, {}),
        (in_lists, {"batch": 5}),
        (Shop, {}),
        (functools.partial(lambda factor, sku: sku * factor, 2.0), {}),
    ],
    ids=["function", "coroutine", "batch", "class", "partial"],
)
def test_rows_are_emitted_in_order_with_their_results(
    function: Callable[..., Any], options: dict[str, Any]
) -> None:
    stream = skus(list(range(100))).lookup(function, PRICE, "sku", concurrency=8, **options)
    assert [(row["sku"], row["price"]) for row in answer(stream)] == [
        (k, 2.0 * k) for k in range(100)
    ]


def noted(sku: int) -> float:
    CALLED[sku] += 1
    if sku == 13:
        raise ValueError("unlucky")
    return random.random()


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_batches_restores_and_kills_do_not_change_results(seed: int) -> None:
    numbers = random.Random(seed)
    values = [numbers.choice([None, *range(20)]) for _ in range(60)]
    stream = skus(values).lookup(
        noted, PRICE, "sku", concurrency=3, cache=numbers.choice([None, 5, 20]), on_error="null"
    )
    whole = PlanRun(plan_of(stream), VirtualClock(0, 0))
    schedule = Schedule(
        tuple(numbers.randrange(1 << 20) for _ in range(61)), 7, restores=True, kills=True
    )
    whole.read_sources()
    whole.settle(schedule)  # an item that is written again with another answer fails here
    whole.require_end()


def test_a_restart_does_not_repeat_calls() -> None:
    stream = skus([1, 2, 3, 1]).lookup(noted, PRICE, "sku")
    run = PlanRun(plan_of(stream), VirtualClock(0, 0))
    run.read_sources()
    begun = {name: vertex.vertex.get_snapshot() for name, vertex in run.vertices.items()}
    run.settle(Schedule((0,), 1000))
    for name, vertex in run.vertices.items():
        vertex.load(begun[name])
    run.write.keep_hashes()
    run.settle(Schedule((0,), 1))
    assert CALLED == {1: 2, 2: 1, 3: 1}


@pytest.mark.parametrize(
    ("ttl_us", "calls"), [(None, 6), (10, 4), (11, 3), (25, 3), (26, 2), (1000, 2)]
)
@pytest.mark.parametrize("rows_max", [1, 1000])
def test_a_cached_result_is_used_for_its_time_to_live(
    ttl_us: int | None, calls: int, rows_max: int
) -> None:
    def fetched(sku: int) -> int:
        CALLED[sku] += 1
        return CALLED[sku]

    stream = skus([1, 1, 1, 2, 1, 1], step_us=5)
    # Row 3 is another article; rows of article 1 are at 0, 5, 10, 20, 25.
    stream = stream.lookup(fetched, {"n": "int64"}, "sku", cache=ttl_us, concurrency=1)
    found = [row["n"] for row in answer(stream, Schedule((0,), rows_max))]
    assert sum(CALLED.values()) == calls
    assert found[0] == 1
    assert found[2] == (1 if ttl_us is not None and ttl_us > 10 else max(found[:3]))


def test_a_failure_is_not_cached() -> None:
    def second(sku: int) -> float:
        CALLED[sku] += 1
        if CALLED[sku] == 1:
            raise ValueError("not yet")
        return 5.0

    stream = skus([1, 1, 1]).lookup(second, PRICE, "sku", cache="1h", on_error="null")
    assert [row["price"] for row in answer(stream)] == [None, 5.0, 5.0]
    assert CALLED == {1: 2}


class AwayError(Exception):
    """An error of an HTTP client."""

    def __init__(self, status: int) -> None:
        self.response = type("Response", (), {"status_code": status})()


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (AwayError(503), True),
        (AwayError(429), True),
        (AwayError(404), False),
        (AwayError(401), False),
        (ConnectionResetError(), True),
        (TimeoutError(), True),
        (KeyError("x"), False),
        (TypeError("x"), False),
        (type("E", (Exception,), {"sqlstate": "40001"})(), True),
        (type("E", (Exception,), {"sqlstate": "42P01"})(), False),
    ],
    ids=repr,
)
def test_permanent_errors_are_not_retried(error: Exception, passes: bool) -> None:
    assert may_pass(error) == passes

    def fails(sku: int) -> float:
        CALLED[sku] += 1
        raise error

    stream = skus([1]).lookup(fails, PRICE, "sku", retries=1, on_error="skip")
    assert answer(stream) == []
    assert {1: 2 if passes else 1} == CALLED


def test_a_call_that_never_returns_is_given_up() -> None:
    class Hangs:
        def __call__(self, sku: int) -> float:
            if sku == 1:
                threading.Event().wait(20)
            return 1.0

    stream = skus([0, 1, 2]).lookup(
        Hangs, PRICE, "sku", concurrency=1, timeout="1s", retries=0, on_error="null"
    )
    assert [row["price"] for row in answer(stream)] == [1.0, None, 1.0]


def test_many_calls_that_never_return_end_the_job() -> None:
    def hangs(sku: int) -> float:
        threading.Event().wait(20)
        return 1.0

    stream = skus(list(range(50))).lookup(
        hangs, PRICE, "sku", concurrency=1, timeout="5ms", retries=0, on_error="null"
    )
    with pytest.raises(Exception, match=r"calls have not returned after their time-out of 0\.005"):
        answer(stream)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ("x", "returned 'x' for 'price', which is double"),
        ([1.0, 2.0], r"returned \[1.0, 2.0\] for 'price'"),
        ({"prize": 1.0}, "without 'price'"),
        (object(), "returned <object"),
        (ValueError("schlecht: ä☂"), "ValueError: schlecht: ä☂"),
        (SystemExit(3), "SystemExit: 3"),
        (ValueError("half of a pair: \ud800"), r"half of a pair: \\ud800"),
        (StopIteration(), "StopIteration"),
    ],
    ids=lambda value: str(type(value).__name__),
)
def test_an_invalid_result_is_reported_with_its_row(given: Any, match: str) -> None:
    def returns(sku: int) -> Any:
        if isinstance(given, BaseException):
            raise given
        return given

    with pytest.raises(UserCodeError, match=match) as told:
        answer(skus([7]).lookup(returns, PRICE, "sku"))
    assert "sku=7" in str(told.value)
    left = answer(skus([7]).lookup(returns, PRICE, "sku", on_error="null"))
    assert [row["price"] for row in left] == [None]


def test_a_batch_with_a_bad_row_loses_only_that_row() -> None:
    def asked(given: list[int]) -> list[float]:
        if 3 in given:
            raise ValueError("no 3")
        return [float(k) for k in given]

    stream = skus(list(range(6))).lookup(asked, PRICE, "sku", batch=6, on_error="skip")
    assert [row["price"] for row in answer(stream)] == [0.0, 1.0, 2.0, 4.0, 5.0]


def test_a_batch_with_too_many_results_is_named() -> None:
    stream = skus([1, 2]).lookup(lambda given: [1.0, 2.0, 3.0], PRICE, "sku", batch=2)
    with pytest.raises(UserCodeError, match="returned 3 values for 2 requests"):
        answer(stream)


def test_without_on_the_function_gets_the_row() -> None:
    stream = skus([1, None]).lookup(lambda row: (row["sku"], "x"), {"a": "int64", "b": "string"})
    assert [(row["a"], row["b"]) for row in answer(stream)] == [(1, "x"), (None, "x")]


def test_a_test_returns_recorded_results() -> None:
    stream = skus([1, 2]).lookup(noted, PRICE, "sku", on_error="null")
    found = answer(stream, noted={1: 4.5, 2: ValueError("gone")})
    assert [row["price"] for row in found] == [4.5, None]
    assert not CALLED


@pytest.mark.parametrize(
    ("function", "options", "match"),
    [
        (3, {}, "takes a function"),
        (noted, {"on": "skuu"}, "skuu"),
        (noted, {"concurrency": 0}, "concurrency=0"),
        (noted, {"batch": True}, "batch=True"),
        (noted, {"timeout": 0}, "timeout"),
        (noted, {"on_error": "ignore"}, "on_error='ignore'"),
        (noted, {"schema": {"sku": "int64"}}, "has a column 'sku' already"),
        (noted, {"schema": {}}, "no columns"),
        (lambda sku, shop: sku, {}, "cannot be called with 1 value"),
        (type("Shop", (), {"__call__": lambda self: 1}), {}, "cannot be called with 1 value"),
        (lambda sku: (yield sku), {}, "is a generator"),
        (functools.partial(noted, threading.Lock()), {}, "cannot be sent"),
    ],
)
def test_impossible_lookups_are_rejected(
    function: Any, options: dict[str, Any], match: str
) -> None:
    given = {"schema": PRICE, "on": "sku", **options}
    with pytest.raises((InvalidPlanError, ss.StreamEngineError), match=match):
        skus([1]).lookup(function, **given)


def order_rows(values: list[int | None]) -> ss.Stream:
    return skus(values).call_once(
        counted, {"n": "int64"}, key="sku", on="sku", concurrency=4, on_error="null"
    )


def counted(sku: int) -> int:
    CALLED[sku] += 1
    if sku == 13:
        raise ConnectionResetError("may pass, but not here")
    return sku * 10 + CALLED[sku]


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_a_key_is_called_once_despite_batches_restores_and_kills(seed: int) -> None:
    numbers = random.Random(seed)
    values = [numbers.choice([None, 13, *range(8)]) for _ in range(60)]
    schedule = Schedule(
        tuple(numbers.randrange(1 << 20) for _ in range(61)), 7, restores=True, kills=True
    )
    found = answer(order_rows(values), schedule)
    assert {row["sku"]: row["n"] for row in found} == {
        k: None if k in (None, 13) else k * 10 + 1 for k in values
    }
    assert set(CALLED.values()) == {1}
    assert set(CALLED) == {k for k in values if k is not None}


class Decided(VirtualClock):
    """A user has decided about unknown calls."""

    def __init__(self, policy: str) -> None:
        super().__init__(0, 0)
        self.policy = policy

    def unknown_calls(self) -> str:
        return self.policy


@pytest.mark.parametrize(
    ("policy", "decided", "answers", "called"),
    [
        ("skip", "", [None, 21], {2: 1}),
        ("retry", "", [11, 21], {1: 1, 2: 1}),
        ("fail", "skip", [None, 21], {2: 1}),
        ("fail", "retry", [11, 21], {1: 1, 2: 1}),
    ],
)
def test_a_call_with_an_unknown_result_follows_the_policy(
    policy: Any, decided: str, answers: list[Any], called: dict[int, int]
) -> None:
    operator, journal = begun_operator(policy, decided)
    events = operator.process([run_of([1, 2])]).events
    assert events["n"].to_pylist() == answers
    assert called == CALLED
    later, _ = begun_operator(policy, decided, journal)
    assert later.process([run_of([1, 2])]).events["n"].to_pylist() == answers
    assert called == CALLED


def test_a_call_with_an_unknown_result_ends_the_job() -> None:
    operator, _ = begun_operator("fail", "")
    with pytest.raises(UnknownCallError, match=r"key int 1 .*STREAMSCOPE_UNKNOWN_CALLS"):
        operator.process([run_of([1, 2])])
    assert not CALLED


def begun_operator(
    unknown: Any, decided: str, journal: ValueJournal | None = None
) -> tuple[Any, ValueJournal]:
    """A new instance; its log has an unfinished call for key 1."""
    code = replace(user_code(counted, "call_once", True), draws_values=True)
    policy = CallPolicy(4, None, 10_000_000, 0)
    schema = pa.schema([("n", pa.int64())])
    spec = CallOnce(code, ("sku",), ("sku",), schema, policy, unknown, "null")
    journal = journal or ValueJournal([Drawn("begin", key_of(1), None)])
    journal.load(0)
    operator = spec.open([pa.schema([("sku", pa.int64())])])
    operator.use_values(journal, Decided(decided))
    return operator, journal


def run_of(values: list[int]) -> Run:
    schema = pa.schema([("sku", pa.int64())])
    return make_run([ev(k, sku=value) for k, value in enumerate(values)], schema)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"key": ()}, "needs a key"),
        ({"key": "order"}, "order"),
        ({"unknown": "guess"}, "unknown='guess'"),
        ({"on_error": "fail"}, "on_error='fail'"),
    ],
)
def test_calls_that_cannot_be_made_once_are_rejected(options: dict[str, Any], match: str) -> None:
    with pytest.raises((InvalidPlanError, ss.StreamEngineError), match=match):
        skus([1]).call_once(counted, {"n": "int64"}, **{"key": "sku", **options})
