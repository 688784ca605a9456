"""Lists and maps: every function equals the same operation on Python values, also on slices.

Not covered: results of Spark (tests/spark) or DuckDB (the catalogue).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from planner import Expr, ExpressionTypeError, InvalidPlanError, col, list_of, lit
from planner.expressions.functions.containers import POSITION
from planner.expressions.nodes import Call, evaluate_all, resolve
from rstream.items.batch import VE, VS

SCHEMA = pa.schema(
    [
        *((name, pa.int64()) for name in (VS, VE)),
        ("l", pa.list_(pa.int64())),
        ("big", pa.large_list(pa.string())),
        ("two", pa.list_(pa.int64(), 2)),
        ("m", pa.map_(pa.string(), pa.int64())),
        ("i", pa.int64()),
        ("s", pa.string()),
    ]
)
NUMBERS = st.none() | st.integers(-3, 3)
WORDS = st.sampled_from(["", "a", "b", "c"])
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            VS: st.just(0),
            VE: st.just(1),
            "l": st.none() | st.lists(NUMBERS, max_size=4),
            "big": st.none() | st.lists(st.none() | WORDS, max_size=3),
            "two": st.none() | st.tuples(NUMBERS, NUMBERS).map(list),
            "m": st.none() | st.lists(st.tuples(WORDS, NUMBERS), max_size=4),
            "i": NUMBERS,
            "s": st.none() | WORDS,
        }
    ),
    max_size=8,
)


def at(values: list[Any] | None, place: int | None) -> Any:
    if values is None or place is None or not -len(values) <= place < len(values):
        return None
    return values[place]


def value_of(pairs: list[tuple[str, Any]] | None, key: str | None) -> Any:
    return next((value for known, value in pairs or () if known == key), None)


def has(values: list[Any] | None, value: Any) -> bool | None:
    return None if values is None or value is None else value in values


def numbered(values: list[Any] | None) -> list[dict[str, Any]] | None:
    if values is None:
        return None
    return [{POSITION: place, "element": value} for place, value in enumerate(values)]


def never_empty(values: list[Any] | None) -> list[Any]:
    return values or [None]


EXPECTED: list[tuple[Expr, Any]] = [
    (col("l").item(0), lambda r: at(r["l"], 0)),
    (col("l").item(-2), lambda r: at(r["l"], -2)),
    (col("l").item(col("i")), lambda r: at(r["l"], r["i"])),
    (col("big").item(col("i")), lambda r: at(r["big"], r["i"])),
    (col("two").item(1), lambda r: at(r["two"], 1)),
    (col("l").list.length(), lambda r: None if r["l"] is None else len(r["l"])),
    (col("l").list.contains(2), lambda r: has(r["l"], 2)),
    (col("two").list.contains(col("i")), lambda r: has(r["two"], r["i"])),
    (col("big").list.contains(col("s")), lambda r: has(r["big"], r["s"])),
    (col("m").item("b"), lambda r: value_of(r["m"], "b")),
    (col("m").item(col("s")), lambda r: value_of(r["m"], r["s"])),
    (col("m").map.length(), lambda r: None if r["m"] is None else len(r["m"])),
    (col("m").map.keys(), lambda r: r["m"] if r["m"] is None else [k for k, _ in r["m"]]),
    (col("m").map.values(), lambda r: r["m"] if r["m"] is None else [v for _, v in r["m"]]),
    (
        col("m").map.entries(),
        lambda r: r["m"] if r["m"] is None else [{"key": k, "value": v} for k, v in r["m"]],
    ),
    (
        col("m").map.contains_key(col("s")),
        lambda r: has(None if r["m"] is None else [k for k, _ in r["m"]], r["s"]),
    ),
    (list_of(col("i"), 7, None), lambda r: [r["i"], 7, None]),
    (Expr(Call("enumerated", (col("l").node,))), lambda r: numbered(r["l"])),
    (Expr(Call("enumerated", (col("two").node,))), lambda r: numbered(r["two"])),
    (Expr(Call("at_least_one", (col("l").node,))), lambda r: never_empty(r["l"])),
    (Expr(Call("at_least_one", (col("big").node,))), lambda r: never_empty(r["big"])),
]


@given(rows=ROWS, start=st.integers(0, 3))
def test_functions_equal_python(rows: list[dict[str, Any]], start: int) -> None:
    whole = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    part = whole.slice(start)
    found = evaluate_all([expr.node for expr, _ in EXPECTED], part)
    for (expr, expected), values in zip(EXPECTED, found, strict=True):
        values.validate(full=True)
        assert values.type == expr.output_type(SCHEMA)
        assert values.to_pylist() == [expected(row) for row in rows[start:]], str(expr)


def test_nulls_that_hide_elements() -> None:
    hidden = pa.ListArray.from_arrays(
        pa.array([0, 2, 3]), pa.array([1, 2, 3]), mask=pa.array([True, False])
    )
    batch = pa.record_batch({VS: [0, 0], VE: [1, 1], "l": hidden})
    asked = [col("l").list.length(), col("l").item(0), Expr(Call("at_least_one", (col("l").node,)))]
    found = [one.to_pylist() for one in evaluate_all([expr.node for expr in asked], batch)]
    assert found == [[None, 1], [None, 3], [[None], [3]]]


def test_a_constant_is_computed_once() -> None:
    batch = pa.record_batch({VS: [0, 0], VE: [1, 1]})
    assert list_of(1, 2).item(-1).evaluate(batch).to_pylist() == [2, 2]


def at_ms(day: int) -> datetime:
    return datetime(2026, 1, day, tzinfo=UTC)


def test_keys_and_elements_compare_like_columns() -> None:
    """A key is compared in the type that ``==`` uses, so 1.5 does not equal the key 1."""
    big = 2**60 + 1
    batch = pa.record_batch(
        {
            VS: [0],
            VE: [1],
            "m": pa.array([[(1, "x"), (big, "y")]], pa.map_(pa.int64(), pa.string())),
            "short": pa.array([[(1, "x")]], pa.map_(pa.int8(), pa.string())),
            "at": pa.array([[(at_ms(2), "x")]], pa.map_(pa.timestamp("ms", "UTC"), pa.string())),
            "l": pa.array([[big, 3]]),
            "u": pa.array([[2**64 - 1, 3]], pa.list_(pa.uint64())),
            "days": pa.array([[at_ms(2)]], pa.list_(pa.timestamp("us", "Europe/Berlin"))),
        }
    )
    expected = [
        (col("m").item(1.5), None),
        (col("m").item(1.0), "x"),
        (col("m").item(float(big)), "y"),
        (col("short").item(2**40), None),
        (col("at").item("2026-01-02"), "x"),
        (col("at").item(at_ms(2) + timedelta(microseconds=1)), None),
        (col("l").list.contains(3.0), True),
        (col("l").list.contains(3.5), False),
        (col("l").list.contains(float(big)), True),
        (col("u").list.contains(3), True),
        (col("days").list.contains("2026-01-02"), True),
    ]
    found = evaluate_all([resolve(expr.node, batch.schema) for expr, _ in expected], batch)
    assert [values.to_pylist() for values in found] == [[value] for _, value in expected]


@pytest.mark.parametrize("wrong", [object(), 2**64], ids=["object", "too much"])
def test_invalid_expressions_are_rejected(wrong: Any) -> None:
    with pytest.raises(InvalidPlanError):
        col("l").list.contains(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        col("l").item("a"),
        col("m").item(1),
        col("i").item(0),
        col("s").list.length(),
        col("l").list.contains("a"),
        col("l").map.keys(),
        list_of(1, "a"),
        list_of(lit(None)),
    ],
    ids=str,
)
def test_values_that_do_not_fit_are_rejected(wrong: Expr) -> None:
    with pytest.raises(ExpressionTypeError):
        wrong.output_type(SCHEMA)


def test_list_elements_are_converted_like_single_values() -> None:
    """Decimals become the nearest doubles, doubles the decimals they show, times microseconds."""
    lists = {
        "decimals": [[Decimal(n) / 100 for n in range(300)], None, [], [None]],
        "doubles": [[2.675, -1.5], None, [], [None]],
        "times": [[-1, 1_500], None, [], [None]],
    }
    kinds = {
        "decimals": pa.decimal128(10, 2), "doubles": pa.float64(), "times": pa.timestamp("ns")
    }  # fmt: skip
    for name, to in (
        ("decimals", pa.float64()),
        ("decimals", pa.decimal128(10, 1)),
        ("doubles", pa.decimal128(10, 2)),
        ("doubles", pa.int64()),
        ("times", pa.int64()),
    ):
        kind = pa.list_(kinds[name])
        columns = [pa.array(lists[name], kind), pa.array(lists[name], pa.large_list(kinds[name]))]
        flat = pa.RecordBatch.from_pydict({"x": columns[0].flatten()})
        wanted = col("x").cast(to).evaluate(flat).to_pylist()
        for column in columns:
            batch = pa.RecordBatch.from_pydict({"l": column})
            found = col("l").cast(pa.list_(to)).evaluate(batch)
            assert found.flatten().to_pylist() == wanted, (name, to)
            assert [len(v) if v is not None else v for v in found.to_pylist()][1:] == [None, 0, 1]
            part = col("l").cast(pa.list_(to)).evaluate(batch.slice(2))
            assert part.to_pylist() == [[], [None]]
    literal = list_of(2.675, -1.5).cast(pa.list_(pa.int64()))
    one = pa.RecordBatch.from_pydict({"x": [0]})
    assert literal.evaluate(one).to_pylist() == [[2, -1]]
    none = lit(None).cast(pa.list_(pa.float64())).cast(pa.list_(pa.int64()))
    assert none.evaluate(one).to_pylist() == [None]


def test_map_entries_are_converted_like_single_values() -> None:
    entries = [[(n, Decimal(n) / 100) for n in range(300)], None, [], [(7, None)]]
    column = pa.array(entries, pa.map_(pa.int32(), pa.decimal128(10, 2)))
    batch = pa.RecordBatch.from_pydict({"m": column})
    cast = col("m").cast(pa.map_(pa.string(), pa.float64()))
    wanted = [[(str(n), n / 100) for n in range(300)], None, [], [("7", None)]]
    assert cast.evaluate(batch).to_pylist() == wanted
    for start in range(4):
        assert cast.evaluate(batch.slice(start)).to_pylist() == wanted[start:]


def test_struct_fields_are_converted_like_single_values() -> None:
    kind = pa.struct([("d", pa.decimal128(10, 2)), ("f", pa.list_(pa.float64()))])
    target = pa.struct([("d", pa.float64()), ("f", pa.list_(pa.decimal128(10, 2)))])
    rows = [{"d": Decimal("0.35"), "f": [2.675, None]}, None, {"d": None, "f": None}]
    wanted = [{"d": 0.35, "f": [Decimal("2.68"), None]}, None, {"d": None, "f": None}]
    batch = pa.RecordBatch.from_pydict({"r": pa.array(rows, kind)})
    for at in range(len(rows)):
        found = col("r").cast(target).evaluate(batch.slice(at))
        assert (found.type, found.to_pylist()) == (target, wanted[at:])
    with pytest.raises(ExpressionTypeError, match="'cast' does not take struct"):
        col("r").cast(pa.struct([("d", pa.date32()), ("f", kind[1].type)])).output_type(
            batch.schema
        )
