"""Dense integer codes for keys of any columns; grouping and joins are built on them.

A key is one value per key column. Codes are numbered by first appearance over all calls. So codes,
and every order derived from them, depend on the order of the rows, not on the batch boundaries.

Invariants: (1) exact: two rows have one code if and only if their keys are equal, where null equals
null, NaN equals NaN and -0.0 equals 0.0; (2) ``codes`` costs time in its rows, amortised. Theory:
integers, floats and times go through :class:`~rvertex.keys.int_index.IntIndex` by their bits. Other
types are dictionary-encoded per call, so Python handles only distinct values. Several columns are
combined pairwise: the codes of two columns make one 64-bit key of the next table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from rstream.errors import UsageError, error_class
from rvertex.keys.int_index import UNKNOWN, IntIndex
from rvertex.keys.wide_index import WideIndex, is_wide

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Most values in a dictionary of Python objects; more values are kept in arrays.
_OBJECTS_MAX = 1 << 13
_PAIR_BITS = np.int64(32)
_PAIR_MASK = np.int64(2**32 - 1)


@error_class
class UnsupportedKeyError(UsageError):
    """A column of this type cannot be a key."""

    type_name: str

    message = "a column of type {type_name} cannot be a key"


class KeyIndex:
    """Keys over columns of ``types`` -> dense codes by first appearance."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self._columns = [_NullableColumn(t) for t in types]
        self._pairs = [IntIndex() for _ in types[1:]]
        self._has_empty_key = False

    def __len__(self) -> int:
        if not self._columns:
            return int(self._has_empty_key)
        return len(self._pairs[-1]) if self._pairs else len(self._columns[0])

    def codes(self, columns: Sequence[pa.Array], *, insert: bool = True) -> np.ndarray:
        """Return one code per row, int64[n]; -1 for unknown keys unless ``insert``.

        Without key columns there is one key, the empty key: use :meth:`codes_of_rows`.
        """
        assert len(columns) == len(self._columns) > 0, (len(columns), len(self._columns))
        codes = self._columns[0].codes(columns[0], insert=insert)
        for column, pairs, values in zip(self._columns[1:], self._pairs, columns[1:], strict=True):
            codes = _fold(pairs, codes, column.codes(values, insert=insert), insert=insert)
        return codes

    def matching_codes(self, columns: Sequence[pa.Array]) -> np.ndarray:
        """Return codes as :meth:`codes`.

        -1 where a key column is null, since null never matches.
        """
        codes = self.codes(columns)
        nulls = null_keys(columns)
        if nulls is not None:
            codes[nulls] = UNKNOWN
        return codes

    def codes_of_rows(
        self, columns: Sequence[pa.Array], rows: int, *, insert: bool = True
    ) -> np.ndarray:
        """Return codes as :meth:`codes` for ``rows`` rows. Without key columns, every code is 0."""
        if self._columns:
            return self.codes(columns, insert=insert)
        self._has_empty_key |= insert and rows > 0
        return np.full(rows, 0 if self._has_empty_key else UNKNOWN, np.int64)

    def keys(self, codes: np.ndarray | None = None) -> list[pa.Array]:
        """Return the key columns of ``codes`` int64[m], or of all codes in order.

        The time is proportional to m.
        """
        if codes is None and len(self._columns) == 1:
            return [self._columns[0].all_values()]
        if codes is None:
            codes = np.arange(len(self))
        out: list[pa.Array] = []
        for column, pairs in zip(self._columns[:0:-1], self._pairs[::-1], strict=True):
            pair = pairs.keys[codes]
            out.append(column.values(pair & _PAIR_MASK))
            codes = pair >> _PAIR_BITS
        if self._columns:
            out.append(self._columns[0].values(codes))
        return out[::-1]


def null_keys(columns: Sequence[pa.Array]) -> np.ndarray | None:
    """Return a mask of the rows in which a key column is null; None if there is no such row."""
    mask: np.ndarray | None = None
    for column in columns:
        if column.null_count:
            nulls = _null_mask(column)
            mask = nulls if mask is None else mask | nulls
    return mask


def _fold(pairs: IntIndex, left: np.ndarray, right: np.ndarray, *, insert: bool) -> np.ndarray:
    keys = (left << _PAIR_BITS) | (right & _PAIR_MASK)
    codes = pairs.codes(keys, insert=insert)
    if not insert:
        codes[(left < 0) | (right < 0)] = UNKNOWN
    return codes


def _null_mask(column: pa.Array) -> np.ndarray:
    return column.is_null().to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


class _Column(Protocol):
    """Codes the values of a column without nulls, by first appearance."""

    def __len__(self) -> int: ...
    def codes(self, column: pa.Array, *, insert: bool) -> np.ndarray: ...
    def values(self, codes: np.ndarray) -> pa.Array: ...


class _NullableColumn:
    """Codes null by first appearance too: values that appear after it get a code one higher."""

    def __init__(self, type_: pa.DataType) -> None:
        self._type = type_
        value_type = type_.value_type if pa.types.is_dictionary(type_) else type_
        is_bits = _bit_width(value_type) is not None
        self._inner: _Column = _BitsColumn(value_type) if is_bits else _ObjectColumn(value_type)
        self._null_code: int | None = None

    def __len__(self) -> int:
        return len(self._inner) + (self._null_code is not None)

    def codes(self, column: pa.Array, *, insert: bool) -> np.ndarray:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if column.null_count == 0:
            return self._shifted(self._inner.codes(column, insert=insert))
        nulls = _null_mask(column)
        known = len(self._inner)
        inner = self._inner.codes(column.drop_null(), insert=insert)
        if insert and self._null_code is None:
            before = inner[: int(nulls.argmax())]
            self._null_code = max(known, int(before.max(initial=-1)) + 1)
        codes = np.empty(len(column), np.int64)
        codes[~nulls] = self._shifted(inner)
        codes[nulls] = UNKNOWN if self._null_code is None else self._null_code
        return codes

    def all_values(self) -> pa.Array:
        """Return the values of all codes in order; 64-bit values are not copied."""
        if self._null_code is None and isinstance(self._inner, _BitsColumn):
            return self._typed(self._inner.values(slice(None)))
        return self.values(np.arange(len(self)))

    def values(self, codes: np.ndarray) -> pa.Array:
        if self._null_code is None:
            return self._typed(self._inner.values(codes))
        nulls = codes == self._null_code
        inner = self._inner.values((codes - (codes > self._null_code))[~nulls])
        at = np.cumsum(~nulls) - 1
        return self._typed(inner.take(pa.array(at, mask=nulls)))

    def _shifted(self, inner: np.ndarray) -> np.ndarray:
        if self._null_code is not None:
            inner += inner >= self._null_code
        return inner

    def _typed(self, values: pa.Array) -> pa.Array:
        return values if values.type == self._type else values.cast(self._type)


class _BitsColumn:
    """Fixed-width values of at most 64 bits, compared by their bits."""

    def __init__(self, type_: pa.DataType) -> None:
        self._type = type_
        self._index = IntIndex()

    def __len__(self) -> int:
        return len(self._index)

    def codes(self, column: pa.Array, *, insert: bool) -> np.ndarray:
        return self._index.codes(_bits(column), insert=insert)

    def values(self, codes: np.ndarray | slice) -> pa.Array:
        bits = self._index.keys[codes]
        if pa.types.is_boolean(self._type):
            return pa.array(bits.astype(bool))
        width = _bit_width(self._type) // 8  # type: ignore[operator]
        narrow = bits.astype(f"i{width}", copy=False)
        return pa.Array.from_buffers(self._type, len(narrow), [None, pa.py_buffer(narrow)])


class _ObjectColumn:
    """Codes other types: in a dict while values are few, then in an index that can be spilled."""

    def __init__(self, type_: pa.DataType) -> None:
        if pa.types.is_nested(type_):
            raise UnsupportedKeyError(str(type_))
        self._type = type_
        self._code_of: dict[Any, int] = {}
        self._values: list[Any] = []
        #: The index of all values once there are many; the dictionary is empty then.
        self._wide: WideIndex | None = None

    def __len__(self) -> int:
        return len(self._values) if self._wide is None else len(self._wide)

    def codes(self, column: pa.Array, *, insert: bool) -> np.ndarray:
        encoded = column.dictionary_encode()
        value_codes = self._distinct_codes(encoded.dictionary, insert=insert)
        codes: np.ndarray = value_codes[encoded.indices.to_numpy(zero_copy_only=True)]
        return codes

    def _distinct_codes(self, values: pa.Array, *, insert: bool) -> np.ndarray:
        if self._wide is None and insert and len(self) + len(values) > _OBJECTS_MAX:
            self._widen()
        if self._wide is not None:
            return self._wide.codes(_of_type(values, self._type), insert=insert)
        distinct, code_of = values.to_pylist(), self._code_of
        if not insert:
            return np.array([code_of.get(value, UNKNOWN) for value in distinct], np.int64)
        codes = [code_of.setdefault(value, len(code_of)) for value in distinct]
        if len(code_of) > len(self._values):
            known = len(self._values)
            self._values += [v for v, c in zip(distinct, codes, strict=True) if c >= known]
        return np.array(codes, np.int64)

    def _widen(self) -> None:
        """Move the values from the dictionary to an index of arrays, if their type allows it."""
        if is_wide(self._type):
            self._wide = WideIndex(pa.array(self._values, self._type))
            self._code_of, self._values = {}, []

    def values(self, codes: np.ndarray) -> pa.Array:
        if self._wide is not None:
            return self._wide.values(codes)
        return pa.array([self._values[code] for code in codes.tolist()], self._type)


def _of_type(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values if values.type == kind else values.cast(kind)


def _bit_width(type_: pa.DataType) -> int | None:
    """Return the width in bits if values of ``type_`` have at most 64 bits, else None."""
    types = pa.types
    if types.is_boolean(type_):
        return 8
    if types.is_integer(type_) or types.is_floating(type_) or types.is_temporal(type_):
        width = int(type_.bit_width)
        return width if width <= 64 else None
    return None


def _bits(column: pa.Array) -> np.ndarray:
    """Return the values as int64[n]; the column has no nulls. Zero copy for 64-bit integers."""
    if pa.types.is_boolean(column.type):
        return column.to_numpy(zero_copy_only=False).astype(np.int64)  # type: ignore[no-any-return]
    width = column.type.bit_width // 8
    raw = (
        np.frombuffer(column.buffers()[1], f"i{width}") if len(column) else np.empty(0, f"i{width}")
    )
    values = raw[column.offset : column.offset + len(column)]
    if pa.types.is_floating(column.type):
        floats = values.view(f"f{width}") + np.zeros(1, f"f{width}")
        floats[np.isnan(floats)] = np.nan
        values = floats.view(f"i{width}")
    bits: np.ndarray = values.astype(np.int64, copy=False)
    return bits
