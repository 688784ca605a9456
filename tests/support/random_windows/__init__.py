"""Random queries over windows in FROM, in our SQL and as a batch query for DuckDB.

Each relation is written twice. DuckDB's has two more columns, ``_s`` and ``_e``: the row's lifetime
in our engine, in microseconds. Joins pair rows with overlapping lifetimes, a group is valid for its
window, and an unmatched row has no overlapping row at all. So DuckDB's result for a window covers
all its rows. A query follows from a list of numbers (:class:`Choices`), so a shorter list makes a
simpler query.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.random_windows.choices import Choices
from tests.support.random_windows.naming import COLUMNS, LASTING, POINTS, TABLE
from tests.support.random_windows.relations import SECOND, Column
from tests.support.random_windows.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable

#: Start, end, and a value for each of the columns.
Row = tuple[int, int, int, int, int | None]
__all__ = ["COLUMNS", "TABLE", "Choices", "Query", "shrunk", "written"]


@dataclass(frozen=True, slots=True)
class Query:
    """A query, and its equivalent for DuckDB."""

    text: str
    duck: str
    columns: tuple[Column, ...]
    #: Why there is no result, if so.
    impossible: str
    choices: tuple[int, ...]
    rows: dict[str, list[Row]]


def written(choose: Choices) -> Query:
    """The query for some choices."""
    rows = {name: _rows(choose, lasting=False) for name in POINTS}
    rows[LASTING] = _rows(choose, lasting=True)
    writer = Writer(choose)
    made = writer.whole()
    text = made.text[1:-1]
    if writer.definitions:
        text = f"WITH {', '.join(writer.definitions)} {text}"
    values = {name: ", ".join(_said(row) for row in found) for name, found in rows.items()}
    given = [f"{name}(t, e, k, x, v) AS (VALUES {listed})" for name, listed in values.items()]
    table = ", ".join(str(pair) for pair in zip(*TABLE.values(), strict=True))
    given.append(f"d(k, w) AS (VALUES {table})")
    columns = ", ".join(["_s", "_e", *(column.name for column in made.columns)])
    return Query(
        text="; ".join([*writer.views, text]),
        duck=f"WITH {', '.join([*given, *writer.ctes])} SELECT {columns} FROM {made.duck}",
        columns=made.columns,
        impossible=writer.impossible,
        choices=tuple(choose.made),
        rows=rows,
    )


def _rows(choose: Choices, *, lasting: bool) -> list[Row]:
    """Points or intervals; no two rows start at the same time."""
    found, at = [], 0
    for x in range(choose.pick((4, 6, 9, 12))):
        at += 1 + choose.below(3)
        v = choose.pick((1, 2, 3, None))
        start = at * SECOND // 2
        end = start + (choose.pick((1, 3, 7)) * SECOND if lasting else 1)
        found.append((start, end, 1 + choose.below(2), (x * 7 + 3) % 20, v))
    return found


def _said(row: Row) -> str:
    return f"({', '.join('NULL' if value is None else str(value) for value in row)})"


def shrunk(query: Query, fails: Callable[[Query], bool], tries_max: int) -> Query:
    """A shorter query that fails as well."""
    tries = 0
    at, length = 0, max(1, len(query.choices) // 2)
    while tries < tries_max and length:  # ends: each round advances or halves the length
        choices = query.choices
        if at >= len(choices):
            at, length = 0, length // 2
            continue
        cut = [*choices[:at], *choices[at + length :]]
        zero = [*choices[:at], *(0 for _ in choices[at : at + length]), *choices[at + length :]]
        for given in (cut, zero):
            tries += 1
            tried = written(Choices(given=given))
            if _size(tried) < _size(query) and fails(tried):
                query = tried
                break
        else:
            at += length
    return query


def _size(query: Query) -> tuple[int, int, int, tuple[int, ...]]:
    rows = sum(len(found) for found in query.rows.values())
    return len(query.text), rows, len(query.choices), query.choices
