"""Decimals become the nearest doubles, regardless of the other values of the column."""

from __future__ import annotations

from decimal import Decimal
from random import Random

import pyarrow as pa
import pytest

from rvertex.events.decimals import nearest_floats, words

#: Numbers near the limits of exact doubles and of 64 bits.
EDGES = [0, 1, 1995, 2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 + 1, 10**30 + 7]
WHOLE = [sign * edge for edge in EDGES for sign in (1, -1)]


@pytest.mark.parametrize("scale", [0, 2, 22, 23, 37])
@pytest.mark.parametrize("are_mixed", [False, True])
def test_conversion_to_the_nearest_float(scale: int, *, are_mixed: bool) -> None:
    rng = Random(scale)
    whole = [*WHOLE, *(rng.randrange(-(10**18), 10**18) for _ in range(20))]
    columns = [[value, 5, None] if are_mixed else [value] for value in whole]
    for unscaled in columns:
        values = [None if v is None else Decimal(f"{v}E-{scale}") for v in unscaled]
        array = pa.array([Decimal(1), *values], pa.decimal128(38, scale)).slice(1)
        found = nearest_floats(array)
        assert found.to_pylist() == [None if v is None else float(v) for v in values]


def test_words_are_the_bits_of_the_unscaled_value() -> None:
    for kind in (pa.decimal128(38, 3), pa.decimal256(76, 3)):
        values = [Decimal(f"{v}E-3") for v in WHOLE]
        parts = words(pa.array([Decimal(9), *values], kind).slice(1))
        assert len(parts) == kind.bit_width // 64
        rows = zip(*(part.tolist() for part in parts), strict=True)
        bits = [sum(word % 2**64 << 64 * k for k, word in enumerate(row)) for row in rows]
        assert bits == [value % 2**kind.bit_width for value in WHOLE]
    assert [len(part) for part in words(pa.array([], pa.decimal128(5, 1)))] == [0, 0]
