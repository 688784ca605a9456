"""Clip and stitch of rows whose ends arrive later, against intervals."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given

from rstream.types import INF_TIME
from rvertex.aggregates.spec import AggregateSpec
from rvertex.errors import UnboundedLifetimeError
from rvertex.operators.edges.aggregate import EdgeAggregate
from rvertex.operators.edges.lifetimes.clip import EdgeClip
from rvertex.operators.edges.of_begins import NUMBER, EdgeOfBegins
from rvertex.operators.edges.spread import EdgeSpread
from rvertex.operators.edges.windows import EdgeWindows
from rvertex.operators.joins.as_of import AsOfJoin
from rvertex.operators.lifetimes.begins import Begins
from rvertex.operators.lifetimes.clip import Clip
from rvertex.operators.lifetimes.point_at_end import PointAtEnd
from rvertex.operators.lifetimes.set_duration import SetDuration
from rvertex.operators.lifetimes.stitch import Stitch
from rvertex.operators.ordered.deduplicate import Deduplicate
from rvertex.operators.ordered.limit import Limit
from rvertex.operators.windows.hopping import WindowAggregate
from rvertex.operators.windows.running.frames import FrameAggregate
from tests.support.budget import examples
from tests.support.builders import cti, ev, make_run
from tests.support.edges import (
    PAYLOAD,
    Row,
    answer_of,
    begins,
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
    from rvertex.operators.edges.join import Columns
    from rvertex.operators.joins.as_of import Strategy

FOREVER = int(INF_TIME)
#: The harness runs each a dozen times, and there are many such tests.
EXAMPLES = examples(12)
ON = ("k",)


@EXAMPLES
@given(some_rows(), some_rows(), some_ctis)
def test_clip_equals_that_of_intervals(left: list[Row], right: list[Row], ctis: list[int]) -> None:
    ctis = ending(ctis)
    schemas = [PAYLOAD, PAYLOAD]
    runs = [edge_run(left, ctis), edge_run(right, ctis)]
    out = assert_cut_invariant(EdgeClip(ON, ON), runs, schemas)
    whole = answer_of(Clip(ON, ON), [closed_run(left, ctis), closed_run(right, ctis)], schemas)
    assert meant(out) == sorted_rows(pa.Table.from_batches([whole.events]))


def test_a_version_is_emitted_at_once_and_ends_with_the_next() -> None:
    rows = [ev(1, FOREVER, k=1, x=3), ev(4, FOREVER, k=1, x=1), cti(5)]
    run = make_run(rows, PAYLOAD)
    out = answer_of(EdgeClip(ON, ON), [run, run], [PAYLOAD, PAYLOAD])
    assert [(e["_vs"], e["_ve"], e["x"]) for e in out.events.to_pylist()] == [
        (1, FOREVER, 3),
        (4, 1, 3),
        (4, FOREVER, 1),
    ]


@EXAMPLES
@given(some_rows(), some_ctis)
def test_stitch_equals_that_of_intervals(rows: list[Row], ctis: list[int]) -> None:
    ctis = ending(ctis)
    spec = EdgeAggregate(("k", "x"), (), by_arrival=True)
    out = assert_cut_invariant(spec, [edge_run(rows, ctis)], [PAYLOAD])
    whole = answer_of(Stitch(("k", "x")), [closed_run(rows, ctis)], [PAYLOAD])
    assert meant(out) == sorted_rows(pa.Table.from_batches([whole.events]))
    assert begins(out) == begins(whole), "the order of rows that begin together"


def test_ended_rows_are_forgotten() -> None:
    operator = EdgeAggregate(("k", "x"), ()).open([PAYLOAD])
    for start in range(0, 50_000, 5_000):
        rows = [ev(t, t + 1, k=t, x=1) for t in range(start, start + 5_000)]
        operator.process([make_run([*rows, cti(start + 5_001)], PAYLOAD)])
    assert operator.snapshot().tables["groups"].num_rows < 15_000


@EXAMPLES
@given(some_rows(), some_ctis)
def test_every_row_has_a_start_and_an_end(rows: list[Row], ctis: list[int]) -> None:
    ctis = ending(ctis)
    out = assert_cut_invariant(EdgeSpread(), [edge_run(rows, ctis)], [PAYLOAD])
    assert meant(out) == meant(closed_run(rows, ctis))
    ends = sum(row.ve != FOREVER for row in rows)
    assert [e["_ve"] < e["_vs"] for e in out.events.to_pylist()].count(True) == ends
    assert out.events.num_rows == len(rows) + ends


@EXAMPLES
@given(some_rows(), some_ctis)
def test_starts_equal_those_of_intervals(rows: list[Row], ctis: list[int]) -> None:
    ctis = ending(ctis)
    out = assert_cut_invariant(Begins(), [edge_run(rows, ctis)], [PAYLOAD])
    whole = answer_of(SetDuration(1), [closed_run(rows, ctis)], [PAYLOAD])
    assert meant(out) == meant(whole)


@EXAMPLES
@given(some_rows(), some_ctis)
def test_points_at_ends_equal_those_of_intervals(rows: list[Row], ctis: list[int]) -> None:
    ctis = ending(ctis)
    out = assert_cut_invariant(PointAtEnd(), [edge_run(rows, ctis)], [PAYLOAD])
    whole = answer_of(PointAtEnd(), [closed_run(rows, ctis)], [PAYLOAD])
    assert meant(out) == meant(whole)


SUMS = (AggregateSpec("count", None, "n"), AggregateSpec("sum", "x", "s"))
KEEPING = {
    "first": Deduplicate(ON, int(INF_TIME)),
    "first within": Deduplicate(ON, 4),
    "rows": FrameAggregate(ON, True, 2, 0, SUMS),
    "time": FrameAggregate(ON, False, 3, 0, SUMS),
    "so far": FrameAggregate(ON, False, None, 0, SUMS),
    "limit": Limit(4),
}


@pytest.mark.parametrize("name", KEEPING)
@EXAMPLES
@given(rows=some_rows(), ctis=some_ctis)
def test_steps_over_starts_equal_those_of_intervals(
    name: str, rows: list[Row], ctis: list[int]
) -> None:
    """Equal rows with the same start end together here, because their order is undefined."""
    ends = {(row.vs, row.k, row.x): row for row in rows}
    rows = [ends[row.vs, row.k, row.x] for row in rows]
    ctis = ending(ctis)
    spec = KEEPING[name]
    out = assert_cut_invariant(EdgeOfBegins(spec), [edge_run(rows, ctis)], [PAYLOAD])
    whole = answer_of(spec, [closed_run(rows, ctis)], [PAYLOAD])
    assert meant(out) == meant(whole)


@pytest.mark.parametrize("strategy", ["backward", "forward", "nearest"])
@EXAMPLES
@given(left=some_rows(), right=some_rows(), ctis=some_ctis)
def test_as_of_joins_equal_those_of_intervals(
    strategy: Strategy, left: list[Row], right: list[Row], ctis: list[int]
) -> None:
    ctis = ending(ctis)
    columns: Columns = (("left", "k", "k"), ("left", "x", "x"), ("right", "x", "y"))
    whole = AsOfJoin(ON, ON, columns, strategy, 3, True)
    numbered = replace(whole, output=(*columns, ("left", NUMBER, NUMBER)))
    schemas = [PAYLOAD, PAYLOAD]
    runs = [edge_run(left, ctis), closed_run(right, ctis)]
    out = assert_cut_invariant(EdgeOfBegins(numbered), runs, schemas)
    closed = [closed_run(left, ctis), closed_run(right, ctis)]
    assert meant(out) == meant(answer_of(whole, closed, schemas))


@pytest.mark.parametrize(("size", "every"), [(4, 4), (6, 2), (2, 5)])
@EXAMPLES
@given(rows=some_rows(), ctis=some_ctis)
def test_windows_of_current_rows_equal_those_of_intervals(
    size: int, every: int, rows: list[Row], ctis: list[int]
) -> None:
    rows = [row for row in rows if row.ve != FOREVER]
    ctis = ending(ctis)
    spec = EdgeWindows(ON, size, every, SUMS)
    out = assert_cut_invariant(spec, [edge_run(rows, ctis)], [PAYLOAD])
    whole = WindowAggregate(ON, size, every, SUMS, False)
    assert meant(out) == meant(answer_of(whole, [closed_run(rows, ctis)], [PAYLOAD]))


def test_windows_are_emitted_while_a_row_is_current() -> None:
    operator = EdgeWindows((), 10, 10, SUMS).open([PAYLOAD])
    out = operator.process([make_run([ev(3, FOREVER, k=1, x=2), cti(30)], PAYLOAD)])
    assert [(e["_vs"], e["n"]) for e in out.events.to_pylist()] == [(0, 1), (10, 1), (20, 1)]
    with pytest.raises(UnboundedLifetimeError):
        operator.process([make_run([cti(FOREVER)], PAYLOAD)])
