"""APPLY and TRANSFORM with any cuts; their errors; poison events row by row.

Not covered: code that is not row by row but passes with all cuts here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given

from rstream.types import INF_TIME
from rvertex.checkpoint.conversion import Place, converted_state
from rvertex.events.run import NO_CTIS, Run
from rvertex.operators.protocol import held_tables
from rvertex.operators.user.apply import Apply
from rvertex.operators.user.transform import UserOperator
from rvertex.user_code.code import OnError, UserCode
from rvertex.user_code.context import ValueJournal
from rvertex.user_code.errors import CutDependentError, UserCodeError, UserResultError
from tests.support.budget import examples
from tests.support.builders import Item, cti, ev, make_run, table_of
from tests.support.operator_harness import assert_cut_invariant
from tests.support.strategies import PAYLOAD, runs, splits

if TYPE_CHECKING:
    from collections.abc import Callable

XY = pa.schema([("x", pa.int64())])
POLICIES: tuple[OnError, ...] = ("skip", "dead_letter")


def applied(
    function: Callable[[pa.RecordBatch], Any], schema: pa.Schema = XY, **options: Any
) -> Apply:
    return Apply(UserCode(function.__name__, function), schema, **options)


def repeated(batch: pa.RecordBatch) -> Any:
    """Repeat row i of the stream |n| % 3 times; raise if x is 2."""
    if pc.any(pc.equal(batch.column("x"), 0.1)).as_py():
        raise ValueError("a tenth")
    rows = [i for i, n in enumerate(batch.column("n").to_pylist()) for _ in range((n or 0) % 3)]
    return pa.table({"_row": rows, "n": batch.column("n").take(pa.array(rows, pa.int64()))})


@pytest.mark.parametrize("on_error", POLICIES)
@given(run=runs(duration_max=4), cuts=splits())
@examples(15)
def test_apply_with_any_batch_boundaries(run: Run, cuts: list[int], on_error: OnError) -> None:
    spec = applied(repeated, pa.schema([("n", pa.int64())]), on_error=on_error)
    assert_cut_invariant(spec, [run], [PAYLOAD], cuts)


@given(run=runs(duration_max=4), cuts=splits())
@examples(10)
def test_apply_without_poison_needs_no_history(run: Run, cuts: list[int]) -> None:
    def same(batch: pa.RecordBatch) -> Any:
        return {"n": batch.column("n"), "_row": np.arange(batch.num_rows)}

    spec = applied(same, pa.schema([("n", pa.int64())]))
    assert spec.horizon_us((None,)) == 0
    assert applied(same, XY, on_error="skip").horizon_us((5,)) is None
    out = assert_cut_invariant(spec, [run], [PAYLOAD], cuts)
    assert out.events.column("n").equals(run.events.column("n"))


RUN = make_run([*(ev(t, 9, x=t) for t in range(6)), cti(6)], XY)


def process(spec: Apply | UserOperator, run: Run = RUN) -> list[Item]:
    return table_of(spec.open([XY]).process([run]))


@pytest.mark.parametrize(
    "function",
    [
        lambda b: b,
        lambda b: pa.Table.from_batches([b]),
        lambda b: {"x": b.column("x").to_pylist()},
        lambda b: {"x": b.column("x").to_numpy(), "more": [1]},
        lambda b: b.to_pandas(),
        lambda b: {"x": pa.chunked_array([b.column("x").cast(pa.int32())])},
    ],
)
def test_allowed_results_of_apply(function: Any) -> None:
    assert process(applied(function)) == table_of(RUN)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda b: 3, "it returned int; return a RecordBatch"),
        (lambda b: {"y": []}, "no column 'x'; it has y"),
        (lambda b: {"x": [1]}, "has 1 rows, where 6 are expected; to return fewer or"),
        (lambda b: {"x": [1], "_row": [6]}, "must have numbers from 0 to 5, ascending"),
        (lambda b: {"x": [1, 2], "_row": [2, 1]}, "ascending"),
        (lambda b: {"x": [1], "_row": [None]}, "has nulls"),
        (lambda b: {"x": [1, 2], "_row": [0]}, "has 2 rows, where 1 are expected"),
        (lambda b: {"x": b[2], "y": 1 // (6 - b.num_rows)}, "not on smaller parts of them: its"),
    ],
)
@pytest.mark.parametrize("on_error", ["fail", "skip"])
def test_results_of_the_wrong_shape(function: Any, message: str, on_error: OnError) -> None:
    if on_error == "skip" and "on smaller parts" in message:
        return
    with pytest.raises(UserResultError, match=message):
        process(applied(function, on_error=on_error))


def odd(batch: pa.RecordBatch) -> Any:
    for x in batch.column("x").to_pylist():
        if x % 2:
            raise ValueError(x)
    return batch


def test_a_row_is_poison_if_the_function_fails_on_it_alone() -> None:
    with pytest.raises(UserCodeError, match=r"ValueError: 1 at .*\non event 1 .*\[1, 9\): x=1\n"):
        process(applied(odd))
    spec = applied(odd, on_error="dead_letter")
    operator = spec.open([XY])
    assert table_of(operator.process([RUN])) == [*(ev(t, 9, x=t) for t in (0, 2, 4)), cti(6)]
    (letters,) = operator.drain_side_outputs()
    assert letters.column("seq").to_pylist() == [1, 3, 5]
    assert letters.column("x").to_pylist() == [1, 3, 5]
    assert operator.poisoned_events == 3
    with pytest.raises(UserCodeError, match="Could not convert 'a'"):
        process(applied(lambda b: {"x": ["a"] * b.num_rows}))


def test_results_for_other_batches_are_compared_on_request() -> None:
    def total(batch: pa.RecordBatch) -> Any:
        return {"x": np.cumsum(batch.column("x").to_numpy())}

    assert process(applied(lambda b: b, check_cuts=True)) == table_of(RUN)
    with pytest.raises(CutDependentError, match="total: row 2 of a batch of 6 gets another value"):
        process(applied(total, check_cuts=True))
    # Each call returns its first row, so calls row by row return more than one call.
    with pytest.raises(CutDependentError, match="row 1 of a batch of 6"):
        process(applied(lambda b: {"x": b.column("x").slice(0, 1), "_row": [0]}, check_cuts=True))


class Changes:
    """Rows whose n differs from the previous one; emitted late, at the next row or CTI."""

    def __init__(self) -> None:
        self.last: list[Any] = []
        self.count = 0

    def open(self, ctx: Any) -> None:
        self.ctx = ctx

    def execute(self, events: pa.RecordBatch, ctis: list[int]) -> Any:
        rows = []
        for vs, ve, n in zip(events[0].to_pylist(), events[1].to_pylist(), events["n"].to_pylist()):  # noqa: B905  columns of one batch
            self.count += 1
            if n is not None and n < 0:
                raise ValueError("negative")
            if self.last != [n]:
                rows.append((vs, ve, n, self.count))
            self.last = [n]
        table = {name: [row[k] for row in rows] for k, name in enumerate(("_vs", "_ve", "n", "c"))}
        return table, ctis

    def get_snapshot(self) -> dict[str, Any]:
        return {"last": self.last, "table": pa.table({"count": [self.count]})}

    def load(self, state: dict[str, Any]) -> None:
        self.last, self.count = state["last"], state["table"].column("count")[0].as_py()


NC = pa.schema([("n", pa.int64()), ("c", pa.int64())])


@pytest.mark.parametrize("on_error", POLICIES)
@given(run=runs(duration_max=4), cuts=splits())
@examples(4)
def test_transform_with_any_batch_boundaries(run: Run, cuts: list[int], on_error: OnError) -> None:
    spec = UserOperator(UserCode("Changes", Changes), NC, on_error)
    assert_cut_invariant(spec, [run], [PAYLOAD], cuts)


def test_a_failing_transform_shows_the_line() -> None:
    spec = UserOperator(UserCode("Changes", Changes()), NC)
    run = make_run([ev(1, k=1, n=1), ev(2, k=1, n=-1)], PAYLOAD)
    with pytest.raises(UserCodeError, match=r"negative at .*\n.*the first of 2 events given"):
        spec.open([PAYLOAD]).process([run])


class Says:
    """Returns its constructor's argument."""

    def __init__(self, result: Any = None, state: Any = None) -> None:
        self.result, self.state = result, {} if state is None else state

    def execute(self, events: pa.RecordBatch, ctis: list[int]) -> Any:
        return self.result

    def get_snapshot(self) -> Any:
        return self.state

    def load(self, state: Any) -> None:
        self.state = state


def rows(*vs: int, ve: int = 99) -> dict[str, Any]:
    return {"_vs": list(vs), "_ve": [ve] * len(vs), "x": list(vs)}


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (rows(3, 2), "not in vs order"),
        (rows(3, ve=3), "without vs < ve"),
        ((rows(3), [5, 4]), "CTIs that do not increase"),
        ((rows(3), []), r"has to return CTI\(INF\) as well"),
        ((1, 2, 3), r"returns rows, or \(rows, ctis\)"),
        ({"x": [1]}, "no column '_vs'"),
    ],
)
def test_transforms_must_return_a_valid_stream(result: Any, message: str) -> None:
    run = Run(RUN.events, np.array([6, INF_TIME]))
    with pytest.raises(UserResultError, match=message):
        process(UserOperator(UserCode("Says", Says(result)), XY), run)


@pytest.mark.parametrize(
    ("state", "message"), [([1], "has to return a dict"), ({"a": object}, "plain values and")]
)
def test_the_state_of_a_transform_is_plain_values(state: Any, message: str) -> None:
    operator = UserOperator(UserCode("Says", Says(state=state)), XY).open([XY])
    with pytest.raises(UserResultError, match=message):
        operator.snapshot()


def test_a_table_of_a_transform_may_have_any_name() -> None:
    """It is not mistaken for an index, which a changed job and a listing of state leave out."""
    spec = UserOperator(UserCode("Says", Says(state={"left#runs": pa.table({"x": [1]})})), XY)
    operator = spec.open([XY])
    state = operator.snapshot()
    assert list(held_tables(operator)) == list(state.tables) == ["user left#runs"]
    place = Place(0, spec, (XY,))
    assert converted_state(place, place, state) == state


class Draws(Says):
    def open(self, ctx: Any) -> None:
        self.ctx = ctx

    def execute(self, events: pa.RecordBatch, ctis: list[int]) -> Any:
        vs = events.column("_vs").to_pylist()
        times = [self.ctx.lookup(abs, -t) + self.ctx.now() for t in vs]
        return {"_vs": vs, "_ve": events.column("_ve"), "x": times}


class Fixed:
    def now_us(self) -> int:
        return 1000

    def random(self) -> float:
        return 0.5


def test_transforms_use_logged_values() -> None:
    operator = UserOperator(UserCode("Draws", Draws), XY).open([XY])
    journal = ValueJournal()
    operator.use_values(journal, Fixed())
    out = operator.process([Run(RUN.events, NO_CTIS)])
    assert out.events.column("x").to_pylist() == [1000 + t for t in range(6)]
    assert journal.next_index == 12
    assert operator.snapshot().header["drawn"] == 12
