"""Groups of an open pane, folded in piece by piece, against all rows in one pass.

Keys are dense, sparse, below the first ones, or null. Rows are cut anywhere, and the groups are
saved and restored between any two pieces.

Not covered: a lane with the same error in both (see ``test_aggregate.py``).
"""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from rvertex.aggregates.accumulators import CountRows, CountValues, Extreme, SumFloat
from rvertex.aggregates.exact_sums import ExactSum
from rvertex.keys.direct_keys import SPAN_MIN, OffsetKeys
from rvertex.operators.windows.grouping import Grouping, OpenGroups, closed_groups
from rvertex.operators.windows.panes.row_lifetimes import with_lifetime
from tests.support.budget import one_in

if TYPE_CHECKING:
    from rvertex.aggregates.accumulators import Accumulator

ROWS = 6_000
#: How keys are drawn, and the width of their range.
KEYS = {
    "close together": [(10**12, 900)],
    "on the move": [(i * 40, 100) for i in range(200)],
    "going down": [(-i * 40, 100) for i in range(200)],
    "some far away": [(0, 900)] * 30 + [(2**63 - 5, 4), (-(2**63), 4), (SPAN_MIN, 9_000)],
    "far apart at first": [(0, 2**60)] * 5 + [(0, 10)] * 200,
    "wider than the rows": [(0, 5_000), (3 * SPAN_MIN, 5_000)],
}


def accumulators() -> list[Accumulator]:
    return [
        CountRows(),
        CountValues("n"),
        ExactSum("n", pa.int64()),
        SumFloat("x"),
        Extreme("n", pa.int64(), is_max=False),
        Extreme("x", pa.float64(), is_max=True),
        Extreme("b", pa.bool_(), is_max=True),
        Extreme("b", pa.bool_(), is_max=False),
    ]


def events(name: str, seed: int, kind: pa.DataType, *, nulls: bool) -> pa.RecordBatch:
    draw = random.Random(seed)
    ranges = KEYS[name]
    picked = [ranges[i * len(ranges) // ROWS] for i in range(ROWS)]
    keys: list[int | None] = [base + draw.randrange(width) for base, width in picked]
    if nulls:
        keys = [None if draw.random() < 0.1 else key for key in keys]
    n = [None if draw.random() < 0.3 and i > ROWS // 2 else draw.randrange(9) for i in range(ROWS)]
    x = [draw.choice([0.1, 1e17, -1e17, float("nan"), None]) for _ in range(ROWS)]
    b = [draw.random() < 0.2 for _ in range(ROWS)]
    times = pa.array(range(ROWS), pa.int64())
    return pa.record_batch(
        {"_vs": times, "k": pa.array(keys, pa.int64()).cast(kind), "n": n, "x": x, "b": b}
    )


def said(keys: list[pa.Array], lanes: list[pa.Array]) -> str:
    """All columns; doubles with all their digits."""
    return str([column.to_pylist() for column in (*(k.cast(pa.int64()) for k in keys), *lanes)])


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("name", one_in(2, KEYS))
def test_several_batches_equal_one(name: str, nulls: bool) -> None:
    kind = pa.int64() if nulls else pa.timestamp("us")
    rows = events(name, 3, kind, nulls=nulls)
    grouping = Grouping(("k",), (kind,), accumulators)
    _, keys, lanes = closed_groups(grouping, rows, np.zeros(ROWS, np.int64), None)
    expected = said(keys, lanes)
    draw = random.Random(5)
    for pieces, is_restored in [(1, False), (3, False), (3, True), (40, True), (7, False)]:
        groups = OpenGroups(grouping)
        cuts = sorted(draw.randrange(ROWS) for _ in range(pieces - 1))
        for lo, hi in itertools.pairwise([0, *cuts, ROWS]):
            groups.update(rows.slice(lo, hi - lo))
            if is_restored:
                saved = groups.save()
                groups = OpenGroups(grouping)
                groups.restore(saved)
        assert len(groups) == len(keys[0])
        ((keys, lanes),) = groups.results()
        assert all(key.type == kind for key in keys)
        assert said(keys, lanes) == expected


def test_saved_groups_do_not_change() -> None:
    rows = events("some far away", 9, pa.int64(), nulls=True)
    grouping = Grouping(("k",), (pa.int64(),), accumulators)
    groups = OpenGroups(grouping)
    groups.update(rows.slice(0, 3_000))
    saved = groups.save()
    before = {name: table.to_pylist() for name, table in saved.items()}
    groups.update(rows.slice(3_000))
    groups.save()
    assert str({name: table.to_pylist() for name, table in saved.items()}) == str(before)


def test_keys_close_together_need_no_index() -> None:
    assert OffsetKeys.beginning(pa.array([5, 900, 7])) is not None
    assert OffsetKeys.beginning(pa.array([5, 10**9])) is None
    assert OffsetKeys.beginning(pa.array([5, None])) is None
    assert OffsetKeys.beginning(pa.array(["a"])) is None


@pytest.mark.parametrize("is_session", [False, True])
def test_groups_of_close_keys_are_not_in_the_index(is_session: bool) -> None:
    rows = events("close together", 3, pa.int64(), nulls=False)
    rows = rows.append_column("_ve", rows.column("_vs"))

    def made() -> list[Accumulator]:
        return with_lifetime(accumulators()) if is_session else accumulators()

    groups = OpenGroups(Grouping(("k",), (pa.int64(),), made))
    groups.update(rows)
    assert len(groups) > 100
    assert groups.save()["key0"].num_rows == 0


def test_keys_at_both_limits_of_their_type_keep_their_order() -> None:
    least, greatest = -(2**63), 2**63 - 1
    grouping = Grouping(("k",), (pa.int64(),), lambda: [CountRows()])
    for first, then in ((greatest, least), (least, greatest), (greatest - 9, least + 9)):
        groups = OpenGroups(grouping)
        for key in (first, then, first):
            groups.update(pa.record_batch({"_vs": [0] * 2_000, "k": [key] * 2_000}))
        ((keys, lanes),) = groups.results()
        assert keys[0].to_pylist() == sorted([first, then])
        assert sorted(lanes[0].to_pylist()) == [2_000, 4_000]


def test_the_direct_range_is_at_most_four_times_the_rows_also_after_a_restore() -> None:
    column = pa.array(range(0, 4 * SPAN_MIN, 3))
    keys = OffsetKeys.beginning(column)
    assert keys is not None
    codes, _ = keys.codes(column, grows=True)
    keys.add(codes)
    restored = OffsetKeys.restore(pa.int64(), keys.save())
    assert restored.groups == keys.groups
    for either in (keys, restored):
        _, mask = either.codes(pa.array([9 * SPAN_MIN]), grows=True)
        assert mask is not None
        assert not mask.any()
