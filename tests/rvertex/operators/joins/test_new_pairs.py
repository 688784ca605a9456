"""Pairs of two new rows: comparing, sorting and the definition give the same result.

Not covered: a wrong order of emitted rows, which the join decides (tests/rvertex/operators).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, strategies as st

from rvertex.keys.code_map import CodeMap
from rvertex.operators.joins import new_pairs as join_pairs
from rvertex.operators.joins.new_pairs import NewRows, Pairs
from tests.support.budget import examples

SCHEMA = pa.schema([("_vs", pa.int64()), ("_ve", pa.int64()), ("k", pa.int64())])
Row = tuple[int, int, int]
rows = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4), st.integers(-1, 2)), max_size=30)


def new_rows(rows: list[Row], first_ordinal: int) -> NewRows:
    given = [{"_vs": vs, "_ve": vs + length, "k": k} for vs, length, k in rows]
    events = pa.RecordBatch.from_pylist(given, schema=SCHEMA)
    new = NewRows(events, ("k",), pa.schema([SCHEMA.field("k")]), first_ordinal)
    new.codes = np.array([k for _, _, k in rows], np.int64)
    return new


def found(pairs: list[Pairs]) -> list[tuple[int, ...]]:
    out = []
    for p in pairs:
        left, right = p.sources
        columns = (p.rank, p.ordinal, p.vs, p.ve, left.at, right.at)
        out += [tuple(int(x) for x in row) for row in zip(*columns, strict=True)]
    return sorted(out)


def expected(left: NewRows, right: NewRows) -> list[tuple[int, ...]]:
    out = []
    for i in range(len(left)):
        for j in range(len(right)):
            start, end = max(left.vs[i], right.vs[j]), min(left.ve[i], right.ve[j])
            if left.codes[i] == right.codes[j] >= 0 and start < end:
                is_left_later = left.rank[i] > right.rank[j]
                ordinal = right.first_ordinal + j if is_left_later else left.first_ordinal + i
                rank = max(left.rank[i], right.rank[j])
                out.append((int(rank), ordinal, int(start), int(end), i, j))
    return sorted(out)


@examples(150)
@given(rows.map(sorted), rows.map(sorted))
def test_both_methods_find_the_overlapping_pairs(lefts: list[Row], rights: list[Row]) -> None:
    left, right = new_rows(lefts, 100), new_rows(rights, 200)
    left.rank = np.arange(len(left)) + right.vs.searchsorted(left.vs, side="left")
    right.rank = np.arange(len(right)) + left.vs.searchsorted(right.vs, side="right")
    scratch = CodeMap(np.int32, -1)
    want = expected(left, right)
    assert found(join_pairs.within_batch(left, right, scratch)) == want
    assert found(join_pairs.by_sorting(left, right, scratch)) == want
    assert (scratch.get(np.arange(3)) < 0).all()
