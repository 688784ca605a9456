"""Dense codes for 64-bit keys: the hash table on which the key index is built.

Codes are numbered by first appearance, so they depend on the order of the keys and not on batch
boundaries. Keys within a small span are addressed directly (:mod:`rvertex.keys.key_range`). Others
go through a hash table with open addressing and linear probing, for all rows of a call at once:
each round advances the rows whose slot has another key, so the number of rounds is the length of
the longest probe.

Invariants: (1) ``keys[code]`` is the key of ``code``, so equality is decided on all 64 bits and a
collision never identifies two keys; (2) a call costs time in its rows, amortised: the table doubles
with the number of keys, never with the number of calls; (3) at most half of the slots are taken.
"""

from __future__ import annotations

import numpy as np

from rvertex.errors import TooManyValuesError
from rvertex.keys.key_range import KeyRange, base_below

UNKNOWN = -1

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_SPAN_MIN = 1 << 16
#: Cells that the direct table may have per row of a call: then filling the table costs no more than
#: processing the rows.
_SPAN_ROWS = 2
_SLOTS_MIN = 1 << 12
#: Number of keys that are inserted at once into a new hash table.
_REHASH_ROWS = 1 << 18
_CHUNK_MIN = 1 << 12
#: A call with more rows than this, and more than this per known key, is divided into pieces.
_FRESH_ROWS_MAX = 1 << 12
_FRESH_GROWTH = 8
_CODES_MAX = 2**31 - 1


class IntIndex:
    """int64 keys -> dense codes by first appearance."""

    def __init__(self) -> None:
        self._keys = np.empty(64, np.int64)
        self._count = 0
        self._is_direct = True
        #: With direct addressing: the code by distance. With hashing: the code by slot. -1: free.
        self._table = np.empty(0, np.int32)
        #: With direct addressing: the range of keys, as wide as the table is long.
        self._range = KeyRange(0, 0)
        self._shift = np.uint64(0)

    def __len__(self) -> int:
        return self._count

    @property
    def keys(self) -> np.ndarray:
        """The keys in code order, int64[len(self)]; a view that later calls do not change."""
        return self._keys[: self._count]

    def codes(self, keys: np.ndarray, *, insert: bool) -> np.ndarray:
        """Return one code per key of ``keys`` int64[n]; -1 for unknown ones unless ``insert``."""
        if len(keys) == 0:
            return np.empty(0, np.int64)
        if self._is_direct and insert:
            self._cover(keys)
        if insert and len(keys) > _FRESH_ROWS_MAX + _FRESH_GROWTH * self._count:
            return self._fresh_codes(keys)
        return self._codes(keys, insert=insert)

    def _codes(self, keys: np.ndarray, *, insert: bool) -> np.ndarray:
        if self._is_direct:
            return self._direct_codes(keys, insert=insert)
        return self._hashed_codes(keys, insert=insert)

    def _fresh_codes(self, keys: np.ndarray) -> np.ndarray:
        """Add many rows to an index of few keys, in pieces of doubling size.

        Finding a key is much cheaper than inserting it. With pieces, most rows find keys that an
        earlier piece inserted.
        """
        pieces: list[np.ndarray] = []
        lo = 0
        while lo < len(keys):
            hi = lo + max(_FRESH_ROWS_MAX, lo)
            pieces.append(self._codes(keys[lo:hi], insert=True))
            lo = hi
        return np.concatenate(pieces)

    def check(self) -> None:
        """Assert the invariants (linear)."""
        taken = self._table[self._table >= 0]
        assert len(taken) == self._count, (len(taken), self._count)
        assert np.array_equal(np.sort(taken), np.arange(self._count))
        codes = self.codes(self.keys, insert=False)
        assert np.array_equal(codes, np.arange(self._count))
        assert self._is_direct or 2 * self._count <= len(self._table)

    def _check_room(self, rows: int) -> None:
        """Check that codes fit into int32 after ``rows`` rows with unknown keys."""
        if self._count + rows > _CODES_MAX:
            raise TooManyValuesError("different keys", _CODES_MAX)

    def _append(self, keys: np.ndarray) -> None:
        count = self._count + len(keys)
        if count > len(self._keys):
            grown = np.empty(max(count, 2 * len(self._keys)), np.int64)
            grown[: self._count] = self.keys
            self._keys = grown
        self._keys[self._count : count] = keys
        self._count = count

    # ---- direct addressing

    def _cover(self, keys: np.ndarray) -> None:
        """Grow the direct table to cover ``keys``, or switch to hashing."""
        low, high = int(keys.min()), int(keys.max())
        old = self._range
        if old.covers(low, high):
            return
        is_below = bool(old.width) and low < old.base
        if old.width:
            low, high = min(low, old.base), max(high, old.base + old.width - 1)
        span = high - low + 1
        span_max = max(_SPAN_MIN, 4 * self._count, _SPAN_ROWS * len(keys))
        if span > span_max:
            self._rehash(_SLOTS_MIN)
            return
        width = max(span, min(2 * old.width, span_max))
        base = base_below(low, width - span if is_below else 0)
        self._range = KeyRange(base, width)
        grown = np.full(width, UNKNOWN, np.int32)
        grown[old.base - base : old.base - base + old.width] = self._table
        self._table = grown

    def _direct_codes(self, keys: np.ndarray, *, insert: bool) -> np.ndarray:
        at = self._range.distances(keys)
        if insert:
            codes = self._table.take(at)
        else:
            inside = self._range.holds(at)
            codes = np.full(len(keys), UNKNOWN, np.int32)
            codes[inside] = self._table.take(at[inside])
        if insert and codes.min() < 0:
            self._insert_direct(keys, at, codes)
        return codes.astype(np.int64)

    def _insert_direct(self, keys: np.ndarray, at: np.ndarray, codes: np.ndarray) -> None:
        rows = np.flatnonzero(codes < 0)
        self._check_room(len(rows))
        slots = at[rows]
        local = np.arange(len(rows), dtype=np.int32)
        # NumPy keeps the last assignment of a repeated index; reversed, the first row wins.
        self._table[slots[::-1]] = local[::-1]
        first = self._table.take(slots) == local
        new_codes = np.arange(self._count, self._count + int(first.sum()), dtype=np.int32)
        self._table[slots[first]] = new_codes
        self._append(keys[rows[first]])
        codes[rows] = self._table.take(slots)

    # ---- open addressing

    def _slots_of(self, keys: np.ndarray) -> np.ndarray:
        mixed = keys.view(np.uint64) >> _HALF
        mixed ^= keys.view(np.uint64)
        mixed *= _MULTIPLIER
        mixed >>= self._shift
        slots: np.ndarray = mixed.view(np.int64)
        return slots

    def _hashed_codes(self, keys: np.ndarray, *, insert: bool) -> np.ndarray:
        codes, _ = self._look_up(keys)
        if not insert or codes.min() >= 0:
            return codes.astype(np.int64)
        rows = np.flatnonzero(codes < 0)
        # Chunks that double, so that the table grows with the keys and not with the rows.
        while len(rows):
            chunk = rows[: max(_CHUNK_MIN, self._count)]
            rows = rows[len(chunk) :]
            codes[chunk] = self._insert_hashed(keys[chunk])
            if len(rows):
                codes[rows], _ = self._look_up(keys[rows])
                rows = rows[codes[rows] < 0]
        return codes.astype(np.int64)

    def _look_up(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return codes; for unknown keys -1, and the free slot at which their probe ended."""
        mask = len(self._table) - 1
        slots = self._slots_of(keys)
        codes = self._table.take(slots)
        # A free slot has code -1, which reads the last key here; the next line drops free slots.
        foreign = self._keys.take(codes, mode="wrap") != keys
        foreign &= codes >= 0
        active = np.flatnonzero(foreign)
        while len(active):  # Ends: half of the slots are free.
            at = slots[active]
            at += 1
            at &= mask
            slots[active] = at
            stored = self._table.take(at)
            codes[active] = stored
            foreign = self._keys.take(stored, mode="wrap") != keys[active]
            foreign &= stored >= 0
            active = active[foreign]
        return codes, slots

    def _insert_hashed(self, keys: np.ndarray) -> np.ndarray:
        """Insert keys that are not in the table and may repeat; return their codes, int32[n]."""
        self._check_room(len(keys))
        if 2 * (self._count + len(keys)) > len(self._table):
            self._rehash(4 * (self._count + len(keys)))
        _, slots = self._look_up(keys)
        owner, at = self._place(keys, slots)
        rows = np.arange(len(keys))
        first = owner == rows
        rank = np.cumsum(first, dtype=np.int32)
        rank += np.int32(self._count - 1)
        self._table[at[first]] = rank[first]
        self._append(keys[first])
        codes: np.ndarray = rank[owner]
        return codes

    def _place(self, keys: np.ndarray, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Claim a slot per key. ``slots``: the first free slot of each row's probe.

        Returns for each row the first row with the same key, and its slot. Rows of one key probe
        the same slots, so all of them meet the claim of the first row. A claim is ``count + row``
        until the caller writes the code.
        """
        base, mask = np.int32(self._count), len(self._table) - 1
        owner = np.empty(len(keys), np.int64)
        active = np.arange(len(keys))
        while len(active):  # Ends: half of the slots are free.
            at = slots[active]
            free = self._table.take(at) < 0
            claim = active[free].astype(np.int32) + base
            self._table[at[free][::-1]] = claim[::-1]
            holder = self._table.take(at) - base
            is_same = holder >= 0
            is_same &= keys[np.maximum(holder, 0)] == keys[active]
            owner[active[is_same]] = holder[is_same]
            active = active[~is_same]
            slots[active] = (slots[active] + 1) & mask
        return owner, slots

    def _rehash(self, slots_min: int) -> None:
        """Rebuild the hash table with at least ``slots_min`` slots and at least four per key."""
        bits = max(slots_min, 4 * self._count, _SLOTS_MIN).bit_length()
        self._is_direct = False
        self._table = np.full(1 << bits, UNKNOWN, np.int32)
        self._shift = np.uint64(64 - bits)
        keys = self.keys
        # In pieces, so that temporary arrays stay small
        for lo in range(0, len(keys), _REHASH_ROWS):
            some, self._count = keys[lo : lo + _REHASH_ROWS], lo
            _, at = self._place(some, self._slots_of(some))
            self._table[at] = np.arange(lo, lo + len(some), dtype=np.int32)
        self._count = len(keys)
