"""Keys as numbers, against Python's order of tuples.

Not covered: a right number for the wrong reason; results of aggregates are compared in
``operators/test_aggregate.py``.
"""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rvertex.keys.sort_keys import numbered_keys, packed_keys, ranks, sorted_keys, typed

N = 400
_RANDOM = random.Random(7)
_IDS = [_RANDOM.randrange(50) for _ in range(N)]
_FAR = [_RANDOM.choice([-(2**63), 2**63 - 1, 0, 5]) for _ in range(N)]
_NULLS = [_RANDOM.choice([None, 3, 1]) for _ in range(N)]
_NAMES = [f"name {i}" if i % 7 else None for i in _IDS]
_WORDS = [_RANDOM.choice(["b", "a", None]) for _ in range(N)]

COLUMNS: dict[str, list[pa.Array]] = {
    "none": [],
    "one": [pa.array(_IDS)],
    "narrow and signed": [pa.array([i - 25 for i in _IDS], pa.int8()), pa.array(_IDS, pa.uint32())],
    "times": [pa.array(_IDS, pa.timestamp("us")), pa.array(_IDS[::-1], pa.date32())],
    "booleans": [pa.array([i % 2 == 0 for i in _IDS]), pa.array(_IDS)],
    "far apart": [pa.array(_FAR)],
    "far apart, two": [pa.array(_FAR), pa.array(_IDS)],
    "unsigned": [pa.array([2**63 + i if i % 2 else i for i in _IDS], pa.uint64())],
    "nulls": [pa.array(_NULLS), pa.array(_IDS)],
    "depends": [pa.array(_IDS), pa.array(_NAMES)],
    "depends, dictionary": [pa.array(_IDS), pa.array(_NAMES).dictionary_encode()],
    "does not depend": [pa.array(_IDS), pa.array(_WORDS)],
    "depends at first": [pa.array(_IDS[:300] + [1] * 100), pa.array(_NAMES[:300] + _WORDS[300:])],
    "different, then text": [pa.array(range(N, 0, -1)), pa.array(_WORDS)],
    "text first": [pa.array(_WORDS), pa.array(_IDS)],
    "floats": [pa.array(_IDS), pa.array([_RANDOM.choice([0.0, -0.0, math.nan]) for _ in _IDS])],
}


@pytest.mark.parametrize("name", COLUMNS)
def test_sort_numbers_have_the_order_of_the_keys(name: str) -> None:
    columns = COLUMNS[name]
    types = [c.type.value_type if pa.types.is_dictionary(c.type) else c.type for c in columns]
    found = numbered_keys(types, columns, N)
    rows = list(zip(*(c.to_pylist() for c in columns), strict=True)) or [()] * N
    number_of: dict[tuple[Any, ...], int] = {}
    for row, code in zip(map(_ordered, rows), found.codes.tolist(), strict=True):
        assert number_of.setdefault(row, code) == code, row
        assert 0 <= code < found.span
    by_key = [number_of[row] for row in sorted(number_of)]
    assert by_key == sorted(set(by_key))
    keys = found.keys(np.array(by_key, np.int64))
    assert [key.type for key in keys] == types
    given = list(zip(*(key.to_pylist() for key in keys), strict=True)) or [()]
    assert [_ordered(row) for row in given] == sorted(number_of)
    order = sorted_keys([key[::-1] for key in keys], len(by_key))
    assert order.tolist() == list(range(len(by_key)))[:: -1 if columns else 1]


@pytest.mark.parametrize("name", ["one", "narrow and signed", "times", "booleans"])
def test_integers_and_times_are_packed(name: str) -> None:
    assert packed_keys(COLUMNS[name], N) is not None


@pytest.mark.parametrize("name", ["far apart", "unsigned", "nulls", "floats", "text first"])
def test_keys_that_do_not_fit_are_not_packed(name: str) -> None:
    assert packed_keys(COLUMNS[name], N) is None


@pytest.mark.parametrize("span", [3, 5_000, 10**15])
@pytest.mark.parametrize("is_sorted", [False, True])
def test_ranks_of_keys_follow_their_order(span: int, is_sorted: bool) -> None:
    values = np.array([_RANDOM.randrange(span) - span // 2 for _ in range(3_000)])
    values = np.sort(values) if is_sorted else values
    distinct, rank = ranks(values)
    expected, expected_rank = np.unique(values, return_inverse=True)
    assert np.array_equal(distinct, expected)
    assert np.array_equal(rank, expected_rank)


@pytest.mark.parametrize("zeros", [[0.0, -0.0], [-0.0, 0.0], [-0.0, -0.0]])
def test_both_zeros_have_the_same_sort_key(zeros: list[float]) -> None:
    """0.0 and -0.0 are one key, whichever comes first."""
    columns = [pa.array([1, 1, 2]), pa.array([*zeros, 5.0])]
    found = numbered_keys([column.type for column in columns], columns, 3)
    assert found.codes[0] == found.codes[1] < found.codes[2]
    assert [str(key) for key in found.keys(found.codes)[1].to_pylist()] == ["0.0", "0.0", "5.0"]


@pytest.mark.parametrize("kind", [pa.int64(), pa.timestamp("us"), pa.duration("ns")], ids=str)
def test_keys_of_64_bits_are_not_copied(kind: pa.DataType) -> None:
    values = np.array([5, -3, 2**62])
    column = typed(values, kind)
    assert column.type == kind
    assert column.buffers()[1].address == values.ctypes.data


def test_an_empty_batch_has_no_sort_keys() -> None:
    found = numbered_keys(
        [pa.int64(), pa.string()], [pa.array([], pa.int64()), pa.array([], "string")], 0
    )
    assert len(found.codes) == 0
    assert [len(key) for key in found.keys(found.codes)] == [0, 0]


def _ordered(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sorted as keys are: NaN after numbers, nulls last, -0.0 as 0.0."""
    return tuple(
        (2, 0) if v is None else (1, 0) if v != v else (0, v + 0.0 if v == 0 else v) for v in row
    )
