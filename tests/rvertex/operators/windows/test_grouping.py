"""Groups of many windows in one pass, against Arrow's own grouping.

Not covered: a wrong order in both; ``test_aggregate.py`` compares with a naive evaluator.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from rvertex.aggregates.accumulators import CountRows
from rvertex.operators.windows.grouping import Grouping, closed_groups

LEAST, GREATEST = -(2**63), 2**63 - 1


@pytest.mark.parametrize(
    "keys",
    [
        [GREATEST, GREATEST - 3, GREATEST, GREATEST - 1],
        [LEAST + 2, LEAST, LEAST, LEAST + 5_000],
        [LEAST, GREATEST, 0, 0],
        [7, 7, 7, 7],
        [3, None, 1, None],
        [0, 10_000_000, 0, 5],
    ],
)
@pytest.mark.parametrize("windows", [[5, 5, -2, 5], [10**15, 3, 10**15, -(10**15)]])
def test_keys_close_together_or_far_apart(keys: list[int | None], windows: list[int]) -> None:
    events = pa.record_batch({"k": pa.array(keys, pa.int64())})
    grouping = Grouping(("k",), (pa.int64(),), lambda: [CountRows()])
    found, columns, lanes = closed_groups(grouping, events, np.array(windows), None)
    table = pa.table({"w": windows, "k": events.column("k")})
    expected = table.group_by(["w", "k"]).aggregate([([], "count_all")])
    expected = expected.sort_by([("w", "ascending"), ("k", "ascending")])
    assert found.tolist() == expected["w"].to_pylist()
    assert columns[0].to_pylist() == expected["k"].to_pylist()
    assert lanes[0].to_pylist() == expected["count_all"].to_pylist()


def test_more_cells_than_narrow_integers_can_count() -> None:
    rows = 60_000
    at = np.arange(rows)
    windows, keys = at * 10**9, at * 7919 % rows
    events = pa.record_batch({"k": pa.array(keys)})
    grouping = Grouping(("k",), (pa.int64(),), lambda: [CountRows()])
    found, columns, lanes = closed_groups(grouping, events, windows, None)
    assert np.array_equal(found, windows)
    assert np.array_equal(columns[0].to_numpy(), keys)
    assert lanes[0].to_pylist() == [1] * rows


def test_an_empty_batch_has_no_groups() -> None:
    events = pa.record_batch({"k": pa.array([], pa.int64())})
    grouping = Grouping(("k",), (pa.int64(),), lambda: [CountRows()])
    windows, columns, lanes = closed_groups(grouping, events, np.empty(0, np.int64), None)
    assert len(windows) == len(columns[0]) == len(lanes[0]) == 0
