"""Valid rows can be looked up by code in every run, with a table or with sorted codes.

Not covered: the cost of a probe; ``benchmarks/bench_alive.py`` measures it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from rstream.items.batch import event_schema
from rstream.types import INF_TIME
from rvertex.operators.edges.living_rows import LivingRows

SCHEMA = event_schema(pa.schema([("x", pa.int64())]))


def births(now: int, count: int) -> pa.RecordBatch:
    columns = [np.full(count, now), np.full(count, INF_TIME), np.arange(count)]
    return pa.RecordBatch.from_arrays(list(map(pa.array, columns)), schema=SCHEMA)


@pytest.mark.parametrize("span", [1, 30, 10_000])
def test_rows_are_found_by_code_at_any_density(span: int) -> None:
    """A narrow range of codes makes tables, a wide one sorted codes; some codes have no rows."""
    rng = np.random.default_rng(span)
    rows, codes = LivingRows(SCHEMA), np.empty(0, np.int64)
    for now, count in enumerate([40, 1, 25, 3, 1, 1]):
        # The latest rows have the greatest codes, as new keys do.
        new = rng.integers(span * now // 6, span, count)
        rows.add(births(now, count), new)
        codes = np.concatenate([codes, new])
        rows.check()
        wanted = np.unique(np.concatenate([codes, np.arange(5), [span, 2 * span]]))
        probe, number = rows.find(wanted)
        assert sorted(number.tolist()) == list(range(len(codes)))
        assert (wanted[probe] == codes[number]).all()
