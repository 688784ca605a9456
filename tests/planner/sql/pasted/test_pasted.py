"""Queries from the documentation of other engines, pasted unchanged.

Each file has one engine's queries: first the tables, then cases. A case has a name, a kind of
comparison, the pasted text, and a DuckDB query over the same files with the right result (``=``:
the pasted text itself). The kind ``rows`` compares all rows, ``table`` the rows that are valid at
the end of the stream, ``ordered`` a table in order, ``now`` the rows that are valid at the last
start of a row, ``sink`` the rows of each sink.

:data:`REFUSED` lists the cases that are errors, with words of the message; ``instead.sql`` has
other forms of them with the same result.

Not covered: differences with more rows, or other engines' errors.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from planner import Query, SqlError, Stream, sql, udf
from planner.physical.lower import lower
from rstream.items.batch import VE, VS
from rstream.types import INF_TIME
from tests.support.budget import one_in
from tests.support.plan_runner import answer, answers

HERE = Path(__file__).parent
#: Files of engines, and their data. All but the first were written before any query had run.
SETS = {
    HERE: HERE,
    HERE / "second": HERE / "second",
    HERE / "third": HERE / "second",
    HERE / "fourth": HERE / "fourth",
    HERE / "fifth": HERE / "fifth",
    HERE / "sixth": HERE / "sixth",
    HERE / "seventh": HERE / "seventh",
    HERE / "eighth": HERE / "seventh",
    HERE / "tenth": HERE / "tenth",
    HERE / "eleventh": HERE / "tenth",
}
DIALECTS: dict[str, str | None] = {
    "flink": "flink",
    "spark": "spark",
    "risingwave": "postgres",
    "materialize": "postgres",
    "ksqldb": "ksqldb",
    "duckdb": "duckdb",
    "arroyo": "postgres",
    "feldera": "flink",
    "postgres": "postgres",
    "snowflake": None,
    "bigquery": None,
}
#: Case -> words of the message, which says what to write instead.
REFUSED: dict[str, str] = {
    "second-spark-session-dynamic-gap": "is not a duration; write it like",
    "second-spark-math-builtins": "does not take BINARY and VARCHAR; write",
    "second-risingwave-session-frame": "write GROUP BY k, SESSION",
    "second-materialize-mutually-recursive": "write a query for each level",
    "third-risingwave-subscription": r"Job.subscribe\(\)",
    "fourth-flink-session-rows": "write GROUP BY window_start, window_end",
    "fourth-flink-conditionals-b": "TYPEOF is not supported",
    "fourth-spark-window-docs-sliding": r"write TUMBLE\('10 minutes'\) among the keys",
    "fourth-spark-ignore-nulls-window": "IGNORE NULLS OVER",
    "fourth-spark-string-functions": "SENTENCES is not supported",
    "fourth-spark-hash-math": "is missing here",
    "fourth-risingwave-session-frame-docs": "write GROUP BY k, SESSION",
    "fourth-risingwave-asof-docs": "write ASOF JOIN b ON",
    "fourth-ksqldb-shipped-orders": "name its time column",
    "fourth-ksqldb-parse-strings": "MASK is not supported",
    "fifth-spark-hash-and-encode": "BASE64 does not take BINARY",
    "fifth-materialize-jsonb-build": "JSONB_BUILD_ARRAY does not take",
    "sixth-flink-alter-watermark": "write the changes into the CREATE TABLE",
    "sixth-spark-session-variables": "write :name in the query",
    "seventh-flink-overlaps-and-time-literals": "no type TIME; write",
    "seventh-spark-window-time-chain": "WINDOW is not supported; write",
    "seventh-spark-higher-order-more": "MAP_ZIP_WITH is not supported",
    "seventh-spark-sequence-of-dates-and-down": "write days, as in INTERVAL",
    "seventh-spark-string-builtins-rest": "LUHN_CHECK is not supported",
    "seventh-spark-from-to-json-and-csv": "FROM_CSV is not supported; write",
    "seventh-spark-casts-and-typed-literals": "write UNHEX",
    "fifth-postgres-date-arithmetic": "it counts months and years",
    "fifth-snowflake-flatten-parse-json": "this is not expected here",
    "tenth-materialize-date-functions-page": "it counts months and years",
    "tenth-materialize-recursive-graph": "write a query for each level",
    "tenth-ksqldb-zones-and-times": "FORMAT_TIME is not supported",
    "tenth-ksqldb-text-and-bytes": "takes at most 2 arguments",
    "tenth-postgres-frame-exclusion": "RANGE takes a whole number",
    "tenth-postgres-to-char-formats": "write one of YYYY",
    "tenth-postgres-date-time-page": "it counts months and years",
    "tenth-postgres-json-page": "JSONB_PRETTY is not supported",
    "tenth-postgres-arrays-page": "ARRAY_DIMS is not supported",
    "tenth-duckdb-text-page": "STRIP_ACCENTS is not supported",
    "tenth-duckdb-timestamp-page": "it counts months and years",
    "tenth-duckdb-numeric-page": "GAMMA is not supported",
    "eleventh-risingwave-extract-and-interval-functions": "TO_CHAR does not take INTERVAL",
    "eleventh-risingwave-sha-and-hex": "a backslash in bytes is not supported",
    "eleventh-materialize-recursive-refused": "write a query for each level",
    "eleventh-postgres-string-functions-table": "write a format with %s",
    "eleventh-postgres-math-functions-table": "SCALE is not supported",
}
#: Refused case -> why no other query gives its answer, either.
UNSAID = {
    "second-materialize-mutually-recursive": "a recursion without a bound of its depth",
    "third-risingwave-subscription": "a cursor of changes is Job.subscribe() in Python",
}
#: Every message must match this: words that introduce an alternative.
ADVICE = re.compile(
    r"\b(write|cast|add|read|name|take|leave|put|compute|Job\.subscribe|the fields are)\b"
)
#: Case -> how its result differs on purpose.
DIFFERS = {
    "tenth-materialize-regexp-functions": "a group is \\1 as in PostgreSQL, Materialize writes $1",
    "fourth-materialize-case-extract-interval": "NUMERIC without digits is a DOUBLE here",
    "fifth-snowflake-dateadd-datediff": "without a dialect DAYNAME is the whole name, as in DuckDB",
}


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    dialect: str | None
    kind: str
    text: str
    oracle: str
    data: Path
    tables: str


def cases(folder: Path) -> list[Case]:
    found = []
    prefix = "" if folder == HERE else f"{folder.name}-"
    for engine, dialect in DIALECTS.items():
        if not (folder / f"{engine}.sql").exists():
            continue
        tables, *parts = re.split(r"^=== ", (folder / f"{engine}.sql").read_text(), flags=re.M)
        for part in parts:
            head, _, rest = part.partition("\n")
            text, _, oracle = rest.partition("--- duckdb\n")
            name, kind = head.split()
            made = Case(
                f"{prefix}{engine}-{name}",
                dialect,
                kind,
                tables + text,
                text if oracle.strip() == "=" else oracle,
                SETS[folder] / "data",
                tables,
            )
            found.append(made)
    return found


CASES = [case for folder in SETS for case in cases(folder)]


@pytest.fixture(scope="module")
def oracles() -> dict[Path, duckdb.DuckDBPyConnection]:
    found = {}
    for folder in SETS.values():
        connection = duckdb.connect()
        connection.execute("SET TimeZone = 'UTC'")
        for path in sorted((folder / "data").iterdir()):
            name = path.stem
            more = ", epoch_ms(viewtime) AS ts" if name == "pageviews" else ""
            typed = " REPLACE (CAST(amount AS DECIMAL(10, 2)) AS amount)"
            more = typed if name == "payments" and folder != HERE else more
            connection.execute(f"CREATE VIEW {name} AS SELECT *{more} FROM '{path}'")
        found[folder / "data"] = connection
    return found


@pytest.mark.parametrize("case", one_in(4, CASES), ids=[case.name for case in CASES])
def test_a_pasted_statement_returns_the_recorded_rows_or_advice(
    case: Case, oracles: dict[Path, duckdb.DuckDBPyConnection], tmp_path: Path
) -> None:
    variables = {"data": str(case.data), "out": str(tmp_path)}
    if case.name in REFUSED:
        with pytest.raises(SqlError, match=REFUSED[case.name]) as refused:
            sql(case.text, variables=variables, dialect=case.dialect)
        assert ADVICE.search(refused.value.reason), refused.value.reason
        return
    made = sql(case.text, variables=variables, dialect=case.dialect)
    found, wanted = _compared(made, case.kind, oracles[case.data], case.oracle)
    assert (found == wanted) is (case.name not in DIFFERS)
    if case.name not in DIFFERS:
        assert found == wanted


def _compared(
    made: Any, kind: str, oracle: duckdb.DuckDBPyConnection, text: str
) -> tuple[list[Any], list[Any]]:
    found = _answers(made, kind)
    wanted = [_plain(row) for row in oracle.execute(text).fetchall()]
    assert wanted or "WHERE false" in text
    return (found, wanted) if kind == "ordered" else (_sorted(found), _sorted(wanted))


def _sorted(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=repr)


@udf(returns="string")
def converted(digits: str, base: int, to: int) -> str:
    number, written = int(digits, base), ""
    rest = abs(number)
    while rest or not written:  # ends: it gets smaller
        written = "0123456789ABCDEF"[rest % abs(to)] + written
        rest //= abs(to)
    return "-" * (number < 0) + written


@udf(returns="string")
def without_nulls(text: str) -> str:
    held = {name: value for name, value in json.loads(text).items() if value is not None}
    return json.dumps(held, separators=(",", ":"))


#: Functions that a user adds for cases of ``instead.sql``.
FUNCTIONS: dict[str, Any] = {
    "conv": converted,
    "jsonb_strip_nulls": without_nulls,
    "unhex": udf(lambda text: bytes.fromhex(text).decode(), returns="string"),
    "sentences": udf(
        lambda text: [re.findall(r"\w+", part) for part in re.split(r"[.!?]", text) if part],
        returns="list<list<string>>",
    ),
}


def _instead() -> dict[str, tuple[str, str]]:
    """The text and the kind by the name of the case."""
    parts = re.split(r"^=== ", (HERE / "instead.sql").read_text(), flags=re.M)[1:]
    heads = [part.partition("\n") for part in parts]
    return {name.split()[0]: (text, " ".join(name.split()[1:])) for name, _, text in heads}


INSTEAD = _instead()


@pytest.mark.parametrize("name", one_in(4, INSTEAD))
def test_every_rejected_statement_has_an_alternative(
    name: str, oracles: dict[Path, duckdb.DuckDBPyConnection], tmp_path: Path
) -> None:
    (case,) = (case for case in CASES if case.name == name)
    text, kind = INSTEAD[name]
    variables = {"data": str(case.data), "out": str(tmp_path)}
    made = sql(case.tables + text, variables=variables, dialect=case.dialect, functions=FUNCTIONS)
    found, wanted = _compared(made, kind or case.kind, oracles[case.data], case.oracle)
    assert found == wanted


def test_few_statements_have_no_alternative() -> None:
    tried = INSTEAD.keys() | UNSAID.keys()
    sets = ("second-", "third-", "fourth-", "fifth-", "sixth-")
    assert {name for name in REFUSED if name.startswith(sets)} == tried


def test_most_pasted_statements_run() -> None:
    assert len(CASES) >= 1000
    assert set(REFUSED) < {case.name for case in CASES}
    assert len(REFUSED) + len(DIFFERS) <= len(CASES) * 5 // 100


def test_a_target_with_partitions_is_rejected(tmp_path: Path) -> None:
    text = f"""
    CREATE TABLE o (order_id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
    PARTITIONED BY (order_id) WITH ('path' = '{HERE}/data/orders.csv');
    CREATE TABLE t (order_id BIGINT) PARTITIONED BY (order_id) WITH ('path' = '{tmp_path}/t');
    INSERT INTO t SELECT order_id FROM o"""
    with pytest.raises(SqlError, match="a target has no PARTITIONED BY"):
        sql(text, dialect="flink")


def _answers(made: Any, kind: str) -> list[Any]:
    if kind != "sink":
        assert isinstance(made, Stream)
        return _rows(made.to_parquet(start="starts", end="ends"), kind)
    assert isinstance(made, Query)
    plan = lower(made, root="memory://pasted", parallelism=2)
    return [
        (Path(output.output).name, *row)
        for output, table in zip(plan.of_outputs, answers(plan), strict=True)
        for row in _plain_rows(table.to_pylist(), "rows")
    ]


def _rows(query: Query, kind: str) -> list[Any]:
    plan = lower(query, root="memory://pasted", parallelism=2)
    return _plain_rows(answer(plan).to_pylist(), kind)


def _plain_rows(found: list[dict[str, Any]], kind: str) -> list[Any]:
    if kind == "now":
        now = max(row[VS] for row in found)
        found = [row for row in found if row[VS] <= now < row[VE]]
    if kind in ("table", "ordered"):
        found = [row for row in found if row[VE] == INF_TIME]
    return [_plain(row[name] for name in row if name not in (VS, VE)) for row in found]


def _plain(row: Any) -> tuple[Any, ...]:
    return tuple(_value(value) for value in row)


def _value(value: Any) -> Any:
    """Normalise: numbers by value, times without their zone."""
    if isinstance(value, dict):
        return tuple(_value(part) for part in value.values())
    if isinstance(value, list):
        return [_value(part) for part in value]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float | Decimal):
        return round(float(value), 9)
    if isinstance(value, datetime):
        plain = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
        return plain.isoformat()
    return str(value)
