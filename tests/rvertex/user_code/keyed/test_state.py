"""Dropped keys, and the reuse of their objects for other keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rvertex.operators.user.keyed_process import KeyedProcessing
from rvertex.user_code.code import UserCode
from rvertex.user_code.keyed.process import KeyedContext, KeyedProcess, Timer
from rvertex.user_code.keyed.state_fields import state_fields
from tests.support.builders import Item, cti, ev, make_run

if TYPE_CHECKING:
    from rvertex.operators.protocol import Operator

KV = pa.schema([("k", pa.int64()), ("x", pa.int64())])


class Before(KeyedProcess):
    """Emits the previous value; 0 resets the key."""

    last: int = 0

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        ctx.emit(self.last)
        self.last = event.x


class Sum(KeyedProcess):
    """Emits the sum until 2 after the last event."""

    total: int = 0

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        self.total += event.x
        ctx.emit(self.total)
        ctx.set_timer(event.vs + 2)

    def on_timer(self, timer: Timer, ctx: KeyedContext) -> None:
        self.total = 0


def opened(process: type[KeyedProcess]) -> Operator:
    code, fields = UserCode(process.__name__, process), state_fields(process, KeyedProcess)
    spec = KeyedProcessing(("k",), code, fields, pa.schema([("n", pa.int64())]), "fail")
    return spec.open([KV])


def given(operator: Operator, items: list[Item]) -> list[int]:
    """Return the result of a step."""
    return operator.process([make_run(items, KV)]).events.column("n").to_pylist()


def events(time: int, keys: range, x: int) -> list[Item]:
    return [ev(time, k=k, x=x) for k in keys]


def test_an_object_of_a_forgotten_key_removes_no_row_of_another_key() -> None:
    """Three keys are dropped, and one of their objects is reused. The rows of other keys stay."""
    operator = opened(Before)
    given(operator, events(0, range(1, 6), 7))
    operator.snapshot()
    given(operator, events(1, range(2, 5), 0))
    operator.snapshot()
    given(operator, events(2, range(6, 9), 7))
    state = operator.snapshot()
    successor = opened(Before)
    successor.load(state)
    asked = events(3, range(1, 9), 1)
    assert given(successor, asked) == given(operator, asked) == [7, 0, 0, 0, 7, 7, 7, 7]


def test_a_key_that_returns_before_it_was_forgotten_is_kept() -> None:
    operator = opened(Sum)
    assert given(operator, [ev(0, k=1, x=5), cti(3), ev(4, k=1, x=5)]) == [5, 5]
    operator.snapshot()
    assert given(operator, [ev(5, k=1, x=5)]) == [10]
