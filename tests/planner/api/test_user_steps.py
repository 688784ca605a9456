"""User code in plans: rejected code, its stage, and its messages.

Not covered: poison events in a job (tests/jobmanager/test_user_code.py).
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, strategies as st

from planner import (
    EvaluationError,
    InvalidPlanError,
    KeyedContext,
    KeyedProcess,
    Query,
    SqlError,
    Stream,
    Timer,
    agg,
    col,
    event,
    lit,
    sql,
    tumbling,
    udf,
)
from planner.api import user_steps
from planner.explain.text import explain
from planner.physical.lower import lower
from tests.support.budget import examples
from tests.support.plan_runner import answer, sorted_rows

READINGS = Stream.from_items(
    {"k": "string", "x": "int64"},
    [event(t, k="ab"[t % 2], x=t if t != 4 else None) for t in range(8)],
    partitions=2,
)


def rows(stream: Stream | Query, **options: Any) -> list[dict[str, Any]]:
    query = stream if isinstance(stream, Query) else stream.to_parquet()
    found = sorted_rows(answer(lower(query, root="memory://job", **options)))
    return [{k: v for k, v in row.items() if k != "_ve"} for row in found]


class Count(KeyedProcess):
    """Counts, and emits a row at the end of each ten."""

    output = {"n": "int64"}  # noqa: RUF012
    n: int = 0

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        self.n += 1
        ctx.set_timer(10)

    def on_timer(self, timer: Timer, ctx: KeyedContext) -> None:
        ctx.emit(self.n)


class Gaps:
    """The time since the previous event, over the whole stream."""

    def __init__(self) -> None:
        self.last = -1

    def execute(self, events: pa.RecordBatch, ctis: list[int]) -> Any:
        vs = events.column("_vs").to_pylist()
        gaps = [b - a for a, b in zip([self.last, *vs], vs, strict=False)]
        self.last = vs[-1] if vs else self.last
        return {"_vs": events.column("_vs"), "_ve": events.column("_ve"), "gap": gaps}

    def get_snapshot(self) -> dict[str, Any]:
        return {"last": self.last}

    def load(self, state: dict[str, Any]) -> None:
        self.last = state["last"]


def doubled(batch: pa.RecordBatch) -> Any:
    return {"twice": pc.multiply(batch.column("x"), 2)}


def odd_rows(batch: pa.RecordBatch) -> Any:
    found = [i for i, x in enumerate(batch.column("x").to_pylist()) if x is not None and x % 2]
    return {"_row": found, "odd": batch.column("x").take(pa.array(found, pa.int64()))}


def test_apply_returns_columns_row_by_row() -> None:
    stream = READINGS.apply(doubled, {"twice": "int64"})
    assert [row["twice"] for row in rows(stream)] == [0, 2, 4, 6, None, 10, 12, 14]
    stream = READINGS.apply(odd_rows, {"odd": "int64"})
    assert rows(stream) == [{"_vs": t, "odd": t} for t in (1, 3, 5, 7)]


def test_a_process_runs_by_key_at_any_parallelism() -> None:
    stream = READINGS.group_by("k").process(Count)
    expected = [{"_vs": 10, "k": "a", "n": 4}, {"_vs": 10, "k": "b", "n": 4}]
    assert rows(stream, parallelism=1) == rows(stream, parallelism=3) == expected
    total = stream.group_by("k").window(tumbling(20)).agg(n=agg.sum("n"))
    text = explain(lower(total.to_parquet(), root="R"))
    assert "process Count by k" in text
    assert text.count("by hash of k") == 1, "equal keys are together already"


class Hundreds(KeyedProcess):
    """Tumbling windows of length 100, computed with timers."""

    output = {"n": "int64", "high": "int64"}  # noqa: RUF012
    n: int = 0
    high: int | None

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        if self.n == 0:
            ctx.set_timer(event.vs - event.vs % 100 + 100)
        self.n += 1
        self.high = event.x if self.high is None else max(self.high, event.x)

    def on_timer(self, timer: Timer, ctx: KeyedContext) -> None:
        ctx.emit(n=self.n, high=self.high)
        self.n, self.high = 0, None


@examples(10)
@given(
    rows_in=st.lists(st.tuples(st.integers(0, 600), st.integers(0, 3), st.integers(-9, 9))),
    parallelism=st.integers(1, 3),
)
def test_a_process_equals_the_corresponding_window(
    rows_in: list[tuple[int, int, int]], parallelism: int
) -> None:
    items = [event(t, k=k, x=x) for t, k, x in sorted(rows_in)]
    keyed = Stream.from_items({"k": "int64", "x": "int64"}, items).group_by("k")
    windows = keyed.window(tumbling(100)).agg(n=agg.count(), high=agg.max("x"))
    expected = [{**row, "_vs": row["_vs"] + 100} for row in rows(windows, parallelism=parallelism)]
    assert rows(keyed.process(Hundreds), parallelism=parallelism) == expected


def test_a_transform_runs_in_one_vertex_or_by_key() -> None:
    assert [row["gap"] for row in rows(READINGS.transform(Gaps, {"gap": "int64"}))] == [1] * 8
    by_key = READINGS.group_by("k").transform(Gaps(), {"gap": "int64"})
    assert sorted(row["gap"] for row in rows(by_key, parallelism=1)) == [1] * 8


def test_functions_in_expressions() -> None:
    @udf(returns="string")
    def told(k: str, x: int) -> str:
        return f"{k}{x:02d}"

    def of_nulls(x: int | None) -> int:
        return -1 if x is None else x

    plus = udf(lambda a, b: pc.add(a, b), returns="int64", vectorised=True)
    stream = READINGS.filter(udf(lambda x: x > 2, returns=bool)(col("x"))).select(
        t=told(col("k"), col("x")), y=plus(col("x"), 1), z=udf(lambda: 7, returns="int64")()
    )
    assert [(r["t"], r["y"], r["z"]) for r in rows(stream)] == [
        *(("b03", 4, 7), ("b05", 6, 7), ("a06", 7, 7), ("b07", 8, 7)),
    ]
    assert {r["c"] for r in rows(READINGS.select(c=plus(lit(2), 1)))} == {3}
    stream = READINGS.select(
        a=udf(of_nulls, returns="int64", nulls="pass")(col("x")), b=told(lit("c"), col("x"))
    )
    assert [(r["a"], r["b"]) for r in rows(stream)][3:5] == [(3, "c03"), (-1, None)]
    assert "told(" in explain(lower(stream.to_parquet(), root="R"))


def test_functions_in_sql() -> None:
    shout = udf(lambda text: text.upper() + "!", returns="string")
    text = "SELECT k, Shout(k) AS s FROM readings WHERE x = 3"
    found = sql(text, {"readings": READINGS}, functions={"shout": shout})
    assert rows(found) == [{"_vs": 3, "k": "b", "s": "B!"}]
    with pytest.raises(SqlError, match=r"does not take 2 arguments"):
        sql("SELECT shout(k, k) AS s FROM r", {"r": READINGS}, functions={"shout": shout})


def test_text_arguments_of_a_function_are_not_columns() -> None:
    halved = udf(lambda x: x / 2, returns="float64")
    with pytest.raises(EvaluationError, match=r"'x' is a text here, a column is col\('x'\)"):
        rows(READINGS.select(y=halved("x")))


def test_errors_of_functions_show_values_and_line() -> None:
    stream = READINGS.select(y=udf(lambda x: 1 // (x - 3), returns="int64")(col("x")))
    with pytest.raises(EvaluationError) as raised:
        rows(stream)
    assert "raised ZeroDivisionError" in str(raised.value)
    assert "for (3) at " in str(raised.value)
    assert "test_user_steps.py:" in str(raised.value)
    with pytest.raises(EvaluationError, match="returned 'a', which is not int64"):
        rows(READINGS.select(y=udf(lambda x: "a", returns="int64")(col("x"))))
    with pytest.raises(EvaluationError, match=r"returned 1 values for \d rows"):
        rows(READINGS.select(y=udf(lambda x: [1], returns="int64", vectorised=True)(col("x"))))


@pytest.mark.parametrize("vectorised", [False, True])
def test_an_interrupt_is_not_reported_as_an_error_of_a_udf(vectorised: bool) -> None:
    """Constant folding postpones an EvaluationError, but must not postpone Ctrl-C."""

    def interrupted(_: Any) -> Any:
        raise KeyboardInterrupt

    code = udf(interrupted, returns=int, vectorised=vectorised)  # type: ignore[call-overload]
    with pytest.raises(KeyboardInterrupt):
        rows(READINGS.select(y=code(col("x"))))


class NoOutput(KeyedProcess):
    output = {"k": "int64"}  # noqa: RUF012

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        pass


class Undeclared(KeyedProcess):
    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        self.other = 1


class UndeclaredSum(KeyedProcess):
    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        self.total += 1  # type: ignore[attr-defined]


class BadField(KeyedProcess):
    seen: dict  # type: ignore[type-arg]

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        pass


class BadDefault(KeyedProcess):
    n: int = "a"  # type: ignore[assignment]

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        pass


class WithInit(KeyedProcess):
    def __init__(self) -> None:
        pass

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        pass


class NoneDeclared(KeyedProcess):
    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        pass


class Silent(KeyedProcess):
    pass


KEYED = READINGS.group_by("k")
WRONG: Any = {"nulls": "drop", "policy": "ignore", "code": 3, "process": Gaps}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: KEYED.process(WRONG["process"]), "takes a subclass of KeyedProcess"),
        (lambda: KEYED.process(Silent), "it has no method on_event"),
        (lambda: KEYED.process(NoOutput), "a key already has the name 'k'"),
        (lambda: KEYED.process(Undeclared), "sets self.other, which is no field; declare it"),
        (lambda: KEYED.process(UndeclaredSum), "sets self.total, which is no field; declare it"),
        (lambda: KEYED.process(BadField), "'seen': its type must be one of int, float"),
        (lambda: KEYED.process(BadDefault), "'n': the default 'a' is not int"),
        (lambda: KEYED.process(WithInit), "remove its __init__"),
        (lambda: KEYED.process(NoneDeclared), r"declares no output; .* output = \{\} for"),
        (lambda: READINGS.group_by().process(Count), "it needs a key"),
        (lambda: KEYED.process(Count, on_error=WRONG["policy"]), "on_error='ignore': choose"),
        (
            lambda: READINGS.apply(WRONG["code"], {"a": "int64"}),
            r"apply\(\) takes a function, not 3",
        ),
        (lambda: READINGS.apply(doubled, {}), "its schema has no columns"),
        (lambda: READINGS.apply(doubled, ["a"]), "a schema must be a dict"),
        (lambda: READINGS.transform(Count, {"a": "int64"}), "it has no method 'execute'"),
        (lambda: udf(WRONG["code"], returns="int64"), r"udf\(\) takes a function, not 3"),
        (lambda: udf(len, returns="int64", nulls=WRONG["nulls"]), "nulls='drop'"),
        (lambda: udf(lambda x: x, returns="int64")(1, 2), "does not take 2 arguments"),
    ],
)
def test_mistakes_are_reported_at_the_line(make: Any, message: str) -> None:
    with pytest.raises(InvalidPlanError, match=message):
        make()


def test_dead_letters_have_their_own_folders() -> None:
    stream = READINGS.apply(doubled, {"x": "int64"}, on_error="dead_letter")
    stream = stream.apply(lambda b: {"x": b.column("x")}, {"x": "int64"}, on_error="dead_letter")
    stream = stream.apply(lambda b: {"x": b.column("x")}, {"x": "int64"}, on_error="dead_letter")
    plan = lower(stream.to_parquet(), root="R")
    assert sorted(plan.side_streams()) == [
        *("dead_letters/doubled", "dead_letters/lambda", "dead_letters/lambda-2"),
    ]
    assert "on_error=dead_letter" in explain(plan)


def test_nondeterministic_code_is_detected() -> None:
    stream = READINGS.apply(doubled, {"twice": "int64"}, deterministic=False)
    (operator,) = [o for v in lower(stream.to_parquet(), root="R").vertices for o in v.operators][
        :1
    ]
    assert "apply doubled, not deterministic" in explain(lower(stream.to_parquet(), root="R"))
    assert not operator.function.is_deterministic  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "argval", "found"),
    [
        ("LOAD_FAST_LOAD_FAST", ("y", "self"), [("LOAD_FAST", "y"), ("LOAD_FAST", "self")]),
        ("STORE_FAST_LOAD_FAST", ("y", "self"), [("STORE_FAST", "y"), ("LOAD_FAST", "self")]),
        ("LOAD_FAST_BORROW", "self", [("LOAD_FAST", "self")]),
        (
            "LOAD_FAST_BORROW_LOAD_FAST_BORROW",
            ("y", "self"),
            [("LOAD_FAST", "y"), ("LOAD_FAST", "self")],
        ),
        ("STORE_ATTR", "x", [("STORE_ATTR", "x")]),
    ],
)
def test_later_pythons_load_by_twos(name: str, argval: Any, found: Any) -> None:
    assert user_steps._single_loads(name, argval) == found
