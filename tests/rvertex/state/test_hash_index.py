"""Rows looked up by key hash: all rows of a hash, and a filter that never drops one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from rvertex.state.hash_index import BloomFilter, HashIndex, equal_keys


def drawn(rows: int, hashes: int, seed: int = 0, vertices: int = 1) -> np.ndarray:
    """Hashes of the keys of one vertex of this number: their upper 32 bits are within a range."""
    found = np.random.default_rng(seed).integers(0, 2**64 // vertices, hashes, np.uint64)
    return np.random.default_rng(seed + 1).choice(found, rows)


@pytest.mark.parametrize("vertices", [1, 4096])
def test_the_filter_contains_all_added_hashes_and_rejects_most_others(vertices: int) -> None:
    hashes = drawn(50_000, 40_000, vertices=vertices)
    made = BloomFilter(hashes)
    assert made.may_have(hashes).all()
    others = np.setdiff1d(drawn(50_000, 50_000, seed=7, vertices=vertices), hashes)
    assert made.may_have(others).mean() < 0.02


def test_an_empty_filter_contains_nothing() -> None:
    assert not BloomFilter(np.empty(0, np.uint64)).may_have(drawn(100, 100)).any()


def test_every_pair_of_one_hash_is_a_candidate() -> None:
    rows, wanted = drawn(500, 60), np.append(drawn(80, 60), drawn(80, 60, seed=3))
    whole = HashIndex.of(np.split(rows, [100, 300]), len(rows), list)
    in_blocks = HashIndex(np.split(whole.entries.whole(), [1, 200, 203]), whole.bloom)
    expected = [(i, k) for i, h in enumerate(wanted) for k in np.flatnonzero(rows == h)]
    for index in (whole, in_blocks):
        positions, found = index.candidates(wanted)
        assert sorted(zip(positions.tolist(), found.tolist(), strict=True)) == expected
    at = np.random.default_rng(5).integers(0, len(rows), 70)
    assert (in_blocks.entries.take(at) == whole.entries.take(at)).all()
    assert expected


def test_keys_of_every_kind_are_compared() -> None:
    nan = float("nan")
    columns = [
        (pa.array([1.5, nan, -0.0, None, nan, 1.0]), pa.array([1.5, nan, 0.0, None, 1.0, None])),
        (pa.array(["a", None, "", "b", "c", "d"]), pa.array(["a", None, "", "b", "c", "d"])),
    ]
    assert equal_keys(*map(list, zip(*columns, strict=True))).tolist() == [
        True, True, True, True, False, False,
    ]  # fmt: skip
    nulls = pa.nulls(2)
    assert equal_keys([nulls], [nulls]).all()
    half = [pa.array(np.array([1.0, np.nan], np.float16))]
    assert equal_keys(half, half).all()
