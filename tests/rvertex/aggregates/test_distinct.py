"""Distinct values of groups, against Python's sets."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rvertex.aggregates import distinct as distinct_module
from rvertex.aggregates.accumulators import Rows
from rvertex.aggregates.distinct import Distinct, counted
from rvertex.errors import TooManyGroupsError, TooManyValuesError

KINDS = [
    (pa.int64(), [-(2**63), -1, 0, 7, 2**63 - 1]),
    (pa.uint64(), [0, 7, 2**64 - 1]),
    (pa.bool_(), [False, True]),
    (pa.float16(), list(np.array([-1.5, 0.0, 2.0, np.inf], np.float16))),
    (pa.decimal128(5, 2), [Decimal("-1.25"), Decimal("3.00")]),
    (pa.string(), ["", "a", "\u00e4"]),
    (pa.date32(), [dt.date(1960, 1, 1), dt.date(2020, 1, 1)]),
    (pa.month_day_nano_interval(), [pa.MonthDayNano([0, 1, 0]), pa.MonthDayNano([1, 0, 0])]),
]


def rows_of(codes: list[int], values: list[Any], kind: pa.DataType) -> Rows:
    events = pa.record_batch([pa.array(values, kind)], ["v"])
    return Rows(np.array(codes, np.int64), max(codes, default=-1) + 1, events)


def one_chunk_each(distinct: Distinct) -> list[pa.ChunkedArray]:
    columns = distinct.save()
    arrays = [c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in columns]
    return [pa.chunked_array([array]) for array in arrays]


@pytest.mark.parametrize(("kind", "values"), KINDS, ids=lambda v: str(v).split(",")[0])
@pytest.mark.parametrize("rows_per_update", [1, 3, 50])
def test_lists_are_ascending_sets(
    kind: pa.DataType, values: list[Any], rows_per_update: int
) -> None:
    draw = random.Random(5)
    codes = [draw.randrange(i // 8 + 1) for i in range(50)]
    drawn = [draw.choice([*values, None]) for _ in codes]
    distinct = Distinct(["v"], kind)
    groups = 0
    for at in range(0, len(codes), rows_per_update):
        part = slice(at, at + rows_per_update)
        rows = rows_of(codes[part], drawn[part], kind)
        groups = rows.groups = max(groups, rows.groups)
        distinct.update(rows)
    (lists,) = distinct.columns()
    lists.validate(full=True)
    chosen = list(zip(codes, drawn, strict=True))
    want = [[v for v in values if (group, v) in chosen] for group in range(groups)]
    assert lists.to_pylist() == want

    merged = Distinct(["v"], kind, "v")
    whole = pa.record_batch([pa.concat_arrays([lists, lists])], ["v"])
    merged.update(Rows(np.tile(np.arange(groups), 2), groups, whole))
    assert merged.columns()[0].to_pylist() == [len(found) for found in want]


def test_saved_state_is_restored_from_other_chunks() -> None:
    distinct = Distinct(["v"], pa.int64())
    for values in ([5, 3, 9, 4], [3]):
        distinct.update(rows_of([0] * len(values), values, pa.int64()))
    assert distinct.save()[0].num_chunks > 1
    again = Distinct(["v"], pa.int64())
    again.restore(one_chunk_each(distinct))
    again.update(rows_of([0, 1], [4, 4], pa.int64()))
    far = Distinct(["v"], pa.int64())
    far.restore(one_chunk_each(again))
    assert again.columns()[0].to_pylist() == [[3, 4, 5, 9], [4]]
    far.update(rows_of([1], [-(2**40)], pa.int64()))
    further = Distinct(["v"], pa.int64())
    further.restore(one_chunk_each(far))
    further.update(rows_of([0, 1], [2**40, 4], pa.int64()))
    assert further.columns()[0].to_pylist() == [[3, 4, 5, 9, 2**40], [-(2**40), 4]]


def test_a_group_without_values_has_an_empty_list() -> None:
    distinct = Distinct(["v"], pa.int64())
    assert distinct.columns()[0].to_pylist() == []
    distinct.update(rows_of([0, 1], [None, None], pa.int64()))
    assert distinct.columns()[0].to_pylist() == [[], []]
    again = Distinct(["v"], pa.int64())
    again.restore(one_chunk_each(distinct))
    assert again.columns()[0].to_pylist() == [[], []]


def test_more_words_than_fit_into_a_piece_are_kept_once() -> None:
    rows = 700_000
    values = pa.array(np.arange(rows) // 2 % 150_000)
    low = pc.if_else(pa.array(np.arange(rows) % 2 == 0), values, None)
    events = pa.record_batch([values, low], ["v", "low"])
    distinct = Distinct(["low", "v"], pa.int64())
    distinct.update(Rows(np.arange(rows) % 2, 2, events))
    (lists,) = distinct.columns()
    assert [counted(lists, place).to_pylist() for place in (0, 1)] == [[150_000, 0], [150_000] * 2]
    merged = Distinct(["low", "v"], pa.int64(), "lists")
    both = pa.record_batch([pa.concat_arrays([lists, lists.slice(1)])], ["lists"])
    merged.update(Rows(np.array([0, 1, 0]), 2, both))
    (counts,) = merged.columns()
    assert counts.to_pylist() == [{"0": 150_000, "1": 150_000}, {"0": 0, "1": 150_000}]


def test_more_groups_than_bits_are_rejected() -> None:
    distinct = Distinct(["v", "low"], pa.int64())
    events = pa.record_batch([pa.array([1]), pa.array([1])], ["v", "low"])
    with pytest.raises(TooManyGroupsError, match="more --parallelism, or take shorter windows"):
        distinct.update(Rows(np.array([0]), 2**31, events))


def test_more_values_than_list_offsets_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distinct_module, "_LISTED_MAX", 3)
    distinct = Distinct(["v"], pa.int64())
    distinct.update(rows_of([0, 0, 1], [1, 2, 2], pa.int64()))
    assert distinct.columns()[0].to_pylist() == [[1, 2], [2]]
    distinct.update(rows_of([0, 0, 1, 1], [1, 2, 2, 3], pa.int64()))
    with pytest.raises(TooManyValuesError, match="keep more than 3 at once; run with more"):
        distinct.columns()


def test_repeated_values_take_the_memory_of_one() -> None:
    rows = 100_000
    events = pa.record_batch([pa.array(np.arange(rows) % 10)], ["v"])
    distinct = Distinct(["v"], pa.int64())
    before = pa.total_allocated_bytes()
    distinct.update(Rows(np.zeros(rows, np.int64), 1, events))
    assert pa.total_allocated_bytes() - before < rows
    assert distinct.columns()[0].to_pylist() == [list(range(10))]
