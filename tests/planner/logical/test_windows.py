"""Sessions, snapshots, count windows and whole-window aggregates, from query to result.

Not covered: effects between processes; the recovery tests run other queries.
"""

from __future__ import annotations

import threading
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

import jobmanager
from planner import (
    InvalidDurationError,
    InvalidPlanError,
    Stream,
    agg,
    col,
    count_window,
    event,
    hopping,
    lit,
    session,
    snapshot,
    tumbling,
)
from planner.explain.text import explain
from planner.fingerprint import fingerprint
from planner.physical.lower import lower
from rvertex.operators.windows.session_phases import PartialSession
from tests.support.budget import examples
from tests.support.naive_plan import naive_rows
from tests.support.plan_runner import answer, sorted_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.logical.windows import AnyWindow


class Span:
    """A user aggregate: maximum minus minimum."""

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
def test_collected_results_equal_the_naive_ones(window: AnyWindow, keys: tuple[str, ...]) -> None:
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


@examples(15)
@given(
    size=st.integers(1, 12),
    every=st.integers(1, 12),
    offset=st.integers(-15, 15),
    by_key=st.booleans(),
    spans=st.booleans(),
    rows_max=st.sampled_from([1, 3, 1_000]),
)
def test_windows_of_any_size_step_and_offset(
    size: int, every: int, offset: int, by_key: bool, spans: bool, rows_max: int
) -> None:
    rows = [
        {"_vs": t, "_ve": t + 1 + (t * 5) % 14 * spans, "k": t % 3, "x": t % 7}
        for t in (-9, -9, -4, 0, 1, 2, 2, 9, 10, 17, 30)
    ]
    stream = Stream.from_items(
        {"k": "int64", "x": "int64"},
        [event(r["_vs"], r["_ve"], k=r["k"], x=r["x"]) for r in rows],
        partitions=2,
    )
    keys = ("k",) if by_key else ()
    windows = stream.group_by(*keys).window(hopping(size, every, offset))
    found = windows.agg(n=agg.count(), total=agg.sum("x"), high=agg.max("x"))
    expected = []
    for start in range(-40, 60):
        inside = [r for r in rows if r["_vs"] < start + size and start < r["_ve"]]
        if (start - offset) % every == 0:
            for key in sorted({tuple(r[k] for k in keys) for r in inside}):
                xs = [r["x"] for r in inside if tuple(r[k] for k in keys) == key]
                made = {"n": len(xs), "total": sum(xs), "high": max(xs)}
                expected.append(
                    {"_vs": start, "_ve": start + size, **dict(zip(keys, key, strict=True)), **made}
                )
    plan = lower(found.to_parquet(), root="memory://job", parallelism=2)
    assert sorted_rows(answer(plan, rows_max=rows_max)) == sorted_rows(
        pa.Table.from_pylist(expected)
    )


def test_a_user_aggregate_is_sent_with_the_plan() -> None:
    stream = _stream().window(tumbling(200)).agg(span=agg.user(Span(2.0), "x"))
    found = jobmanager.collect(stream, executor="local").column("span").to_pylist()
    assert found[0] == 2.0 * 10 / 7
    names = [fingerprint(agg.user(Span(scale), "x").argument) for scale in (1.0, 1.0, 2.0)]
    assert names[0] == names[1] != names[2]


def test_partial_phases_only_where_merging_is_exact() -> None:
    def operators(window: AnyWindow, **aggregates: agg.Agg) -> list[str]:
        stream = _stream().group_by("k").window(window).agg(**aggregates)
        plan = lower(stream.to_parquet(), root="memory://job")
        return [type(o).__name__ for v in plan.vertices for o in v.operators if v.index == 0]

    assert "PartialAggregate" in operators(tumbling(50), n=agg.count(), p=agg.product("x"))
    assert "PartialAggregate" in operators(tumbling(50), t=agg.top_k("x", 2), v=agg.variance("x"))
    assert "PartialAggregate" not in operators(
        tumbling(50), n=agg.count(), q=agg.quantile("x", 0.5)
    )
    assert "PartialSession" in operators(session(50), n=agg.count(), kinds=agg.count_distinct("x"))
    assert "PartialSession" not in operators(session(50, max=90), n=agg.count())
    assert "PartialSession" not in operators(session(50), n=agg.count(), x=agg.last("x"))


@pytest.mark.parametrize("keys", [("k",), ()])
def test_growing_sessions_equal_the_naive_rows(keys: tuple[str, ...]) -> None:
    for window in (session(20, max=150, running=True), session(9, running=True)):
        asked = {"n": agg.count(), "total": agg.sum("x"), "kinds": agg.count_distinct("x")}
        stream = _stream().group_by(*keys).window(window).agg(**asked, top=agg.top_k("x", 2))
        assert collect(stream) == sorted(naive_rows(stream.plan), key=repr)
    four = _stream().with_columns(four=lit(4)).group_by(*keys)
    constant = four.window(session(4, running=True)).agg(n=agg.count())
    own = four.window(session(col("four"), running=True)).agg(n=agg.count())
    assert collect(own) == collect(constant)
    assert "running session" in explain(lower(constant.to_parquet(), root="memory://job"))
    for refused in (agg.quantile("x", 0.5), agg.user(Span(1.0), "x")):
        with pytest.raises(
            InvalidPlanError, match=r"all events of a window at once; leave out running=True"
        ):
            four.window(session(4, running=True)).agg(n=refused)


@pytest.mark.parametrize("longest", [None, 12])
def test_each_event_gets_the_current_length_of_its_session(longest: int | None) -> None:
    """A gap per event: equal gaps give the result of a constant gap, others that of a loop."""
    rng = Random(23)
    gaps = [rng.choice([None, -1, 0, 1, 4, 9, 30]) for _ in range(60)]
    lasting = [rng.choice([1, 5]) for _ in gaps]
    items = [event(t * 3, t * 3 + lasting[t], k=t % 2, gap=gap) for t, gap in enumerate(gaps)]
    stream = Stream.from_items({"k": "int64", "gap": "int64"}, items, partitions=2)
    same = stream.with_columns(four=lit(4)).group_by("k")
    n = agg.count()
    constant = same.window(session(4, max=longest)).agg(n=n)
    assert collect(same.window(session(col("four"), max=longest)).agg(n=n)) == collect(constant)
    for gap in (col("gap"), col("gap").cast(pa.duration("us"))):
        own = stream.group_by("k").window(session(gap, max=longest)).agg(n=n)
        found = sorted((r["k"], r["_vs"], r["_ve"], r["n"]) for r in collect(own))
        assert found == sorted(_own_sessions(items, longest))
    with pytest.raises(InvalidPlanError, match="a gap must be a duration, or whole microseconds"):
        stream.with_columns(x=lit(0.5)).group_by("k").window(session(col("x"))).agg(n=n)


def _own_sessions(items: list[Any], longest: int | None) -> list[tuple[int, int, int, int]]:
    found = []
    for key in (0, 1):
        start, until, n = 0, None, 0
        for item in (i for i in items if i.payload["k"] == key):
            is_over = until is not None and (
                item.vs_us >= until or (longest is not None and item.vs_us >= start + longest)
            )
            if until is None or is_over:
                if until is not None:
                    found.append((key, start, _end(start, until, longest), n))
                if until is None or item.vs_us >= until:
                    until = item.vs_us
                start, n = item.vs_us, 0
            until = max(until, item.ve_us - 1 + max(item.payload["gap"] or 1, 1))
            n += 1
        assert until is not None
        found.append((key, start, _end(start, until, longest), n))
    return found


def _end(start: int, until: int, longest: int | None) -> int:
    return until if longest is None else min(until, start + longest)


def collect(stream: Stream) -> list[dict[str, Any]]:
    table = answer(lower(stream.to_parquet(), root="memory://sessions"))
    return sorted(table.to_pylist(), key=repr)


def test_sessions_have_short_panes_if_rows_arrive_at_their_pace() -> None:
    query = _stream().group_by("k").window(session(50)).agg(n=agg.count()).to_parquet()
    for is_paced, pane_us in (False, 50), (True, 5):
        plan = lower(query, root="memory://job", is_paced=is_paced)
        found = {
            operator.pane_us
            for vertex in plan.vertices
            for operator in vertex.operators
            if isinstance(operator, PartialSession)
        }
        assert found == {pane_us}


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
        (lambda: agg.user(Span, "x"), InvalidPlanError, r"a class; give .* it, Span\(\)"),  # type: ignore[arg-type]
        (lambda: agg.user(_local, "x"), InvalidPlanError, "function; give an object"),  # type: ignore[arg-type]
        (lambda: agg.user(_local(), "x"), InvalidPlanError, "its attribute 'lock' is a lock"),
    ],
)
def test_a_wrong_window_names_its_mistake(
    mistake: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        mistake()


def _local() -> Any:
    class Local(Span):
        """Refers to an object that cannot be sent."""

        lock = threading.Lock()

    return Local(1.0)
