"""Dictionary-encoded text: another encoding of a column, not another type.

A dictionary array has a small array of values and an index per row. Digests, keys and stored bytes
of a row are those of the plain value. So where a schema (the *declared* form) has plain text, a
batch may have a dictionary instead; :func:`as_declared` decodes it.

Invariants: (1) joining batches takes time in their rows and in new dictionaries only. A dictionary
is identified by its memory address, and the merged values of two dictionaries are cached; (2) a
joined dictionary has at most as many values as rows, or :data:`VALUES_MAX`, so it does not grow
with the length of a stream; (3) the cache is bounded in entries and bytes, and an idle process
clears it with :func:`forget`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: A joined dictionary with more values is reduced to the values in use, if these are fewer.
VALUES_MAX = 1 << 16
#: Larger dictionaries are not cached.
REMEMBERED_BYTES_MAX = 2 << 20
_JOINS_MAX = 32
#: Most schemas for which results are cached.
_SCHEMAS_MAX = 256
#: Larger results are not cached, because joins of several large dictionaries have too many
#: combinations.
_JOINED_BYTES_MAX = 2 * REMEMBERED_BYTES_MAX
#: The caches that :func:`forget` clears.
_REMEMBERED: list[functools._lru_cache_wrapper[Any]] = []
_T = TypeVar("_T")


def remembered_by_schema(compute: Callable[[pa.Schema], _T]) -> Callable[[pa.Schema], _T]:
    """Cache a function of a schema's names and types.

    The result must not contain the schema's metadata: old releases of Arrow cannot hash schemas
    with metadata, which schemas of files have.
    """
    known = functools.lru_cache(maxsize=_SCHEMAS_MAX)(compute)

    @functools.wraps(compute)
    def of(schema: pa.Schema) -> _T:
        return known(schema if schema.metadata is None else schema.remove_metadata())

    return of


def remembered(
    results_max: int,
) -> Callable[[Callable[..., _T]], functools._lru_cache_wrapper[_T]]:
    """Cache the last results of a function of dictionaries, until :func:`forget` is called."""

    def decorate(function: Callable[..., _T]) -> functools._lru_cache_wrapper[_T]:
        cached = functools.lru_cache(maxsize=results_max)(function)
        _REMEMBERED.append(cached)
        return cached

    return decorate


def forget() -> None:
    """Clear all caches of :func:`remembered` in this process."""
    for cached in _REMEMBERED:
        cached.cache_clear()


class Known:
    """The values of a dictionary, as a cache key: equal if the memory address is equal.

    A cache entry keeps the values in memory, so the address is not reused meanwhile.
    """

    __slots__ = ("_place", "values")

    def __init__(self, values: pa.Array) -> None:
        self.values = values
        places = tuple(0 if b is None else b.address for b in values.buffers())
        self._place = (values.type, len(values), values.offset, places)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Known) and self._place == other._place

    def __hash__(self) -> int:
        return hash(self._place)

    @property
    def is_small(self) -> bool:
        """Whether results for this dictionary may be cached."""
        return bool(self.values.nbytes <= REMEMBERED_BYTES_MAX)


def is_dictionary(kind: pa.DataType) -> bool:
    """Return whether values of this type are dictionary-encoded."""
    return bool(pa.types.is_dictionary(kind))


@remembered_by_schema
def has_dictionaries(schema: pa.Schema) -> bool:
    """Return whether any column is dictionary-encoded."""
    return any(is_dictionary(kind) for kind in schema.types)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the decoded values."""
    return kind.value_type if is_dictionary(kind) else kind


def plain_array(array: pa.Array) -> pa.Array:
    """Return the decoded values, one per row."""
    return array.dictionary_decode() if is_dictionary(array.type) else array


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return the same columns without dictionaries."""
    return pa.schema([f.with_type(plain_type(f.type)) for f in schema])


def is_form_of(schema: pa.Schema, declared: pa.Schema) -> bool:
    """Return whether batches with schema ``schema`` are allowed where ``declared`` is expected."""
    return schema.names == declared.names and all(
        a.equals(b) or (is_dictionary(a) and a.value_type.equals(b))
        for a, b in zip(schema.types, declared.types, strict=True)
    )


def as_declared(batch: pa.RecordBatch, declared: pa.Schema) -> pa.RecordBatch:
    """Return ``batch`` with dictionaries decoded where ``declared`` has plain text."""
    if batch.schema.equals(declared):
        return batch
    columns = [
        column if column.type.equals(kind) else plain_array(column)
        for column, kind in zip(batch.columns, declared.types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=declared)


def batch_bytes(batch: pa.RecordBatch) -> int:
    """Estimate the bytes of a batch's rows. A dictionary counts at most as much as its indices.

    Many batches share a dictionary, and each would otherwise count it fully. Fixed-width columns
    count without null bitmaps, since querying all buffers takes longer than a small step should.
    """
    bits = _row_bits(batch.schema)
    if bits is not None:
        return int(-(-batch.num_rows * bits // 8))
    if not has_dictionaries(batch.schema):
        return int(batch.nbytes)
    return sum(map(_array_bytes, batch.columns))


@remembered_by_schema
def _row_bits(schema: pa.Schema) -> int | None:
    """Return the width of a row in bits; None if a column has no fixed width."""
    bits = 0
    for kind in schema.types:
        if not pa.types.is_primitive(kind):
            return None
        bits += kind.bit_width
    return bits


def nulls(like: pa.Array, rows: int) -> pa.Array:
    """Return nulls that can be joined to ``like`` without reading its dictionary."""
    if not is_dictionary(like.type):
        return pa.nulls(rows, like.type)
    return pa.DictionaryArray.from_arrays(pa.nulls(rows, like.type.index_type), like.dictionary)


def join_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Join one or more batches. A column is plain if it is plain in any batch."""
    schema = batches[0].schema
    if len(batches) == 1:
        return batches[0]
    if not all(batch.schema.equals(schema) for batch in batches[1:]):
        kinds = [
            kinds[0] if all(k.equals(kinds[0]) for k in kinds) else plain_type(kinds[0])
            for kinds in zip(*(batch.schema.types for batch in batches), strict=True)
        ]
        fields = [f.with_type(k) for f, k in zip(schema, kinds, strict=True)]
        schema = pa.schema(fields)
        batches = [as_declared(batch, schema) for batch in batches]
    if not has_dictionaries(schema):
        return pa.concat_batches(batches)
    columns = [
        _join_arrays([batch.column(i) for batch in batches]) for i in range(len(schema.names))
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def compact(array: pa.DictionaryArray) -> pa.DictionaryArray:
    """Return the same rows with a dictionary of the used values only."""
    return array.dictionary_decode().dictionary_encode().cast(array.type)


def _join_arrays(arrays: list[pa.Array]) -> pa.Array:
    if not is_dictionary(arrays[0].type):
        return pa.concat_arrays(arrays)
    arrays = [a for a in arrays if len(a)] or arrays[:1]
    given = [Known(a.dictionary) for a in arrays]
    different = tuple(dict.fromkeys(known for known in given if len(known.values)))
    if len(different) < 2:
        values = different[0].values if different else arrays[0].dictionary
        indices = pa.concat_arrays([a.indices for a in arrays])
        return pa.DictionaryArray.from_arrays(indices, values)
    total_bytes = sum(known.values.nbytes for known in different)
    if total_bytes <= _JOINED_BYTES_MAX and all(known.is_small for known in different):
        values, places = _joined(different)
    else:
        values, places = _joined.__wrapped__(different)
    at = dict(zip(different, places, strict=True))
    kind = arrays[0].type.index_type
    indices = pa.concat_arrays(
        [
            at[known].take(a.indices) if len(known.values) else pa.nulls(len(a), kind)
            for known, a in zip(given, arrays, strict=True)
        ]
    )
    joined = pa.DictionaryArray.from_arrays(indices, values)
    return compact(joined) if len(values) > max(len(joined), VALUES_MAX) else joined


@remembered(_JOINS_MAX)
def _joined(different: tuple[Known, ...]) -> tuple[pa.Array, list[pa.Array]]:
    """Merge several dictionaries. Return the result, and each dictionary's new indices into it."""
    values = different[0].values
    for known in different[1:]:
        new = known.values.filter(pc.invert(pc.is_in(known.values, value_set=values)))
        values = pa.concat_arrays([values, new.unique()]) if len(new) else values
    return values, [
        pc.index_in(known.values, value_set=values).cast(pa.int32()) for known in different
    ]


def _array_bytes(array: pa.Array) -> int:
    if not is_dictionary(array.type):
        return int(array.nbytes)
    indices = int(array.indices.nbytes)
    return indices + min(indices, int(array.dictionary.nbytes))
