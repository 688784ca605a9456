"""A step that does not return is reported while it runs, with its operator and expression.

Not covered: user code that holds the interpreter's lock; the host's connections then break.
"""

from __future__ import annotations

import errno
import threading
from typing import TYPE_CHECKING

import pyarrow as pa

from planner import col, udf
from planner.expressions.nodes import resolve
from rstream.clock import ManualClock
from rvertex.host.environment import HostLimits
from rvertex.host.watch import Watch, doing_of
from rvertex.operators.filter import FilterOperator
from rvertex.operators.protocol import in_pieces
from rvertex.state.doing import Doing
from tests.support.builders import ev, make_run

if TYPE_CHECKING:
    import pytest

    from rvertex.messages import HostBusy

PAYLOAD = pa.schema([("x", pa.int64())])
ENTERED, MAY_LEAVE = threading.Event(), threading.Event()
WAIT_S = 120.0


def slow(x: int) -> bool:
    ENTERED.set()
    assert MAY_LEAVE.wait(WAIT_S)
    return x > 0


def test_a_long_step_is_reported_with_its_operator() -> None:
    clock = ManualClock()
    watch = Watch("h0.0", clock, HostLimits(busy_after_s=2.0, stack_after_s=8.0))
    told: list[HostBusy | None] = []
    predicate = udf(slow, returns="bool", deterministic=True)(col("x"))
    operator = FilterOperator(resolve(predicate.node, PAYLOAD))
    run = make_run([ev(1, 5, x=7)], PAYLOAD)

    def turn() -> None:
        with watch.watching(told.append):
            watch.begin("filter.0", 4)
            list(in_pieces([operator], [run]))
            watch.end()
            told.append(watch.look())

    thread = threading.Thread(target=turn)
    thread.start()
    try:
        assert ENTERED.wait(WAIT_S)
        clock.advance(1_999_999)
        assert watch.look() is None
        clock.advance(4_000_001)
        early = watch.look()
        clock.advance(3_000_000)
        busy = watch.look()
    finally:
        MAY_LEAVE.set()
        thread.join()
    assert busy is not None
    assert (busy.host, busy.vertex, busy.epoch, busy.lasted_s) == ("h0.0", "filter.0", 4, 9)
    line = slow.__code__.co_firstlineno
    assert early is not None
    assert early.doing == f"Filter: slow, defined at line {line} of {__file__}"
    assert busy.doing.startswith(f"{early.doing}; its stack, innermost first: wait (")
    assert f", slow ({__file__}:{line + 2}), " in busy.doing
    assert busy.doing.endswith(")")
    assert "in_pieces" not in busy.doing
    assert busy.memory_bytes > 1 << 20
    assert told[-1] is None, "the turn is over"


def test_built_in_code_is_named_by_its_expression() -> None:
    notes = Doing(FilterOperator(resolve((col("x") > 1).node, PAYLOAD)), col("x") + 1)
    assert doing_of(notes) == "Filter: (x + 1)"
    assert doing_of(Doing()) == "its step"
    assert doing_of(Doing(None, None, len)) == "len"


def test_samples_name_the_user_function_that_takes_the_time() -> None:
    watch = Watch("h0.0", ManualClock(), HostLimits())
    predicate = udf(sampled, returns="bool", deterministic=True)(col("x"))
    operator = FilterOperator(resolve(predicate.node, PAYLOAD))
    watch.attach()
    watch.begin("filter.0", 4)
    watch.sample(0.5)  # inside this test, which no operator has called
    SAMPLERS.append(watch)
    operator.process([make_run([ev(1, 5, x=7)], PAYLOAD)])
    watch.end()
    watch.sample(9.0)  # between two polls
    timing = watch.timing("filter.0", 4)
    assert (timing.busy_us, timing.user_us) == (2_500_000, 2_000_000)
    assert timing.function == "sampled (test_watch.py)"
    assert watch.timing("filter.0", 5).busy_us == 0


SAMPLERS: list[Watch] = []


def sampled(x: int) -> bool:
    SAMPLERS[0].sample(2.0)
    return True


def test_a_long_step_is_reported_even_if_no_stack_can_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_folder() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("rvertex.state.stacks._registered", no_folder)
    clock = ManualClock()
    watch = Watch("h0.0", clock, HostLimits(busy_after_s=2.0, stack_after_s=8.0))
    watch.attach()
    watch.begin("filter.0", 4)
    clock.advance(9_000_000)
    busy = watch.look()
    assert busy is not None
    assert (busy.lasted_s, busy.doing) == (9, "its step")
