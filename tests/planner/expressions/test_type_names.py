"""Every type name in a message is accepted as an argument.

Not covered: float32, which Arrow prints as ``float``, which is float64 here.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from planner.errors import InvalidPlanError
from planner.expressions.types import data_type

TYPES = [
    *(pa.bool_(), pa.int8(), pa.uint64(), pa.float16(), pa.float64(), pa.string()),
    *(pa.large_string(), pa.binary(), pa.large_binary(), pa.date32(), pa.date64()),
    *(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.duration("ms")),
    *(pa.timestamp("us"), pa.timestamp("ns", "UTC"), pa.timestamp("ms", "Europe/Rome")),
    *(pa.decimal128(10, 2), pa.decimal128(38, 0)),
]
NESTED = [
    *(pa.list_(kind) for kind in TYPES),
    *(pa.struct([("x", kind), ("a b.c", pa.list_(kind))]) for kind in TYPES),
    *(pa.map_(pa.string(), kind) for kind in TYPES),
    pa.large_list(pa.int64()),
    pa.list_(pa.int64(), 3),
    pa.struct([("x", pa.struct([("y", pa.map_(pa.string(), pa.list_(pa.date32())))]))]),
    pa.struct([pa.field("x", pa.int64(), nullable=False), pa.field("y", pa.string())]),
]


@pytest.mark.parametrize("kind", TYPES + NESTED, ids=str)
def test_a_printed_type_is_read_back(kind: pa.DataType) -> None:
    found = data_type(str(kind))
    assert str(found).replace(" not null", "") == str(kind).replace(" not null", "")


def test_short_names_of_types() -> None:
    assert data_type("list<int64>") == pa.list_(pa.int64())
    assert data_type("struct<Name: string, n: decimal(5, 2)>") == pa.struct(
        [("Name", pa.string()), ("n", pa.decimal128(5, 2))]
    )


NO_TYPES = [
    *("struct<x int64>", "struct<x: int64", "list<>", "timestamp[h]", "time64[s]", "map<int64>"),
    *("struct<x: int64>>", "list<int64, int64>", "duration[us, tz=UTC]", "fixed_size_list<int64>"),
    *("x", "struct<int64>", ""),
]


@pytest.mark.parametrize("text", NO_TYPES)
def test_an_invalid_type_name_lists_the_types(text: str) -> None:
    with pytest.raises(InvalidPlanError, match=r"[tT]he types are"):
        data_type(text)


def test_a_typing_mistake_is_corrected() -> None:
    with pytest.raises(InvalidPlanError, match="no type 'strng'; did you mean 'string'"):
        data_type("strng")
