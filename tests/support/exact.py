"""Exact comparison of batches: floats bit by bit, so NaN equals NaN and -0.0 is not 0.0."""

from __future__ import annotations

import struct

import pyarrow as pa
import pyarrow.compute as pc


def exact_rows(batch: pa.RecordBatch | pa.Table) -> list[tuple[object, ...]]:
    """Rows as tuples, with every float as its bit pattern."""
    columns = [_exact(batch.column(i)) for i in range(batch.num_columns)]
    return list(zip(*columns, strict=True)) if columns else []


def _exact(column: pa.Array | pa.ChunkedArray) -> list[object]:
    if pa.types.is_floating(column.type):
        wide = column.cast(pa.float64())
        if isinstance(wide, pa.ChunkedArray):
            wide = wide.combine_chunks()
        bits = pc.fill_null(wide, 0.0).view(pa.int64()).to_pylist()
        values = wide.to_pylist()
        return [None if v is None else ("f64", b) for v, b in zip(values, bits, strict=True)]
    return [_exact_value(value) for value in column.to_pylist()]


def _exact_value(value: object) -> object:
    """Floats in lists by their bits."""
    if isinstance(value, list):
        return [_exact_value(inner) for inner in value]
    return struct.pack("<d", value) if isinstance(value, float) else value


def _have_equal_bits(left: pa.Array | pa.ChunkedArray, right: pa.Array | pa.ChunkedArray) -> bool:
    """Whether columns of one type are certainly equal; False: compare the values."""
    if isinstance(left, pa.ChunkedArray) or isinstance(right, pa.ChunkedArray):
        return False
    if pa.types.is_float64(left.type):
        left, right = left.view(pa.int64()), right.view(pa.int64())
    return bool(left.equals(right)) and not _has_floats(left.type)


def _has_floats(kind: pa.DataType) -> bool:
    """Whether equal values of the type may differ in their bits."""
    if pa.types.is_nested(kind):
        return any(_has_floats(kind.field(k).type) for k in range(kind.num_fields))
    return pa.types.is_floating(kind) or pa.types.is_dictionary(kind)


def assert_same_items(
    actual: pa.RecordBatch | pa.Table, expected: pa.RecordBatch | pa.Table, label: str
) -> None:
    """Check equality row by row, and name the first row that differs."""
    assert actual.schema.equals(expected.schema), f"{label}: {actual.schema} != {expected.schema}"
    if actual.num_rows == expected.num_rows and all(
        map(_have_equal_bits, actual.columns, expected.columns)
    ):
        return
    left, right = exact_rows(actual), exact_rows(expected)
    if left == right:
        return
    at = next(
        (i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b),
        min(len(left), len(right)),
    )
    a = actual.slice(at, 1).to_pylist()
    b = expected.slice(at, 1).to_pylist()
    raise AssertionError(
        f"{label}: row {at} of {len(left)} is {a}, expected {b} of {len(right)} rows"
    )
