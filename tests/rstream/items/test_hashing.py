"""Hashes: known answers, canonical values, independence of slicing and representation.

Not covered: a bad distribution of other keys.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from rstream.errors import InvalidBatchError
from rstream.items.hashing import (
    GOLDEN,
    NULL_HASH,
    fmix,
    hash_column,
    hash_rows,
    null_rows,
    partition_of,
)

MASK = 2**64 - 1


def fmix_by_hand(x: int) -> int:
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def bytes_by_hand(data: bytes) -> int:
    padded = data + bytes(-len(data) % 8) or bytes(8)
    words = [int.from_bytes(padded[i : i + 8], "little") for i in range(0, len(padded), 8)]
    total = sum(fmix_by_hand((w + (i + 1) * int(GOLDEN)) & MASK) for i, w in enumerate(words))
    return fmix_by_hand((len(data) + total) & MASK)


def test_splitmix64_known_answers() -> None:
    # The first outputs of Vigna's splitmix64.c for the seed 1234567.
    seeds = np.array([(1234567 + i * int(GOLDEN)) & MASK for i in range(1, 4)], np.uint64)
    assert fmix(seeds).tolist() == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


def test_known_answers_of_this_project() -> None:
    columns = [pa.array([1, 2, 3, None]), pa.array(["a", "bb", None, "a string of 20 byte"])]
    assert hash_column(columns[0]).tolist() == [*KNOWN_INTS, int(NULL_HASH)]
    assert partition_of(columns, 1000).tolist() == KNOWN_PARTITIONS


KNOWN_INTS = [fmix_by_hand((i + int(GOLDEN)) & MASK) for i in (1, 2, 3)]
KNOWN_PARTITIONS = [18, 547, 898, 481]


@given(st.lists(st.one_of(st.none(), st.binary(max_size=40))))
def test_hashes_of_bytes_follow_the_definition(values: list[bytes | None]) -> None:
    expected = [int(NULL_HASH) if v is None else bytes_by_hand(v) for v in values]
    assert hash_column(pa.array(values, pa.binary())).tolist() == expected
    assert hash_column(pa.array(values, pa.large_binary())).tolist() == expected
    dictionary = pa.array(values, pa.binary()).dictionary_encode()
    assert hash_column(dictionary).tolist() == expected


@given(st.lists(st.text(max_size=12)), st.integers(0, 5), st.integers(0, 5))
def test_a_slice_has_the_hashes_of_its_values(values: list[str], skip: int, keep: int) -> None:
    for array in (pa.array(values, pa.string()), pa.array([values, values[:2]])):
        sliced = array.slice(min(skip, len(array)), keep)
        copy = pa.array(sliced.to_pylist(), array.type)
        assert hash_column(sliced).tolist() == hash_column(copy).tolist()


def test_hashes_of_long_strings_follow_the_definition() -> None:
    values = [bytes(range(256)) * 9, b"", None, b"x" * 512, b"y" * 519, b"z" * 3, b"w" * 520]
    expected = [int(NULL_HASH) if v is None else bytes_by_hand(v) for v in values]
    assert hash_column(pa.array(values)).tolist() == expected
    assert hash_column(pa.array(values[3:5])).tolist() == expected[3:5]


def test_large_arrays_have_the_hashes_of_their_blocks() -> None:
    rng = np.random.default_rng(1)
    array = pa.array([str(i) * (i % 4) for i in rng.integers(0, 99, 20_000)])
    whole = hash_column(array)
    parts = [hash_column(array.slice(lo, 777)) for lo in range(0, 20_000, 777)]
    assert np.array_equal(whole, np.concatenate(parts))


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint64()])
def test_equal_integers_of_any_width_have_equal_hashes(kind: pa.DataType) -> None:
    values = [0, 1, 100, None]
    expected = hash_column(pa.array(values, pa.int64())).tolist()
    assert hash_column(pa.array(values, kind)).tolist() == expected


def test_negative_integers_keep_their_value_when_widened() -> None:
    narrow, wide = pa.array([-1, -128], pa.int8()), pa.array([-1, -128], pa.int64())
    assert hash_column(narrow).tolist() == hash_column(wide).tolist()


def test_float_hashes_are_canonical_as_keys_and_exact_as_content() -> None:
    odd_nan = np.array([0x7FF8000000000001], np.uint64).view(np.float64)[0]
    array = pa.array(np.array([0.0, -0.0, np.nan, odd_nan, 1.5]))
    keys = hash_column(array).tolist()
    assert keys[0] == keys[1]
    assert keys[2] == keys[3]
    assert len(set(hash_column(array, exact=True).tolist())) == 5
    assert hash_column(pa.array([1.5], pa.float32())).tolist() == keys[4:]


def test_times_have_the_hashes_of_their_integers() -> None:
    moment = dt.datetime(2013, 1, 1, tzinfo=dt.UTC)
    micros = pa.array([moment], pa.timestamp("us", "UTC"))
    assert hash_column(micros).tolist() == hash_column(pa.array([1356998400000000])).tolist()
    days = pa.array([dt.date(1970, 1, 3)])
    assert hash_column(days).tolist() == hash_column(pa.array([2])).tolist()


def test_equal_values_of_other_types_have_equal_hashes() -> None:
    arrays = [
        pa.array([True, False, True, None]),
        pa.array([Decimal("1.50"), Decimal("-2.25"), Decimal("1.50"), None]),
        pa.array([{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 1, "b": "x"}, None]),
        pa.array([[1, 2], [2, 1], [1, 2], None]),
        pa.array([[], [0], [], None], pa.list_(pa.int64())),
        pa.array([[("a", 1)], [("a", 2)], [("a", 1)], None], pa.map_(pa.string(), pa.int64())),
        pa.array([[1, 2], [1, 3], [1, 2], None], pa.list_(pa.int64(), 2)),
        pa.array([b"abcd", b"abce", b"abcd", None], pa.binary(4)),
        pa.array(["ab", "ac", "ab", None], pa.string_view()),
    ]
    for array in arrays:
        hashes = hash_column(array).tolist()
        assert hashes[0] == hashes[2] != hashes[1], array.type
        assert hashes[3] == int(NULL_HASH), array.type
    assert hash_column(pa.nulls(2)).tolist() == [int(NULL_HASH)] * 2


def test_the_hash_of_a_list_does_not_depend_on_its_neighbours() -> None:
    long = list(range(70_000))  # longer than the block size of hashing
    for lists in ([[], [1], [2]], [[7], [], long, [], [1, 2, 3]], [long, [1], None, []]):
        array = pa.array([[9], *lists], pa.list_(pa.int64())).slice(1)
        alone = [hash_column(pa.array([one], array.type))[0] for one in lists]
        assert hash_column(array).tolist() == alone


def test_a_type_without_a_hash_is_named() -> None:
    array = pa.array([(1, 2, 3)], pa.month_day_nano_interval())
    with pytest.raises(InvalidBatchError, match="month_day_nano_interval"):
        hash_column(array)


def test_row_hashes_depend_on_the_order_of_columns() -> None:
    a, b = pa.array([1, 2]), pa.array([2, 1])
    assert hash_rows([a, b]).tolist() == hash_rows([b, a]).tolist()[::-1]
    assert hash_rows([a, b]).tolist() != hash_rows([b, a]).tolist()


def test_partitions_are_even() -> None:
    for keys in (pa.array(range(30_000)), pa.array([f"user-{i}" for i in range(30_000)])):
        counts = np.bincount(partition_of([keys], 7), minlength=7)
        assert counts.min() > 30_000 / 7 * 0.9
        assert counts.max() < 30_000 / 7 * 1.1
    assert partition_of([keys], 1).tolist() == [0] * 30_000


@pytest.mark.parametrize("offset", [0, 3, 8, 16])
@pytest.mark.parametrize("step", [1, 2, 90])
def test_null_rows_of_every_length(step: int, offset: int) -> None:
    """Few and many nulls, up to the last row of arrays that end anywhere in a byte."""
    for length in (*range(20), *range(64, 84)):
        nulls = [row for row in range(length) if (length - 1 - row) % step == 0]
        values = [None if row in nulls else row for row in range(length)]
        array = pa.array([None] * offset + values + [None], pa.int64()).slice(offset, length)
        assert null_rows(array).tolist() == nulls
