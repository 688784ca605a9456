"""Keys that are structs, as Spark's window is: GROUP BY and PARTITION BY take their fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from planner.sql.reading.forms.queries.engines.places import nodes_of

if TYPE_CHECKING:
    from planner.sql.expressions.names import Names
    from planner.sql.expressions.scope import Scope


def with_fields_as_keys(node: exp.Select, scope: Scope, names: Names) -> exp.Select:
    """Return the SELECT with the fields of such keys; the list makes structs of them again."""
    group = node.args.get("group")
    keys = [] if group is None else list(group.expressions)
    parts = [key for window in node.find_all(exp.Window) for key in window.args["partition_by"]]
    if not any(_fields(key, scope, names) for key in (*keys, *parts)):
        return node
    made = node.copy()
    _split(made.args.get("group"), "expressions", scope, names)
    for window in made.find_all(exp.Window):
        _split(window, "partition_by", scope, names)
    for part in made.expressions:
        for column in nodes_of(part, exp.Column):
            if column not in keys:
                continue
            if fields := _fields(column, scope, names):
                pairs = [
                    exp.PropertyEQ(this=exp.to_identifier(field.name), expression=field)
                    for field in fields
                ]
                struct: exp.Expr = exp.Struct(expressions=pairs)
                if column.parent is made:
                    struct = exp.alias_(struct, column.name)
                column.replace(struct)
    return made


def _split(held: exp.Expr | None, part: str, scope: Scope, names: Names) -> None:
    if held is not None:
        keys = [(key, _fields(key, scope, names)) for key in held.args.get(part) or []]
        held.set(part, [one for key, fields in keys for one in fields or [key]])


def _fields(key: exp.Expr, scope: Scope, names: Names) -> list[exp.Column]:
    """Return the fields of a key; none if it is no struct."""
    if not isinstance(key, exp.Column) or key.table or len(scope.candidates(key)) != 1:
        return []
    name = scope.column(key, names.text)
    if name not in scope.stream.schema.names:
        return []
    kind = scope.stream.schema.field(name).type
    if not pa.types.is_struct(kind):
        return []
    columns = [exp.column(kind.field(at).name, table=key.name) for at in range(kind.num_fields)]
    for field in columns:
        for part in field.walk():
            part.meta.update({**key.meta, **key.this.meta})
    return columns
