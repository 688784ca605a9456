"""Each function that DuckDB also has returns DuckDB's result, on random rows and edge cases.

Not covered: bugs that both share; errors, which may occur in one engine only (a result too large).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from planner.errors import EvaluationError
from planner.sql.expressions.engines.catalogue import NAMES
from tests.support.budget import seeds
from tests.support.catalogue.calls import CALLS
from tests.support.catalogue.drawn import ERROR, ROWS, alike, drawn, ours

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


def _or_error(compute: Any) -> Any:
    try:
        return compute()
    except (EvaluationError, duckdb.Error):
        return ERROR


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
def test_calls_equal_duckdb(seed: int) -> None:
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
        pairs = zip(ours(call, rows, "duckdb"), theirs(call, connection), strict=True)
        wrong += [
            (call, rows.slice(at, 1).to_pylist()[0], a, b)
            for at, (a, b) in enumerate(pairs)
            if a is not ERROR and b is not ERROR and not alike(a, b)
        ][:1]
    assert not wrong, wrong


def test_each_function_of_duckdb_is_compared() -> None:
    query = "SELECT DISTINCT function_name FROM duckdb_functions()"
    has = {name for (name,) in duckdb.connect().execute(query).fetchall()}
    called = {call.partition("(")[0] for call in CALLS.split()}
    left = {name.lower() for name in NAMES} & has - called - BY_EXAMPLES - DIFFERENT.keys()
    assert not left, sorted(left)
