"""FILTER, PROJECT and EXPLODE: any cuts, equal to a row-by-row evaluation, and zero copy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given

from rvertex.errors import OperatorTypeError, UnknownColumnError
from rvertex.operators.explode import Explode
from rvertex.operators.filter import Filter
from rvertex.operators.project import Project
from rvertex.operators.protocol import evaluate_all
from tests.support.budget import examples
from tests.support.builders import cti, ev, make_run, table_of
from tests.support.operator_harness import assert_cut_invariant
from tests.support.strategies import PAYLOAD, runs, splits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.events.run import Run

LISTS = pa.schema([("k", pa.int64()), ("tags", pa.list_(pa.string()))])


@dataclass(frozen=True)
class AtLeast:
    """``column >= least``; null where the column is null."""

    column: str
    least: int

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        return pc.greater_equal(batch.column(self.column), self.least)


@dataclass(frozen=True)
class Twice:
    """``column + column``."""

    column: str

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        return pc.add(batch.column(self.column), batch.column(self.column))


@examples(10)
@given(run=runs(duration_max=5), cuts=splits())
def test_filter_keeps_true_and_drops_null(run: Run, cuts: list[int]) -> None:
    out = assert_cut_invariant(Filter(AtLeast("n", 0)), [run], [PAYLOAD], cuts)
    expected = [row for row in run.events.to_pylist() if row["n"] is not None and row["n"] >= 0]
    assert repr(out.events.to_pylist()) == repr(expected)
    assert out.ctis.tolist() == run.ctis.tolist()


def test_filter_shares_its_input_when_all_are_kept() -> None:
    run = make_run([ev(1, 5, n=1), ev(2, 3, n=2), cti(4)], PAYLOAD)
    operator = Filter(AtLeast("n", 0)).open([PAYLOAD])
    assert operator.process([run]).events is run.events


def test_filter_needs_a_boolean() -> None:
    with pytest.raises(OperatorTypeError, match="needs a boolean, got int64"):
        Filter(Twice("n")).output_schema([PAYLOAD])


@examples(40)
@given(run=runs(duration_max=5), cuts=splits())
def test_project_renames_and_computes(run: Run, cuts: list[int]) -> None:
    spec = Project((("key", "k"), ("twice", Twice("n"))))
    out = assert_cut_invariant(spec, [run], [PAYLOAD], cuts)
    expected = [
        {
            "_vs": row["_vs"],
            "_ve": row["_ve"],
            "key": row["k"],
            "twice": None if row["n"] is None else 2 * row["n"],
        }
        for row in run.events.to_pylist()
    ]
    assert out.events.to_pylist() == expected


def test_project_shares_columns_named_by_their_source() -> None:
    run = make_run([ev(1, 5, s="a"), ev(2, 3, s="b")], PAYLOAD)
    out = Project((("t", "s"),)).open([PAYLOAD]).process([run])
    ours, theirs = out.events.column("t").buffers(), run.events.column("s").buffers()
    assert [b and b.address for b in ours] == [b and b.address for b in theirs]


def test_project_names_an_unknown_column() -> None:
    with pytest.raises(UnknownColumnError, match="no column 'nope'; the columns are k, n, x, s"):
        Project((("a", "nope"),)).output_schema([PAYLOAD])


@examples(40)
@given(run=runs(LISTS, duration_max=5), cuts=splits())
def test_explode_returns_a_row_per_element(run: Run, cuts: list[int]) -> None:
    out = assert_cut_invariant(Explode("tags"), [run], [LISTS], cuts)
    expected = [row | {"tags": tag} for row in run.events.to_pylist() for tag in row["tags"] or []]
    assert out.events.to_pylist() == expected
    assert out.ctis.tolist() == run.ctis.tolist()


def test_explode_returns_the_rows_computed_by_hand() -> None:
    run = make_run([ev(3, k=1, tags=["b", None]), ev(3, k=2, tags=[]), cti(3), ev(1)], LISTS)
    out = Explode("tags").open([LISTS]).process([run])
    assert table_of(out) == [cti(3), ev(3, k=1, tags="b"), ev(3, k=1, tags=None)]


def test_explode_ignores_elements_hidden_by_a_null_list() -> None:
    hiding = pa.ListArray.from_arrays(
        pa.array([0, 2, 3, 4], pa.int32()),
        pa.array(list("abcd")),
        mask=pa.array([False, True, False]),
    )
    run = make_run([ev(3, k=k, tags=[]) for k in (1, 2, 3)], LISTS)
    events = run.events.set_column(run.events.schema.get_field_index("tags"), "tags", hiding)
    out = Explode("tags").open([LISTS]).process([replace(run, events=events)])
    assert table_of(out) == [ev(3, k=1, tags="a"), ev(3, k=1, tags="b"), ev(3, k=3, tags="d")]


def test_explode_needs_a_list() -> None:
    with pytest.raises(OperatorTypeError, match="column 'k' is int64, not a list"):
        Explode("k").output_schema([LISTS])


@dataclass(frozen=True)
class Plus:
    """``x + more``."""

    more: int

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        return pc.add(batch.column("x"), self.more)


class Shared(Plus):
    """An evaluator that computes others together with itself, as a plan's evaluators do."""

    def evaluate_with(self, others: Sequence[Shared], batch: pa.RecordBatch) -> list[pa.Array]:
        return [one.evaluate(batch) for one in (self, *others)]


@pytest.mark.parametrize("kind", [Plus, Shared])
def test_evaluators_keep_their_order(kind: type[Plus]) -> None:
    batch = pa.RecordBatch.from_pydict({"x": [1, 2]})
    for count in range(4):
        found = evaluate_all([kind(k) for k in range(count)], batch)
        assert [column.to_pylist() for column in found] == [[1 + k, 2 + k] for k in range(count)]
