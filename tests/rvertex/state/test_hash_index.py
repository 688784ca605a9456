"""Rows looked up by key hash: all rows of a hash, and a filter that never drops one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from rvertex.state.hash_index import BloomFilter, HashIndex, equal_keys, sorted_hashes


def drawn(rows: int, hashes: int, seed: int = 0, vertices: int = 1) -> np.ndarray:
    """Hashes of the keys of one vertex of this number: their upper 32 bits are within a range."""
    found = np.random.default_rng(seed).integers(0, 2**64 // vertices, hashes, np.uint64)
    return np.random.default_rng(seed + 1).choice(found, rows)


@pytest.mark.parametrize("vertices", [1, 4096])
def test_the_filter_has_all_that_was_added_and_drops_most_others(vertices: int) -> None:
    hashes = drawn(50_000, 40_000, vertices=vertices)
    made = BloomFilter(hashes)
    assert made.may_have(hashes).all()
    others = np.setdiff1d(drawn(50_000, 50_000, seed=7, vertices=vertices), hashes)
    assert made.may_have(others).mean() < 0.02


def test_an_empty_filter_has_nothing() -> None:
    assert not BloomFilter(np.empty(0, np.uint64)).may_have(drawn(100, 100)).any()


def test_every_pair_of_one_hash_is_a_candidate() -> None:
    rows, wanted = drawn(500, 60), np.append(drawn(80, 60), drawn(80, 60, seed=3))
    positions, found = HashIndex.of(np.split(rows, [100, 300]), len(rows), list).candidates(wanted)
    expected = [(i, k) for i, h in enumerate(wanted) for k in np.flatnonzero(rows == h)]
    assert sorted(zip(positions.tolist(), found.tolist(), strict=True)) == expected
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


@pytest.mark.parametrize("spread", [1, 2**20, 2**40, 2**52, 2**64])
@pytest.mark.parametrize("rows", [0, 1, 2, 30, 5_000])
def test_hashes_are_sorted_stably(rows: int, spread: int) -> None:
    """Also if they differ only in the lowest bits, or in their highest."""
    rng = np.random.default_rng(rows)
    drawn_hashes = rng.integers(2**64 - spread, 2**64 - 1, rows, np.uint64, endpoint=True)
    near = np.array([0, 2**64 - 1], np.uint64) if rows > 1 else np.empty(0, np.uint64)
    for hashes in (drawn_hashes, np.concatenate([near, drawn_hashes, drawn_hashes])):
        in_order, order = sorted_hashes(hashes)
        expected = np.argsort(hashes, kind="stable")
        assert np.array_equal(order, expected)
        assert np.array_equal(in_order, hashes.take(expected))
