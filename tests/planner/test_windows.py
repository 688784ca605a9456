"""Sessions, snapshots, count windows and whole-window aggregates from query to answer.

Cannot catch: what only happens between processes; the recovery tests run other queries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import jobmanager
from planner import (
    InvalidDurationError,
    InvalidPlanError,
    Stream,
    agg,
    count_window,
    event,
    session,
    snapshot,
    tumbling,
)
from planner.fingerprint import fingerprint
from planner.lower import lower
from tests.support.naive_plan import naive_rows
from tests.support.plan_runner import sorted_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.windows import AnyWindow


class Span:
    """A user aggregate: greatest less least."""

    type = pa.float64()

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def init(self) -> list[float]:
        return []

    def add(self, state: list[float], values: pa.Array) -> list[float]:
        return state + values.drop_null().to_pylist()  # type: ignore[no-any-return]

    def result(self, state: list[float]) -> float | None:
        return self.scale * (max(state) - min(state)) if state else None


def _stream() -> Stream:
    rows = [
        event(i * 7, i * 7 + 1 + (i * 5) % 40, k=i % 4 if i % 9 else None, x=((i * 37) % 11) / 7)
        for i in range(80)
        if i % 13 < 9
    ]
    return Stream.from_items({"k": "int64", "x": "float64"}, rows, partitions=3)


@pytest.mark.parametrize("window", [session(20, max=150), session(9), count_window(3), snapshot()])
@pytest.mark.parametrize("keys", [("k",), ()])
def test_collected_answers_are_the_naive_ones(window: AnyWindow, keys: tuple[str, ...]) -> None:
    stream = (
        _stream()
        .group_by(*keys)
        .window(window)
        .agg(
            n=agg.count(),
            total=agg.sum("x"),
            spread=agg.variance("x"),
            kinds=agg.count_distinct("x"),
            top=agg.top_k("x", 2),
            low=agg.quantile("x", 0.25),
        )
    )
    expected = sorted(naive_rows(stream.plan), key=lambda r: (r["_vs"], r["_ve"], repr(r)))
    assert len(expected) > 3
    for parallelism in (1, 3):
        table = jobmanager.collect(stream, executor="local", parallelism=parallelism)
        assert sorted_rows(table) == expected, parallelism


def test_a_user_aggregate_travels_with_the_plan() -> None:
    stream = _stream().window(tumbling(200)).agg(span=agg.user(Span(2.0), "x"))
    found = jobmanager.collect(stream, executor="local").column("span").to_pylist()
    assert found[0] == 2.0 * 10 / 7
    names = [fingerprint(agg.user(Span(scale), "x").argument) for scale in (1.0, 1.0, 2.0)]
    assert names[0] == names[1] != names[2]


def test_partial_phases_only_where_merging_is_exact() -> None:
    def operators(**aggregates: agg.Agg) -> list[str]:
        stream = _stream().group_by("k").window(tumbling(50)).agg(**aggregates)
        plan = lower(stream.to_parquet(), root="memory://job")
        return [type(o).__name__ for v in plan.vertices for o in v.operators if v.index == 0]

    assert "PartialAggregate" in operators(n=agg.count(), p=agg.product("x"))
    assert "PartialAggregate" not in operators(n=agg.count(), v=agg.variance("x"))


@pytest.mark.parametrize(
    ("mistake", "error", "message"),
    [
        (lambda: session("0s"), InvalidDurationError, "session gap"),
        (lambda: session("1s", max=0), InvalidDurationError, "session max"),
        (lambda: count_window(0), InvalidPlanError, "at least 1"),
        (lambda: agg.quantile("x", 1.5), InvalidPlanError, "between 0 and 1"),
        (lambda: agg.top_k("x", 0), InvalidPlanError, "between 1 and"),
        (lambda: agg.variance("x", ddof=-1), InvalidPlanError, "ddof=-1"),
        (lambda: agg.user(object(), "x"), InvalidPlanError, "no method 'init'"),  # type: ignore[arg-type]
        (lambda: agg.user(_local(), "x"), InvalidPlanError, "cannot be pickled"),
    ],
)
def test_mistakes(mistake: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        mistake()


def _local() -> Any:
    class Local(Span):
        """Cannot be found by name."""

    return Local(1.0)
