"""Exact sums of integers and decimals of any size, and the means computed from them.

A sum is stored as two columns: a value of the result's type, and a *carry*. The carry counts how
many times the type's span must be added (2**64 for int64, 10**38 for decimals, 10**76 for wide
decimals). It is zero unless the sum overflows the type. So partial sums, and sums from which values
are subtracted later, never overflow. Only the finished sum is checked. Hence neither batch
boundaries nor the order in which partial sums are merged affect the result, or the overflow error.

Theory: a number is a list of signed 64-bit words, least significant first: ``sum(word[k] * 2**(64 *
k))``. Each word of a group is summed separately.
"""

from __future__ import annotations

from decimal import Context, Decimal
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rvertex.aggregates.accumulators import HasValue, Rows, Saved, fold_at
from rvertex.events.arrays import as_one_array, numbers
from rvertex.events.decimals import words
from rvertex.events.group_arrays import GroupArray

if TYPE_CHECKING:
    from collections.abc import Sequence

_INT64_ABOVE = 2**63
_HALF_BITS = np.int64(32)
_HALF_MASK = np.int64(2**32 - 1)
#: A 128-bit decimal whose high word is below this number has at most 38 digits.
_HIGH_MAX = 10**38 >> 64
#: Doubles represent all integers up to this number exactly.
_EXACT_MAX = 2**53
#: Number of words in a partial sum of 128-bit decimals, and of 256-bit decimals.
_WORDS, _WIDE_WORDS = 3, 5


def has_carry(kind: pa.DataType) -> bool:
    """Return whether sums of this type are exact, and so have a carry column."""
    return bool(pa.types.is_integer(kind) or pa.types.is_decimal(kind))


class WordSums:
    """Exact sums of int64 per group.

    One array is enough until a group may exceed int64. After that a sum is stored in two arrays, as
    ``high * 2**32 + low``.
    """

    def __init__(self) -> None:
        self._low = GroupArray(np.int64, 0)
        self._high: GroupArray | None = None
        #: Upper bound of the absolute values in the low array.
        self._bound = 0

    def add(self, codes: np.ndarray, values: np.ndarray, groups: int) -> None:
        """Add ``values`` int64[n] to the groups ``codes``, all below ``groups``."""
        if self._high is None:
            if len(values):
                self._bound += len(values) * max(abs(int(values.min())), abs(int(values.max())))
            if self._bound >= _INT64_ABOVE:
                self._carry_up()
        if self._high is not None:
            if self._bound + (len(values) << 32) >= _INT64_ABOVE:
                self._carry_up()
            self._bound += len(values) << 32
        low = self._low.writable(groups)
        if self._high is None:
            fold_at(np.add, low, codes, values)
        else:
            np.add.at(low, codes, values & _HALF_MASK)
            np.add.at(self._high.writable(groups), codes, values >> _HALF_BITS)

    def parts(self) -> tuple[np.ndarray, np.ndarray]:
        """Return each sum as ``value + 2**64 * carry``, both int64."""
        low = self._low.shared()
        if self._high is None:
            return low, np.zeros(len(low), np.int64)
        high = self._high.shared() + (low >> _HALF_BITS)
        value = (high << _HALF_BITS) | (low & _HALF_MASK)
        return value, (high >> _HALF_BITS) + (value < 0)

    def save(self) -> tuple[np.ndarray, pa.Array]:
        """Return the low parts of the sums, and the high parts, which are null if not needed."""
        low = self._low.shared()
        high = pa.nulls(len(low), pa.int64()) if self._high is None else self._high.shared()
        return low, pa.array(high)

    def restore(self, low: np.ndarray, high: pa.Array) -> None:
        """Restore the state that ``save`` returned."""
        self._low.adopt(low)
        self._bound = max(abs(int(low.min())), abs(int(low.max()))) if len(low) else 0
        self._high = None
        if high.null_count < len(low):
            self._high = GroupArray(np.int64, 0)
            self._high.adopt(numbers(high))

    def _carry_up(self) -> None:
        """Move all except the low 32 bits of each sum to the second array."""
        low = self._low.shared()
        above = low >> _HALF_BITS
        if self._high is None:
            self._high = GroupArray(np.int64, 0)
        else:
            above += self._high.read()
        self._high.adopt(above)
        self._low.adopt(low & _HALF_MASK)
        self._bound = 1 << 32


class ExactSum:
    """Exact sum per group, of type ``kind``; null for a group without values."""

    takes_gaps: ClassVar[bool] = True

    def __init__(self, column: str, kind: pa.DataType, carry: str | None = None) -> None:
        """Sum ``column``.

        ``carry``: the column of carries if partial sums are merged; None: events.
        """
        self._column = column
        self._carry = carry
        self._kind = kind
        #: One sum per word; None while the word is zero in all groups.
        self._sums: list[WordSums | None] = [WordSums(), *[None] * (_words_of(kind) - 1)]
        self._has_value = HasValue()

    def update(self, rows: Rows) -> None:
        """Add rows to the groups."""
        codes, column = rows.valid(self._column)
        for k, word in enumerate(_signed_words(column)):
            self._add(k, codes, word, rows.groups)
        if self._carry is not None:
            carries = numbers(rows.column(self._carry))
            some = np.flatnonzero(carries)
            for k, word in enumerate(self._carried(carries[some]) if len(some) else ()):
                self._add(k, rows.codes[some], word, rows.groups)
        self._has_value.mark(codes, rows)

    def columns(self) -> list[pa.Array]:
        """Return values and carries."""
        if pa.types.is_integer(self._kind):
            value, carry = self._part(0)
            if self._sums[1] is not None:
                carry = carry + self._part(1)[0]
            return [self._has_value.masked(value), pa.array(carry)]
        if pa.types.is_decimal256(self._kind):
            return self._by_python()
        return self._of_128_bits()

    def save(self) -> list[Saved]:
        """Return the words of all groups, by reference."""
        saved: list[Saved] = []
        for k, sums in enumerate(self._sums):
            low, high = (np.empty(0, np.int64), pa.nulls(0, pa.int64()))
            if sums is not None:
                low, high = sums.save()
            saved += [self._has_value.masked(low) if k == 0 else pa.array(low), high]
        return saved

    def restore(self, state: Sequence[pa.ChunkedArray]) -> None:
        """Restore the state that ``save`` returned."""
        columns = [as_one_array(column) for column in state]
        self._has_value.restore(columns[0])
        for k in range(len(self._sums)):
            low, high = columns[2 * k], columns[2 * k + 1]
            self._sums[k] = WordSums() if k == 0 or len(low) else None
            if (sums := self._sums[k]) is not None:
                sums.restore(numbers(low), high)

    def _add(self, k: int, codes: np.ndarray, word: np.ndarray, groups: int) -> None:
        sums = self._sums[k]
        if sums is None:
            if not word.any():
                return
            sums = self._sums[k] = WordSums()
        sums.add(codes, word, groups)

    def _part(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the k-th word of all groups."""
        first = self._sums[0]
        assert first is not None
        value, carry = first.parts()
        if k == 0:
            return value, carry
        sums = self._sums[k]
        parts = (np.empty(0, np.int64),) * 2 if sums is None else sums.parts()
        padded = [np.pad(part, (0, len(value) - len(part))) for part in parts]
        return padded[0], padded[1]

    def _carried(self, carries: np.ndarray) -> list[np.ndarray]:
        """Return the words of ``carries`` times the type's span."""
        if pa.types.is_integer(self._kind):
            return [np.zeros(len(carries), np.int64), carries]
        span = span_of(self._kind)
        found = [_split(carry * span, len(self._sums)) for carry in carries.tolist()]
        return list(np.array(found, np.int64).T)

    def _of_128_bits(self) -> list[pa.Array]:
        low, carry = self._part(0)
        if self._sums[1:] == [None, None] and not carry.any():
            made = _decimals(low, low >> np.int64(63), self._kind, self._has_value.masked(low))
            return [made, pa.array(carry)]
        high, over = self._part(1)
        is_small = (over == 0) & (high < _HIGH_MAX) & (high > -_HIGH_MAX) & (self._part(2)[0] == 0)
        high = np.where(is_small, high, 0) + carry - (low < 0)
        if not (is_small & (high < _HIGH_MAX) & (high >= -_HIGH_MAX)).all():
            return self._by_python()
        made = _decimals(low, high, self._kind, self._has_value.masked(low))
        return [made, pa.array(np.zeros(len(low), np.int64))]

    def _by_python(self) -> list[pa.Array]:
        """Compute the columns group by group in Python: for 256 bits, and if a sum overflows."""
        parts = [part.tolist() for k in range(len(self._sums)) for part in self._part(k)]
        weights = [2 ** (64 * k) for n in range(len(self._sums)) for k in (n, n + 1)]
        scale, span = self._kind.scale, span_of(self._kind)
        exact = Context(prec=len(str(span)))
        values, carries = [], []
        for found in zip(*parts, strict=True):
            total = sum(part * weight for part, weight in zip(found, weights, strict=True))
            carry = abs(total) // span * (1 if total >= 0 else -1)
            values.append(Decimal(total - carry * span).scaleb(-scale, exact))
            carries.append(carry)
        made = pa.array(values, self._kind)
        has_value = self._has_value.masked(np.zeros(len(values), np.int64)).is_valid()
        none = pa.scalar(None, self._kind)
        return [pc.if_else(has_value, made, none), pa.array(carries, pa.int64())]


def span_of(kind: pa.DataType) -> int:
    """Return the weight of a carry of 1, in units of the last decimal place."""
    if pa.types.is_integer(kind):
        return 2**64
    return 10**76 if pa.types.is_decimal256(kind) else 10**38


def exact_means(sums: pa.Array, carries: pa.Array, counts: pa.Array) -> pa.Array:
    """Return the doubles nearest to the exact quotients; null where the sum is null."""
    count = np.maximum(counts.to_numpy(zero_copy_only=False), 1)
    carry = numbers(carries)
    scale, kind = getattr(sums.type, "scale", 0), sums.type
    by = count.astype(np.float64) * 10.0**scale
    if pa.types.is_decimal256(kind):
        total, is_exact = np.zeros(len(sums), np.int64), np.zeros(len(sums), bool)
    else:
        total, *rest = _signed_words(sums)
        is_exact = (carry == 0) & (by <= _EXACT_MAX)
        is_exact &= (total <= _EXACT_MAX) & (total >= -_EXACT_MAX)
        for word in rest:
            is_exact &= word == 0
    empty = sums.is_null().to_numpy(zero_copy_only=False)
    # Both operands are exact up to ``_EXACT_MAX``, so the division rounds only once.
    mean = total.astype(np.float64) / by
    for i in np.flatnonzero(~is_exact & ~empty).tolist():
        exact = _unscaled(sums[i].as_py(), scale) + int(carry[i]) * span_of(kind)
        mean[i] = exact / (int(count[i]) * 10**scale)  # Python's division rounds once, too
    return pa.array(mean, mask=empty)


def _words_of(kind: pa.DataType) -> int:
    if pa.types.is_integer(kind):
        return 2
    return _WIDE_WORDS if pa.types.is_decimal256(kind) else _WORDS


def _signed_words(column: pa.Array) -> list[np.ndarray]:
    """Return the signed 64-bit words of integers or decimals; arbitrary words for nulls."""
    kind = column.type
    if pa.types.is_decimal256(kind):
        return _carried_up(words(column))
    if pa.types.is_decimal(kind):
        if not pa.types.is_decimal128(kind):
            column = column.cast(pa.decimal128(kind.precision, kind.scale))
        low, high = words(column)
        return [low, high + (low < 0)]
    if kind == pa.uint64():
        values = numbers(column).view(np.int64)
        return [values, (values < 0).astype(np.int64)]
    return [numbers(column).astype(np.int64, copy=False)]


def _carried_up(unsigned: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Convert words of which only the last is signed to words that are all signed."""
    out, carry = [], np.zeros(len(unsigned[0]), np.int64)
    for word in unsigned:
        with np.errstate(over="ignore"):
            signed = word + carry
        out.append(signed)
        carry = ((word < 0) | (signed < 0)).astype(np.int64)
    return out


def _split(number: int, count: int) -> list[int]:
    """Split a number into ``count`` signed words."""
    found = []
    for _ in range(count):
        word = (number + 2**63) % 2**64 - 2**63
        found.append(word)
        number = (number - word) >> 64
    assert number == 0, "a carry fits into the words of its type"
    return found


def _decimals(low: np.ndarray, high: np.ndarray, kind: pa.DataType, like: pa.Array) -> pa.Array:
    """Build decimals from two words, null where ``like`` is null."""
    pairs = np.empty((len(low), 2), np.int64)
    pairs[:, 0], pairs[:, 1] = low, high
    valid = like.is_valid().buffers()[1] if like.null_count else None
    return pa.Array.from_buffers(kind, len(low), [valid, pa.py_buffer(pairs)])


def _unscaled(value: int | Decimal, scale: int) -> int:
    if isinstance(value, int):
        return value
    return int(value.scaleb(scale, Context(prec=100)))
