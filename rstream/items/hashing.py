"""Hashes of values, keys and rows: vectorised, documented, the same on every platform.

There are two families. **Key hashes** (:func:`hash_column`, :func:`hash_rows`,
:func:`partition_of`) are over canonical values: integers of any width, dates and times hash by
their int64 value; ``-0.0`` equals ``0.0`` and there is one NaN; null has one fixed hash. **Content
hashes** (``exact=True``, :func:`content_hashes`) distinguish any two bit patterns, as a digest
requires.

Definitions, all modulo 2**64, where ``fmix`` is the finaliser of splitmix64 (Steele et al. 2014):
``hash(int x) = fmix(x + G)``. A byte string of ``n`` bytes is divided into little-endian words
``w_i``, the last padded with zeros (at least one word): ``fmix(n + sum_i fmix(w_i + (i + 1) *
G))``. A list hashes in the same way, with its items' hashes as words. Rows: ``h = fmix(h * 3 +
hash(column))`` from the second column on. Partition: ``((h >> 32) * n) >> 32``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rstream.errors import InvalidBatchError
from rstream.items.dictionaries import Known, plain_array, remembered

if TYPE_CHECKING:
    from collections.abc import Sequence

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
NULL_HASH = np.uint64(0x6E756C6C6E756C6C)
_NO_ROWS = np.empty(0, np.int64)
_ALL_VALID = 255
#: If fewer than one in this many bitmap bytes have nulls, nulls are searched byte by byte.
_BYTES_PER_NULL = 8
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)
_PARTITIONS_MAX = 2**31
#: Rows that are hashed at once: a few temporary arrays of this many words stay in the L2 cache.
_BLOCK_ROWS = 8192
#: Items of lists that are hashed at once.
_BLOCK_ITEMS = 1 << 16
#: The first words of strings are hashed one position at a time. Words after this many are hashed
#: all at once.
_WORDS_BY_PLACE = 64
#: Number of dictionaries whose hashes are cached.
_DICTIONARIES_MAX = 64


def fmix(x: np.ndarray) -> np.ndarray:
    """Apply the finaliser of splitmix64 to uint64[n], in place; return ``x``."""
    x ^= x >> np.uint64(30)
    x *= MIX_1
    x ^= x >> np.uint64(27)
    x *= MIX_2
    x ^= x >> np.uint64(31)
    return x


#: The words of an empty list, besides its length: one word, zero.
_ONE_ZERO = fmix(np.array([GOLDEN]))[0]


def hash_column(array: pa.Array, *, exact: bool = False) -> np.ndarray:
    """Return the hash of each value, uint64[n].

    ``exact``: by content bits, otherwise canonical as a key.
    """
    if len(array) <= _BLOCK_ROWS or not is_flat(array.type):
        return _hash_block(array, exact)
    hashes = np.empty(len(array), np.uint64)
    for lo in range(0, len(array), _BLOCK_ROWS):
        hashes[lo : lo + _BLOCK_ROWS] = _hash_block(array.slice(lo, _BLOCK_ROWS), exact)
    return hashes


def hash_rows(columns: Sequence[pa.Array], *, exact: bool = False) -> np.ndarray:
    """Return the hash of each row over ``columns``, uint64[n].

    There must be one or more columns, of equal length.
    """
    assert columns, "a row hash needs a column"
    hashes = hash_column(columns[0], exact=exact)
    for column in columns[1:]:
        hashes *= np.uint64(3)
        hashes += hash_column(column, exact=exact)
        fmix(hashes)
    return hashes


#: An upper bound (exclusive) of slots.
SLOTS = 2**32


def slots_of(columns: Sequence[pa.Array]) -> np.ndarray:
    """Return the slot of each row by its key columns, int64[rows] in ``[0, SLOTS)``.

    Partition ``k`` of ``n`` is the range of slots from ``first_slot(k, n)`` on.
    """
    hashes = hash_rows(columns)
    hashes >>= np.uint64(32)
    return hashes.view(np.int64)


def first_slot(k: int, n: int) -> int:
    """Return the first slot of partition ``k`` of ``n``. For ``k = n`` it is SLOTS."""
    return -(-k * SLOTS // n)


def partition_of(columns: Sequence[pa.Array], n: int) -> np.ndarray:
    """Return the partition of each row by its key columns, int64[rows] in ``[0, n)``."""
    assert 1 <= n <= _PARTITIONS_MAX, n
    if n == 1:
        return np.zeros(len(columns[0]), np.int64)
    hashes = slots_of(columns).view(np.uint64)
    hashes *= np.uint64(n)
    hashes >>= np.uint64(32)
    return hashes.view(np.int64)


def content_words(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return one word per value that differs where the content differs, and the null rows.

    The words, [n], are not mixed: they are the cheap half of a content hash. Values of at most 8
    bytes are taken as they are (maybe a view); integers may be narrow and signed. The null rows,
    int64[m], increase; their words are arbitrary, and each stands for :data:`NULL_HASH`.
    """
    words: np.ndarray | None
    if pa.types.is_integer(array.type):
        words = value_buffer(array, array.type.to_pandas_dtype())
    else:
        words = _plain_words(array, exact=True)
    if words is None and pa.types.is_dictionary(array.type):
        words = _hash_dictionary(array, exact=True)
    if words is None:
        return hash_column(array, exact=True), _NO_ROWS
    return words, null_rows(array)


def null_rows(array: pa.Array) -> np.ndarray:
    """Return the rows that are null, int64[m], increasing."""
    if not array.null_count:
        return _NO_ROWS
    bitmap = array.buffers()[0]
    if bitmap is not None and array.offset % 8 == 0:
        first = array.offset // 8
        valid = np.frombuffer(bitmap, np.uint8, count=-(-len(array) // 8), offset=first)
        places = np.flatnonzero(valid != _ALL_VALID)
        if len(places) <= len(valid) // _BYTES_PER_NULL:
            bits = np.unpackbits(valid[places], bitorder="little").reshape(-1, 8)
            at, bit = np.nonzero(bits == 0)
            few: np.ndarray = places[at] * 8 + bit
            return few[: few.searchsorted(len(array))]
    rows: np.ndarray = pc.indices_nonzero(pc.is_null(array)).to_numpy().astype(np.int64)
    return rows


def value_words(array: pa.DictionaryArray) -> np.ndarray:
    """Return the content hashes of the values of a dictionary. Hashes of small ones are cached."""
    known = Known(array.dictionary)
    return _hashes_of(known, True) if known.is_small else hash_column(known.values, exact=True)


def is_flat(kind: pa.DataType) -> bool:
    """Return whether the cost of a slice depends on its length, not on the array's length."""
    return not (pa.types.is_dictionary(kind) or pa.types.is_nested(kind))


def _hash_block(array: pa.Array, exact: bool) -> np.ndarray:
    hashes = _hash_values(array, exact)
    if array.null_count:
        hashes[_null_mask(array)] = NULL_HASH
    return hashes


def _null_mask(array: pa.Array) -> np.ndarray:
    return pc.is_null(array).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _hash_values(array: pa.Array, exact: bool) -> np.ndarray:
    """Return hashes of the values. Where the array is null the result is arbitrary."""
    kind = array.type
    words = _plain_words(array, exact)
    if words is not None:
        return fmix(words + GOLDEN)
    if pa.types.is_dictionary(kind):
        return _hash_dictionary(array, exact)
    if pa.types.is_null(kind):
        return np.full(len(array), NULL_HASH, np.uint64)
    if pa.types.is_decimal(kind):
        return _hash_decimals(array)
    if pa.types.is_struct(kind):
        return hash_rows(array.flatten(), exact=exact)
    if pa.types.is_map(kind):
        array = array.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))
        return _hash_lists(array, exact)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _hash_lists(array, exact)
    if pa.types.is_fixed_size_list(kind):
        return _hash_lists(array.cast(pa.list_(kind.value_field)), exact)
    return _hash_bytes(array)


def _hash_dictionary(array: pa.DictionaryArray, exact: bool) -> np.ndarray:
    """Return the hashes of a dictionary array, each value hashed once.

    Batches that share the dictionary share its hashes. Where the array is null the result is
    arbitrary.
    """
    known = Known(array.dictionary)
    if not len(known.values):
        return np.full(len(array), NULL_HASH, np.uint64)
    if known.is_small:
        of_values = _hashes_of(known, exact)
    elif len(array) < len(known.values):
        return hash_column(plain_array(array), exact=exact)
    else:
        of_values = hash_column(known.values, exact=exact)
    indices = value_buffer(array.indices, array.indices.type.to_pandas_dtype())
    return of_values.take(indices, mode="clip")


@remembered(_DICTIONARIES_MAX)
def _hashes_of(known: Known, exact: bool) -> np.ndarray:
    return hash_column(known.values, exact=exact)


def _plain_words(array: pa.Array, exact: bool) -> np.ndarray | None:
    """Return values of at most 8 bytes as uint64[n] (maybe a view), or None for any other type.

    Where the array is null the word is arbitrary.
    """
    kind = array.type
    if pa.types.is_boolean(kind):
        flags: np.ndarray = pc.fill_null(array, False).to_numpy(zero_copy_only=False)
        return flags.astype(np.uint64)
    if pa.types.is_floating(kind):
        return _float_words(array, exact)
    if pa.types.is_integer(kind):
        return (
            value_buffer(array, kind.to_pandas_dtype()).astype(np.int64, copy=False).view(np.uint64)
        )
    if not pa.types.is_temporal(kind) or pa.types.is_interval(kind):
        return None
    dtype = np.int32 if kind.bit_width == 32 else np.int64
    return value_buffer(array, dtype).astype(np.int64, copy=False).view(np.uint64)


def _float_words(array: pa.Array, exact: bool) -> np.ndarray:
    values = value_buffer(array, array.type.to_pandas_dtype())
    if exact:
        bits = values.view(np.dtype(f"u{values.itemsize}"))
        return bits.astype(np.uint64, copy=False)
    canonical = values.astype(np.float64)
    canonical += 0.0
    canonical[np.isnan(canonical)] = np.nan
    return canonical.view(np.uint64)


def value_buffer(array: pa.Array, dtype: type[np.generic]) -> np.ndarray:
    """Return the value buffer of a fixed-width array as a view, nulls included."""
    data = array.buffers()[1]
    if data is None:
        return np.zeros(len(array), dtype)
    width = np.dtype(dtype).itemsize
    values: np.ndarray = np.frombuffer(data, dtype, count=len(array), offset=array.offset * width)
    return values


def _hash_decimals(array: pa.Array) -> np.ndarray:
    """Return hashes of decimals by their unscaled value, as little-endian words."""
    if array.type.bit_width < 128:
        array = array.cast(pa.decimal128(38, array.type.scale))
    count = array.type.bit_width // 64
    words = np.frombuffer(
        array.buffers()[1], np.uint64, count=len(array) * count, offset=array.offset * count * 8
    ).reshape(-1, count)
    total = np.full(len(array), array.type.bit_width // 8, np.uint64)
    for i in range(count):
        total += fmix(words[:, i] + np.uint64((i + 1) * int(GOLDEN) % 2**64))
    return fmix(total)


def _hash_bytes(array: pa.Array) -> np.ndarray:
    """Return hashes of texts and binaries by 8-byte words, without a Python loop over rows."""
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        dtype: type[np.generic] = np.int32
    elif pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        dtype = np.int64
    else:
        try:
            return _hash_bytes(array.cast(pa.large_binary()))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidBatchError("(hash)", f"cannot hash type {kind}") from error
    if not len(array):
        return np.empty(0, np.uint64)
    width = np.dtype(dtype).itemsize
    offsets = np.frombuffer(
        array.buffers()[1], dtype, count=len(array) + 1, offset=array.offset * width
    ).astype(np.int64)
    lengths = np.diff(offsets)
    if array.null_count:
        lengths[_null_mask(array)] = 0
    first = int(offsets[0])
    words = _words_anywhere(array.buffers()[2], first, int(offsets[-1]))
    return _hash_words(words, offsets[:-1] - first, lengths)


def _words_anywhere(data: pa.Buffer | None, start: int, stop: int) -> np.ndarray:
    """Return the little-endian word at each byte of ``[start, stop]``.

    Zeros follow the last byte.
    """
    size = stop - start
    padded = np.zeros(size + 8, np.uint8)
    if data is not None and size:
        padded[:size] = np.frombuffer(data, np.uint8, count=size, offset=start)
    return np.ndarray((size + 1,), np.dtype("<u8"), buffer=padded, strides=(1,))


def _hash_words(words: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the hashes of byte strings, word by word: the i-th words of all rows at once.

    ``words`` is indexed by byte position. A row is ``[start, start + length)``.
    """
    whole, rest = lengths >> 3, lengths & 7
    sums = lengths.astype(np.uint64)
    # The last word, padded. A row that ends with a whole word has none, and an empty row has one.
    last = words[starts + (whole << 3)].astype(np.uint64, copy=False)
    last &= (np.uint64(1) << (rest.astype(np.uint64) << np.uint64(3))) - np.uint64(1)
    last += (whole + 1).astype(np.uint64) * GOLDEN
    fmix(last)
    last *= (rest > 0) | (whole == 0)
    sums += last
    shortest, longest = (min(int(n), _WORDS_BY_PLACE) for n in (whole.min(), whole.max()))
    for i in range(shortest):
        sums += _terms(words[starts + 8 * i], _shift(i))
    rows = np.flatnonzero(whole > shortest)
    for i in range(shortest, longest):
        sums[rows] += _terms(words[starts[rows] + 8 * i], _shift(i))
        rows = rows[whole[rows] > i + 1]
    if len(rows):
        counts = whole[rows] - _WORDS_BY_PLACE
        place = _position(counts) + _WORDS_BY_PLACE
        loaded = words[np.repeat(starts[rows], counts) + 8 * place]
        terms = _terms(loaded, (place + 1).astype(np.uint64) * GOLDEN)
        sums[rows] += np.add.reduceat(terms, np.cumsum(counts) - counts)
    return fmix(sums)


def _shift(i: int) -> np.uint64:
    """Return ``(i + 1) * G``."""
    return np.uint64((i + 1) * int(GOLDEN) % 2**64)


def _terms(words: np.ndarray, shift: np.ndarray | np.uint64) -> np.ndarray:
    """Return ``fmix(w + shift)`` of each word; may work in place."""
    words = words.astype(np.uint64, copy=False)
    words += shift
    return fmix(words)


def _position(counts: np.ndarray) -> np.ndarray:
    """Return ``0..counts[0]-1, 0..counts[1]-1, ...`` in one array."""
    ends = np.cumsum(counts)
    position: np.ndarray = np.arange(ends[-1]) - np.repeat(ends - counts, counts)
    return position


def _hash_lists(array: pa.Array, exact: bool) -> np.ndarray:
    """Return hashes of lists by their lengths and the hashes of their items, in blocks of items."""
    if not len(array):
        return np.empty(0, np.uint64)
    offsets = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    lengths = np.diff(offsets)
    sums = lengths.astype(np.uint64)
    sums[lengths == 0] += _ONE_ZERO
    for at in range(int(offsets[0]), int(offsets[-1]), _BLOCK_ITEMS):
        end = min(at + _BLOCK_ITEMS, int(offsets[-1]))
        first = int(np.searchsorted(offsets, at, side="right")) - 1
        last = int(np.searchsorted(offsets, end))
        starts = np.maximum(offsets[first:last], at) - at
        counts = np.diff(starts, append=end - at)
        place = np.arange(at + 1, end + 1) - np.repeat(offsets[first:last], counts)
        terms = place.view(np.uint64)
        terms *= GOLDEN
        terms += hash_column(array.values.slice(at, end - at), exact=exact)
        fmix(terms)
        some = counts > 0
        sums[first:last][some] += np.add.reduceat(terms, starts[some])
    return fmix(sums)
