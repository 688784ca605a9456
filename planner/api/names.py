"""Checks and resolves what users name: columns, labels, keys, aggregates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from planner.api.expressions import Expr, ExprLike, as_node
from planner.errors import InvalidPlanError, UnknownColumnError
from planner.expressions.nodes import Column, Node, cast_to, checked_name, resolve
from planner.expressions.types import common_type, is_text
from planner.logical.nodes import LogicalNode, Project, identity_columns
from rvertex.aggregates.registry import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

LABEL_CHARACTERS_MAX = 40


def checked_label(label: str) -> str:
    """Check a label; it must be valid in stream ids and paths."""
    good = label and all(c.isascii() and (c.isalnum() or c in "-_") for c in label)
    if not good or len(label) > LABEL_CHARACTERS_MAX:
        raise InvalidPlanError(
            f"name({label!r}): up to {LABEL_CHARACTERS_MAX} letters, digits, '-' and '_'"
        )
    return label


def require(schema: pa.Schema, column: str, where: str) -> pa.DataType:
    """Return the type of ``column``; raise if the schema does not have it."""
    if column not in schema.names:
        if not isinstance(column, str):
            raise InvalidPlanError(f"{where}() takes the name of a column, not {column!r:.80}")
        raise UnknownColumnError(column, tuple(schema.names), f"{where}(...)")
    return schema.field(column).type


def require_distinct(names: Iterable[str], where: str) -> None:
    """Raise if a name occurs twice."""
    earlier: set[str] = set()
    for name in names:
        if name in earlier:
            raise InvalidPlanError(f"{where}(...) returns two columns named {name!r}")
        earlier.add(name)


def resolved(value: ExprLike, schema: pa.Schema) -> Node:
    """Resolve an expression: look up its columns in ``schema`` and infer its types."""
    return resolve(as_node(value), schema)


def text_of(value: Expr, schema: pa.Schema) -> Expr:
    """Return a string expression that is equal for equal values only; null for null.

    Raises:
        InvalidPlanError: the values are bytes, which need not be valid text.
    """
    kind = resolved(value, schema).type
    types = pa.types
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        raise InvalidPlanError(f"{value} is {kind}: decode the bytes to text first")
    plain = value + 0.0 if types.is_floating(kind) else value  # makes -0.0 and 0.0 equal
    shown = plain.cast("string")
    return shown.str.length().cast("string") + ":" + shown


def resolved_predicate(value: ExprLike, schema: pa.Schema) -> Node:
    """Resolve a filter's condition; raise if it is not boolean."""
    node = resolved(value, schema)
    if node.type == pa.null():
        return cast_to(node, pa.bool_())
    if node.type != pa.bool_():
        raise InvalidPlanError(f"filter({node}): it is {node.type}, not bool")
    return node


def resolved_columns(
    schema: pa.Schema, columns: Sequence[str | Expr], named: Mapping[str, ExprLike]
) -> dict[str, Node]:
    """Resolve columns by output name: positional ones under their own name, others by keyword."""
    pairs: list[tuple[str, Node]] = []
    for column in columns:
        if isinstance(column, str):
            pairs.append((_last(column, schema), resolved(Expr(Column(column)), schema)))
        elif isinstance(column, Expr):
            pairs.append((_name_of(column, schema), resolved(column, schema)))
        else:
            raise InvalidPlanError(f"{column!r} is not a column name or an expression")
    pairs += [(name, resolved(value, schema)) for name, value in named.items()]
    require_distinct((name for name, _ in pairs), "select")
    for name, node in pairs:
        checked_name(name)
        if node.type == pa.null():
            raise InvalidPlanError(
                f'column {name!r} is always null; cast it to a type: .cast("int64")'
            )
    return dict(pairs)


def with_columns(
    plan: LogicalNode, columns: Sequence[Expr], named: Mapping[str, ExprLike]
) -> Project:
    """Add columns, or replace those of the same name, and keep all others."""
    added = resolved_columns(plan.schema, columns, named)
    return Project(plan, tuple({**dict(identity_columns(plan.schema)), **added}.items()))


def require_groupable(name: str, node: Node) -> None:
    """Raise if a value cannot be a key: keys must be hashed and compared."""
    if pa.types.is_nested(node.type):
        raise InvalidPlanError(f"group_by({name!r}): a key cannot be {node.type}")


_MADE_TEXT = (
    "; a single value that is no number makes a column of a CSV file text: set schema= and "
    "on_bad_row= of from_csv() to read the others as numbers"
)


def require_aggregable(function: str, name: str, node: Node) -> None:
    """Raise if the aggregate does not take values of this type."""
    kind = node.type
    definition = FUNCTIONS[function]
    good = not pa.types.is_null(kind) and definition.takes(kind)
    if not good and definition.takes_ranks:
        raise InvalidPlanError(
            f"agg({name}={function}(...)): {function!r} cannot compare by {_rank_type(kind)}"
        )
    if not good:
        raise InvalidPlanError(
            f"agg({name}={function}({node})): {function!r} does not take {kind}; it takes "
            f"{definition.needs}{_MADE_TEXT if is_text(kind) else ''}"
        )


def _rank_type(kind: pa.DataType) -> pa.DataType:
    return kind.field(0).type if pa.types.is_struct(kind) else kind


def aligned(plans: Sequence[LogicalNode]) -> tuple[LogicalNode, ...]:
    """Return the plans with the columns of the first, in its order, cast to common types."""
    first = plans[0].schema
    types: dict[str, pa.DataType] = {f.name: f.type for f in first}
    for plan in plans[1:]:
        if sorted(plan.schema.names) != sorted(first.names):
            raise InvalidPlanError(
                f"union(...): the columns differ: {', '.join(first.names)} and "
                f"{', '.join(plan.schema.names)}"
            )
        for f in plan.schema:
            common = common_type(types[f.name], f.type)
            if common is None:
                raise InvalidPlanError(
                    f"union(...): column {f.name!r} is {types[f.name]} and {f.type}"
                )
            types[f.name] = common
    return tuple(converted(plan, types) for plan in plans)


def converted(plan: LogicalNode, types: Mapping[str, pa.DataType]) -> LogicalNode:
    """Return the plan with only the columns of ``types``, in that order, cast to those types."""
    if list(types.items()) == [(f.name, f.type) for f in plan.schema]:
        return plan
    fields = [(name, Column(name, plan.schema.field(name).type)) for name in types]
    return Project(plan, tuple((name, cast_to(c, types[name])) for name, c in fields))


def _name_of(expr: Expr, schema: pa.Schema) -> str:
    if expr.name is not None:
        return expr.name
    if isinstance(expr.node, Column):
        return _last(expr.node.name, schema)
    raise InvalidPlanError(f"{expr} needs a name: pass it as name=..., or use .alias(...)")


def _last(name: str, schema: pa.Schema) -> str:
    """Return the name of a column; of a struct's field such as ``meta.ua``, the field's name."""
    return name if name in schema.names else name.rpartition(".")[2]
