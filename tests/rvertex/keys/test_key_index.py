"""Key codes against a dictionary of first appearances, for any types, cuts and repeats.

Not covered: wrong codes beyond 2**31 keys, and speed (see benchmarks).
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, strategies as st

from rstream.items.hashing import hash_column
from rvertex.errors import TooManyValuesError
from rvertex.keys import int_index, key_index, wide_index
from rvertex.keys.int_index import IntIndex
from rvertex.keys.key_index import KeyIndex, UnsupportedKeyError, null_keys
from rvertex.keys.wide_index import WideIndex
from tests.support.budget import examples

VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63), 7, 2**40]),
    pa.uint64(): st.sampled_from([0, 1, 2**64 - 1, 2**63]),
    pa.int8(): st.integers(-128, 127),
    pa.bool_(): st.booleans(),
    pa.float64(): st.sampled_from([0.0, -0.0, 1.5, math.nan, math.inf, -math.inf]),
    pa.float32(): st.sampled_from([0.0, -0.0, 0.5, math.nan]),
    pa.string(): st.sampled_from(["", "a", "b", "\u00e9"]),
    pa.large_string(): st.sampled_from(["", "a", "b"]),
    pa.binary(): st.sampled_from([b"", b"a"]),
    pa.dictionary(pa.int8(), pa.string()): st.sampled_from(["x", "y", "z"]),
    pa.timestamp("us"): st.sampled_from([dt.datetime(2013, 1, 1), dt.datetime(1901, 1, 1)]),  # noqa: DTZ001
    pa.date32(): st.sampled_from([dt.date(2013, 1, 1), dt.date(1969, 1, 1)]),
    pa.decimal128(5, 2): st.sampled_from([Decimal("1.00"), Decimal("-2.50")]),
    pa.null(): st.none(),
}


def canonical(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return value


def naive_codes(rows: list[tuple[Any, ...]], known: dict[tuple[Any, ...], int]) -> list[int]:
    return [known.setdefault(tuple(map(canonical, row)), len(known)) for row in rows]


def columns_of(rows: list[tuple[Any, ...]], types: list[pa.DataType]) -> list[pa.Array]:
    return [pa.array([row[i] for row in rows], type_) for i, type_ in enumerate(types)]


@st.composite
def keyed_batches(draw: st.DrawFn) -> tuple[list[pa.DataType], list[list[tuple[Any, ...]]]]:
    types = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3))
    row = st.tuples(*(st.one_of(st.none(), VALUES[t]) for t in types))
    return types, draw(st.lists(st.lists(row, max_size=8), max_size=5))


@pytest.fixture(params=[1 << 13, 0], ids=["few", "many"])
def objects_max(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of more than 64 bits as Python objects, or all in arrays."""
    monkeypatch.setattr(key_index, "_OBJECTS_MAX", request.param)


@pytest.mark.parametrize("hashes", [1, 3])
def test_values_with_equal_hashes_get_codes_by_first_appearance(
    hashes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        wide_index, "hash_column", lambda values: hash_column(values) % np.uint64(hashes)
    )
    words = [f"word {i * i % 37}" for i in range(80)]
    known: dict[str, int] = {}
    expected = [known.setdefault(word, len(known)) for word in words]
    for step in (1, 7, 80):
        index = WideIndex(pa.array([], pa.string()))
        found: list[int] = []
        for lo in range(0, len(words), step):
            distinct, at = pc.unique(pa.array(words[lo : lo + step])), words[lo : lo + step]
            unknown = index.codes(distinct, insert=False).tolist()
            have = set(expected[:lo])
            assert [c for c in unknown if c >= 0] == [
                known[v] for v in distinct.to_pylist() if known[v] in have
            ]
            codes = dict(zip(distinct.to_pylist(), index.codes(distinct, insert=True), strict=True))
            found += [int(codes[word]) for word in at]
        assert found == expected
        assert index.values(np.array([3, 0, 3])).to_pylist() == [list(known)[k] for k in (3, 0, 3)]


@pytest.mark.usefixtures("objects_max")
@examples(38)
@given(keyed_batches())
def test_codes_equal_those_of_a_dictionary(
    case: tuple[list[pa.DataType], list[list[tuple[Any, ...]]]],
) -> None:
    types, batches = case
    index = KeyIndex(types)
    known: dict[tuple[Any, ...], int] = {}
    for rows in batches:
        unknown = index.codes(columns_of(rows, types), insert=False).tolist()
        assert unknown == [known.get(tuple(map(canonical, row)), -1) for row in rows]
        assert index.codes(columns_of(rows, types)).tolist() == naive_codes(rows, known)
        assert len(index) == len(known)
    got = index.keys()
    assert [k.type for k in got] == types
    rows = list(zip(*(k.to_pylist() for k in got), strict=True))
    assert [tuple(map(canonical, row)) for row in rows] == list(known)


@examples(60)
@given(st.data())
def test_int_index_in_both_representations(data: st.DataObject) -> None:
    scale = data.draw(st.sampled_from([1, 3, 2**33, 2**52]))
    cut = st.lists(st.integers(-1000, 1000), max_size=200)
    index = IntIndex()
    known: dict[int, int] = {}
    for keys in data.draw(st.lists(cut, max_size=6)):
        rows = np.array(keys, np.int64) * scale
        expected = [known.setdefault(key * scale, len(known)) for key in keys]
        assert index.codes(rows, insert=True).tolist() == expected
        index.check()
    assert index.keys.tolist() == list(known)


@pytest.mark.parametrize("scale", [1, 12_345_678_901])
def test_many_keys_with_any_batch_boundaries(scale: int) -> None:
    rng = np.random.default_rng(5)
    keys = rng.integers(-20_000, 20_000, 60_000) * scale
    whole = IntIndex()
    expected = whole.codes(keys, insert=True)
    for cuts in ([100, 101, 30_000], sorted(rng.integers(0, len(keys), 40).tolist())):
        index = IntIndex()
        got = [index.codes(part, insert=True) for part in np.split(keys, cuts)]
        assert np.array_equal(np.concatenate(got), expected)
        index.check()
    first: dict[int, int] = {}
    for key in keys.tolist():
        first.setdefault(key, len(first))
    assert whole.keys.tolist() == list(first)


def test_a_direct_table_extends_to_a_smaller_key() -> None:
    index, low = IntIndex(), -(2**63)
    assert index.codes(np.array([low + 70_000]), insert=True).tolist() == [0]
    assert index.codes(np.array([low + 69_000, low + 69_999]), insert=True).tolist() == [1, 2]
    assert index.codes(np.array([low + 4_465]), insert=True).tolist() == [3]
    assert index.codes(np.array([low, 2**63 - 1]), insert=True).tolist() == [4, 5]
    index.check()


def test_keys_with_the_same_slot_are_distinguished() -> None:
    # Inverts the mixing: these keys mix to 0..1999, whose leading bits are all zero.
    undone = np.arange(2000, dtype=np.uint64) * np.uint64(pow(0x9E3779B97F4A7C15, -1, 2**64))
    keys = (undone ^ (undone >> np.uint64(32))).view(np.int64)
    index = IntIndex()
    assert np.array_equal(index.codes(keys, insert=True), np.arange(2000))
    assert np.array_equal(index.codes(keys[::-1].copy(), insert=False), np.arange(2000)[::-1])
    index.check()


@pytest.mark.parametrize("scale", [1, 2**40])
def test_more_keys_than_codes_are_rejected(scale: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int_index, "_CODES_MAX", 5)
    index, keys = IntIndex(), np.arange(5) * scale
    for _ in range(2):
        assert index.codes(keys, insert=True).tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(TooManyValuesError, match="keep more than 5 at once; run with more"):
        index.codes(np.array([7 * scale]), insert=True)
    index.check()


def test_slices_and_selected_keys() -> None:
    index = KeyIndex([pa.int16(), pa.string()])
    columns = [pa.array([9, 1, 2, 1, None], pa.int16()), pa.array(["x", "a", None, "a", "b"])]
    assert index.codes([c.slice(1) for c in columns]).tolist() == [0, 1, 0, 2]
    picked = index.keys(np.array([2, 0]))
    assert [k.to_pylist() for k in picked] == [[None, 1], ["b", "a"]]


def test_without_key_columns_there_is_one_key() -> None:
    index = KeyIndex([])
    assert len(index) == 0
    assert index.codes_of_rows([], 2, insert=False).tolist() == [-1, -1]
    assert index.codes_of_rows([], 3).tolist() == [0, 0, 0]
    assert len(index) == 1
    assert index.keys() == []


def test_codes_of_the_stored_keys_are_their_codes() -> None:
    index = KeyIndex([pa.int64()])
    assert index.codes_of_rows([pa.array([5, 5, 6])], 3).tolist() == [0, 0, 1]


def test_null_keys_finds_rows_with_any_null() -> None:
    columns = [pa.array([1, None, 3]), pa.array(["a", "b", None])]
    mask = null_keys(columns)
    assert mask is not None
    assert mask.tolist() == [False, True, True]
    assert null_keys([pa.array([1, 2])]) is None


def test_nested_keys_are_rejected() -> None:
    with pytest.raises(UnsupportedKeyError, match="list<item: int64>"):
        KeyIndex([pa.list_(pa.int64())])
