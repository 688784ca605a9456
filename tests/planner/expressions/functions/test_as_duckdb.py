"""Each function that DuckDB also has returns DuckDB's result, on random rows and edge cases.

Cannot catch: bugs that both share; errors, which may occur in one engine only (a result too large).
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from planner import Stream, event, sql
from planner.errors import EvaluationError
from planner.logical.nodes import Project
from planner.sql.expressions.engines.catalogue import NAMES
from tests.support.budget import seeds
from tests.support.catalogue.calls import CALLS

#: How the result of a function differs (docs/SQL.md, "Where this differs").
DIFFERENT = {
    "levenshtein": "counts characters; DuckDB counts bytes",
    "to_json": "writes times with T and their zone",
    "ltrim": "cuts tabs, too",
    "rtrim": "cuts tabs, too",
    "split": "is null for a separator that is null, and refuses an empty one",
    "sign": "of NaN is NaN; DuckDB returns 0",
    "epoch_ms": "rounds down before 1970; DuckDB rounds toward 1970",
    "list_prepend": "of a null list is null, as that of LIST_APPEND and LIST_CONCAT",
    "log": "is null for base 1",
    "from_base64": "is text; DuckDB returns bytes",
    "json_array_length": "is null for a value that is no list",
    "json_keys": "is null for a value that is no object",
    "url_encode": "encodes a blank as +",
    "json_contains": "is @>; DuckDB searches all depths",
}
#: Compared elsewhere: their patterns, formats, paths and units must be literals.
BY_EXAMPLES = frozenset(
    (
        *("regexp_replace", "strptime", "try_strptime", "json_value", "position", "repeat"),
        *("to_base64", "base64", "octet_length", "json_extract", "json_exists", "instr", "strpos"),
        *(
            "translate",
            "lpad",
            "rpad",
            "substring",
            "substr",
            "replace",
            "split_part",
            "left",
            "right",
        ),
    )
)
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (pa.int64(), [0, 1, -1, 2, 7, -7, 63, 64, 2**31 - 1, -(2**31), 2**62, 2**63 - 1]),
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
    """Normalise a value for both engines: numbers to 12 digits, dates as times."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float | Decimal):
        number = float(value)
        return float(f"{number:.11e}") + 0.0 if math.isfinite(number) else str(number)
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)  # noqa: DTZ001
    if isinstance(value, dict):
        return {str(key): plain(held) for key, held in value.items()}
    return [plain(held) for held in value] if isinstance(value, list | tuple) else value


def ours(call: str, rows: pa.RecordBatch) -> list[Any]:
    kinds = {name: kind for name, (kind, _) in VALUES.items()}
    stream = Stream.from_items(kinds, [event(0, **dict.fromkeys(kinds))])
    made = sql(f"SELECT {call} AS v FROM t", {"t": stream}, dialect="duckdb")
    assert isinstance(made, Stream)
    assert isinstance(made.plan, Project)
    ((_, node),) = made.plan.columns
    try:
        return list(node.evaluate(rows).to_pylist())
    except EvaluationError:
        return [
            _or_error(lambda at=at: node.evaluate(rows.slice(at, 1))[0].as_py())
            for at in range(ROWS)
        ]


def _or_error(compute: Any) -> Any:
    try:
        return compute()
    except (EvaluationError, duckdb.Error):
        return ERROR


ERROR = object()


def theirs(call: str, connection: duckdb.DuckDBPyConnection) -> list[Any]:
    def asked(condition: str) -> list[Any]:
        query = f"SELECT {call} FROM t {condition} ORDER BY n"
        return [value for (value,) in connection.execute(query).fetchall()]

    try:
        return asked("")
    except duckdb.Error:
        one_by_one = [_or_error(partial(asked, f"WHERE n = {at}")) for at in range(ROWS)]
        return [found if found is ERROR else found[0] for found in one_by_one]


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(0, 1))
def test_calls_are_duckdbs(seed: int) -> None:
    rows = drawn(seed)
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    table = pa.Table.from_batches([rows])
    place = table.schema.get_field_index("m")
    connection.register("t", table.set_column(place, "m", table["m"].cast(pa.timestamp("us"))))
    wrong = []
    for call in CALLS.split():
        if call.partition("(")[0] in DIFFERENT:
            continue
        pairs = zip(ours(call, rows), theirs(call, connection), strict=True)
        wrong += [
            (call, rows.slice(at, 1).to_pylist()[0], a, b)
            for at, (a, b) in enumerate(pairs)
            if a is not ERROR and b is not ERROR and plain(a) != plain(b)
        ][:1]
    assert not wrong, wrong


def test_each_function_that_duckdb_has_is_compared() -> None:
    query = "SELECT DISTINCT function_name FROM duckdb_functions()"
    has = {name for (name,) in duckdb.connect().execute(query).fetchall()}
    called = {call.partition("(")[0] for call in CALLS.split()}
    left = {name.lower() for name in NAMES} & has - called - BY_EXAMPLES - DIFFERENT.keys()
    assert not left, sorted(left)
