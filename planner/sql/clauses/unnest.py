"""``CROSS JOIN UNNEST(list) AS u (x)``, or after a comma: a row for each element of a row's list.

Elements come in the order of the list; a list that is empty or null gives no row. Structs with as
many names as fields become columns.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from planner.api.expressions import col
from planner.sql.expressions.scalars import Expressions
from planner.sql.expressions.scope import Scope, Visible, free_name

if TYPE_CHECKING:
    from sqlglot import exp

    from planner.sql.expressions.names import Names

_KEEPS = (
    "a LEFT JOIN UNNEST keeps rows of empty lists and is not supported; write CROSS JOIN UNNEST, "
    "and COALESCE(l, ...) for a list that is null"
)
_ALIAS = "write CROSS JOIN UNNEST(list) AS name (column)"


def unnested(clause: exp.Join, scope: Scope, names: Names) -> Scope:
    """The relations so far, each row once for each element."""
    text, node = names.text, clause.this
    if clause.side or clause.args.get("on") is not None or clause.args.get("using"):
        raise text.error(node, _KEEPS if clause.side else _ALIAS)
    alias = node.args.get("alias")
    if len(node.expressions) != 1 or node.args.get("offset") or alias is None or not alias.name:
        raise text.error(node, _ALIAS)
    if alias.name in scope.relations:
        raise text.error(node, f"{alias.name!r} is there twice; give one another name with AS")
    value = Expressions(text, scope, names.functions).compile(node.expressions[0])
    taken = set(scope.stream.schema.names)
    element = free_name("@element", taken)
    with text.located(node):
        rows = scope.stream.with_columns(value.alias(element)).explode(element)
    kind = rows.schema.field(element).type
    wanted = [column.name for column in alias.columns] or [alias.name]
    made = [element]
    if pa.types.is_struct(kind) and len(wanted) == kind.num_fields and len(wanted) > 1:
        made = [free_name(f"@{name}", taken) for name in wanted]
        fields = [kind.field(at).name for at in range(kind.num_fields)]
        pairs = zip(made, fields, strict=True)
        rows = rows.with_columns(**{one: col(element).field(f) for one, f in pairs})
    elif len(wanted) != 1:
        raise text.error(node, f"{len(wanted)} names for elements that are {kind}")
    columns = tuple(Visible(alias.name, n, c) for n, c in zip(wanted, made, strict=True))
    return replace(scope.with_stream(rows), columns=(*scope.columns, *columns))
