"""Window functions over whole partitions against DuckDB, with ties, nulls and any cuts.

Not covered: the order of rows with equal ORDER BY: the random orders end with ``id`` if a function
distinguishes such rows.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pytest

from planner import SqlError, Stream, event, sql
from planner.physical.lower import lower
from rstream.items.batch import VE, VS
from rstream.types import INF_TIME
from tests.support.plan_runner import answer

if TYPE_CHECKING:
    from pathlib import Path

#: Functions that distinguish rows of equal rank need an order without ties.
TOTAL = (
    *("NTILE(3)", "NTILE(50)", "LEAD(x)", "LEAD(x, 2)", "LEAD(x, 1, -1)", "ROW_NUMBER()"),
    *("NTH_VALUE(x, 2)", "FIRST_VALUE(x)", "LAST_VALUE(x)"),
)
TIED = ("PERCENT_RANK()", "CUME_DIST()", "RANK()", "DENSE_RANK()")
WHOLE = ("COUNT(*)", "SUM(x)", "MAX(d)", "AVG(x)", "COUNT(DISTINCT d)")
FRAME = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"


def rows_of(seed: int, count: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    rows = []
    for k in range(count):
        x = None if rng.random() < 0.2 else int(rng.integers(-5, 5))
        day = None if rng.random() < 0.1 else float(rng.integers(0, 4)) / 2
        minute, second = int(rng.integers(0, 30)), int(rng.integers(0, 60))
        time = f"2026-01-01T10:{minute:02d}:{second:02d}"
        rows.append({"id": k, "k": str(rng.choice(["a", "b", "c"])), "x": x, "d": day, "ts": time})
    return sorted(rows, key=lambda row: str(row["ts"]))


def windows(keys: str) -> str:
    """A column for each function."""
    parts = [f"{f} OVER (PARTITION BY {keys} ORDER BY d DESC NULLS LAST, id)" for f in TOTAL]
    parts += [f"{f} OVER (PARTITION BY {keys} ORDER BY d NULLS LAST)" for f in TIED]
    parts += [f"{f} OVER (PARTITION BY {keys})" for f in WHOLE]
    parts.append(f"LAST_VALUE(x) OVER (PARTITION BY {keys} ORDER BY id {FRAME})")
    parts.append(f"SUM(x) FILTER (WHERE d > 0) OVER (PARTITION BY {keys})")
    return ", ".join(f"{part} AS c{n}" for n, part in enumerate(parts))


def given(path: Path, seed: int, count: int) -> Path:
    path.write_text("\n".join(map(json.dumps, rows_of(seed, count))) + "\n")
    return path


def declared(path: Path, options: str) -> str:
    columns = "id BIGINT, k VARCHAR, x BIGINT, d DOUBLE, ts TIMESTAMP"
    return f"CREATE TABLE t ({columns}) WITH (path = '{path}', {options}); "


def found_rows(text: str, cut: int, *, is_table: bool = False) -> list[tuple[Any, ...]]:
    made = sql(text)
    assert isinstance(made, Stream)
    plan = lower(made.to_parquet(start="s", end="e"), root="memory://w", parallelism=2)
    rows = answer(plan, rows_max=cut).to_pylist()
    if is_table:
        rows = [row for row in rows if row[VE] == INF_TIME]
    return _sorted([tuple(v for n, v in row.items() if n not in (VS, VE)) for row in rows])


def _sorted(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    plain = [tuple(round(v, 9) if isinstance(v, float) else v for v in row) for row in rows]
    return sorted(plain, key=repr)


def oracle(path: Path, text: str) -> list[tuple[Any, ...]]:
    connection = duckdb.connect()
    connection.execute(f"CREATE VIEW t AS SELECT * FROM read_json_auto('{path}')")
    return _sorted(connection.execute(text).fetchall())


@pytest.mark.parametrize(("seed", "cut"), [(1, 1000), (2, 7)])
def test_window_functions_equal_duckdb(tmp_path: Path, seed: int, cut: int) -> None:
    path = given(tmp_path / "t.jsonl", seed, 60)
    columns = windows("window_start, window_end, k")
    source = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTE))"
    text = f"{declared(path, 'vs = ts')} SELECT id, {columns} FROM {source}"
    known = "(SELECT *, time_bucket(INTERVAL '10 minutes', ts) w FROM t)"
    assert found_rows(text, cut) == oracle(path, f"SELECT id, {windows('w, k')} FROM {known}")


@pytest.mark.parametrize(("seed", "cut"), [(3, 1000), (4, 5)])
def test_table_functions_equal_duckdb(tmp_path: Path, seed: int, cut: int) -> None:
    path = given(tmp_path / "t.jsonl", seed, 25)
    text = f"SELECT id, {windows('k')} FROM t"
    found = found_rows(declared(path, "static = TRUE") + text, cut, is_table=True)
    assert found == oracle(path, text)


def test_lead_is_updated_when_the_next_row_arrives(tmp_path: Path) -> None:
    path = given(tmp_path / "t.jsonl", 5, 12)
    head = declared(path, "vs = ts")
    text = "SELECT id, LEAD(id) OVER (PARTITION BY k ORDER BY ts, id) AS next FROM t"
    found = found_rows(head + text, 3, is_table=True)
    assert found == oracle(path, text)
    made = sql(head + text)
    assert isinstance(made, Stream)
    rows = answer(lower(made.to_parquet(), root="memory://w", parallelism=1)).to_pylist()
    ends = [row for row in rows if row["next"] is None and row[VE] < INF_TIME]
    assert {row["id"] for row in ends} == {row[0] for row in found if row[1] is not None}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "SELECT NTILE(x) OVER (PARTITION BY k ORDER BY ts) AS n FROM t",
            "takes a whole number",
        ),
        (
            "SELECT NTILE(0) OVER (PARTITION BY k ORDER BY ts) AS n FROM t",
            "takes a whole number",
        ),
        ("SELECT LEAD(x) OVER (PARTITION BY k) AS n FROM t", "LEAD needs ORDER BY in OVER"),
        ("SELECT SUM(x) OVER (PARTITION BY x + 1) AS n FROM t", "PARTITION BY takes columns here"),
        (
            "SELECT NTILE(2) OVER (PARTITION BY t.k ORDER BY t.ts) AS n FROM t JOIN u ON t.k = u.k",
            "put the JOIN, or the GROUP BY, in a subquery",
        ),
        ("SELECT * EXCLUDE (x), COUNT(*) OVER (PARTITION BY k) AS n FROM t", "write the columns"),
    ],
)
def test_unsupported_functions_are_rejected_with_an_alternative(text: str, message: str) -> None:
    t = Stream.from_items({"k": "string", "x": "int64", "ts": "timestamp"}, [])
    with pytest.raises(SqlError, match=message):
        sql(text, {"t": t, "u": t})


@pytest.mark.parametrize("keys", ["", "PARTITION BY k "])
@pytest.mark.parametrize("call", ["COUNT(*)", "SUM(n)", "FIRST_VALUE(n)"])
def test_a_frame_of_rows_needs_order_by(call: str, keys: str) -> None:
    frame = "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW"
    stream = Stream.from_items({"k": "int64", "n": "int64"}, [event(0, k=1, n=1)])
    with pytest.raises(SqlError, match="a frame of ROWS has no order"):
        sql(f"SELECT {call} OVER ({keys}{frame}) AS v FROM t", {"t": stream})
