"""Builds the plans of joins, as-of joins, clips and explodes.

Keys are paired and cast to common types, and output columns get their names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

import pyarrow as pa

from planner.api.names import converted, require, resolved_predicate
from planner.durations import duration_us
from planner.errors import InvalidPlanError
from planner.expressions.functions.containers import ELEMENT, POSITION
from planner.expressions.nodes import Call, Column, Literal, Node, cast_to, checked_name, resolve
from planner.expressions.types import common_type, is_list, is_map, is_text, plain
from planner.logical.nodes import (
    AsOf,
    AsOfKind,
    Clip,
    Explode,
    Filter,
    IntervalKind,
    Join,
    JoinKind,
    LogicalNode,
    Project,
    Side,
    identity_columns,
)
from rstream.items.batch import VE, VS
from rvertex.operators.joins.as_of import Strategy

if TYPE_CHECKING:
    from planner.api.expressions import ExprLike
    from planner.durations import Duration

Keys = str | Sequence[str] | None
OutputColumns = tuple[tuple[Side, str, str], ...]
_KINDS: tuple[JoinKind, ...] = get_args(JoinKind)
INTERVAL_KINDS: tuple[IntervalKind, ...] = get_args(IntervalKind)
_AS_OF_KINDS: tuple[AsOfKind, ...] = get_args(AsOfKind)
_UNBOUNDED = (
    "join(...) of two streams of points: each row is valid for one instant, so only rows of "
    'the same microsecond would match. Bound the time between them with within=("-1h", '
    '"0s"), or give the rows of one side a lifetime with set_duration("1h") or '
    "for_ever(), or join results of windows"
)
_STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)


def join_nodes(
    left: LogicalNode,
    right: LogicalNode,
    on: Keys,
    left_on: Keys,
    right_on: Keys,
    how: str,
    where: ExprLike | None,
) -> Join | Filter:
    """Join two plans by overlapping lifetimes; see :meth:`planner.Stream.join`."""
    kind = next((k for k in _KINDS if k == how), None)
    if kind is None:
        only = (
            "join(how={!r}) needs within=(earliest, latest)"
            if how in INTERVAL_KINDS
            else ('join(how={!r}) is not supported; choose how="inner", "left" or "anti"')
        )
        raise InvalidPlanError(only.format(how))
    if left.is_point and right.is_point:
        raise InvalidPlanError(_UNBOUNDED)
    left_keys, right_keys = paired_keys(on, left_on, right_on)
    dropped = right_keys if on is not None else ()
    width = len(left.schema)
    columns = pair_columns(left, right, dropped)
    outputs = columns if kind != "anti" else columns[:width]
    left, right, left_keys, right_keys = with_common_keys(left, right, left_keys, right_keys)
    joined = Join(left, right, left_keys, right_keys, outputs, kind)
    if where is None:
        return joined
    pairs = Join(left, right, left_keys, right_keys, columns)
    condition = resolved_predicate(where, pairs.schema)
    if kind == "inner":
        return Filter(pairs, condition)
    return replace(joined, where=condition, reads=read_columns(condition, columns))


def read_columns(condition: Node, columns: OutputColumns) -> OutputColumns:
    """Return the columns that a condition on pairs reads."""
    read = condition.columns()
    if VS in read or VE in read:
        raise InvalidPlanError("join(where=...) can read the columns of a pair, not its lifetime")
    return tuple(column for column in columns if column[2] in read)


def pair_columns(left: LogicalNode, right: LogicalNode, dropped: tuple[str, ...]) -> OutputColumns:
    """Return the columns of a pair; right columns get a suffix if their name is taken."""
    columns: list[tuple[Side, str, str]] = [("left", name, name) for name in left.schema.names]
    taken = set(left.schema.names)
    for name in right.schema.names:
        if name in dropped:
            continue
        output = f"{name}_right" if name in taken else name
        if output in taken:
            raise InvalidPlanError(f"join(...): two columns would be called {output!r}; rename one")
        taken.add(output)
        columns.append(("right", name, output))
    return tuple(columns)


def as_of_nodes(
    left: LogicalNode,
    right: LogicalNode,
    by: tuple[Keys, Keys, Keys],
    strategy: str,
    tolerance: Duration | None,
    how: str,
) -> AsOf:
    """Return the as-of join of two plans; see :meth:`planner.Stream.join_asof`."""
    way = next((known for known in _STRATEGIES if known == strategy), None)
    if way is None:
        known = ", ".join(f'"{word}"' for word in _STRATEGIES)
        raise InvalidPlanError(f"join_asof(strategy={strategy!r}): choose one of {known}")
    kind = next((known for known in _AS_OF_KINDS if known == how), None)
    if kind is None:
        raise InvalidPlanError(f'join_asof(how={how!r}): choose how="left" or "inner"')
    if tolerance is None and way != "backward":
        raise InvalidPlanError(
            f'join_asof(strategy="{way}") needs tolerance="10s" or another: an event waits '
            "this long for a later match"
        )
    within = None if tolerance is None else duration_us(tolerance, what="tolerance")
    if within is not None and within < 0:
        raise InvalidPlanError(f"join_asof(tolerance={tolerance!r}): must be 0 or more")
    if all(keys is None for keys in by):
        columns = pair_columns(left, right, ())
        sides_and_keys = with_one_key(left, right)
        return AsOf(*sides_and_keys, columns, way, within, kind)
    left_keys, right_keys = paired_keys(*by, what="join_asof", word="by")
    columns = pair_columns(left, right, right_keys if by[0] is not None else ())
    sides_and_keys = with_common_keys(left, right, left_keys, right_keys)
    return AsOf(*sides_and_keys, columns, way, within, kind)


def with_one_key(
    left: LogicalNode, right: LogicalNode
) -> tuple[LogicalNode, LogicalNode, tuple[str, ...], tuple[str, ...]]:
    """Add the same constant key to both sides; return the sides and the key's name for each."""
    name = "all"
    while name in left.schema.names or name in right.schema.names:  # ends: the columns are finite
        name += "_"
    added = (name, Literal(0, pa.int64()))
    sides = (Project(side, (*identity_columns(side.schema), added)) for side in (left, right))
    return (*sides, (name,), (name,))  # type: ignore[return-value]


def clip_nodes(left: LogicalNode, right: LogicalNode, on: Keys) -> LogicalNode:
    """Return the clip of two plans; see :meth:`planner.Stream.clip`."""
    keys = _names(on)
    if not keys:
        raise InvalidPlanError("clip(...) needs on=, the columns that are equal in a match")
    names = tuple(left.schema.names)
    for name in keys:
        left_type = require(left.schema, name, "clip")
        right_type = require(right.schema, name, "clip")
        if _common(left_type, right_type) is None:
            raise _unlike("clip", name, left_type, name, right_type)
    left, right, left_keys, right_keys = with_common_keys(left, right, keys, keys)
    only = {name: right.schema.field(name).type for name in right_keys}
    clipped = Clip(left, converted(right, only), left_keys, right_keys)
    if left_keys == keys:
        return clipped
    columns = [(name, Column(name, left.schema.field(name).type)) for name in names]
    return Project(clipped, tuple(columns))


def _unlike(
    what: str, left_name: str, left_type: pa.DataType, right_name: str, right_type: pa.DataType
) -> InvalidPlanError:
    for kind in (left_type, right_type):
        if pa.types.is_nested(kind):
            return InvalidPlanError(f"{what}({left_name!r}): a key cannot be {kind}")
    return InvalidPlanError(
        f"{what}(...): keys {left_name!r} ({left_type}) and {right_name!r} ({right_type}) "
        f"do not match; cast one of them to {_castable(left_type, right_type)}"
    )


def _castable(kind: pa.DataType, other: pa.DataType) -> str:
    if is_text(kind) or is_text(other):
        return "string"
    return "decimal(20, 0)" if pa.types.is_integer(kind) else str(kind)


def paired_keys(
    on: Keys, left_on: Keys, right_on: Keys, *, what: str = "join", word: str = "on"
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    pair = f"left_{word}= and right_{word}="
    if on is not None and (left_on is not None or right_on is not None):
        raise InvalidPlanError(f"{what}(...) takes {word}=, or {pair}, not both")
    left_keys = _names(on if on is not None else left_on)
    right_keys = _names(on if on is not None else right_on)
    if not left_keys or len(left_keys) != len(right_keys):
        raise InvalidPlanError(
            f"{what}(...) takes {word}=, or as many columns in left_{word}= as in right_{word}="
        )
    return left_keys, right_keys


def _names(keys: Keys) -> tuple[str, ...]:
    if keys is None:
        return ()
    names = (keys,) if isinstance(keys, str) else tuple(keys)
    if not all(isinstance(name, str) for name in names):
        raise InvalidPlanError("join(...) keys are names of columns; compute them first")
    return names


def with_common_keys(
    left: LogicalNode,
    right: LogicalNode,
    left_keys: tuple[str, ...],
    right_keys: tuple[str, ...],
) -> tuple[LogicalNode, LogicalNode, tuple[str, ...], tuple[str, ...]]:
    """Cast keys to one type on both sides, so that equal keys hash equally.

    Returns both sides, and the names of their keys. If the cast would change a key, it goes to a
    column of its own: the user's column stays.
    """
    left_casts: dict[str, tuple[str, pa.DataType]] = {}
    right_casts: dict[str, tuple[str, pa.DataType]] = {}
    names: list[tuple[str, str]] = []
    for name, other in zip(left_keys, right_keys, strict=True):
        a = require(left.schema, name, "join")
        b = require(right.schema, other, "join")
        common = _common(a, b)
        if common is None:
            raise _unlike("join", name, a, other, b)
        left_key = _compared(left, name, common, left_casts)
        names.append((left_key, _compared(right, other, common, right_casts)))
    return (
        _with_keys(left, left_casts),
        _with_keys(right, right_casts),
        tuple(name for name, _ in names),
        tuple(name for _, name in names),
    )


def _common(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    common = common_type(a, b)
    return None if common is None or pa.types.is_nested(common) else common


def _compared(
    side: LogicalNode,
    name: str,
    common: pa.DataType,
    made: dict[str, tuple[str, pa.DataType]],
) -> str:
    """Return the column to compare for key ``name``; add a cast to ``common`` to ``made``."""
    kind = side.schema.field(name).type
    if kind == common:
        return name
    key = name
    if not is_text(plain(kind)):  # all string types hold the same text
        key = f"{name} as {common}"
        while key in side.schema.names:
            key += "'"
    made[key] = (name, common)
    return key


def _with_keys(side: LogicalNode, made: dict[str, tuple[str, pa.DataType]]) -> LogicalNode:
    """Add the columns ``made`` to ``side``: keys cast to the type in which they are compared."""
    if not made:
        return side
    columns: dict[str, Node] = {f.name: Column(f.name, f.type) for f in side.schema}
    columns |= {
        key: cast_to(Column(name, side.schema.field(name).type), common)
        for key, (name, common) in made.items()
    }
    return Project(side, tuple(columns.items()))


def exploded(
    below: LogicalNode, column: str, *, is_outer: bool, position: str | None
) -> LogicalNode:
    """Return the plan of an explode; see :meth:`planner.api.stream.Stream.explode`."""
    kind = require(below.schema, column, "explode")
    if not (is_list(kind) or is_map(kind)):
        raise InvalidPlanError(f"explode({column!r}): it is {kind}, not a list")
    if position is not None and checked_name(position) in below.schema.names:
        raise InvalidPlanError(
            f"explode(position={position!r}): there is already a column of that name"
        )
    made: Node = Column(column)
    if is_map(kind):
        made = Call("entries", (made,))
    if position is not None:
        made = Call("enumerated", (made,))
    if is_outer:
        made = Call("at_least_one", (made,))
    if isinstance(made, Call):
        whole = dict(identity_columns(below.schema))
        below = Project(below, tuple({**whole, column: resolve(made, below.schema)}.items()))
    rows = Explode(below, column)
    if position is None:
        return rows
    wanted = {**dict(identity_columns(rows.schema)), column: _part(rows, column, ELEMENT)}
    return Project(rows, (*wanted.items(), (position, _part(rows, column, POSITION))))


def _part(rows: LogicalNode, column: str, name: str) -> Node:
    return resolve(Call("field", (Column(column),), (("name", name),)), rows.schema)
