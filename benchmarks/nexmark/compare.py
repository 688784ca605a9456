"""Checks that an answer has the same rows as DuckDB's, in any order.

Compared are the number of rows and the sum of their hashes, in the types of the reference. So the
order of rows, files and columns does not matter. Floats are means and products of two numbers; they
are rounded to 9 digits before they are hashed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb

from nexmark.reference import REFERENCE

if TYPE_CHECKING:
    from pathlib import Path

Digest = tuple[int, int]
_FLOATS = ("DOUBLE", "FLOAT")


@dataclass(frozen=True)
class Mismatch:
    """A result that differs from the expected one."""

    expected: Digest
    found: Digest
    #: Some rows that only one of the two has.
    examples: tuple[str, ...]

    def __str__(self) -> str:
        lines = "\n  ".join(self.examples)
        return f"{self.found[0]:,} rows, expected {self.expected[0]:,}\n  {lines}"


def connect(folder: Path) -> duckdb.DuckDBPyConnection:
    """Return a connection in which the events are views."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for kind in ("person", "auction", "bid", "side"):
        files = folder / kind / "*.parquet"
        connection.execute(f"CREATE VIEW {kind} AS SELECT * FROM read_parquet('{files}')")
    return connection


def mismatch(
    connection: duckdb.DuckDBPyConnection, name: str, answer: str, expected: Digest | None = None
) -> Mismatch | None:
    """Return None if ``answer`` (SQL for rows) returns the same rows as the reference."""
    kinds = columns(connection, name)
    expected = expected or digest(connection, REFERENCE[name], kinds)
    found = digest(connection, answer, kinds)
    if found == expected:
        return None
    listed = ", ".join(_cast(column, kind) + f" AS {column}" for column, kind in kinds.items())
    ours, theirs = f"SELECT {listed} FROM ({answer})", f"SELECT {listed} FROM ({REFERENCE[name]})"
    examples = [
        f"{what}: {row}"
        for what, one, other in (("too many", ours, theirs), ("missing", theirs, ours))
        for row in connection.execute(f"({one}) EXCEPT ALL ({other}) LIMIT 3").fetchall()
    ]
    return Mismatch(expected, found, tuple(examples))


def answer_of(output: str) -> str:
    """Return SQL for the events in the output folder of one of our jobs."""
    return f"SELECT * FROM read_parquet('{output}/*.parquet')"


def answer_in(out: Path) -> str:
    """Return SQL for the rows that a system wrote below ``out``."""
    return f"SELECT * FROM read_parquet({[str(f) for f in sorted(out.glob('*.parquet'))]})"


def expected_digest(connection: duckdb.DuckDBPyConnection, name: str) -> Digest:
    """Return the digest of the reference's answer."""
    return digest(connection, REFERENCE[name], columns(connection, name))


def columns(connection: duckdb.DuckDBPyConnection, name: str) -> dict[str, str]:
    """Return the reference's columns with their types."""
    described = connection.execute(f"DESCRIBE {REFERENCE[name]}").fetchall()
    return {str(row[0]): str(row[1]) for row in described}


def digest(connection: duckdb.DuckDBPyConnection, rows: str, kinds: dict[str, str]) -> Digest:
    """Return the number of rows and the sum of their hashes."""
    listed = ", ".join(_cast(column, kind) for column, kind in kinds.items())
    sql = f"SELECT count(*), coalesce(sum(hash({listed})::HUGEINT), 0)::HUGEINT FROM ({rows})"
    count, total = connection.execute(sql).fetchall()[0]
    return int(count), int(total)


def _cast(column: str, kind: str) -> str:
    cast = f"{column}::{kind}"
    return f"printf('%.9g', {cast})" if kind in _FLOATS else cast
