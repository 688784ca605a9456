"""The digest depends on every bit and every seq, but not on how items are cut into batches."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

import rstream.items.digest
from rstream import StreamDigest
from rstream.items.digest import content_hashes
from rstream.items.hashing import GOLDEN, MIX_1, MIX_2, NULL_HASH, hash_column
from tests.support.content import items

MASK = 2**64 - 1


def digest_of(batch: pa.RecordBatch, first_seq: int = 0) -> str:
    digest = StreamDigest()
    digest.update(first_seq, batch)
    return digest.hexdigest()


@given(st.lists(st.integers(0, 60), max_size=6))
def test_the_digest_does_not_depend_on_batch_boundaries(cuts: list[int]) -> None:
    digest = StreamDigest()
    bounds = [0, *sorted(cuts), 60]
    for lo, hi in itertools.pairwise(bounds):
        digest.update(lo, items(lo, hi))
    assert digest.hexdigest() == digest_of(items(0, 60))


@pytest.mark.parametrize("step", [5, 100, 600])
def test_digests_of_small_batches_in_any_order_add_up(step: int) -> None:
    """Small batches are joined; large ones, gaps and reads of the digest come in between."""
    digest, rows = StreamDigest(), 1300
    bounds = [*range(0, rows, step), rows]
    pieces = list(itertools.pairwise(bounds))
    for number, (lo, hi) in enumerate([*pieces[1::2], *pieces[::2]]):
        digest.update(lo, items(lo, hi))
        if number % 50 == 49:
            assert digest == digest.copy()
    assert digest.hexdigest() == digest_of(items(0, rows))


@pytest.mark.parametrize("gap", [1, 2, 10])
def test_items_after_a_gap_keep_their_numbers(gap: int) -> None:
    at_once, apart, behind = StreamDigest(), StreamDigest(), StreamDigest()
    at_once.update(0, items(0, 10))
    at_once.update(10 + gap, items(10 + gap, 30))
    apart.update(0, items(0, 10))
    behind.update(10 + gap, items(10 + gap, 30))
    apart.add(behind)
    assert at_once == apart


def test_the_digest_is_additive_and_serialisable() -> None:
    left, right = StreamDigest(), StreamDigest()
    left.update(0, items(0, 10))
    right.update(10, items(10, 30))
    left.add(StreamDigest.from_bytes(right.to_bytes()))
    assert left.hexdigest() == digest_of(items(0, 30))
    assert left == left.copy()
    assert left != right


def test_the_digest_of_known_items_never_changes() -> None:
    assert digest_of(items(0, 100)) == KNOWN
    assert StreamDigest().hexdigest() == "0" * 32


KNOWN = "6d2caf62de3ec560263390752dd8f271"


def test_the_digest_depends_on_seqs_and_order() -> None:
    batch = items(0, 6)
    assert digest_of(batch, 0) != digest_of(batch, 1)
    swapped = batch.take(pa.array([1, 0, 2, 3, 4, 5]))
    assert digest_of(batch) != digest_of(swapped)


def test_the_digest_distinguishes_float_bits_nulls_and_negated_pairs() -> None:
    def of(*columns: list[float | None]) -> str:
        arrays = [pa.array(c, pa.float64()) for c in columns]
        return digest_of(pa.RecordBatch.from_arrays(arrays, [f"c{i}" for i in range(len(arrays))]))

    values = [of([0.0], [1.0]), of([-0.0], [1.0]), of([-0.0], [-1.0]), of([None], [1.0])]
    values += [of([0.0], [-1.0]), of([1.0], [0.0])]
    assert len(set(values)) == len(values)


def test_the_digest_depends_on_every_bit_of_any_column() -> None:
    rng = np.random.default_rng(7)
    base = rng.integers(0, 2**62, (3, 50))
    seen = {digest_of(table(base))}
    for bit in range(63):
        changed = base.copy()
        changed[bit % 3, bit % 50] ^= 1 << bit
        seen.add(digest_of(table(changed)))
    assert len(seen) == 64


def naive(batch: pa.RecordBatch, first_seq: int) -> str:
    """The definition, row by row with Python integers."""

    def mix(x: int) -> int:
        x = (x ^ x >> 30) * int(MIX_1) & MASK
        x = (x ^ x >> 27) * int(MIX_2) & MASK
        return x ^ x >> 31

    lanes = [0, 0]
    words = [_words(column) for column in batch.columns]
    for row in range(batch.num_rows):
        total = 0
        for i, column in enumerate(words):
            factor = mix((i + 1) * int(GOLDEN) & MASK) | 1
            total += (column[row] ^ column[row] >> 32) * factor
        x = mix(total + (first_seq + row + 1) * int(GOLDEN) & MASK)
        y = (x ^ x >> 29) * 0xD6E8FEB86659FD93 & MASK
        lanes = [lanes[0] + x, lanes[1] + (y ^ y >> 32)]
    return b"".join((lane & MASK).to_bytes(8, "little") for lane in lanes).hex()


def _words(column: pa.Array) -> list[int]:
    plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    if not pa.types.is_integer(plain.type):
        return [int(h) for h in hash_column(plain, exact=True)]
    return [int(NULL_HASH) if v is None else v & MASK for v in plain.to_pylist()]


@given(st.data())
def test_every_encoding_of_a_column_follows_the_definition(data: st.DataObject) -> None:
    """Mostly zero bytes, few and many nulls, dictionaries; slices anywhere."""
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    rows, cut = data.draw(st.integers(1, 700)), data.draw(st.integers(0, 20))
    share = data.draw(st.sampled_from([0, 0.01, 0.3, 1]))
    nulls, some = rng.random((2, rows + cut)) < share
    flags = pa.array((some * rng.integers(-128, 128, rows + cut)).astype(np.int8))
    numbers = rng.integers(-(2**62), 2**62, rows + cut)
    texts = pa.array(rng.choice(["", "a", "b" * 9, "c" * 30], rows + cut), mask=nulls)
    form = texts.dictionary_encode() if data.draw(st.booleans()) else texts
    columns = [flags, pa.array(numbers), pa.array(numbers, mask=nulls), form]
    batch = pa.RecordBatch.from_arrays(columns, ["a", "b", "c", "d"]).slice(cut)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            rstream.items.digest, "_BLOCK_ROWS", data.draw(st.sampled_from([7, 256, 1 << 15]))
        )
        assert digest_of(batch, 10) == naive(batch, 10)


@pytest.mark.parametrize("form", ["plain", "dictionary"])
def test_the_digest_of_many_rows_is_returned(form: str) -> None:
    """Small batches have no digest of their own: in a segment they are joined."""

    def rows(lo: int, hi: int) -> pa.RecordBatch:
        batch = items(lo, hi)
        text = batch["name"] if form == "plain" else batch["name"].dictionary_encode()
        return pa.RecordBatch.from_arrays([*batch.columns[:-1], text], batch.schema.names)

    digest = StreamDigest()
    assert digest.update(0, rows(0, 10)) == b""
    told = digest.update(10, rows(10, 700))
    assert told.hex() == digest_of(items(10, 700), 10)
    assert digest.hexdigest() == digest_of(items(0, 700))


def table(columns: np.ndarray) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(c) for c in columns], ["a", "b", "c"])


def test_a_dictionary_has_the_digest_of_its_values() -> None:
    plain = pa.array(["x", "y", None, "x"])
    a = pa.RecordBatch.from_arrays([plain], ["v"])
    b = pa.RecordBatch.from_arrays([plain.dictionary_encode()], ["v"])
    c = pa.RecordBatch.from_arrays([plain.dictionary_encode().slice(1)], ["v"])
    assert content_hashes(b)[1:].tolist() == content_hashes(c).tolist()
    assert digest_of(a) == digest_of(b)
    assert len({*content_hashes(a).tolist()}) == 3


def test_few_items_follow_few_items_of_fewer_columns() -> None:
    """Batches with different columns follow each other, as after a deployment."""
    more = items(10, 14).append_column("more", pa.array(range(4)))
    digest = StreamDigest()
    digest.update(0, items(0, 10))
    digest.update(10, more)
    both = StreamDigest()
    both.add(StreamDigest.from_bytes(bytes.fromhex(digest_of(items(0, 10)))))
    both.add(StreamDigest.from_bytes(bytes.fromhex(digest_of(more, 10))))
    assert digest == both
