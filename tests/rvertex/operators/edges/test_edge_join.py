"""Joins of rows whose ends arrive later, against the joins of intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, strategies as st

from rstream.items.batch import event_schema
from rstream.types import INF_TIME
from rvertex.operators.edges.join import EdgeJoin
from rvertex.operators.edges.living_rows import LivingRows
from rvertex.operators.joins.anti import AntiJoin
from rvertex.operators.joins.conditional import ConditionalJoin
from rvertex.operators.joins.inner import TemporalJoin
from rvertex.operators.joins.left import LeftJoin
from tests.support.budget import examples
from tests.support.builders import cti, ev, make_run
from tests.support.edges import (
    PAYLOAD,
    answer_of,
    closed_run,
    edge_run,
    ending,
    meant,
    some_ctis,
    some_rows,
    sorted_rows,
)
from tests.support.operator_harness import assert_cut_invariant

if TYPE_CHECKING:
    from rvertex.operators.protocol import OperatorSpec
    from tests.support.edges import Row

FOREVER = int(INF_TIME)
#: The harness runs each a dozen times, and there are many such tests.
EXAMPLES = examples(10)
ON = ("k",)
BOTH = (("left", "k", "k"), ("left", "x", "x"), ("right", "x", "y"))
LEFT = BOTH[:2]
READS = (BOTH[1], BOTH[2])


@dataclass(frozen=True)
class Less:
    """``x < y``."""

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        return pc.less(batch.column("x"), batch.column("y"))


WHERE = Less()


def _of_intervals(how: str) -> OperatorSpec:
    if how == "inner":
        return TemporalJoin(ON, ON, BOTH)
    if how == "left":
        return LeftJoin(ON, ON, BOTH)
    return AntiJoin(ON, ON, tuple((column, name) for _, column, name in LEFT))


@pytest.mark.parametrize("how", ["inner", "left", "anti"])
@EXAMPLES
@given(data=st.data())
def test_edges_encode_the_join_of_intervals(how: str, data: st.DataObject) -> None:
    left, right = data.draw(some_rows()), data.draw(some_rows())
    ctis = ending(data.draw(some_ctis))
    spec = EdgeJoin(ON, ON, BOTH if how != "anti" else LEFT, how)
    schemas = [PAYLOAD, PAYLOAD]
    out = assert_cut_invariant(spec, [edge_run(left, ctis), edge_run(right, ctis)], schemas)
    closed = [closed_run(left, ctis), closed_run(right, ctis)]
    whole = answer_of(_of_intervals(how), closed, schemas)
    assert meant(out) == sorted_rows(pa.Table.from_batches([whole.events]))


@pytest.mark.parametrize("how", ["inner", "left", "anti"])
@EXAMPLES
@given(data=st.data())
def test_edges_encode_the_join_with_a_condition(how: str, data: st.DataObject) -> None:
    left, right = data.draw(some_rows()), data.draw(some_rows())
    ctis = ending(data.draw(some_ctis))
    spec = EdgeJoin(ON, ON, BOTH if how != "anti" else LEFT, how, WHERE, READS)
    schemas = [PAYLOAD, PAYLOAD]
    out = assert_cut_invariant(spec, [edge_run(left, ctis), edge_run(right, ctis)], schemas)
    closed = [closed_run(left, ctis), closed_run(right, ctis)]
    if how == "inner":
        events = answer_of(_of_intervals(how), closed, schemas).events
        events = events.filter(pc.fill_null(pc.less(events.column("x"), events.column("y")), False))
    else:
        conditional = ConditionalJoin(ON, ON, spec.output, WHERE, READS, how)
        events = answer_of(conditional, closed, schemas).events
    assert meant(out) == sorted_rows(pa.Table.from_batches([events]))


def test_matches_of_left_rows_outlive_forgotten_rows() -> None:
    """When many rows have ended, the others get new numbers, and so do their match counts."""
    operator = EdgeJoin(ON, ON, BOTH, "left", WHERE, READS).open([PAYLOAD, PAYLOAD])
    gone = [ev(t, t + 2, k=2, x=0) for t in range(6_000)]
    left = [ev(1, FOREVER, k=1, x=0), *gone]
    left.append(cti(7_000))
    right = [ev(2, FOREVER, k=1, x=5), cti(7_000)]
    operator.process([make_run(left, PAYLOAD), make_run(right, PAYLOAD)])
    empty = make_run([cti(7_002)], PAYLOAD)
    out = operator.process([empty, make_run([ev(7_001, 2, k=1, x=5), cti(7_002)], PAYLOAD)])
    assert [(e["_vs"], e["_ve"], e["y"]) for e in out.events.to_pylist()] == [
        (7_001, 2, 5),
        (7_001, FOREVER, None),
    ]


def test_a_point_joined_with_a_current_row_is_emitted_at_once() -> None:
    orders = make_run([ev(3, k=1, x=7), cti(4)], PAYLOAD)
    prices = make_run([ev(1, 2**63 - 1, k=1, x=9), cti(4)], PAYLOAD)
    out = answer_of(EdgeJoin(ON, ON, BOTH), [orders, prices], [PAYLOAD, PAYLOAD])
    assert out.events.to_pylist() == [{"_vs": 3, "_ve": 4, "k": 1, "x": 7, "y": 9}]
    assert out.ctis.tolist() == [4]


def test_a_left_row_is_unmatched_until_a_match_starts() -> None:
    left = make_run([ev(1, 2**63 - 1, k=1, x=7), cti(6)], PAYLOAD)
    right = make_run([ev(5, 2**63 - 1, k=1, x=9), cti(6)], PAYLOAD)
    out = answer_of(EdgeJoin(ON, ON, BOTH, "left"), [left, right], [PAYLOAD, PAYLOAD])
    assert [(e["_vs"], e["_ve"], e["y"]) for e in out.events.to_pylist()] == [
        (1, 2**63 - 1, None),
        (5, 1, None),
        (5, 2**63 - 1, 9),
    ]


def _alive(rows: list[Row]) -> int:
    return sum(row.ve == 2**63 - 1 for row in rows)


@given(some_rows(), some_rows())
def test_the_state_contains_only_current_rows(left: list[Row], right: list[Row]) -> None:
    ctis = [2**62]
    operator = EdgeJoin(ON, ON, BOTH, "left").open([PAYLOAD, PAYLOAD])
    operator.process([edge_run(left, ctis), edge_run(right, ctis)])
    operator.check()
    again = EdgeJoin(ON, ON, BOTH, "left").open([PAYLOAD, PAYLOAD])
    again.load(operator.snapshot())
    kept = again.snapshot().tables
    assert kept["left"].num_rows == _alive(left)
    assert kept["right"].num_rows == _alive([row for row in right if row.k is not None])


def test_a_changing_key_is_cheap_among_many_current_rows() -> None:
    """The cost of a probe depends on the number of valid rows only."""
    schema = event_schema(PAYLOAD)
    rows = LivingRows(schema)
    many = 20_000
    rows.add(
        make_run([ev(0, FOREVER, k=k, x=0) for k in range(many)], PAYLOAD).events, np.arange(many)
    )
    hot = np.array([0])
    for t in range(1, 3_000):
        rows.add(make_run([ev(t, FOREVER, k=0, x=t)], PAYLOAD).events, hot)
        rows.set_ends(np.array([len(rows) - 1]), np.array([t + 1]))
    rows.check()
    assert len(rows.find(hot)[1]) < 50
