"""User code in a batch, without Spark: the order of ties, poison events, and errors.

Random plans (test_random_plans.py) use the same loops as the definition of processes and operators.
Not covered: how Spark groups and passes rows (tests/spark/test_user_code.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from planner import KeyedContext, KeyedProcess, Stream, Timer, cti, event
from planner.batch.rows import source_events
from planner.batch.spark_sql import UnsupportedInBatchError
from planner.batch.temporal.event_order import agreed, orders
from planner.batch.user_code.operators import operator_rows
from planner.batch.user_code.processes import process_rows
from planner.logical.nodes import Source, UserStep
from rstream.items.batch import event_schema
from rstream.types import INF_TIME, MIN_TIME
from rvertex.events.run import Run
from rvertex.operators.user import keyed_process
from rvertex.operators.user.keyed_process import KeyedProcessing
from rvertex.operators.user.transform import UserOperator
from rvertex.user_code.errors import CrowdedTimersError, EndlessTimersError, UserResultError

if TYPE_CHECKING:
    from collections.abc import Callable

PAYLOAD = pa.schema([("k", pa.string()), ("x", pa.int64())])
ROWS = [(0, 5, "a", 3), (2, 3, "a", 1), (2, 3, "a", None), (2, 9, "a", 1), (4, 5, "a", 0)]


def batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    names = event_schema(PAYLOAD).names
    pylist = [dict(zip(names, row, strict=True)) for row in rows]
    return pa.RecordBatch.from_pylist(pylist, schema=event_schema(PAYLOAD))


def values(events: pa.RecordBatch) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in events.to_pylist()]


def test_events_with_equal_times_are_passed_in_place_order_or_in_two_orders() -> None:
    shuffled = batch([ROWS[i] for i in (3, 4, 2, 0, 1)])
    (by_place,) = orders(shuffled, pa.chunked_array([[7, 9, 5, 1, 6]]))
    assert values(by_place) == [ROWS[i] for i in (0, 2, 1, 3, 4)]
    rising, falling = orders(shuffled, None)
    assert [row[0] for row in values(rising)] == [0, 2, 2, 2, 4]
    assert values(rising)[1:4] == values(falling)[3:0:-1]
    assert len(orders(batch([ROWS[0], ROWS[1], ROWS[1]]), None)) == 1
    assert agreed([rising, falling], "f") is rising
    with pytest.raises(UnsupportedInBatchError, match="f cannot be run as a batch: its rows dep"):
        agreed([rising, falling.slice(0, 4)], "f")


class Careful(KeyedProcess):
    output = {"n": "int64"}  # noqa: RUF012
    n: int = 0
    seen: list[int]

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        self.n += 1
        self.seen.append(event.vs)
        ctx.set_timer(event.vs + 2)
        ctx.emit(12 // event.x)

    def on_timer(self, timer: Timer, ctx: KeyedContext) -> None:
        ctx.emit(n=100 * self.n + len(self.seen), ve=timer.at + 9)


class Again(Careful):
    def on_timer(self, timer: Timer, ctx: KeyedContext) -> None:
        ctx.set_timer(timer.at + 1)


class AsksForTheEnd(Careful):
    def on_timer(self, timer: Timer, ctx: KeyedContext) -> None:
        ctx.emit(int(ctx.at_end))


def process(kind: type[KeyedProcess], on_error: Any = "skip") -> KeyedProcessing:
    made = Stream.from_items({"k": "string", "x": "int64"}, []).group_by("k")
    plan = made.process(kind, on_error=on_error).plan
    assert isinstance(plan, UserStep)
    assert isinstance(plan.spec, KeyedProcessing)
    return plan.spec


def test_a_call_that_raised_has_no_effect() -> None:
    found = values(process_rows(process(Careful), batch(ROWS), MIN_TIME))
    assert found == [
        (0, 5, "a", 4),
        (2, 11, "a", 101),
        (2, 3, "a", 12),
        (2, 9, "a", 12),
        (4, 13, "a", 303),
    ]
    with pytest.raises(UserResultError, match=r"Careful: raised TypeError.*key 'a', time 2"):
        process_rows(process(Careful, "fail"), batch(ROWS), MIN_TIME)
    assert process_rows(process(Careful), batch([]), MIN_TIME).num_rows == 0


def test_timers_after_the_last_cti_and_event_see_the_end() -> None:
    spec = process(AsksForTheEnd)
    events = batch([(0, 5, "a", 3), (8, 9, "a", 1), (8, 9, "a", 12)])
    ends = {2: [0, 1], 9: [0, 1], 10: [0, 0], MIN_TIME: [0, 1]}
    for reached, expected in ends.items():
        found = values(process_rows(spec, events, reached))
        assert [row[-1] for row in found if row[0] in (2, 10)] == expected


def test_endless_timers_are_not_poison(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed_process, "FINAL_TIMERS_MAX", 1_000)
    with pytest.raises(EndlessTimersError, match="has set 1000 timers"):
        process_rows(process(Again), batch(ROWS), MIN_TIME)
    monkeypatch.setattr(keyed_process, "TIMERS_MAX", 100)
    with pytest.raises(CrowdedTimersError, match="100 timers of key 'a' fired in one step"):
        process_rows(process(Again), batch(ROWS), 10_000_000)


class Every(Careful):
    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        self.n = event.x
        ctx.set_timer(event.vs + self.n)

    def on_timer(self, timer: Timer, ctx: KeyedContext) -> None:
        if timer.at < 50 * self.n:
            ctx.set_timer(timer.at + self.n)


def crowded(call: Callable[[], object]) -> str:
    """Return the error for too many timers; "" if there are not too many."""
    try:
        call()
    except CrowdedTimersError as error:
        return str(error)
    return ""


def test_the_limit_on_timers_equals_that_of_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(timers_max: int, period: int) -> str:
        monkeypatch.setattr(keyed_process, "TIMERS_MAX", timers_max)
        spec, events, until = process(Every), batch([(0, 1, "a", period)]), 50 * period
        run = Run(events, np.array([until]))
        in_stream = crowded(lambda: spec.open([PAYLOAD]).process([run]))
        assert crowded(lambda: process_rows(spec, events, until)) == in_stream
        return in_stream

    assert told(50, 1) == ""
    for timers_max in (7, 24, 25, 48, 49):
        assert f"{timers_max} timers of key 'a'" in told(timers_max, 99)
        assert told(timers_max, 100) == ""


def test_an_item_that_ends_the_stream_does_not_count_as_reached_time() -> None:
    schema, end = {"k": "string", "x": "int64"}, cti(INF_TIME)
    cases: list[tuple[list[Any], int]] = [
        ([event(0, k="a", x=1), cti(5), end], 5),
        ([event(0, k="a", x=1), cti(5), end, cti(7)], 5),
        ([event(0, k="a", x=1), end], MIN_TIME),
    ]
    for items, expected in cases:
        source = Stream.from_items(schema, items).plan
        assert isinstance(source, Source)
        assert source_events(source, 1, 1_000)[1] == expected


class Halves:
    def __init__(self) -> None:
        self.given = 0

    def execute(self, events: pa.RecordBatch, ctis: list[int]) -> Any:
        self.given += events.num_rows
        shares = [12 // x for x in events.column("x").to_pylist()]
        rows = {name: events.column(name) for name in ("_vs", "_ve")} | {"x": shares}
        return (rows, ctis) if not ctis else {"_vs": [90], "_ve": [91], "x": [self.given]}

    def get_snapshot(self) -> dict[str, Any]:
        return {"given": self.given}

    def load(self, state: dict[str, Any]) -> None:
        self.given = state["given"]


def test_an_operator_gets_its_events_and_the_end() -> None:
    stream = Stream.from_items({"k": "string", "x": "int64"}, [])
    plans = [stream.transform(Halves, {"x": "int64"}, on_error=e).plan for e in ("fail", "skip")]
    strict, lenient = (plan.spec for plan in plans if isinstance(plan, UserStep))
    assert isinstance(strict, UserOperator)
    assert isinstance(lenient, UserOperator)
    assert values(operator_rows(strict, batch(ROWS[:2]))) == [(90, 91, 2)]
    assert values(operator_rows(lenient, batch(ROWS))) == [
        *((0, 5, 4), (2, 3, 12), (2, 9, 12)),
        (90, 91, 3),
    ]
    with pytest.raises(UserResultError, match="Halves: raised TypeError"):
        operator_rows(strict, batch(ROWS))
