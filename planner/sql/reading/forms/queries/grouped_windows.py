"""Splits a SELECT with GROUP BY and OVER: ``RANK() OVER (ORDER BY SUM(x))`` of grouped rows.

SQL computes window functions from the groups. So the groups become a subquery in FROM, and its
keys and aggregates are columns of the outer SELECT.
"""

from __future__ import annotations

from sqlglot import exp

from planner.sql.reading.forms.queries.one_row import NO_INPUT

_INNER = ("from_", "joins", "where", "group", "having", "laterals", "emit")
_ALIAS = "GROUP BY {0} means a column of FROM and not the alias {0}: rename the alias with AS"
_BOUNDS = ("window_start", "window_end", "window_time")
_WRAPPERS = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)


def with_grouped_windows(select: exp.Select) -> None:
    """Rewrite a SELECT that has window functions and GROUP BY: its groups become a subquery."""
    group = select.args.get("group")
    if group is None or any(group.args.get(part) for part in ("rollup", "cube", "grouping_sets")):
        return
    parts = [*select.expressions, *(select.args.get(part) for part in ("qualify", "order"))]
    windows = [w for part in parts if part is not None for w in part.find_all(exp.Window)]
    if not any(w.find_ancestor(exp.Select) is select for w in windows):
        return
    if any(part.is_star for part in select.expressions):
        return
    _Split(select, group).apply()


class _Split:
    """The two SELECTs."""

    def __init__(self, select: exp.Select, group: exp.Expr) -> None:
        self._select = select
        self._listed = {part.alias: part.this for part in select.expressions if part.alias}
        self._aliases: dict[str, str] = {}
        self._keys = [self._key(part) for part in group.expressions]
        group.set("expressions", [key.copy() for key in self._keys])
        self._found: list[tuple[exp.Expr, str]] = []

    def _key(self, part: exp.Expr) -> exp.Expr:
        """Return the expression of a key, which may be the number or alias of a SELECT item."""
        if isinstance(part, exp.Literal) and part.is_int:
            place = int(part.name)
            listed = self._select.expressions
            return listed[place - 1].unalias() if 0 < place <= len(listed) else part
        if isinstance(part, exp.Column) and not part.table and part.name in self._listed:
            key: exp.Expr = self._listed[part.name]
            if key.find(exp.AggFunc, exp.Window):
                return part
            if not isinstance(key, exp.Column) or key.name != part.name:
                self._aliases[part.name] = _ALIAS.format(part.name)
            return key
        return part

    def apply(self) -> None:
        select = self._select
        outer = [self._item(part) for part in select.expressions]
        for name in ("qualify", "order"):
            part = select.args.get(name)
            if part is not None:
                self._replace(part, keeps_names=name == "order")
        inner = exp.Select(
            expressions=[
                exp.alias_(node, exp.to_identifier(name, quoted=True)) for node, name in self._found
            ],
            **{part: select.args.pop(part, None) for part in _INNER},
        )
        inner.meta.update({NO_INPUT: {**select.meta.get(NO_INPUT, {}), **self._aliases}})
        alias = exp.TableAlias(this=exp.to_identifier("@groups", quoted=True))
        select.set("expressions", outer)
        select.set("from_", exp.From(this=exp.Subquery(this=inner, alias=alias)))

    def _item(self, part: exp.Expr) -> exp.Expr:
        named = part.alias_or_name or part.sql().lower()
        held = exp.Paren(this=part.unalias())
        self._replace(held, keeps_names=False)
        made = exp.Alias(this=held.this, alias=exp.to_identifier(named, quoted=True))
        made.meta.update(part.meta)
        return made

    def _replace(self, whole: exp.Expr, *, keeps_names: bool) -> None:
        """Replace keys and aggregates in a part of the outer SELECT by columns."""
        own = [_function(window) for window in whole.find_all(exp.Window)]
        waiting = list(whole.iter_expressions())
        while waiting:  # terminates: a tree is finite
            node = waiting.pop()
            if isinstance(node, exp.Query):
                continue
            is_column = isinstance(node, exp.Column)
            is_alone = isinstance(node, exp.Column) and not node.table
            if keeps_names and is_alone and node.name in self._listed:
                continue
            call = node
            while isinstance(call, _WRAPPERS):  # terminates: a tree is finite
                call = call.this
            is_own = any(call is function for function in own)
            is_aggregate = isinstance(call, exp.AggFunc) and not is_own
            is_bound = is_column and node.name in _BOUNDS
            if is_aggregate or is_bound or any(node == key for key in self._keys):
                node.replace(self._column(node))
                continue
            waiting += list(node.iter_expressions())

    def _column(self, node: exp.Expr) -> exp.Expr:
        column = next((name for known, name in self._found if known == node), None)
        if column is None:
            column = f"@{len(self._found)}"
            self._found.append((node.copy(), column))
        made = exp.column(exp.to_identifier(column, quoted=True))
        for part in made.walk():
            part.meta.update({k: v for k, v in node.meta.items() if k in ("start", "end")})
        return made


def _function(window: exp.Window) -> exp.Expr:
    call: exp.Expr = window.this
    while isinstance(call, _WRAPPERS):  # terminates: a tree is finite
        call = call.this
    return call
