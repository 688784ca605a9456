"""The expressions in ``define`` and ``measures`` of :meth:`Stream.match`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.api.expressions import Expr, col
from planner.errors import InvalidPlanError
from planner.expressions.functions.of_rows.row_patterns import ROW_PATTERN
from planner.expressions.nodes import Call, Node

if TYPE_CHECKING:
    from planner.api.agg import Agg

#: The greatest offset of PREV, NEXT, FIRST and LAST, in rows.
ROWS_MAX = 10_000


class PatternRows:
    """The rows that are mapped to a variable of a pattern; see :func:`rows_of`."""

    __slots__ = ("_variable",)

    def __init__(self, variable: str | None) -> None:
        self._variable = variable

    def __getitem__(self, column: str | Expr) -> Expr:
        """Return the value of the last row; in the variable's ``define``, of the current row."""
        return self.last(column)

    def last(self, column: str | Expr, offset: int = 0) -> Expr:
        """Return the value of the last row, or ``offset`` rows of the variable before it."""
        return self._row(column, offset, from_first=False)

    def first(self, column: str | Expr, offset: int = 0) -> Expr:
        """Return the value of the first row, or ``offset`` rows of the variable after it."""
        return self._row(column, offset, from_first=True)

    def prev(self, column: str | Expr, rows: int = 1) -> Expr:
        """Return the value of the row of the key that is ``rows`` rows before the last row."""
        return prev(self.last(column), rows)

    def next(self, column: str | Expr, rows: int = 1) -> Expr:
        """Return the value of the row of the key that is ``rows`` rows after the last row."""
        return next_row(self.last(column), rows)

    def agg(self, aggregate: Agg) -> Expr:
        """Return an aggregate over the rows, such as ``agg.sum("x")``."""
        if aggregate.of_rows is not None:
            raise InvalidPlanError("match() does not support aggregates of whole rows")
        options = (
            ("kind", "aggregate"),
            ("variable", self._variable),
            ("function", aggregate.function),
            ("argument", aggregate.argument),
            ("semantics", None),
        )
        args = () if aggregate.expr is None else (aggregate.expr.node,)
        return Expr(Call(ROW_PATTERN, args, options))

    def classifier(self) -> Expr:
        """Return the name of the variable of the last row."""
        options = (("kind", "classifier"), ("variable", self._variable), ("semantics", None))
        return Expr(Call(ROW_PATTERN, (), options))

    def _row(self, column: str | Expr, offset: int, *, from_first: bool) -> Expr:
        value = col(column) if isinstance(column, str) else column
        options = (
            ("kind", "row"),
            ("variable", self._variable),
            ("from_first", from_first),
            ("offset", _checked("offset", offset, 0)),
            ("move", 0),
            ("semantics", None),
        )
        return Expr(Call(ROW_PATTERN, (value.node,), options))


def rows_of(variable: str | None = None) -> PatternRows:
    """Return the rows of a match that are mapped to a variable or to a subset; None: all rows.

    ``rows_of("A")["price"]`` is the price of the last row so far that is mapped to A.
    """
    return PatternRows(variable)


def prev(value: str | Expr, rows: int = 1) -> Expr:
    """Return the value ``rows`` rows earlier in the key; a name is the current row's column."""
    return _moved(value, -_checked("prev", rows, 0))


def next_row(value: str | Expr, rows: int = 1) -> Expr:
    """Return the value ``rows`` rows later in the key; the match is known when that row arrives."""
    return _moved(value, _checked("next_row", rows, 0))


def classifier() -> Expr:
    """Return the name of the variable that the current row is mapped to."""
    return rows_of().classifier()


def match_number() -> Expr:
    """Return the number of the match in its partition, from 1."""
    return Expr(Call(ROW_PATTERN, (), (("kind", "match_number"),)))


def final(value: Expr) -> Expr:
    """Compute ``value`` over the whole match, in each of its rows."""
    return _with_semantics(value, "final")


def running(value: Expr) -> Expr:
    """Compute ``value`` over the match up to the current row; this is the default."""
    return _with_semantics(value, "running")


def _checked(what: str, rows: int, least: int) -> int:
    is_number = isinstance(rows, int) and not isinstance(rows, bool)
    if not is_number or not least <= rows <= ROWS_MAX:
        raise InvalidPlanError(f"{what}({rows!r}): must be an int from {least} to {ROWS_MAX:,}")
    return rows


def _moved(value: str | Expr, rows: int) -> Expr:
    made = value if isinstance(value, Expr) else rows_of().last(value)
    node = made.node
    if not isinstance(node, Call) or node.function != ROW_PATTERN:
        return _moved(rows_of().last(made), rows)
    if node.option("kind") != "row" or node.option("move"):
        raise InvalidPlanError(f"prev and next take a value of a row, not {node}")
    options = tuple((name, rows if name == "move" else old) for name, old in node.options)
    return Expr(replace(node, options=options))


def _with_semantics(value: Expr, semantics: str) -> Expr:
    def change(node: Node) -> Node:
        if not isinstance(node, Call):
            return node
        if node.function != ROW_PATTERN:
            return replace(node, args=tuple(map(change, node.args)))
        options = tuple((n, semantics if n == "semantics" else o) for n, o in node.options)
        return replace(node, options=options)

    return Expr(change(value.node))
