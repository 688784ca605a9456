"""Keys of two types are compared in a column of their own: the user's columns do not change.

Not covered: two numbers that are equal in the common type (2**53 + 1 as a double); expressions
compare them in the same way.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import planner
from planner import InvalidPlanError, Stream, event
from rstream.items.batch import VE, VS
from tests.spark.batches import streamed

MIDNIGHT = datetime(2020, 1, 2, tzinfo=UTC)
#: Types, and three events per side; only the first two have a match.
PAIRS: dict[str, tuple[pa.DataType, list[Any], pa.DataType, list[Any]]] = {
    "int and double": (pa.int64(), [1, 2**53, 3], pa.float64(), [1.0, 2.0**53, 3.5]),
    "int and int": (pa.int8(), [1, -2, 3], pa.int64(), [1, -2, 2**40]),
    "decimal and int": (
        pa.decimal128(5, 2), [Decimal("1.00"), Decimal("2.00"), Decimal("3.50")],
        pa.int64(), [1, 2, 3],
    ),
    "decimal and double": (
        pa.decimal128(5, 2), [Decimal("19.99"), Decimal("0.35"), Decimal("1.01")],
        pa.float64(), [19.99, 0.35, 1.0],
    ),
    "date and timestamp": (
        pa.date32(), [MIDNIGHT.date(), date(1969, 12, 31), date(2001, 1, 1)],
        pa.timestamp("us", "UTC"),
        [MIDNIGHT, datetime(1969, 12, 31, tzinfo=UTC), datetime(2001, 1, 1, 5, tzinfo=UTC)],
    ),
    "nanoseconds": (
        pa.timestamp("ns"), [1_000, -1_000, 5_001], pa.timestamp("us"), [1, -1, 6],
    ),
    "two scales": (
        pa.decimal128(5, 2), [Decimal("1.50"), Decimal("2.00"), Decimal("3.25")],
        pa.decimal128(5, 1), [Decimal("1.5"), Decimal("2.0"), Decimal("3.2")],
    ),
}  # fmt: skip


def stream(kind: pa.DataType, values: list[Any], name: str, number: str) -> Stream:
    column = pa.array(values, kind)
    schema = pa.schema([(name, kind), (number, pa.int64())])
    items = [event(0, 100, **{name: v.as_py() if kind != pa.timestamp("ns") else v.value,
                              number: i}) for i, v in enumerate(column)]  # fmt: skip
    return Stream.from_items(schema, items)


def sides(name: str, key: str = "k", other: str = "k") -> tuple[Stream, Stream]:
    kind, values, theirs, partners = PAIRS[name]
    return stream(kind, values, key, "n"), stream(theirs, partners, other, "m")


def rows(stream: Stream, *names: str) -> list[tuple[Any, ...]]:
    table = streamed(stream).drop_columns([VS, VE]).select(list(names))
    columns = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in table.columns]
    return sorted(zip(*(c.to_pylist() for c in columns), strict=True), key=lambda r: r[-1])


@pytest.mark.parametrize("name", PAIRS)
def test_joins_do_not_change_their_inputs(name: str) -> None:
    left, right = sides(name, other="j")
    kind, _, theirs, _ = PAIRS[name]
    pairs = left.join(right, left_on="k", right_on="j")
    assert pairs.schema == pa.schema([("k", kind), ("n", "int64"), ("j", theirs), ("m", "int64")])
    assert rows(pairs, "n", "m") == [(0, 0), (1, 1)]
    kept = rows(left, "k", "n")
    assert rows(pairs, "k", "n") == kept[:2]
    assert rows(pairs, "j", "m") == rows(right, "j", "m")[:2]
    outer = left.join(right, left_on="k", right_on="j", how="left")
    assert outer.schema == pairs.schema
    assert rows(outer, "k", "n") == kept
    anti = left.join(right, left_on="k", right_on="j", how="anti")
    assert anti.schema == left.schema
    assert rows(anti, "k", "n") == kept[2:]


@pytest.mark.parametrize("name", PAIRS)
def test_joins_by_one_name_and_clips(name: str) -> None:
    left, right = sides(name)
    pairs = left.join(right, on="k")
    assert pairs.schema == pa.schema([*left.schema, ("m", pa.int64())])
    assert rows(pairs, "k", "n") == rows(left, "k", "n")[:2]
    clipped = left.clip(right.shift(10), on="k")
    assert clipped.schema == left.schema
    assert rows(clipped, "k", "n") == rows(left, "k", "n")
    assert sorted(streamed(clipped)[VE].to_pylist()) == [10, 10, 100]


@pytest.mark.parametrize("name", ["int and double", "decimal and int", "date and timestamp"])
def test_sql_has_the_same_results(name: str) -> None:
    left, right = sides(name)
    kind, _, theirs, _ = PAIRS[name]
    tables = {"a": left, "b": right}
    for text, kept in (
        ("SELECT a.k, n FROM a JOIN b ON a.k = b.k", [0, 1]),
        ("SELECT k, n FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k)", [0, 1]),
        ("SELECT k, n FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k)", [2]),
        ("SELECT a.k, n FROM a ANTI JOIN b ON a.k = b.k", [2]),
        ("SELECT a.k, n FROM a LEFT JOIN b ON a.k = b.k", [0, 1, 2]),
    ):
        found = planner.sql(text, tables)
        assert isinstance(found, Stream)
        assert found.schema == left.schema, text
        assert rows(found, "k", "n") == [rows(left, "k", "n")[i] for i in kept], text
    both = planner.sql("SELECT a.k AS x, b.k AS y FROM a JOIN b ON a.k = b.k", tables)
    assert isinstance(both, Stream)
    assert both.schema == pa.schema([("x", kind), ("y", theirs)])


def test_keys_that_never_match_are_rejected() -> None:
    left = stream(pa.string(), ["1"], "k", "n")
    right = stream(pa.int64(), [1], "k", "m")
    for build in (left.join, left.clip):
        with pytest.raises(InvalidPlanError, match=r"'k'.*do not match"):
            build(right, on="k")


@pytest.mark.parametrize(
    "kind", [pa.decimal128(10, 2), pa.decimal128(38, 38), pa.binary(), pa.float64()], ids=str
)
def test_exists_reads_values_of_the_outer_event(kind: pa.DataType) -> None:
    low, high = (b"a", b"b") if kind == pa.binary() else (Decimal("0.25"), Decimal("0.50"))
    low, high = (float(v) if kind == pa.float64() else v for v in (low, high))  # type: ignore[arg-type]
    schema = {"k": "int64", "d": kind, "n": "int64"}
    mine = [event(0, 9, k=1, d=d, n=i) for i, d in enumerate([low, high, None])]
    tables = {
        "a": Stream.from_items(schema, mine),
        "b": Stream.from_items({"k": "int64", "d": kind}, [event(0, 9, k=1, d=high)]),
    }
    text = "SELECT d, n FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.d > a.d)"
    found = planner.sql(text, tables)
    assert isinstance(found, Stream)
    assert found.schema == pa.schema([("d", kind), ("n", pa.int64())])
    assert rows(found, "d", "n") == [(low, 0)]


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.struct([("a", pa.int64())])], ids=str)
def test_a_struct_as_a_key_is_rejected(kind: pa.DataType) -> None:
    """The error must not claim that two equal types do not match."""
    rows = Stream.from_items(pa.schema([("k", kind)]), [event(1, 5, k=None)])
    with pytest.raises(InvalidPlanError, match=r"join\('k'\): a key cannot be "):
        rows.join(rows, on="k")
    with pytest.raises(InvalidPlanError, match=r"clip\('k'\): a key cannot be "):
        rows.clip(rows, on="k")
