"""User values for declared integers: whole numbers of any class are accepted, fractions not.

Not covered: number classes that are not registered as numbers.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rvertex.user_code.plain_values import arrow_column

INT = pa.int64()
LISTS, MAPS = pa.list_(INT), pa.map_(INT, INT)
STRUCTS = pa.struct([("a", INT), ("b", pa.list_(pa.struct([("c", pa.uint8())])))])


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        *((v, INT) for v in (1.5, Decimal("1.5"), np.float32(1.5), Fraction(3, 2), float("nan"))),
        (Decimal("NaN"), INT),
        ([1, Decimal("1.5")], LISTS),
        ([(1, 2.5)], MAPS),
        ({1: 2.5}, MAPS),
        ({"a": Decimal("0.1")}, STRUCTS),
        ({"b": [{"c": 1}, {"c": 1.25}]}, STRUCTS),
    ],
)
def test_a_fraction_is_rejected(value: Any, kind: pa.DataType) -> None:
    with pytest.raises(ValueError, match="is not an integer"):
        arrow_column([None, value], kind)


@pytest.mark.parametrize(
    ("value", "kind", "found"),
    [
        (Decimal("2.0"), INT, 2),
        (3.0, INT, 3),
        (np.int32(4), INT, 4),
        ([1, Decimal(2), None], LISTS, [1, 2, None]),
        ({"a": None, "b": [{"c": 7.0}]}, STRUCTS, {"a": None, "b": [{"c": 7}]}),
    ],
)
def test_a_whole_number_is_accepted(value: Any, kind: pa.DataType, found: Any) -> None:
    assert arrow_column([value], kind).to_pylist() == [found]
