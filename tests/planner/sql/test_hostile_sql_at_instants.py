"""Random SQL over rows that end, null keys, several changes at one instant and other types.

As ``test_random_sql_at_instants.py``, with steps of its own: aggregates of aggregates, semi and
anti joins, USING, ROLLUP and CUBE, aggregates over partitions, first rows of an outer join's right
side, OFFSET, IN and NOT EXISTS below OR, and joins of a result with itself.

Not covered: results that depend on the order of rows, and comparisons with NaN, which differ by
design.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

from planner import Stream, col, event, sql
from planner.physical.lower import lower
from planner.sql.reading.errors import SqlError
from rstream.items.edges import paired
from tests.planner.optimizer.rules.test_open_rows import with_changes
from tests.planner.sql.test_random_sql_at_instants import RandomSql
from tests.support.budget import seeds
from tests.support.plan_runner import Schedule, answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TIMES, INSTANTS = 40, 8
#: Plans per test; ``DEPTH`` makes more.
PLANS = 25
KINDS = {"int": "int64", "double": "double", "string": "string"}
VALUES: dict[str, list[Any]] = {
    "int": [None, 0, 1, 1, 2, 3, -1],
    "double": [None, 0.0, -0.0, 1.5, 2.0, -1.0, float("inf")],
    "string": [None, "", "a", "b", "ab"],
}
LITERALS = {"int": "1", "double": "1.0", "string": "'a'"}
#: Start, end, k, x, y.
Row = tuple[int, int | None, int | None, Any, int | None]


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as found:
        yield found


class HostileSql(RandomSql):
    """k and y are integers, x has the type ``kind``."""

    tables = ("a", "b", "c", "d")

    def __init__(self, seed: int, kind: str) -> None:
        self._kind = kind
        super().__init__(seed)

    def _relation(self, depth: int) -> str:
        steps: list[Callable[[int], str]] = [
            self._nested, self._semi, self._using, self._sets, self._ranked, self._plain_group,
            self._rollup, self._case, self._over, self._first_of, self._offset, self._in_or,
            self._none_or, self._itself, self._typed_where, self._typed_join,
        ]  # fmt: skip
        if depth == 0:
            return super()._relation(0)
        if self._kind == "int" and self._chance.random() < 0.4:
            return super()._relation(depth)
        step = self._chance.choice(steps)
        self.steps.append(step.__name__)
        return step(depth - 1)

    def _aggregate(self) -> str:
        if self._kind == "int":
            return super()._aggregate()
        counts = ["COUNT(*)", "COUNT(x)", "COUNT(DISTINCT x)", "COUNT(DISTINCT y)"]
        return self._chance.choice([*counts, "MIN(y)", "MAX(y)", "SUM(y)", "SUM(DISTINCT y)"])

    def _condition(self, a: str, b: str) -> str:
        keys = [f"{a}.k = {b}.k", f"{a}.x = {b}.x", f"{a}.x = {b}.x AND {a}.k = {b}.k"]
        more = ["", "", f" AND {a}.y < {b}.y", f" AND {a}.x <> {b}.x", f" AND {a}.x < {b}.x"]
        return self._chance.choice(keys) + self._chance.choice(more)

    def _pair(self, depth: int) -> tuple[str, str, str, str]:
        return *self._from(depth), *self._from(0)

    def _typed_where(self, depth: int) -> str:
        given, t = self._from(depth)
        value = LITERALS[self._kind]
        tests = (f"{t}.x > {value}", f"{t}.x IS NULL", f"{t}.x <> {value}", f"{t}.y > 0")
        return f"SELECT k, x, y FROM {given} WHERE {self._chance.choice(tests)}"

    def _typed_join(self, depth: int) -> str:
        left, a, right, b = self._pair(depth)
        kind = self._chance.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        columns = f"COALESCE({a}.k, {b}.k) AS k, {a}.x AS x, {b}.y AS y"
        return f"SELECT {columns} FROM {left} {kind} {right} ON {self._condition(a, b)}"

    def _plain_group(self, depth: int) -> str:
        given, _ = self._from(depth)
        most = self._chance.choice(["MAX", "MIN"])
        return f"SELECT k, {most}(x) AS x, {self._aggregate()} AS y FROM {given} GROUP BY k"

    def _nested(self, depth: int) -> str:
        given, _ = self._from(depth)
        inner = f"SELECT k, x, {self._aggregate()} AS y FROM {given} GROUP BY k, x"
        function = self._chance.choice(["MAX", "MIN", "COUNT", "SUM"])
        return f"SELECT k, MIN(x) AS x, {function}(y) AS y FROM ({inner}) AS n GROUP BY k"

    def _semi(self, depth: int) -> str:
        left, a, right, b = self._pair(depth)
        kind = self._chance.choice(["SEMI JOIN", "ANTI JOIN"])
        on = self._condition(a, b)
        return f"SELECT {a}.k, {a}.x, {a}.y FROM {left} {kind} {right} ON {on}"

    def _using(self, depth: int) -> str:
        left, a, right, b = self._pair(depth)
        kind = self._chance.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN"])
        return f"SELECT k, {a}.x AS x, {b}.y AS y FROM {left} {kind} {right} USING (k)"

    def _rollup(self, depth: int) -> str:
        """Without rows, DuckDB returns a total and a stream does not, so HAVING drops it."""
        given, _ = self._from(depth)
        sets = self._chance.choice(["ROLLUP (k, x)", "CUBE (k, x)"])
        made = f"SELECT k, x, {self._aggregate()} AS y FROM {given}"
        return f"{made} GROUP BY {sets} HAVING COUNT(*) > 0"

    def _case(self, depth: int) -> str:
        left, a, right, b = self._pair(depth)
        on = f"{a}.k = {b}.k AND {a}.y IS NOT DISTINCT FROM {b}.y"
        y = f"CASE WHEN {b}.k IS NULL THEN {a}.y ELSE {b}.y END AS y"
        return f"SELECT {a}.k, {a}.x, {y} FROM {left} LEFT JOIN {right} ON {on}"

    def _over(self, depth: int) -> str:
        given, _ = self._from(depth)
        function = self._chance.choice(["COUNT(*)", "MAX(y)", "MIN(y)", "COUNT(y)", "SUM(y)"])
        return f"SELECT k, x, {function} OVER (PARTITION BY k) AS y FROM {given}"

    def _first_of(self, depth: int) -> str:
        left, a, right, _ = self._pair(depth)
        over = "PARTITION BY k ORDER BY x DESC NULLS LAST, y NULLS LAST"
        numbered = f"SELECT k, x, y, ROW_NUMBER() OVER ({over}) AS n FROM {right}"
        first = f"SELECT k, x, y FROM ({numbered}) AS p WHERE n <= 1"
        return f"SELECT {a}.k, {a}.x, q.y FROM {left} LEFT JOIN ({first}) AS q ON {a}.k = q.k"

    def _offset(self, depth: int) -> str:
        given, _ = self._from(depth)
        order = "x NULLS LAST, k NULLS LAST, y NULLS LAST"
        rest = f"LIMIT 2 OFFSET {self._chance.randint(0, 2)}"
        return f"SELECT k, x, y FROM {given} ORDER BY {order} {rest}"

    def _in_or(self, depth: int) -> str:
        left, a, right, b = self._pair(depth)
        word = self._chance.choice(["IN", "NOT IN"])
        found = f"{a}.k {word} (SELECT {b}.y FROM {right})"
        return f"SELECT k, x, y FROM {left} WHERE {a}.y = 1 OR {found}"

    def _none_or(self, depth: int) -> str:
        left, a, right, b = self._pair(depth)
        none = f"NOT EXISTS (SELECT 1 FROM {right} WHERE {b}.k = {a}.k)"
        return f"SELECT k, x, y FROM {left} WHERE {a}.y IS NULL OR {none}"

    def _itself(self, depth: int) -> str:
        self._names += 1
        name, relation = f"w{self._names}", self._relation(depth)
        kind = self._chance.choice(["JOIN", "LEFT JOIN", "FULL JOIN"])
        columns = "COALESCE(p.k, q.k) AS k, p.x AS x, q.y AS y"
        both = f"SELECT {columns} FROM {name} p {kind} {name} q ON p.k = q.y"
        return f"WITH {name} AS ({relation}) {both}"


def some_rows(name: str, kind: str, chance: Random) -> list[Row]:
    """Rows of ``b`` have an end; in ``c`` and ``d`` a row with y = -1 deletes its key."""
    times = sorted(
        chance.choice([chance.randint(0, TIMES - 1), 5 * chance.randint(0, 7)])
        for _ in range(chance.randint(3, 14))
    )
    last = -1 if name in "cd" else 5
    return [
        (
            t,
            t + chance.choice([1, 2, 5, 9, 10, 50]) if name == "b" else None,
            chance.choice([1, 1, 2, 2, 3, 4, None]),
            chance.choice(VALUES[kind]),
            chance.choice([None, 0, 1, 1, 2, 3, last]),
        )
        for t in times
    ]


def stream_of(name: str, kind: str, rows: list[Row], chance: Random) -> Stream:
    """In a changelog with one partition, the last row of an instant wins."""
    schema = {"k": "int64", "x": KINDS[kind], "y": "int64"}
    items = [event(t, end, k=k, x=x, y=y) for t, end, k, x, y in rows]
    partitions = 1 if name in "cd" else chance.randint(1, 2)
    stream = Stream.from_items(schema, items, partitions=partitions)
    if name == "a":
        return stream.for_ever()
    return stream if name == "b" else stream.upserts("k", deleted=col("y") == -1)


def rows_at(name: str, rows: list[Row], at: int) -> list[tuple[Any, ...]]:
    """The table at an instant. Rows with a null key never end; the last row of an instant wins."""
    if name == "b":
        return [row[2:] for row in rows if row[0] <= at < (row[1] or 0)]
    past = [row for row in rows if row[0] <= at]
    if name == "a":
        return [row[2:] for row in past]
    newest = {row[2] if row[2] is not None else f"at {row[0]}": row[2:] for row in past}
    return [row for row in newest.values() if row[2] != -1]


def plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return -0.0 as 0.0, and integers of every width as Python integers."""
    return tuple(v + 0.0 if isinstance(v, int | float) else v for v in map(_number, row))


def _number(value: Any) -> Any:
    return value if value is None or isinstance(value, str) else float(value)


def check(seed: int, connection: duckdb.DuckDBPyConnection) -> bool:
    """Compare one random query at random instants. Return False if SQL rejects it."""
    chance = Random(-7 * seed - 3)
    kind = chance.choice(["int", "int", "double", "string"])
    text = HostileSql(seed, kind).text
    rows = {name: some_rows(name, kind, chance) for name in HostileSql.tables}
    streams = {name: stream_of(name, kind, given, chance) for name, given in rows.items()}
    try:
        stream = sql(text, streams)
    except SqlError:
        return False
    assert isinstance(stream, Stream)
    plan = lower(with_changes(stream), root="r", parallelism=chance.randint(1, 3))
    cuts = tuple(chance.randint(0, 9) for _ in range(chance.randint(2, 7)))
    schedule = Schedule(cuts, rows_max=chance.randint(1, 8), restores=chance.random() < 0.3)
    found = paired(answer(plan, schedule=schedule))
    vs, ve = found.column("_vs").to_numpy(), found.column("_ve").to_numpy()
    kinds = pa.schema([("k", "int64"), ("x", KINDS[kind]), ("y", "int64")])
    for at in chance.sample(range(TIMES + 5), INSTANTS):
        for name, given in rows.items():
            listed = [dict(zip(kinds.names, row, strict=True)) for row in rows_at(name, given, at)]
            connection.register(name, pa.Table.from_pylist(listed, kinds))
        expected = Counter(map(plain, connection.execute(text).fetchall()))
        alive = found.filter(pa.array((vs <= at) & (at < ve)))
        got = Counter(plain(tuple(row.values())[2:]) for row in alive.to_pylist())
        assert got == expected, (seed, kind, at, text)
    return True


@pytest.mark.parametrize("seed", [4, 8])
def test_the_current_table_equals_duckdb(seed: int, connection: duckdb.DuckDBPyConnection) -> None:
    assert check(seed, connection)


@pytest.mark.slow
@pytest.mark.parametrize("part", seeds(0, 2))
def test_current_tables_equal_duckdb(part: int, connection: duckdb.DuckDBPyConnection) -> None:
    first = PLANS * part
    answered = sum(check(seed, connection) for seed in range(first, first + PLANS))
    assert answered >= PLANS // 2
