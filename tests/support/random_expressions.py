"""Random typed expressions in three languages: the fluent interface, our SQL and DuckDB's.

One :class:`Said` is one expression in all three. If DuckDB differs ("Where this differs" in
SQL.md), its text spells out our meaning: division by zero is null, ``DIV`` and ``%`` round down,
NaN equals nothing, a cast to an integer truncates.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from planner import Expr, coalesce, col, lit, when

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

_INTEGERS = {
    "i8": pa.int8(), "i16": pa.int16(), "i32": pa.int32(), "i64": pa.int64(),
    "u8": pa.uint8(), "u16": pa.uint16(), "u32": pa.uint32(),
}  # fmt: skip
_TIMES = {f"t_{unit}": pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")}
SCHEMA = pa.schema(
    [
        *_INTEGERS.items(),
        ("f32", pa.float32()),
        ("f64", pa.float64()),
        ("dec", pa.decimal128(10, 2)),
        ("dec2", pa.decimal128(12, 4)),
        ("s", pa.string()),
        ("w", pa.string()),
        ("p", pa.bool_()),
        ("q", pa.bool_()),
        ("d", pa.date32()),
        *_TIMES.items(),
    ]
)
_COLUMNS = {
    "int": tuple(_INTEGERS),
    "float": ("f32", "f64"),
    "dec": ("dec", "dec2"),
    "text": ("s", "w"),
    "bool": ("p", "q"),
    "date": ("d",),
    "time": tuple(_TIMES),
}
_WORDS = ["", "a", "A", "ab", "b a", "12", "-7", "x%", "x_y", "é", "true", "2026-01-31", "aXb"]
_DATES = [date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29), date(2026, 1, 1)]
_FLOATS = [0.0, -0.0, 0.5, -2.5, 1e10, 1e300, float("nan"), float("inf"), float("-inf"), 3.0]


@dataclass(frozen=True)
class Said:
    """An expression in three languages."""

    kind: str
    expr: Expr
    sql: str
    duck: str


def value_of(rng: Random, kind: pa.DataType) -> Any:
    """A random value of a type: null, an edge case or an ordinary value."""
    if rng.random() < 0.15:
        return None
    if pa.types.is_integer(kind):
        bits = kind.bit_width - pa.types.is_signed_integer(kind)
        low = -(2**bits) if pa.types.is_signed_integer(kind) else 0
        return rng.choice(
            [low, 2**bits - 1, 0, 1, rng.randint(max(low, -9), 9), rng.randint(0, 99)]
        )
    if pa.types.is_floating(kind):
        found = rng.choice(_FLOATS)
        return found if kind == pa.float64() or abs(found) < 1e30 else 1.5
    if pa.types.is_decimal(kind):
        return Decimal(rng.choice([0, 5, -5, 1999, 35, -250, 99_999_999])).scaleb(-kind.scale)
    if pa.types.is_boolean(kind):
        return rng.random() < 0.5
    if pa.types.is_date(kind):
        return rng.choice(_DATES)
    if pa.types.is_timestamp(kind):
        moment = datetime.combine(rng.choice(_DATES), datetime.min.time())
        moment += timedelta(seconds=rng.randrange(86_400))
        return moment + timedelta(milliseconds=rng.randrange(1_000) * (kind.unit != "s"))
    return rng.choice(_WORDS)


def rows_of(rng: Random, count: int) -> pa.RecordBatch:
    """Rows of :data:`SCHEMA`."""
    columns = [pa.array([value_of(rng, f.type) for _ in range(count)], f.type) for f in SCHEMA]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def expression(rng: Random, kind: str, depth: int) -> Said:
    """A random expression of a kind, with at most this depth."""
    if depth == 0 or rng.random() < 0.15:
        return _leaf(rng, kind)
    if rng.random() < 0.2:
        return _choice(rng, kind, depth)
    return _MAKERS[kind](rng, depth - 1)


def _leaf(rng: Random, kind: str) -> Said:
    if rng.random() < 0.7:
        name = rng.choice(_COLUMNS[kind])
        wide = {"int": "BIGINT", "float": "DOUBLE", "time": "TIMESTAMP"}.get(kind)
        if name == "f32":
            return Said(kind, col(name).cast("float64"), f"CAST({name} AS DOUBLE)", "f32::DOUBLE")
        if name in _INTEGERS:
            return Said(kind, col(name).cast("int64"), f"CAST({name} AS BIGINT)", f"{name}::BIGINT")
        return Said(kind, col(name), name, f"{name}::{wide}" if wide else name)
    match kind:
        case "int":
            number = rng.choice([0, 1, -1, 7, -3, 2**40])
            return Said(kind, lit(number), f"({number})", f"({number})::BIGINT")
        case "float":
            real = rng.choice([0.0, 0.5, -1.25, 3.0, 1e10])
            return Said(kind, lit(real), f"({real!r})", f"({real!r})::DOUBLE")
        case "dec":
            exact = Decimal(rng.choice(["0.35", "19.99", "-2.50", "1.00"]))
            text = f"CAST('{exact}' AS DECIMAL(10, 2))"
            return Said(kind, lit(str(exact)).cast(pa.decimal128(10, 2)), text, text)
        case "text":
            word = rng.choice(_WORDS)
            return Said(kind, lit(word), f"'{word}'", f"'{word}'")
        case "bool":
            truth = rng.random() < 0.5
            return Said(kind, lit(truth), str(truth).upper(), str(truth).upper())
        case "date":
            day = rng.choice(_DATES)
            return Said(kind, lit(day), f"DATE '{day}'", f"DATE '{day}'")
    moment = value_of(rng, pa.timestamp("us")) or datetime(2026, 1, 1)  # noqa: DTZ001 - UTC
    text = f"TIMESTAMP '{moment.isoformat(sep=' ')}'"
    return Said(kind, lit(moment.replace(tzinfo=UTC)), text, text)


def _choice(rng: Random, kind: str, depth: int) -> Said:
    a, b = expression(rng, kind, depth - 1), expression(rng, kind, depth - 1)
    if rng.random() < 0.5:
        test = expression(rng, "bool", depth - 1)
        return Said(
            kind,
            when(test.expr).then(a.expr).otherwise(b.expr),
            f"CASE WHEN {test.sql} THEN {a.sql} ELSE {b.sql} END",
            f"CASE WHEN {test.duck} THEN {a.duck} ELSE {b.duck} END",
        )
    words = (f"COALESCE({a.sql}, {b.sql})", f"COALESCE({a.duck}, {b.duck})")
    return Said(kind, coalesce(a.expr, b.expr), *words)


def _infix(kind: str, a: Said, operator: str, b: Said, expr: Expr) -> Said:
    return Said(kind, expr, f"({a.sql} {operator} {b.sql})", f"({a.duck} {operator} {b.duck})")


_FLOORED = "((({a}) % ({b})) <> 0 AND ((({a}) % ({b})) < 0) <> (({b}) < 0))"


def _int(rng: Random, depth: int) -> Said:
    a, b = expression(rng, "int", depth), expression(rng, "int", depth)
    match rng.randrange(12):
        case 0 | 1:
            return _infix("int", a, "+", b, a.expr + b.expr)
        case 2:
            return _infix("int", a, "-", b, a.expr - b.expr)
        case 3:
            return _infix("int", a, "*", b, a.expr * b.expr)
        case 4:
            by = f"NULLIF({b.duck}, 0)"
            borrow = _FLOORED.format(a=a.duck, b=by)
            duck = f"(({a.duck}) // {by} - CASE WHEN {borrow} THEN 1 ELSE 0 END)"
            return Said("int", a.expr // b.expr, f"({a.sql} DIV {b.sql})", duck)
        case 5:
            by = f"NULLIF({b.duck}, 0)"
            borrow = _FLOORED.format(a=a.duck, b=by)
            duck = f"(({a.duck}) % {by} + CASE WHEN {borrow} THEN {by} ELSE 0 END)"
            return Said("int", a.expr % b.expr, f"({a.sql} % {b.sql})", duck)
        case 6:
            text = expression(rng, "text", depth)
            words = (f"LENGTH({text.sql})", f"LENGTH({text.duck})")
            return Said("int", text.expr.str.length(), *words)
        case 7:
            time = expression(rng, "time", depth)
            part = rng.choice(["YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"])
            expr = getattr(time.expr.dt, part.lower())()
            duck = f"EXTRACT({part} FROM {time.duck})"
            return Said("int", expr, f"EXTRACT({part} FROM {time.sql})", duck)
        case 8:
            x = expression(rng, "float", depth)
            duck = f"TRY_CAST(trunc({x.duck}) AS BIGINT)"
            return Said("int", x.expr.try_cast("int64"), f"TRY_CAST({x.sql} AS BIGINT)", duck)
        case 9:
            digits = rng.choice([-2, -1, 0])
            words = (f"ROUND({a.sql}, {digits})", f"ROUND({a.duck}, {digits})")
            return Said("int", a.expr.round(digits), *words)
        case 10:
            one, other = expression(rng, "text", depth), expression(rng, "text", 0)
            expr = one.expr.str.replace("é", "e").str.levenshtein(other.expr.str.replace("é", "e"))
            words = (
                f"LEVENSHTEIN(REPLACE({x}, 'é', 'e'), REPLACE({y}, 'é', 'e'))"
                for x, y in ((one.sql, other.sql), (one.duck, other.duck))
            )
            return Said("int", expr, *words)
    word = expression(rng, "text", 0)
    duck = f"TRY_CAST({word.duck} AS BIGINT)"
    return Said("int", word.expr.try_cast("int64"), f"TRY_CAST({word.sql} AS BIGINT)", duck)


def _float(rng: Random, depth: int) -> Said:
    a, b = expression(rng, "float", depth), expression(rng, "float", depth)
    match rng.randrange(8):
        case 0:
            return _infix("float", a, "+", b, a.expr + b.expr)
        case 1:
            return _infix("float", a, "-", b, a.expr - b.expr)
        case 2:
            return _infix("float", a, "*", b, a.expr * b.expr)
        case 3:
            duck = f"(({a.duck}) / NULLIF({b.duck}, 0))"
            return Said("float", a.expr / b.expr, f"({a.sql} / {b.sql})", duck)
        case 4:
            name = rng.choice(["FLOOR", "CEIL"])
            expr = a.expr.floor() if name == "FLOOR" else a.expr.ceil()
            return Said("float", expr, f"{name}({a.sql})", f"{name}({a.duck})")
        case 5:
            other = expression(rng, rng.choice(["int", "dec"]), depth)
            words = (f"CAST({other.sql} AS DOUBLE)", f"({other.duck})::DOUBLE")
            return Said("float", other.expr.cast("float64"), *words)
        case 6:
            return Said("float", a.expr.cbrt(), f"CBRT({a.sql})", f"CBRT({a.duck})")
    return Said("float", -a.expr, f"(-{a.sql})", f"(-({a.duck}))")


def _dec(rng: Random, depth: int) -> Said:
    a, b = expression(rng, "dec", min(depth, 1)), expression(rng, "dec", 0)
    match rng.randrange(4):
        case 0:
            return _infix("dec", a, "+", b, a.expr + b.expr)
        case 1:
            return _infix("dec", a, "-", b, a.expr - b.expr)
        case 2:
            kind = pa.decimal128(10, 1)
            words = (
                f"TRY_CAST({a.sql} AS DECIMAL(10, 1))",
                f"TRY_CAST({a.duck} AS DECIMAL(10, 1))",
            )
            return Said("dec", a.expr.try_cast(kind), *words)
    return Said("dec", abs(a.expr), f"ABS({a.sql})", f"ABS({a.duck})")


def _text(rng: Random, depth: int) -> Said:
    a, b = expression(rng, "text", depth), expression(rng, "text", depth)
    match rng.randrange(7):
        case 0:
            return _infix("text", a, "||", b, a.expr + b.expr)
        case 1:
            return Said("text", a.expr.str.upper(), f"UPPER({a.sql})", f"UPPER({a.duck})")
        case 2:
            return Said("text", a.expr.str.lower(), f"LOWER({a.sql})", f"LOWER({a.duck})")
        case 3:
            start, length = rng.randint(1, 3), rng.randint(0, 3)
            expr = a.expr.str.slice(start - 1, start - 1 + length)
            words = (f"SUBSTRING({x}, {start}, {length})" for x in (a.sql, a.duck))
            return Said("text", expr, *words)
        case 4:
            words = (f"REPLACE({x}, 'a', 'zz')" for x in (a.sql, a.duck))
            return Said("text", a.expr.str.replace("a", "zz"), *words)
        case 5:
            words = (f"TRIM('a' FROM {a.sql})", f"TRIM({a.duck}, 'a')")
            return Said("text", a.expr.str.strip("a"), *words)
    other = expression(rng, rng.choice(["int", "bool", "date"]), depth)
    words = (f"CAST({x} AS VARCHAR)" for x in (other.sql, other.duck))
    return Said("text", other.expr.cast("string"), *words)


_COMPARED: list[tuple[str, Callable[[Expr, Expr], Expr]]] = [
    ("=", Expr.__eq__),
    ("<>", Expr.__ne__),
    ("<", Expr.__lt__),
    ("<=", Expr.__le__),
    (">", Expr.__gt__),
    (">=", Expr.__ge__),
]


def _compared(rng: Random, depth: int) -> Said:
    kind = rng.choice(["int", "float", "dec", "text", "date", "time"])
    a, b = expression(rng, kind, depth), expression(rng, kind, depth)
    operator, build = rng.choice(_COMPARED)
    said = _infix("bool", a, operator, b, build(a.expr, b.expr))
    if kind != "float":
        return said
    unordered = "true" if operator == "<>" else "false"
    duck = (
        f"CASE WHEN ({a.duck}) IS NULL OR ({b.duck}) IS NULL THEN NULL "
        f"WHEN isnan({a.duck}) OR isnan({b.duck}) THEN {unordered} ELSE {said.duck} END"
    )
    return Said("bool", said.expr, said.sql, duck)


def _bool(rng: Random, depth: int) -> Said:
    a, b = expression(rng, "bool", depth), expression(rng, "bool", depth)
    x = expression(rng, "text", depth)
    n = expression(rng, "int", depth)
    match rng.randrange(9):
        case 0:
            return _infix("bool", a, "AND", b, a.expr & b.expr)
        case 1:
            return _infix("bool", a, "OR", b, a.expr | b.expr)
        case 2:
            return Said("bool", ~a.expr, f"(NOT {a.sql})", f"(NOT {a.duck})")
        case 3:
            other = expression(rng, rng.choice(list(_COLUMNS)), depth)
            words = (f"({w} IS NULL)" for w in (other.sql, other.duck))
            return Said("bool", other.expr.is_null(), *words)
        case 4:
            words = (f"({w} IN (0, 7, 127))" for w in (n.sql, n.duck))
            return Said("bool", n.expr.is_in([0, 7, 127]), *words)
        case 5:
            pattern, expr = rng.choice(
                [
                    ("a%", x.expr.str.starts_with("a")),
                    ("%b%", x.expr.str.contains("b")),
                    ("a_", x.expr.str.contains(r"(?s)\Aa.\z", regex=True)),
                ]
            )
            words = (f"({w} LIKE '{pattern}')" for w in (x.sql, x.duck))
            return Said("bool", expr, *words)
        case 6:
            words = (f"({w} BETWEEN 0 AND 9)" for w in (n.sql, n.duck))
            return Said("bool", n.expr.between(0, 9), *words)
    return _compared(rng, depth)


def _date(rng: Random, depth: int) -> Said:
    time = expression(rng, "time", depth)
    words = (f"CAST({w} AS DATE)" for w in (time.sql, time.duck))
    return Said("date", time.expr.cast("date"), *words)


def _time(rng: Random, depth: int) -> Said:
    a = expression(rng, "time", depth)
    if rng.random() < 0.5:
        unit, short = rng.choice([("hour", "1h"), ("minute", "1m"), ("day", "1d")])
        words = (f"DATE_TRUNC('{unit}', {w})" for w in (a.sql, a.duck))
        return Said("time", a.expr.dt.truncate(short), *words)
    amount = timedelta(hours=rng.choice([1, 25]), seconds=rng.randrange(60))
    text = f"INTERVAL '{int(amount.total_seconds())} seconds'"
    return Said("time", a.expr + lit(amount), f"({a.sql} + {text})", f"({a.duck} + {text})")


_MAKERS: dict[str, Callable[[Random, int], Said]] = {
    "int": _int, "float": _float, "dec": _dec, "text": _text, "bool": _bool, "date": _date,
    "time": _time,
}  # fmt: skip
KINDS = tuple(_MAKERS)
