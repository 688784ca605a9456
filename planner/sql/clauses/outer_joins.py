"""Joins built of simpler ones: RIGHT, FULL, SEMI, commas, tables as of a time; and ASOF.

``RIGHT`` is a ``LEFT`` with swapped sides. ``FULL`` adds an anti join of the right side. ``FOR
SYSTEM_TIME AS OF`` pairs an event with the newest row of its key: each row is valid until the next
row of its key, unless it has its own lifetime. The subquery of ``IN`` or ``SEMI JOIN`` is an
``EXISTS``.

``a ASOF [LEFT] JOIN b ON a.k = b.k AND a.ts >= b.ts`` is DuckDB's: ``>=`` takes the last row of
``b`` at or before, ``<=`` the first at or after. One more condition bounds the distance, and ``<=``
needs it: ``b.ts >= a.ts - INTERVAL '5' SECOND``, or ``b.ts <= a.ts + INTERVAL '5' SECOND``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.api.expressions import Expr, col, lit
from planner.expressions.nodes import Column
from planner.logical.event_time import is_event_time
from planner.sql.clauses.joins import and_parts, join_by, join_kind, split, using_key
from planner.sql.expressions.scope import Scope, free_name, with_key_columns
from planner.sql.expressions.time_between import IN, are_points, bounds_of_where
from planner.sql.reading.forms.queries.engines.places import nodes_of
from planner.sql.reading.grammar import as_sql
from planner.sql.reading.literals import interval_us

if TYPE_CHECKING:
    from planner.sql.expressions.names import Names

_FORM = "write ASOF JOIN b ON a.k = b.k AND a.ts >= b.ts; ts must be the time of each stream"
_TOLERANCE = (
    "ASOF JOIN with a.ts <= b.ts needs AND b.ts <= a.ts + INTERVAL '5' SECOND: events "
    "wait this long for a later match"
)
_HIDDEN = "the query of this IN has a table {0}, which hides the outer {0}: give it another alias"
_TURNED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.GTE: exp.LTE,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.LT: exp.GT,
}


def join(
    clause: exp.Join,
    left: Scope,
    right: Scope,
    names: Names,
    conditions: list[exp.Expr] | None = None,
) -> Scope:
    """Return the pairs of both sides, and rows without a pair, as the clause requires.

    In a join of points, the bounds on the time between them are removed from ``conditions``.
    """
    side = clause.side.upper()
    version = clause.this.args.get("version")
    if version is not None:
        return _as_of(clause, left, right, names)
    if clause.method.upper() == "ASOF":
        return _nearest(clause, left, right, names)
    if side == "RIGHT" and clause.kind.upper() in ("", "OUTER"):
        scope = _right(clause, left, right, names)
    elif side == "FULL" and clause.kind.upper() in ("", "OUTER"):
        scope = _full(clause, left, right, names)
    else:
        kind = join_kind(clause, names)
        candidates = conditions or [] if kind in ("inner", "left") else []
        bounds = bounds_of_where(candidates, left, right, names)
        if bounds:
            # a null time satisfies no bound, so unmatched rows would be dropped anyway
            kind = "inner"
        for part in bounds:
            candidates.remove(part)
        return join_by(clause, left, right, names, kind, also=bounds)
    left_columns = tuple(c for c in scope.columns if c.relation in left.relations)
    right_columns = tuple(c for c in scope.columns if c.relation not in left.relations)
    return replace(scope, columns=(*left_columns, *right_columns))


def _right(clause: exp.Join, left: Scope, right: Scope, names: Names) -> Scope:
    return join_by(clause, right, left, names, "left")


def _full(clause: exp.Join, left: Scope, right: Scope, names: Names) -> Scope:
    """Return the LEFT join, and right events for the time in which they have no match."""
    if clause.args.get("using"):
        raise names.text.error(clause, "FULL JOIN takes ON; COALESCE(a.k, b.k) is its key")
    if are_points(left, right):
        return join_by(clause, left, right, names, "full", pushes=False)
    pairs = join_by(clause, left, right, names, "left", pushes=False)
    alone = join_by(clause, right, left, names, "anti", pushes=False)
    at = {(c.relation, c.name): c.column for c in alone.columns}
    of = {c.column: at.get((c.relation, c.name)) for c in pairs.columns}
    columns: list[Expr] = []
    for field in pairs.stream.schema:
        source = of.get(field.name)
        value = lit(None).cast(field.type) if source is None else col(source)
        columns.append(value.alias(field.name))
    with names.text.located(clause):
        return pairs.with_stream(pairs.stream.union(alone.stream.select(*columns)))


def _as_of(clause: exp.Join, left: Scope, right: Scope, names: Names) -> Scope:
    """Compile ``JOIN t FOR SYSTEM_TIME AS OF a.ts ON ...``."""
    text, version = names.text, clause.this.args["version"]
    time = version.args["expression"]
    is_time = version.name.upper() == "TIMESTAMP" and version.args.get("kind") == "AS OF"
    if not is_time or time is None:
        raise text.error(clause.this, "write FOR SYSTEM_TIME AS OF a.ts")
    is_start = isinstance(time, exp.Anonymous) and time.name.lower() == "vs"
    if not is_start:
        is_column = isinstance(time, exp.Column)
        if not is_column or not is_event_time(left.stream.plan, left.column(time, text)):
            raise text.error(
                time, "FOR SYSTEM_TIME AS OF takes the time column of the left table, or vs()"
            )
    if not left.stream.plan.is_point:
        raise text.error(
            time,
            "FOR SYSTEM_TIME AS OF needs events on the left; leave it out to join rows that last",
        )
    kind = join_kind(clause, names)
    if right.stream.plan.is_point:
        right = _versions(clause, left, right, names)
    return join_by(clause, left, right, names, kind)


def _versions(clause: exp.Join, left: Scope, right: Scope, names: Names) -> Scope:
    """End each row of the right side when the next row of its key starts."""
    if clause.args.get("using"):
        keys = [using_key(part, left, right, names) for part in clause.args["using"]]
    else:
        condition = clause.args.get("on")
        if condition is None:
            raise names.text.error(clause, "a join needs ON a.key = b.key")
        keys, _ = split(condition, left, right, names)
    on = [key[1].node.name for key in keys if isinstance(key[1].node, Column)]
    if len(on) != len(keys) or not on:
        raise names.text.error(
            clause, "FOR SYSTEM_TIME AS OF needs a condition on columns: ON a.key = b.key"
        )
    with names.text.located(clause):
        return right.with_stream(right.stream.upserts(on))


def is_without_condition(clause: exp.Join) -> bool:
    """Return whether a join is ``FROM a, b`` or a CROSS JOIN, whose keys are in WHERE."""
    if clause.args.get("on") is not None or clause.args.get("using") or clause.method:
        return False
    return not clause.side and clause.kind.upper() in ("", "CROSS")


def keys_of_where(left: Scope, right: Scope, conditions: list[exp.Expr]) -> list[exp.Expr]:
    """Return the equalities among ``conditions`` that join both sides."""
    return [part for part in conditions if _is_key(part, left, right)]


def _is_key(part: exp.Expr, left: Scope, right: Scope) -> bool:
    if not isinstance(part, exp.EQ):
        return False
    sides = [_owner(side, left, right) for side in (part.this, part.args["expression"])]
    return sorted(sides) == ["left", "right"]


def _owner(node: exp.Expr, left: Scope, right: Scope) -> str:
    columns = nodes_of(node, exp.Column)
    if columns and all(left.candidates(c) and not right.candidates(c) for c in columns):
        return "left"
    if columns and all(right.candidates(c) and not left.candidates(c) for c in columns):
        return "right"
    return "none"


def exists_of_semi(clause: exp.Join, names: Names) -> exp.Expr:
    """Return ``a SEMI JOIN b ON c`` as an EXISTS."""
    condition = clause.args.get("on")
    if condition is None:
        raise names.text.error(clause, "a SEMI JOIN needs ON a.key = b.key")
    return _exists(exp.From(this=clause.this.copy()), condition.copy(), clause)


def exists_of_in(node: exp.In, outer: Scope, names: Names) -> exp.Expr:
    """Return ``x IN (SELECT y FROM b)`` as an EXISTS over that subquery: false instead of null."""
    value = node.this.copy()
    for column in value.find_all(exp.Column):
        owners = [c.relation for c in outer.columns if c.name == column.name]
        if owners and not column.table:
            column.set("table", exp.to_identifier(owners[0]))
    correlated = _correlated(node, value, outer, names)
    if correlated is not None:
        return correlated
    from_, select = _queried_by_in(node, outer, names)
    return _exists(from_, exp.EQ(this=value, expression=select), node)


def _correlated(node: exp.In, value: exp.Expr, outer: Scope, names: Names) -> exp.Expr | None:
    """Return an IN as EXISTS; None unless only its WHERE reads the outer query."""
    query = node.args["query"]
    select = query.this if isinstance(query, exp.Subquery) else query
    where = select.args.get("where")
    parts = [part for part, given in select.args.items() if given]
    if where is None or not set(parts) <= {"expressions", "from_", "joins", "where", "distinct"}:
        return None
    outside = _outer_columns(select, outer)
    if len(select.expressions) != 1 or not outside:
        return None
    if any(column.find_ancestor(exp.Where, exp.Select) is not where for column in outside):
        return None
    item = select.expressions[0].unalias().copy()
    relations = [table.alias_or_name for table in select.find_all(exp.Table, exp.Subquery)]
    first = select.args["from_"].this.alias_or_name
    if isinstance(item, exp.Column) and not item.table and first and not select.args.get("joins"):
        item.set("table", exp.to_identifier(first))
    elif not isinstance(item, exp.Column) or item.table not in relations:
        return None
    for column in value.find_all(exp.Column):
        if column.table in relations:
            raise names.text.error(node, _HIDDEN.format(column.table))
    made = select.copy()
    made.set("expressions", [exp.Literal.number(1)])
    made.set("distinct", None)
    equal = exp.EQ(this=value, expression=item)
    equal.meta.update(node.meta)
    made.set("where", exp.Where(this=exp.And(this=where.this.copy(), expression=equal)))
    test = exp.Exists(this=made)
    test.meta.update(node.meta)
    return test


def case_of_in(node: exp.In, outer: Scope, names: Names) -> exp.Expr:
    """Return IN as a CASE: null if x equals no y, and x is null or a y is."""
    from_, select = _queried_by_in(node, outer, names)
    is_null = exp.Is(this=select, expression=exp.Null())
    has_none = exp.Is(this=node.this.copy(), expression=exp.Null())
    has_rows = exp.And(this=has_none, expression=_exists(from_.copy(), exp.true(), node))
    unknown = exp.Or(this=_exists(from_, is_null, node), expression=exp.Paren(this=has_rows))
    cases = [
        exp.If(this=exists_of_in(node, outer, names), true=exp.true()),
        exp.If(this=unknown, true=exp.Null()),
    ]
    made = exp.Paren(this=exp.Case(ifs=cases, default=exp.false()))
    for part in made.walk():
        part.meta.update({**node.meta, **part.meta})
    return made


def _queried_by_in(node: exp.In, outer: Scope, names: Names) -> tuple[exp.From, exp.Column]:
    """Return the subquery of an IN as the FROM of an EXISTS, and its only column."""
    select = select_of_in(node, outer, names)
    (item,) = select.expressions
    name = item.alias_or_name or free_name("value", set())
    if not isinstance(item, exp.Alias | exp.Column):
        select.set("expressions", [exp.Alias(this=item, alias=exp.to_identifier(name))])
    inner = exp.Subquery(this=select, alias=exp.TableAlias(this=exp.to_identifier(IN)))
    return exp.From(this=inner), exp.column(name, table=IN)


def select_of_in(node: exp.In, outer: Scope, names: Names) -> exp.Select:
    """Return a copy of the SELECT of one column in ``x IN``."""
    query = node.args["query"]
    select = query.this if isinstance(query, exp.Subquery) else query
    if not isinstance(select, exp.Select) or len(select.expressions) != 1:
        raise names.text.error(node, "IN takes a SELECT of one column")
    select = select.copy()
    (item,) = select.expressions
    if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and item.name == "*"):
        raise names.text.error(node, "IN takes a SELECT of one column")
    for column in _outer_columns(select, outer):
        raise names.text.error(
            column,
            f"a subquery of IN cannot read {as_sql(column)} of the outer query; "
            + _in_as_exists(node),
        )
    return select


def _outer_columns(select: exp.Select, outer: Scope) -> list[exp.Column]:
    """Return the columns in a subquery that name a relation of the outer query."""
    own = {table.alias_or_name for table in select.find_all(exp.Table, exp.Subquery)}
    theirs = set(outer.relations) - own
    return [column for column in select.find_all(exp.Column) if column.table in theirs]


def _in_as_exists(node: exp.In) -> str:
    """Return advice on an IN that reads the outer query: an EXISTS, and how it treats nulls."""
    is_negated = isinstance(node.parent, exp.Not) or node.args.get("negate")
    if not is_negated:
        return "write EXISTS (SELECT 1 FROM b WHERE ... AND b.y = a.x)"
    nulls = "b.y = a.x OR b.y IS NULL OR a.x IS NULL"
    return f"write NOT EXISTS (SELECT 1 FROM b WHERE ... AND ({nulls}))"


def _exists(from_: exp.From, condition: exp.Expr, at: exp.Expr) -> exp.Expr:
    select = exp.Select(
        expressions=[exp.Literal.number(1)], from_=from_, where=exp.Where(this=condition)
    )
    made = exp.Exists(this=select)
    made.meta.update(at.meta)
    return made


def flattened(clause: exp.Expr | None) -> list[exp.Expr]:
    """Return the conditions of a WHERE, and equalities that all sides of an OR have."""
    conditions = [] if clause is None else and_parts(clause.this)
    parts: list[exp.Expr] = []
    for part in conditions:
        sides = [and_parts(side) for side in _or_parts(part)]
        first, *others = sides
        if others:
            shared = [e for e in first if isinstance(e, exp.EQ) and all(e in o for o in others)]
            parts += [e.copy() for e in shared if e not in conditions and e not in parts]
        parts.append(part)
    return parts


def _or_parts(node: exp.Expr) -> list[exp.Expr]:
    """Split a condition at its ORs."""
    if isinstance(node, exp.Paren):
        return _or_parts(node.this)
    if isinstance(node, exp.Or):
        return [*_or_parts(node.this), *_or_parts(node.args["expression"])]
    return [node]


def _nearest(clause: exp.Join, left: Scope, right: Scope, names: Names) -> Scope:
    """Return each row of the left side with the nearest row of the right side."""
    text = names.text
    words = (clause.side.upper(), clause.kind.upper())
    how = {"": "inner", "LEFT": "left"}.get(words[0])
    if how is None or words[1] not in ("", "INNER", "OUTER"):
        raise text.error(clause, "use ASOF JOIN or ASOF LEFT JOIN")
    condition = clause.args.get("on")
    if condition is None:
        raise text.error(clause, _FORM)
    keys, rest = split(condition, left, right, names)
    nearest = _Nearest(None, None)
    for part in and_parts(rest) if rest is not None else ():
        nearest = _read(part, nearest, left, right, names)
    if nearest.strategy is None:
        raise text.error(clause, _FORM)
    if nearest.strategy == "forward" and nearest.tolerance_us is None:
        raise text.error(clause, _TOLERANCE)
    taken = {*left.stream.schema.names, *right.stream.schema.names}
    left_rows, left_on = with_key_columns(left.stream, [key[0] for key in keys], "join_key", taken)
    right_rows, right_on = with_key_columns(
        right.stream, [key[1] for key in keys], "join_key", taken
    )
    renamed = {
        name: free_name(f"{name}_right", taken)
        for name in right_rows.schema.names
        if name in left_rows.schema.names
    }
    with text.located(condition):
        stream = left_rows.join_asof(
            right_rows.rename(renamed) if renamed else right_rows,
            left_by=left_on or None,
            right_by=[renamed.get(name, name) for name in right_on] or None,
            strategy=nearest.strategy,
            tolerance=nearest.tolerance_us,
            how=how,
        )
    moved = (replace(c, column=renamed.get(c.column, c.column)) for c in right.columns)
    return Scope(stream, (*left.columns, *moved))


@dataclass(frozen=True, slots=True)
class _Nearest:
    """The conditions of an ASOF JOIN, besides the keys."""

    strategy: str | None
    tolerance_us: int | None


def _read(part: exp.Expr, nearest: _Nearest, left: Scope, right: Scope, names: Names) -> _Nearest:
    """Add one condition.

    Raises:
        SqlError: an ASOF JOIN does not support this condition.
    """
    text = names.text
    if type(part) not in _TURNED:
        raise text.error(part, _FORM)
    kind, a, b = type(part), part.this, part.args["expression"]
    if not _is_time(a, left, names):  # swap the sides, so that the left side's time is first
        kind, a, b = _TURNED[kind], b, a
    if _is_time(a, left, names) and _is_time(b, right, names) and nearest.strategy is None:
        if kind in (exp.GT, exp.LT):
            raise text.error(
                part, "ASOF JOIN needs >= or <= instead of > or <: a row at the same time matches"
            )
        return replace(nearest, strategy="backward" if kind is exp.GTE else "forward")
    if _is_time(b, right, names):
        kind, a, b = _TURNED[kind], b, a
    is_bound = type(b) in (exp.Add, exp.Sub) and _is_time(b.this, left, names)
    if not (_is_time(a, right, names) and is_bound) or nearest.tolerance_us is not None:
        raise text.error(part, _FORM)
    is_ahead = kind is exp.LTE and type(b) is exp.Add
    is_behind = kind is exp.GTE and type(b) is exp.Sub
    if not is_ahead and not is_behind:
        raise text.error(part, _FORM)
    return replace(nearest, tolerance_us=interval_us(b.args["expression"], text))


def _is_time(node: exp.Expr, scope: Scope, names: Names) -> bool:
    """Return whether a node is the start of the stream's rows."""
    if not isinstance(node, exp.Column) or not scope.candidates(node):
        return False
    return is_event_time(scope.stream.plan, scope.column(node, names.text))
