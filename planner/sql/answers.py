"""Collects the SELECT and INSERT INTO statements of a text, which make a Stream or one job.

Several INSERT INTO, in a statement set or one after the other, are one job with an output for each
target. Two INSERT INTO with the same target are their UNION ALL.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.logical.query import Query, together
from planner.sql.reading.parsing import OF_INSERTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.api.stream import Stream
    from planner.sql.reading.parsing import SqlText

_ONE = (
    "one text is one job, and this is a second SELECT: write CREATE VIEW name AS SELECT "
    "... and INSERT INTO a sink for each, or put it into another text with the same "
    "declarations"
)
_TWICE = (
    "there is an INSERT INTO {0} already, and a target takes one query: write one INSERT "
    "INTO {0} with UNION ALL between the two SELECTs"
)

_VIEW = (
    "; a view only names a query: add SELECT * FROM {0}, or CREATE SINK name FROM {0} WITH (...)"
)


class Answers:
    """The results of one text, statement after statement."""

    def __init__(self, text: SqlText) -> None:
        self._text = text
        self._select: Stream | None = None
        self._view = ""
        self._queries: dict[str, Query] = {}

    def check_create(self, statement: exp.Create) -> None:
        """Raise for a CREATE after the SELECT that is the result.

        Raises:
            SqlError: the CREATE comes too late.
        """
        kind = statement.args.get("kind")
        if kind == "VIEW":
            self._view = statement.find(exp.Table).name  # type: ignore[union-attr]
        if self._select is not None:
            raise self._text.error(statement, f"write CREATE {kind} before the SELECT")

    def add(self, statement: exp.Expr, answer: Callable[[exp.Expr], Query | Stream]) -> None:
        """Add the result of one statement.

        Raises:
            SqlError: it cannot be part of one job with the statements before it.
        """
        target = _target(statement)
        if self._select is not None or (self._queries and not target):
            raise self._text.error_at(self._text.statement(statement), _ONE)
        if target in self._queries:
            place = self._text.statement(statement)
            raise self._text.error_at(place, _TWICE.format(target))
        result = answer(statement)
        if isinstance(result, Query):
            self._queries[target] = result
        else:
            self._select = result

    def result(self) -> Query | Stream:
        """Return the stream of a SELECT, or the query of all outputs.

        Raises:
            SqlError: there is neither a SELECT nor an output.
        """
        if self._select is not None:
            return self._select
        if not self._queries:
            end = max(0, len(self._text.text.rstrip()) - 1)
            reason = "the text ends without a SELECT or INSERT INTO"
            if self._view:
                reason += _VIEW.format(self._view)
            raise self._text.error_at((end, end + 1), reason)
        return together(self._queries)


def with_merged(statements: list[exp.Expr]) -> list[exp.Expr]:
    """Return the statements, with several plain INSERT INTO one target as a UNION ALL.

    Only INSERT INTO may be between them, because a CREATE may replace a view that they read.
    """
    merged: list[exp.Expr] = []
    for statement in statements:
        run: list[exp.Expr] = list(itertools.takewhile(_is_insert, reversed(merged)))
        before = next((one for one in run if _is_same_target(one, statement)), None)
        if before is not None:
            merged.remove(before)
            union = exp.Union(
                this=before.expression, expression=statement.expression, distinct=False
            )
            union.meta.update(statement.expression.meta)
            union.meta[OF_INSERTS] = True
            statement.set("expression", union)
        merged.append(statement)
    return merged


def _is_insert(statement: exp.Expr) -> bool:
    return isinstance(statement, exp.Insert)


def _is_same_target(one: exp.Expr, other: exp.Expr) -> bool:
    both = _is_insert(one) and _is_insert(other)
    return both and one.this == other.this and all(map(_is_plain, (one, other)))


def _is_plain(insert: exp.Expr) -> bool:
    """Return whether an INSERT is only a target and a query that UNION ALL accepts."""
    query = insert.expression
    others = [part for name, part in insert.args.items() if name not in ("this", "expression")]
    others += [query.args.get(part) for part in ("order", "limit", "offset", "with_")]
    return isinstance(query, exp.Select | exp.Union) and not any(others)


def _target(statement: exp.Expr) -> str:
    """Return the target of an INSERT INTO; empty for a SELECT."""
    if not isinstance(statement, exp.Insert | exp.Create):
        return ""
    table = statement.this.this if isinstance(statement.this, exp.Schema) else statement.this
    return str(table.name)
