"""JOIN ... ON: equalities become keys, other conditions decide which pairs match.

``a JOIN b ON a.k = b.k`` with one name on both sides returns the key once, as ``join(on="k")``
does; other columns of ``b`` whose name is taken are ``name_right`` in the result of ``*``. A LEFT
JOIN keeps both keys, because the right one is null without a match.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.api.expressions import Expr, col, lit
from planner.expressions.nodes import resolve
from planner.expressions.predicates import may_fail
from planner.sql.expressions.scalars import Expressions
from planner.sql.expressions.scope import Scope, free_name, with_key_columns
from planner.sql.expressions.time_between import are_points, bounded, within

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.api.stream import Stream
    from planner.sql.expressions.names import Names
    from planner.sql.expressions.time_between import Within

Key = tuple[Expr, Expr]


def join_by(
    clause: exp.Join,
    left: Scope,
    right: Scope,
    names: Names,
    how: str,
    *,
    pushes: bool = True,
    also: Sequence[exp.Expr] = (),
) -> Scope:
    """Return the pairs of both sides. ``pushes``: filter the right side before the join.

    ``also``: conditions of an inner join that are in WHERE.
    """
    if clause.args.get("using"):
        keys = [using_key(part, left, right, names) for part in clause.args["using"]]
        time, others = _bounded(list(also), keys, clause, left, right, names)
        where = all_of(others) if others else None
        return _joined(clause, left, right, keys, how, names, where=where, time=time)
    condition = clause.args.get("on")
    if condition is None:
        raise names.text.error(clause, "a join needs ON a.key = b.key")
    condition = all_of([condition, *also]) if also else condition
    keys, rest = split(condition, left, right, names)
    time, more = _bounded(and_parts(condition), [], clause, left, right, names)
    if rest is not None and time is not None:
        others = [part for part in and_parts(rest) if any(part is one for one in more)]
        rest = all_of(others) if others else None
    keys = keys or [(lit(1), lit(1))]
    if pushes:
        right, rest = _filtered_right(rest, left, right, names)
    return _joined(clause, left, right, keys, how, names, where=rest, time=time)


def _bounded(
    parts: list[exp.Expr],
    keys: list[Key],
    clause: exp.Join,
    left: Scope,
    right: Scope,
    names: Names,
) -> tuple[Within | None, list[exp.Expr]]:
    """Return the bounds on the time between points, and the other conditions; None: no points."""
    if not are_points(left, right):
        return None, parts
    bounds = bounded(parts, left, right, names)
    at = clause.args.get("on") or clause
    return within(bounds.span, keys, left, right, at, names), bounds.rest


def join_all(clause: exp.Join, left: Scope, right: Scope, names: Names) -> Scope:
    """Return all pairs of rows that are valid together."""
    time, _ = _bounded([], [], clause, left, right, names)
    return _joined(clause, left, right, [(lit(1), lit(1))], "inner", names, time=time)


def join_kind(clause: exp.Join, names: Names) -> str:
    """Return the name of the join in the fluent interface."""
    side, kind = clause.side.upper(), clause.kind.upper()
    if clause.method or clause.args.get("global_") or clause.args.get("match_condition"):
        raise names.text.error(
            clause, f"{clause.method or 'this kind of'} JOIN is not supported; write JOIN ... ON"
        )
    if side == "" and kind in ("", "INNER"):
        return "inner"
    if side == "LEFT" and kind in ("", "OUTER"):
        return "left"
    if kind == "ANTI" and side in ("", "LEFT"):
        return "anti"
    words = " ".join(word for word in (side, kind) if word)
    raise names.text.error(
        clause, f"{words} JOIN is not supported; write JOIN, LEFT, RIGHT or FULL JOIN"
    )


def _filtered_right(
    rest: exp.Expr | None, left: Scope, right: Scope, names: Names
) -> tuple[Scope, exp.Expr | None]:
    """Filter the right side by conditions on it alone; return it and the remaining conditions.

    A condition that may fail stays after the conditions before it.
    """
    others: list[exp.Expr] = []
    for part in and_parts(rest) if rest is not None else ():
        of_right = _side(part, left, right, names) == "right"
        if of_right and not (others and fails(part, right, names)):
            right = filtered(part, right, names)
        else:
            others.append(part)
    return right, all_of(others) if others else None


def filtered(condition: exp.Expr, scope: Scope, names: Names) -> Scope:
    """Return the events for which the condition is true."""
    predicate = Expressions(names.text, scope, names.functions).compile(condition)
    with names.text.located(condition):
        return scope.with_stream(scope.stream.filter(predicate))


def fails(condition: exp.Expr, scope: Scope, names: Names) -> bool:
    """Return whether the condition may raise an error on some row."""
    made = Expressions(names.text, scope, names.functions).compile(condition)
    return may_fail(resolve(made.node, scope.stream.schema))


def all_of(conditions: Sequence[exp.Expr]) -> exp.Expr:
    """Join conditions by AND."""
    return reduce(lambda a, b: exp.And(this=a, expression=b), conditions)


def and_parts(node: exp.Expr) -> list[exp.Expr]:
    """Split a condition at its ANDs."""
    if isinstance(node, exp.Paren):
        return and_parts(node.this)
    if isinstance(node, exp.And):
        return [*and_parts(node.this), *and_parts(node.args["expression"])]
    return [node]


def split(
    condition: exp.Expr, left: Scope, right: Scope, names: Names
) -> tuple[list[Key], exp.Expr | None]:
    """Return the equalities between both sides, and the rest of the condition."""
    keys: list[Key] = []
    rest: exp.Expr | None = None
    for part in and_parts(condition):
        key = _key(part, left, right, names) if isinstance(part, exp.EQ) else None
        if key is not None:
            keys.append(key)
        else:
            rest = part if rest is None else exp.And(this=rest, expression=part)
    return keys, rest


def _key(node: exp.EQ, left: Scope, right: Scope, names: Names) -> Key | None:
    a, b = node.this, node.args["expression"]
    sides = (_side(a, left, right, names), _side(b, left, right, names))
    if sides == ("right", "left"):
        a, b = b, a
    elif sides != ("left", "right"):
        return None
    left_key = Expressions(names.text, left, names.functions).compile(a)
    other = Expressions(names.text, right, names.functions).compile(b)
    return left_key, other


def _side(node: exp.Expr, left: Scope, right: Scope, names: Names) -> str:
    """Return ``left`` or ``right`` if a node reads only columns of that side, else another text."""
    sides: set[str] = set()
    for column in node.find_all(exp.Column):
        here, there = left.candidates(column), right.candidates(column)
        if here and there:
            raise names.text.error(
                column, f"{column.name!r} is on both sides; write relation.{column.name}"
            )
        if not here and not there:
            both = Scope(left.stream, (*left.columns, *right.columns))
            both.column(column, names.text)
        sides.add("left" if here else "right")
    return sides.pop() if len(sides) == 1 else "both"


def using_key(node: exp.Expr, left: Scope, right: Scope, names: Names) -> Key:
    """Return a column of USING, on both sides."""
    column = exp.column(node.copy())
    column.this.meta.update(node.meta)
    return col(left.column(column, names.text)), col(right.column(column, names.text))


def _joined(
    clause: exp.Join,
    left: Scope,
    right: Scope,
    keys: list[Key],
    how: str,
    names: Names,
    *,
    where: exp.Expr | None = None,
    time: Within | None = None,
) -> Scope:
    """Return the join by ``keys``; columns that were computed for the join are hidden."""
    taken = {*left.stream.schema.names, *right.stream.schema.names}
    left_stream, left_on = with_key_columns(
        left.stream, [key[0] for key in keys], "join_key", taken
    )
    right_stream, right_on = with_key_columns(
        right.stream, [key[1] for key in keys], "join_key", taken
    )
    using = bool(clause.args.get("using"))
    same = left_on == right_on and (
        using or (how not in ("left", "full") and _same_types(left_stream, right_stream, left_on))
    )
    right_stream, renamed = _without_clashes(left_stream, right_stream, right_on if same else [])
    right_on = [renamed.get(name, name) for name in right_on]
    shared = right_on if same else []
    on = left_on if same else None
    by = (None, None) if same else (left_on, right_on)
    outputs = _outputs(left_stream, right_stream, shared)
    of = {c.column: outputs[renamed.get(c.column, c.column)] for c in right.columns}
    theirs = tuple(replace(c, column=of[c.column]) for c in right.columns)
    with names.text.located(clause.args.get("on") or clause):
        pairs = left_stream.join(right_stream, on=on, left_on=by[0], right_on=by[1], within=time)
        condition: Expr | None = None
        if where is not None:
            whole = Scope(pairs, (*left.columns, *theirs))
            condition = Expressions(names.text, whole, names.functions).compile(where)
        stream = left_stream.join(
            right_stream,
            on=on,
            left_on=by[0],
            right_on=by[1],
            within=time,
            how=how,
            where=condition,
        )
    # the shared key is not null without a match, so it is no column of the right side
    if how == "left" and same:
        theirs = tuple(c for c in theirs if c.column not in right_on)
    return Scope(stream, (*left.columns, *(() if how == "anti" else theirs)))


def _same_types(left: Stream, right: Stream, on: list[str]) -> bool:
    """Return whether one column can represent the keys of both sides."""
    return all(left.schema.field(name).type == right.schema.field(name).type for name in on)


def _without_clashes(
    left: Stream, right: Stream, dropped: list[str]
) -> tuple[Stream, dict[str, str]]:
    """Rename columns of the right side whose name with ``_right`` is also taken."""
    taken = {*left.schema.names, *right.schema.names}
    renamed: dict[str, str] = {}
    for name in right.schema.names:
        if name in left.schema.names and name not in dropped and f"{name}_right" in taken:
            renamed[name] = free_name(f"{name}_right_", taken)
    return (right.rename(renamed) if renamed else right), renamed


def _outputs(left: Stream, right: Stream, shared: list[str]) -> dict[str, str]:
    """Return the join's name for each column of the right side."""
    left_names = set(left.schema.names)
    return {
        name: name if name in shared or name not in left_names else f"{name}_right"
        for name in right.schema.names
    }
