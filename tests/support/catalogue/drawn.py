"""Random rows with edges for calls of functions, and what this engine answers in a dialect."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from planner import Stream, event, sql
from planner.errors import EvaluationError
from planner.logical.nodes import Project

VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (
        pa.int64(),
        [0, 1, -1, 2, 7, -7, 63, 64, 2**31 - 1, -(2**31), 2**62, 2**63 - 1, -(2**63)],
    ),
    "j": (pa.int64(), [0, 1, -1, 2, 3, 4, -2, -3, 8]),
    "f": (
        pa.float64(),
        [0.0, -0.0, 0.5, -0.5, 2.5, 1e-10, 1e300, 5e-324, math.inf, -math.inf, math.nan, 2.675],
    ),
    "g": (pa.float64(), [0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.5, 3.0, math.nan, math.inf]),
    "s": (
        pa.string(),
        ["", "a", "Ab c", "é", "日本語", "a,b,,c", "  pad ", "%_", "ß", "😀x", "a\\b", "12", "{"],
    ),
    "p": (pa.string(), ["", "a", "b", ",", "é", "l", "aa", "B", " ", "o w"]),
    "d": (
        pa.date32(),
        [
            *(date(1969, 12, 31), date(2024, 2, 29), date(2024, 12, 30), date(2, 1, 1)),
            *(date(9990, 12, 31), date(2021, 1, 3)),
        ],
    ),
    "m": (
        pa.timestamp("us", "UTC"),
        [
            datetime(1969, 12, 31, 23, 59, 59, 0, UTC),
            datetime(2024, 2, 29, 12, 30, 15, 123_456, UTC),
            datetime(2, 1, 1, tzinfo=UTC),
            datetime(9990, 12, 31, 23, 59, 59, 999_999, UTC),
            datetime(2021, 1, 3, 5, tzinfo=UTC),
        ],
    ),
    "b": (pa.bool_(), [True, False]),
    "l": (pa.list_(pa.int64()), [[1, 2, 3], [], [3, 1, 2], [5], [2, 2, None], [None]]),
    "t": (pa.list_(pa.string()), [["a", "b"], [], ["é"], ["b", None, "a"]]),
}
ROWS = 60
#: The value of a call that fails.
ERROR = object()


def drawn(seed: int) -> pa.RecordBatch:
    rng = Random(seed)
    columns = {
        name: pa.array(
            [None if rng.random() < 0.15 else rng.choice(values) for _ in range(ROWS)], kind
        )
        for name, (kind, values) in VALUES.items()
    }
    return pa.record_batch({"n": pa.array(range(ROWS)), **columns})


def plain(value: Any) -> Any:
    """Convert a value to a form that both engines have: fractions to 12 digits, dates as times."""
    if isinstance(value, Decimal) and value.is_finite() and value == int(value):
        return int(value)
    if isinstance(value, float | Decimal):
        number = float(value)
        return float(f"{number:.11e}") + 0.0 if math.isfinite(number) else str(number)
    if isinstance(value, date):
        kind = pa.timestamp("us") if isinstance(value, datetime) else pa.date32()
        return values_of(pa.array([value], kind))[0]
    if isinstance(value, dict):
        return {str(key): plain(held) for key, held in value.items()}
    return [plain(held) for held in value] if isinstance(value, list | tuple) else value


def alike(a: Any, b: Any) -> bool:
    """Return whether both values are equal; an integer also equals the double nearest to it."""
    if isinstance(a, float) != isinstance(b, float) and not {type(a), type(b)} & {str, type(None)}:
        a, b = float(a), float(b)
    return bool(plain(a) == plain(b))


def ours(call: str, rows: pa.RecordBatch, dialect: str) -> list[Any]:
    """Return the values of all rows; ``ERROR`` where a row fails by itself."""
    kinds = {name: kind for name, (kind, _) in VALUES.items()}
    stream = Stream.from_items(kinds, [event(0, **dict.fromkeys(kinds))])
    made = sql(f"SELECT {call} AS v FROM t", {"t": stream}, dialect=dialect)
    assert isinstance(made, Stream)
    assert isinstance(made.plan, Project)
    ((_, node),) = made.plan.columns
    try:
        return values_of(node.evaluate(rows))
    except EvaluationError:
        return [_of_row(node, rows.slice(at, 1)) for at in range(ROWS)]


def _of_row(node: Any, row: pa.RecordBatch) -> Any:
    try:
        return values_of(node.evaluate(row))[0]
    except EvaluationError:
        return ERROR


def values_of(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values in Python; times as microseconds, because Python has none after year 9999."""
    if not (pa.types.is_timestamp(column.type) or pa.types.is_date(column.type)):
        return list(column.to_pylist())
    ticks = column.cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
    return [None if us is None else _time(us) for us in ticks]


def _time(us: int) -> str:
    return f"{us} us"
