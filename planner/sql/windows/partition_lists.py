"""Builds SQL expressions for the list of a partition's rows, and functions of such lists."""

from __future__ import annotations

from sqlglot import exp


def order_keys(order: exp.Expr) -> exp.Expr:
    """Return one text of the values that OVER orders by; equal texts are peers."""
    fields = [
        exp.PropertyEQ(this=exp.to_identifier(f"k{k}"), expression=part.this.copy())
        for k, part in enumerate(order.expressions)
    ]
    return exp.Anonymous(this="@TO_JSON", expressions=[exp.Struct(expressions=fields)])


def listed(value: exp.Expr, order: exp.Expr | None) -> exp.Expr:
    value = value.copy()
    if order is None:
        return exp.RespectNulls(this=exp.ArrayAgg(this=value))
    by = [part.copy() for part in order.expressions]
    return exp.RespectNulls(this=exp.ArrayAgg(this=exp.Order(this=value, expressions=by)))


def list_over(
    values: exp.Expr, kind: str, n: int | None = None, other: exp.Expr | None = None
) -> exp.Expr:
    given = [values, exp.Literal.string(kind), exp.Null() if n is None else integer(n)]
    given += [] if other is None else [other.copy()]
    return exp.Anonymous(this="@list_over", expressions=given)


def integer(n: int) -> exp.Expr:
    literal = exp.Literal.number(abs(n))
    return exp.Neg(this=literal) if n < 0 else literal


def field(name: str) -> exp.Expr:
    row = exp.column("@row", quoted=True)
    return exp.Dot(this=row, expression=exp.to_identifier(name))


def called(value: exp.Expr, name: str) -> exp.Expr:
    return exp.Alias(this=value, alias=exp.to_identifier(name, quoted=True))
