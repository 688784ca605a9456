"""Random queries over windows in FROM: right for all rows of a window, or an error.

DuckDB is the oracle; :mod:`tests.support.random_windows` explains the lifetimes. A query has the
same result at every parallelism, except for the order of rows with equal starts. ``WINDOWS_SEED``
selects other queries, ``DEPTH`` more of them. Not covered: queries that the generator cannot
write, rows of windows joined with versions of a table, and needless errors.
"""

from __future__ import annotations

import os
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from planner import SqlError, Stream, event, sql
from planner.physical.lower import lower
from rstream.items.batch import VE, VS
from tests.support.budget import seeds
from tests.support.ducks import duck
from tests.support.plan_runner import answer
from tests.support.random_windows import COLUMNS, TABLE, Choices, Query, shrunk, written

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

SEED = int(os.environ.get("WINDOWS_SEED", "7"))
CASES = 20
FAST = 12
PARALLELISMS = (1, 2, 4)
#: The least share of all queries with a result; the others are errors.
ANSWERED_LEAST = 0.4
_TRIES_MAX = 300
_LISTS = ("FIRST", "LAST", "ARRAY")
Rows = list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duck() as found:
        yield found


def streams(query: Query) -> dict[str, Stream]:
    kinds = dict.fromkeys(COLUMNS, "int64")
    given = {
        name: Stream.from_items(
            kinds, [event(a, b, **dict(zip(COLUMNS, row, strict=True))) for a, b, *row in rows]
        )
        for name, rows in query.rows.items()
    }
    return {**given, "d": Stream.table(TABLE)}


def plain(value: Any) -> Any:
    """Convert times to microseconds."""
    return round(value.timestamp() * 1_000_000) if isinstance(value, datetime) else value


def ours(stream: Stream, parallelism: int) -> Rows:
    plan = lower(
        stream.to_parquet(start="began", end="ended"),
        root="memory://windows",
        parallelism=parallelism,
    )
    names = [VS, VE, *stream.schema.names]
    rows = [tuple(plain(row[name]) for name in names) for row in answer(plan).to_pylist()]
    return sorted(rows, key=repr)


def theirs(query: Query, connection: duckdb.DuckDBPyConnection) -> Rows:
    return sorted(connection.execute(query.duck).fetchall(), key=repr)


def is_same(query: Query, mine: Rows, other: Rows) -> bool:
    """Whether both have the same rows, in any order."""
    roles = ("int", "int", *(column.role for column in query.columns))
    left = list(other)
    for row in mine:
        same = (
            at
            for at, one in enumerate(left)
            if all(_is_same_value(*values) for values in zip(roles, row, one, strict=True))
        )
        at = next(same, None)
        if at is None:
            return False
        del left[at]
    return not left


def _is_same_value(role: str, mine: Any, other: Any) -> bool:
    """In a list, rows with the same start have no order."""
    if role not in _LISTS:
        return bool(mine == other)
    if role != "ARRAY":
        at = other[0 if role == "FIRST" else -1]["t"]
        return mine in [one["x"] for one in other if one["t"] == at]
    times = [one["t"] for one in other]
    given = Counter(zip(times, mine, strict=False))
    return len(mine) == len(times) and given == Counter((one["t"], one["x"]) for one in other)


def wrong(
    query: Query,
    connection: duckdb.DuckDBPyConnection,
    parallelisms: tuple[int, ...] = PARALLELISMS,
) -> str | None:
    """Return what is wrong with the output, ``""`` if correct; None: the query is an error."""
    try:
        stream = sql(query.text, streams(query))
    except SqlError:
        return None
    assert isinstance(stream, Stream), query.text
    if query.impossible:
        return query.impossible
    expected = theirs(query, connection)
    if any(row[0] is None for row in expected):
        return "a group has no window"
    for parallelism in parallelisms:
        found = ours(stream, parallelism)
        if not is_same(query, found, expected):
            return f"by {parallelism} {found}\nthere {expected}"
    return ""


def check(
    query: Query, connection: duckdb.DuckDBPyConnection, parallelisms: tuple[int, ...]
) -> bool:
    """Check the result of a query. Return False if the query is an error."""
    found = wrong(query, connection, parallelisms)
    if found:
        query = shrunk(query, lambda tried: bool(wrong(tried, connection)), _TRIES_MAX)
        pytest.fail(f"{query.text}\n{wrong(query, connection)}\n{query.rows}\n{query.duck}")
    return found is not None


def test_random_windows_in_from(connection: duckdb.DuckDBPyConnection) -> None:
    """Each query at one parallelism."""
    answered = sum(
        check(written(Choices(seed)), connection, PARALLELISMS[seed % 3 :][:1])
        for seed in range(FAST)
    )
    assert answered >= ANSWERED_LEAST * FAST


@pytest.mark.slow
@pytest.mark.parametrize("part", seeds(0, 6))
def test_many_random_windows_in_from(connection: duckdb.DuckDBPyConnection, part: int) -> None:
    """Each query at all of them."""
    first = SEED * 1_000_000 + CASES * part
    answered = sum(
        check(written(Choices(seed)), connection, PARALLELISMS)
        for seed in range(first, first + CASES)
    )
    assert answered >= ANSWERED_LEAST * CASES - 2
