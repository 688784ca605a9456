"""EXISTS and NOT EXISTS, which depend on time: an event is valid only while its test is true.

``NOT EXISTS`` is an anti join, with a condition for all parts that are not equalities. ``EXISTS``
joins with the times at which there is a match. Times that touch or overlap are merged, so that no
event is emitted twice. They are grouped by the keys, or by all columns of the outer event that the
conditions read: events that are equal in these have the same matches.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from planner.api.choices import when
from planner.api.expressions import Expr, col, lit
from planner.expressions.nodes import Literal
from planner.sql.clauses.joins import all_of, and_parts, filtered
from planner.sql.clauses.outer_joins import select_of_in
from planner.sql.clauses.scalar_subqueries import names_outer
from planner.sql.expressions.aggregates import has_aggregate
from planner.sql.expressions.scalars import Expressions
from planner.sql.expressions.scope import Scope, free_name, scope_of_rows, with_key_columns
from planner.sql.expressions.time_between import are_points, bounded, refuse_points, within
from planner.sql.windows.in_windows import windows_of_pairs
from planner.sql.windows.kept_rows import kept_sides, unlike
from planner.sql.windows.window_tables import in_whole_windows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.api.stream import Stream
    from planner.sql.expressions.names import Names
    from planner.sql.expressions.scope import InWindows, Rows

_PARTS = ("expressions", "from_", "joins", "where")
_POINTS = (
    "rows of windows are compared here with rows that have no window and last for an "
    "instant: give both sides the same windows, as in TABLE(TUMBLE(TABLE b, "
    "DESCRIPTOR(ts), size)), and compare them: a.window_start = b.window_start AND "
    "a.window_end = b.window_end"
)


def with_marks(
    node: exp.Expr, scope: Scope, names: Names, from_: Callable[[exp.Select, Names], Scope]
) -> tuple[exp.Expr, Scope]:
    """Replace each EXISTS in a condition by a column; return the condition and its scope.

    If an EXISTS is not a part of ANDs, an event is also valid while it is false.
    """
    whole = exp.Paren(this=node.copy())
    while True:  # terminates: each pass replaces an EXISTS
        test = whole.find(exp.Exists)
        if test is None:
            return whole.this, scope
        name = free_name("@exists", set(scope.stream.schema.names))
        scope = _marked(test, name, scope, names, from_)
        column = exp.column(exp.to_identifier(name, quoted=True))
        known = exp.Paren(this=exp.Not(this=exp.Is(this=column, expression=exp.Null())))
        place = names.text.place(test)
        for part in known.walk():
            part.meta.update({"start": place[0], "end": place[1] - 1})
        test.replace(known)


def _marked(
    test: exp.Exists,
    name: str,
    outer: Scope,
    names: Names,
    from_: Callable[[exp.Select, Names], Scope],
) -> Scope:
    """Return the events with a column that is true while the EXISTS is true, else null."""
    select = _select_of(test, names)
    inner_scope = from_(select, names)
    outer, inner_scope = kept_sides(outer, inner_scope, _conditions(select), names)
    terms = _correlated(select, inner_scope, outer, names)
    inner, keys, others = terms.inner, terms.keys, terms.others
    if are_points(outer, inner):
        there, missing = (_near(test, inner, terms, outer, names, how) for how in ("semi", "anti"))
        nothing = lit(None).cast("bool")
        kept = there.with_columns(lit(True).alias(name)).union(
            missing.with_columns(nothing.alias(name))
        )
        return replace(outer.with_stream(kept), hidden=(*outer.hidden, name))
    if others:
        raise names.text.error(
            test,
            "an EXISTS under OR or NOT may use columns of the outer query only in equalities",
        )
    keys = keys or [(lit(1), lit(1))]
    taken = set(outer.stream.schema.names)
    ours, on = with_key_columns(outer.stream, [key[0] for key in keys], "@outer_key", taken)
    theirs = [free_name("@match_key", taken) for _ in keys]
    matches = inner.stream.select(
        *(key[1].alias(column) for key, column in zip(keys, theirs, strict=True))
    )
    with names.text.located(test):
        times = matches.stitch(on=theirs).with_columns(lit(True).alias(name))
        joined = ours.join(times, left_on=on, right_on=theirs, how="left")
        kept = joined.select(*outer.stream.schema.names, name)
    lives = _lives(test, outer, inner_scope, select, names)
    return replace(outer.with_stream(kept), hidden=(*outer.hidden, name), in_windows=lives)


def _lives(
    test: exp.Expr, outer: Scope, inner: Scope, select: exp.Select, names: Names
) -> InWindows:
    """Return the windows of the outer rows that an EXISTS or NOT EXISTS keeps."""
    parts = [part for part in _conditions(select) if names_outer(part, inner, outer)]
    return _kept(test, outer, inner, parts, names)


def _conditions(select: exp.Select) -> list[exp.Expr]:
    """Return the conditions in a SELECT's WHERE, split at its ANDs."""
    where = select.args.get("where")
    return and_parts(where.this) if where is not None else []


def _kept(
    test: exp.Expr, outer: Scope, inner: Scope, conditions: Sequence[exp.Expr], names: Names
) -> InWindows:
    """Return the windows of the outer rows that a subquery keeps; check that they are comparable.

    Raises:
        SqlError: windows overlap and may differ, or one side is in windows and the other is points.
    """
    lives = windows_of_pairs(outer, outer, inner, conditions)
    if reason := unlike(lives, outer, inner, keeps=True):
        raise names.text.error(test, reason.replace("the join", "the subquery"))
    sides = [(side.in_windows.has_rows, side.stream.plan.is_point) for side in (outer, inner)]
    if sorted(sides) == [(False, True), (True, False)]:
        raise names.text.error(test, _POINTS)
    return lives


def not_in(
    node: exp.In, outer: Scope, names: Names, query: Callable[[exp.Expr, Names], Rows]
) -> Scope:
    """Compile ``x NOT IN (SELECT y FROM b)``, which is never true if a y is null.

    Nor is it true if x is null and b has rows. So it is three anti joins: with rows equal to x;
    with null y; and of events with null x with all rows.
    """
    select = select_of_in(node, outer, names)
    (item,) = select.expressions
    item = item.this if isinstance(item, exp.Alias) else item
    select.set("expressions", [exp.alias_(item.copy(), "value")])
    value = Expressions(names.text, outer, names.functions).compile(node.this)
    with names.text.located(node):
        rows = query(select, names)
        inner = scope_of_rows(rows, "")
        outer, inner = kept_sides(outer, inner, (), names)
        refuse_points(outer, inner, node, names, "NOT EXISTS with")
        outer, inner = in_whole_windows(outer, inner, ())
        found = inner.stream
        taken = {*outer.stream.schema.names, *found.schema.names}
        compared, nothing, one = (free_name(n, taken) for n in ("@value", "@no_value", "@one"))
        of_none = when(value.is_null()).then(1).otherwise(None)
        ours = outer.stream.with_columns(**{compared: value, nothing: of_none, one: lit(1)})
        found = found.with_columns(lit(1).alias("one"))
        unknown = found.filter(col("value").is_null())
        kept = ours.join(found, left_on=compared, right_on="value", how="anti")
        kept = kept.join(unknown, left_on=one, right_on="one", how="anti")
        kept = kept.join(found, left_on=nothing, right_on="one", how="anti")
        lives = _kept(node, outer, inner, (), names)
        return replace(outer, stream=kept.select(*outer.stream.schema.names), in_windows=lives)


def exists(
    node: exp.Expr, outer: Scope, names: Names, from_: Callable[[exp.Select, Names], Scope]
) -> Scope:
    """Compile ``[NOT] EXISTS (SELECT ... FROM b WHERE b.k = a.k)`` as a condition in WHERE."""
    text = names.text
    negated = isinstance(node, exp.Not)
    test = node.find(exp.Exists)
    assert test is not None, node
    select = _select_of(test, names)
    inner_scope = from_(select, names)
    _check_list(select, inner_scope, outer, names)
    outer, inner_scope = kept_sides(outer, inner_scope, _conditions(select), names)
    if negated:
        outer, inner_scope = in_whole_windows(outer, inner_scope, _conditions(select))
    terms = _correlated(select, inner_scope, outer, names)
    inner, keys, others = terms.inner, terms.keys, terms.others
    if are_points(outer, inner):
        how = "anti" if negated else "semi"
        return replace(outer, stream=_near(test, inner, terms, outer, names, how))
    keys = keys or [(lit(1), lit(1))]
    read = {} if negated else _read(others, inner, outer, names)
    taken = {*outer.stream.schema.names, *inner.stream.schema.names}
    ours, on = with_key_columns(outer.stream, [key[0] for key in keys], "outer_key", taken)
    theirs = [free_name("match_key", taken) for _ in keys]
    kept = {c.column: free_name(c.column, taken) for c in inner.columns if others}
    matches = inner.stream.select(
        *(key[1].alias(name) for key, name in zip(keys, theirs, strict=True)),
        **{name: col(column) for column, name in kept.items()},
    )
    how = "anti" if negated else "inner"
    with text.located(test):
        marks = {free_name("outer_value", taken): value for value in read.values()}
        ours = ours.with_columns(**marks) if marks else ours
        if not negated and not others:
            matches = matches.stitch(on=theirs)
        pairs = ours.join(matches, left_on=on, right_on=theirs)
        where = _where(others, pairs, inner, kept, outer, names)
        joined = ours.join(matches, left_on=on, right_on=theirs, how=how, where=where)
        if others and not negated:
            joined = _while_matched(ours, joined, [*on, *marks], taken)
        if not negated or ours is not outer.stream:
            joined = joined.select(*outer.stream.schema.names)
    return replace(outer, stream=joined, in_windows=_lives(test, outer, inner_scope, select, names))


def _near(
    test: exp.Expr,
    inner: Scope,
    terms: _Correlated,
    outer: Scope,
    names: Names,
    how: str,
) -> Stream:
    """Return the points with (or without) a match close in time, each once."""
    keys = terms.keys
    near = bounded([_owned(part, inner) for part in terms.others], outer, inner, names)
    of_keys = bounded([_owned(part, inner) for part in terms.equations], outer, inner, names)
    time = within(near.span.meet(of_keys.span), (), outer, inner, test, names)
    taken = {*outer.stream.schema.names, *inner.stream.schema.names}
    ours, on = with_key_columns(outer.stream, [key[0] for key in keys], "outer_key", taken)
    theirs = [free_name("match_key", taken) for _ in keys]
    kept = {c.column: free_name(c.column, taken) for c in inner.columns}
    matches = inner.stream.select(
        *(key[1].alias(name) for key, name in zip(keys, theirs, strict=True)),
        **{name: col(column) for column, name in kept.items()},
    )

    def joined(how: str, where: Expr | None) -> Stream:
        return ours.join(
            matches,
            left_on=on or None,
            right_on=theirs or None,
            within=time,
            how=how,
            where=where,
        )

    with names.text.located(test):
        where = _where(near.rest, joined("inner", None), inner, kept, outer, names)
        return joined(how, where).select(*outer.stream.schema.names)


def _owned(part: exp.Expr, inner: Scope) -> exp.Expr:
    """Return a condition in which a plain name means a column of the subquery, if it has one."""
    named = part.copy()
    for column in named.find_all(exp.Column):
        owners = [c.relation for c in inner.columns if c.name == column.name]
        if owners and not column.table:
            column.set("table", exp.to_identifier(owners[0]))
    return named


def _select_of(test: exp.Exists, names: Names) -> exp.Select:
    """Return the SELECT inside of an EXISTS."""
    text = names.text
    select = test.this.unnest() if isinstance(test.this, exp.Subquery) else test.this
    if not isinstance(select, exp.Select):
        raise text.error(test, "EXISTS takes a SELECT")
    for part, value in select.args.items():
        if value and part not in _PARTS:
            raise text.error(test, f"EXISTS takes a SELECT without {part.strip('_').upper()}")
    if select.args.get("from_") is None:
        raise text.error(test, "EXISTS takes a SELECT with FROM")
    return select


def _check_list(select: exp.Select, inner: Scope, outer: Scope, names: Names) -> None:
    """Check the SELECT list of an EXISTS.

    It is ignored, but an aggregate in it would make a row of an empty input.
    """
    for item in select.expressions:
        if has_aggregate(item):
            reason = "an aggregate returns a row even without a match; write EXISTS (SELECT 1 ...)"
            raise names.text.error(item, reason)
        if not isinstance(item, exp.Star | exp.Literal | exp.Column):
            raise names.text.error(item, "EXISTS takes no values; write EXISTS (SELECT 1 ...)")
        if isinstance(item, exp.Column) and not isinstance(item.this, exp.Star):
            whole = Scope(inner.stream, (*inner.columns, *outer.columns))
            (inner if inner.candidates(item) else whole).column(item, names.text)


def _while_matched(ours: Stream, pairs: Stream, by: list[str], taken: set[str]) -> Stream:
    """Return each event for the times in which it has a match; ``by``: columns that decide this."""
    theirs = {free_name("match_value", taken): col(name) for name in by}
    times = pairs.select(**theirs).stitch(on=list(theirs))
    return ours.join(times, left_on=by, right_on=list(theirs))


def _read(others: list[exp.Expr], inner: Scope, outer: Scope, names: Names) -> dict[str, Expr]:
    """Return the outer columns that ``others`` read, each as values that are never null.

    A null key matches nothing, so each column is two keys: whether it is null, and its value.
    """
    values: dict[str, Expr] = {}
    for node in (c for part in others for c in part.find_all(exp.Column)):
        if inner.candidates(node) or not outer.candidates(node):
            continue
        name = outer.column(node, names.text)
        if name in outer.stream.schema.names:
            kind = outer.stream.schema.field(name).type
            value = _never_null(col(name), kind)
            if value is None:
                raise names.text.error(
                    node, f"a condition of EXISTS cannot read a column of type {kind}"
                )
            values[name] = value
            values[f"{name} is null"] = when(col(name).is_null()).then(1).otherwise(0)
    return values


def _never_null(value: Expr, kind: pa.DataType) -> Expr | None:
    types = pa.types
    if types.is_integer(kind) or types.is_floating(kind):
        return value.fill_null(0)
    if types.is_boolean(kind) or types.is_temporal(kind):
        return value.cast("int64").fill_null(0)
    if types.is_dictionary(kind) or types.is_string(kind) or types.is_large_string(kind):
        return value.cast("string").fill_null("")
    if types.is_decimal(kind):
        return value.fill_null(Expr(Literal(Decimal(0), kind)))
    if types.is_binary(kind) or types.is_large_binary(kind):
        return value.cast("binary").fill_null(b"")
    return None


@dataclass(frozen=True, slots=True)
class _Correlated:
    """The conditions of a subquery on rows of the outer query."""

    #: The subquery's events, filtered by the conditions that read only these.
    inner: Scope
    #: The equalities with the outer query: as pairs with the outer side first, and as written.
    keys: list[tuple[Expr, Expr]]
    equations: list[exp.Expr]
    #: Further conditions on both.
    others: list[exp.Expr]


def _correlated(select: exp.Select, inner: Scope, outer: Scope, names: Names) -> _Correlated:
    """Split the conditions of a subquery."""
    keys: list[tuple[Expr, Expr]] = []
    equations: list[exp.Expr] = []
    others: list[exp.Expr] = []
    own: exp.Expr | None = None
    where = select.args.get("where")
    for part in and_parts(where.this) if where is not None else ():
        if not names_outer(part, inner, outer):
            own = part if own is None else exp.And(this=own, expression=part)
            continue
        key = _key(part, inner, outer, names)
        if key is None:
            others.append(part)
        else:
            keys.append(key)
            equations.append(part)
    inner = inner if own is None else filtered(own, inner, names)
    return _Correlated(inner, keys, equations, others)


def _where(
    others: list[exp.Expr],
    pairs: Stream,
    inner: Scope,
    kept: dict[str, str],
    outer: Scope,
    names: Names,
) -> Expr | None:
    """Return the conditions on a pair; a plain name is the subquery's column if it has one."""
    if not others:
        return None
    whole = Scope(
        pairs, (*(replace(c, column=kept[c.column]) for c in inner.columns), *outer.columns)
    )
    condition = all_of([_owned(part, inner) for part in others])
    return Expressions(names.text, whole, names.functions).compile(condition)


def _key(part: exp.Expr, inner: Scope, outer: Scope, names: Names) -> tuple[Expr, Expr] | None:
    """Return the outer and the inner side of an equation; None for other conditions."""
    if not isinstance(part, exp.EQ):
        return None
    a, b = part.this, part.args["expression"]
    if names_outer(b, inner, outer):
        a, b = b, a
    whole = all(not inner.candidates(c) for c in a.find_all(exp.Column))
    if not whole or names_outer(b, inner, outer) or b.find(exp.Column) is None:
        return None
    outer_key = Expressions(names.text, outer, names.functions).compile(a)
    return outer_key, Expressions(names.text, inner, names.functions).compile(b)
