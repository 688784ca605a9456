"""``CROSS JOIN UNNEST(list) AS u (x)``, or after a comma: one row per element of a row's list.

Elements keep the order of the list. ``WITH ORDINALITY`` numbers them from 1, ``WITH OFFSET`` from
0. An empty or null list gives no row; with ``LEFT JOIN ... ON TRUE`` it gives a row of nulls.
Structs with as many names as fields become columns, and so do a map's keys and values. Spark's
``LATERAL VIEW [OUTER] EXPLODE | POSEXPLODE`` means the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from planner.api.expressions import col
from planner.expressions.types import is_list, is_map
from planner.sql.expressions.scalars import Expressions
from planner.sql.expressions.scope import Scope, Visible, free_name
from planner.sql.reading.errors import sql_type
from planner.sql.reading.forms.calls import FROM_ZERO

if TYPE_CHECKING:
    from planner.sql.expressions.names import Names

_ALIAS = "write CROSS JOIN UNNEST(list) AS name (column), or LEFT JOIN UNNEST(...) AS ... ON TRUE"
_VIEW = "write LATERAL VIEW [OUTER] EXPLODE(list) name AS column, or POSEXPLODE"


@dataclass(frozen=True, slots=True)
class _Unnest:
    """A list in FROM, and the names of its columns."""

    node: exp.Expr
    value: exp.Expr
    relation: str
    names: tuple[str, ...]
    is_outer: bool = False
    #: The number of the first element in the column of positions; None: there is no such column.
    first: int | None = None


def unnested(clause: exp.Join, scope: Scope, names: Names) -> Scope:
    """Return the relations so far, with one row for each element."""
    text, node = names.text, clause.this
    on = clause.args.get("on")
    side = clause.side.upper()
    is_true = isinstance(on, exp.Boolean) and bool(on.this)
    if side not in ("", "LEFT") or clause.args.get("using"):
        raise text.error(node, _ALIAS)
    if not is_true and (side or on is not None):
        raise text.error(node, _ALIAS)
    alias = node.args.get("alias")
    if len(node.expressions) != 1 or alias is None or not alias.name:
        raise text.error(node, _ALIAS)
    columns = tuple(column.name for column in alias.columns) or (alias.name,)
    offset = node.args.get("offset")
    if offset and not isinstance(offset, exp.Expr):
        raise text.error(node, "write WITH ORDINALITY AS name (column, place)")
    if offset:  # sqlglot puts the column of positions last among the names
        columns = (*columns, offset.name)
    spec = _Unnest(
        node,
        node.expressions[0],
        alias.name,
        columns,
        is_outer=side == "LEFT",
        first=None if not offset else 0 if node.meta.get(FROM_ZERO) else 1,
    )
    return _with_elements(spec, scope, names)


def viewed(view: exp.Lateral, scope: Scope, names: Names) -> Scope:
    """Return the relations so far with one row per element, for LATERAL VIEW."""
    call, alias = view.this, view.args.get("alias")
    if type(call) not in (exp.Explode, exp.Posexplode) or alias is None or not alias.columns:
        raise names.text.error(view, _VIEW)
    columns = [column.name for column in alias.columns]
    is_placed = type(call) is exp.Posexplode
    if is_placed and len(columns) == 1:
        raise names.text.error(view, "write LATERAL VIEW POSEXPLODE(list) name AS place, column")
    if is_placed:  # Spark puts the column of positions first among the names
        columns = [*columns[1:], columns[0]]
    spec = _Unnest(
        view,
        call.this,
        alias.name or columns[0],
        tuple(columns),
        is_outer=bool(view.args.get("outer")),
        first=0 if is_placed else None,
    )
    return _with_elements(spec, scope, names)


def _with_elements(spec: _Unnest, scope: Scope, names: Names) -> Scope:
    text, node = names.text, spec.node
    if spec.relation in scope.relations:
        raise text.error(node, f"there are two {spec.relation!r}; rename one with AS")
    value = Expressions(text, scope, names.functions).compile(spec.value)
    held = value.output_type(scope.stream.schema)
    if not is_list(held) and not is_map(held):
        raise text.error(spec.value, f"a list or a map becomes rows, not {sql_type(str(held))}")
    taken = set(scope.stream.schema.names)
    wanted = spec.names if spec.first is None else spec.names[:-1]
    element = free_name(wanted[0] if len(wanted) == 1 else "@element", taken)
    place = None if spec.first is None else free_name(spec.names[-1], taken)
    with text.located(spec.value):
        rows = scope.stream.with_columns(value.alias(element))
        rows = rows.explode(element, outer=spec.is_outer, position=place)
    kind = rows.schema.field(element).type
    made = [element]
    if pa.types.is_struct(kind) and len(wanted) == kind.num_fields and len(wanted) > 1:
        made = [free_name(name, taken) for name in wanted]
        fields = [kind.field(at).name for at in range(kind.num_fields)]
        pairs = zip(made, fields, strict=True)
        rows = rows.with_columns(**{one: col(element).field(f) for one, f in pairs})
    elif len(wanted) != 1:
        raise text.error(
            node, f"{len(wanted)} names for the elements of this list, which are {kind}"
        )
    if place is not None:
        if spec.first:
            rows = rows.with_columns((col(place) + spec.first).alias(place))
        made.append(place)
    columns = tuple(Visible(spec.relation, n, c) for n, c in zip(spec.names, made, strict=True))
    return replace(scope.with_stream(rows), columns=(*scope.columns, *columns))
