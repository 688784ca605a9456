"""Dense codes for many values of more than 64 bits, such as text, without a Python object for each.

A value is found by its hash and compared with the stored value. If another value has the same hash,
the hash of the hash is tried, and so on. Values are never removed, so a value without an entry is
new.

Invariants: (1) exact: two values have one code if and only if they are equal; (2) codes are
numbered by first appearance over all calls, also for values with equal hashes; (3) a call takes
amortised time in its values.
"""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rstream.items.hashing import GOLDEN, fmix, hash_column
from rvertex.keys.int_index import UNKNOWN, IntIndex

#: Chunks of values are merged up to this size, in bytes, since a merge copies them.
_CHUNK_BYTES_MAX = 32 << 20


def is_wide(kind: pa.DataType) -> bool:
    """Return whether values of a type can be kept in a :class:`WideIndex`."""
    types = pa.types
    is_text = types.is_string(kind) or types.is_large_string(kind)
    is_bytes = types.is_binary(kind) or types.is_large_binary(kind)
    return bool(
        is_text or is_bytes or types.is_fixed_size_binary(kind) or types.is_decimal128(kind)
    )


class WideIndex:
    """Codes distinct values; the first ``values`` get the codes from 0 on."""

    def __init__(self, values: pa.Array) -> None:
        self._kind = values.type
        #: Index of hashes: the code of a hash is the code of its value.
        self._index = IntIndex()
        #: The values in code order, and the code of the first value of each chunk.
        self._chunks: list[pa.Array] = []
        self._starts: np.ndarray = np.zeros(1, np.int64)
        self.codes(values, insert=True)

    def __len__(self) -> int:
        return len(self._index)

    def codes(self, values: pa.Array, *, insert: bool) -> np.ndarray:
        """Return the codes of distinct values, int64[n], none null.

        The code is -1 for an unknown value unless ``insert``.
        """
        hashes = hash_column(values).view(np.int64)
        codes = self._index.codes(hashes, insert=False)
        is_new = codes == UNKNOWN
        known, new = np.flatnonzero(~is_new), np.flatnonzero(is_new)
        if not self._have(codes[known], values.take(pa.array(known))):
            return self._one_by_one(values, hashes, insert=insert)
        if insert and len(new):
            if len(np.unique(hashes[new])) < len(new):
                return self._one_by_one(values, hashes, insert=True)
            codes[new] = self._index.codes(hashes[new], insert=True)
            self._append(values.take(pa.array(new)))
        return codes

    def values(self, codes: np.ndarray) -> pa.Array:
        """Return the values of ``codes`` int64[n]."""
        if len(self._chunks) == 1:
            return self._chunks[0].take(pa.array(codes))
        chunk = self._starts.searchsorted(codes, side="right") - 1
        order = np.argsort(chunk, kind="stable")
        bounds = chunk[order].searchsorted(np.arange(len(self._chunks) + 1))
        parts = [pa.array([], self._kind)]
        for k, (lo, hi) in enumerate(itertools.pairwise(bounds)):
            if lo < hi:
                at = codes[order[lo:hi]] - self._starts[k]
                parts.append(self._chunks[k].take(pa.array(at)))
        place = np.empty(len(codes), np.int64)
        place[order] = np.arange(len(codes))
        return pa.concat_arrays(parts).take(pa.array(place))

    def _have(self, codes: np.ndarray, values: pa.Array) -> bool:
        """Return whether each code belongs to the value at the same position."""
        return len(codes) == 0 or bool(pc.all(pc.equal(self.values(codes), values)).as_py())

    def _one_by_one(self, values: pa.Array, hashes: np.ndarray, *, insert: bool) -> np.ndarray:
        """Return codes as :meth:`codes`, if two values have the same hash."""
        codes = np.full(len(values), UNKNOWN, np.int64)
        for i in range(len(values)):
            value, one = values.slice(i, 1), hashes[i : i + 1].copy()
            code = self._index.codes(one, insert=False)
            # Ends: there are finitely many hashes
            while code[0] != UNKNOWN and not self._have(code, value):
                one = fmix(one.view(np.uint64) + GOLDEN).view(np.int64)
                code = self._index.codes(one, insert=False)
            if code[0] == UNKNOWN and insert:
                code = self._index.codes(one, insert=True)
                self._append(value)
            codes[i] = code[0]
        return codes

    def _append(self, values: pa.Array) -> None:
        """Store the values of the next codes; chunks are merged like digits of a binary counter."""
        chunks = [*self._chunks, values]
        while len(chunks) > 1 and _are_merged(*chunks[-2:]):
            chunks[-2:] = [pa.concat_arrays(chunks[-2:])]
        self._chunks = chunks
        self._starts = np.cumsum([0, *(len(chunk) for chunk in chunks[:-1])])


def _are_merged(before: pa.Array, last: pa.Array) -> bool:
    is_small = before.nbytes + last.nbytes <= _CHUNK_BYTES_MAX
    return is_small and len(before) <= 2 * len(last)
