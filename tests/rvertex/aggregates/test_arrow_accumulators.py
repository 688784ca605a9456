"""Types that numpy lacks: which row of a group is chosen."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from rstream.items.batch import VS
from rvertex.aggregates.accumulators import Rows
from rvertex.aggregates.arrow_accumulators import Pick


@pytest.mark.parametrize("groups", [3, 1_000])
def test_first_and_last_of_few_rows_in_few_and_many_groups(groups: int) -> None:
    batch = pa.record_batch({VS: pa.array([0, 1, 2]), "c": pa.array(["a", "b", "c"])})
    for is_last, expected in ((True, {2: "a", 1: "c"}), (False, {2: "a", 1: "b"})):
        picked = Pick("c", pa.string(), is_last=is_last, by=None)
        picked.update(Rows(np.array([2, 1, 1]), groups, batch))
        values = picked.columns()[0]
        assert {group: values[group].as_py() for group in expected} == expected
        assert values.null_count == groups - len(expected)
