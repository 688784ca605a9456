"""A user's aggregate with ``merge``: equal in one phase, in two, over panes, and with any cuts.

Not covered: a user's aggregate with a wrong ``merge``.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, strategies as st

from planner import InvalidPlanError, Stream, agg, event, hopping
from planner.explain.text import explain
from planner.physical.lower import lower
from rstream.types import INF_TIME
from rvertex.aggregates.spec import AggregateSpec
from rvertex.aggregates.user_defined import Custom
from rvertex.events.run import Run
from rvertex.operators.windows.hopping import FinalAggregate, PartialAggregate, WindowAggregate
from rvertex.user_code.errors import UserResultError
from tests.support.budget import examples
from tests.support.exact import assert_same_items
from tests.support.operator_harness import assert_cut_invariant
from tests.support.plan_runner import answer, sorted_rows
from tests.support.strategies import PAYLOAD, runs, splits


class Span:
    """Maximum minus minimum, and the count, as text."""

    type = pa.string()

    def init(self) -> Any:
        return {"low": None, "high": None, "count": 0}

    def add(self, state: Any, values: pa.Array) -> Any:
        found = pc.min_max(values).as_py()
        other = {"low": found["min"], "high": found["max"], "count": len(values)}
        return Merged().merge(state, other)

    def result(self, state: Any) -> Any:
        width = None if state["low"] is None else state["high"] - state["low"]
        return f"{width} of {state['count']}"


class Merged(Span):
    """The same, with partial states."""

    state_type = pa.struct([("low", pa.int64()), ("high", pa.int64()), ("count", pa.int64())])

    def merge(self, state: Any, other: Any) -> Any:
        lows = [v for v in (state["low"], other["low"]) if v is not None]
        highs = [v for v in (state["high"], other["high"]) if v is not None]
        count = state["count"] + other["count"]
        return {"low": min(lows, default=None), "high": max(highs, default=None), "count": count}


def spec_of(target: Any) -> AggregateSpec:
    return AggregateSpec("user", "n", "span", Custom(type(target).__name__, target))


@examples(3)
@given(run=runs(), cuts=splits(), window=st.sampled_from([(6, 6), (6, 2), (3, 5)]))
def test_one_phase_two_phases_and_panes_agree(
    run: Run, cuts: list[int], window: tuple[int, int]
) -> None:
    run = Run(run.events, pa.array([*run.ctis[run.ctis < INF_TIME].tolist(), INF_TIME]).to_numpy())
    whole = WindowAggregate(("k",), *window, (spec_of(Span()),), points=False)
    merged = WindowAggregate(("k",), *window, (spec_of(Merged()),), points=True)
    expected = assert_cut_invariant(whole, [run], [PAYLOAD], cuts)
    found = assert_cut_invariant(merged, [run], [PAYLOAD], cuts)
    assert_same_items(found.events, expected.events, "panes")
    partial, final = merged.phases
    assert isinstance(partial, PartialAggregate)
    assert isinstance(final, FinalAggregate)
    middle = assert_cut_invariant(partial, [run], [PAYLOAD], cuts)
    result = final.open([partial.output_schema([PAYLOAD])]).process([middle])
    assert_same_items(result.events, expected.events, "two phases")


def test_partial_states_are_exchanged() -> None:
    items = [event(t, k=t % 3, n=t * t) for t in range(30)]
    stream = Stream.from_items({"k": "int64", "n": "int64"}, items, partitions=2)
    windows = stream.group_by("k").window(hopping(10, 5))
    merged, whole = (
        lower(windows.agg(span=agg.user(target, "n")).to_parquet(), root="memory://job")
        for target in (Merged(), Span())
    )
    assert "partial aggregate" in explain(merged)
    assert "partial aggregate" not in explain(whole)
    assert sorted_rows(answer(merged)) == sorted_rows(answer(whole))


def test_a_wrong_user_aggregate_is_an_error() -> None:
    class NoType(Span):
        def merge(self, state: Any, other: Any) -> Any:
            return state

    class WrongState(Merged):
        state_type = pa.int64()

    with pytest.raises(InvalidPlanError, match="it has 'merge', so it needs 'state_type'"):
        agg.user(NoType(), "n")
    items = [event(1, n=1)]
    stream = Stream.from_items({"n": "int64"}, items).window(hopping(10, 5))
    plan = lower(stream.agg(s=agg.user(WrongState(), "n")).to_parquet(), root="R")
    with pytest.raises(UserResultError, match="its state is not int64, the declared state_type"):
        answer(plan)
