"""Splits the call of an aggregate: its values, DISTINCT, ORDER BY, FILTER and nulls."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

#: Nodes that may enclose the call of an aggregate.
AROUND = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)
#: Quantiles, which also take a list of shares and return a list.
_QUANTILES = (exp.Quantile, exp.ApproxQuantile, exp.PercentileCont, exp.PercentileDisc)
_QUANTILE_NAMES = (
    *("percentile", "quantile_cont", "quantile_disc", "percentile_approx", "approx_percentile"),
)


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """``function(DISTINCT values ORDER BY order) IGNORE NULLS FILTER (WHERE condition)``."""

    #: The function without clauses around it, for its name and its place in the text.
    node: exp.Expr
    values: tuple[exp.Expr, ...]
    is_distinct: bool
    order: tuple[exp.Expr, ...]
    condition: exp.Expr | None
    #: Whether nulls are skipped; None: the call does not state it.
    skips_nulls: bool | None


def call_of(node: exp.Expr) -> AggregateCall:
    """Split the call of an aggregate into its parts."""
    condition, skips_nulls = None, None
    order: list[exp.Expr] = []
    while isinstance(node, AROUND):  # terminates: a tree is finite
        if isinstance(node, exp.Filter):
            condition = node.args["expression"].this
        elif isinstance(node, exp.WithinGroup):
            order += node.args["expression"].expressions
        else:
            skips_nulls = isinstance(node, exp.IgnoreNulls)
        node = node.this
    given = [node.args.get(part) for part in ("this", "expression", "separator", "quantile")]
    if isinstance(node, exp.AnonymousAggFunc):
        given = []
    more = node.expressions  # sqlglot stores a list, or for some aggregates one node
    values: list[exp.Expr] = []
    is_distinct = False
    for value in [*given, *(more if isinstance(more, list) else [more])]:
        if type(value) is exp.Order:
            order += value.expressions
            value = value.this
        if isinstance(value, exp.IgnoreNulls | exp.RespectNulls):
            skips_nulls = isinstance(value, exp.IgnoreNulls)
            value = value.this
        if isinstance(value, exp.Distinct):
            is_distinct = True
            values += value.expressions
        elif isinstance(value, exp.Expr):
            values.append(value)
    return AggregateCall(node, tuple(values), is_distinct, tuple(order), condition, skips_nulls)


def spread_quantiles(node: exp.Expr) -> exp.Expr:
    """Rewrite ``QUANTILE(x, [0.1, 0.9])`` as a list of quantiles; return other nodes unchanged."""
    if not isinstance(node, (*AROUND, *_QUANTILES, exp.Anonymous)):
        return node
    call = node
    while isinstance(call, AROUND):  # terminates: a tree is finite
        call = call.this
    is_named = isinstance(call, exp.Anonymous) and call.name.lower() in _QUANTILE_NAMES
    if not is_named and not isinstance(call, _QUANTILES):
        return node
    shares = next(call.find_all(exp.Array), None)
    if shares is None or shares.parent is not call:
        return node
    quantiles = [_with_share(node, shares, share) for share in shares.expressions]
    some = exp.Not(this=exp.Is(this=quantiles[0].copy(), expression=exp.Null()))
    made = exp.Case(ifs=[exp.If(this=some, true=exp.Array(expressions=quantiles))])
    made.meta.update(call.meta)
    return made


def _with_share(node: exp.Expr, shares: exp.Expr, share: exp.Expr) -> exp.Expr:
    copied = node.copy()
    for part in copied.find_all(exp.Array):
        if part == shares:
            part.replace(share.copy())
            break
    return copied
