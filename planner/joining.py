"""Builds joins and clips: pairs the keys, gives them common types, names the output columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

import pyarrow as pa

from planner.data_types import common_type
from planner.errors import InvalidPlanError
from planner.logical import Clip, Filter, Join, JoinKind, LogicalNode, Side
from planner.naming import converted, require, resolved_predicate
from rstream.batch import VE, VS

if TYPE_CHECKING:
    from planner.expressions import ExprLike

Keys = str | Sequence[str] | None
_KINDS: tuple[JoinKind, ...] = get_args(JoinKind)


def join_nodes(
    left: LogicalNode,
    right: LogicalNode,
    on: Keys,
    left_on: Keys,
    right_on: Keys,
    how: str,
    where: ExprLike | None,
) -> Join | Filter:
    """The join of two plans; see :meth:`planner.Stream.join`."""
    kind = next((k for k in _KINDS if k == how), None)
    if kind is None:
        raise InvalidPlanError(
            f'join(how={how!r}) is not supported; there are how="inner", "left" and "anti"'
        )
    left_keys, right_keys = _keys(on, left_on, right_on)
    left, right = _with_common_keys(left, right, left_keys, right_keys)
    dropped = right_keys if on is not None else ()
    columns = _columns(left, right, dropped)
    mine = columns if kind != "anti" else columns[: len(left.schema)]
    joined = Join(left, right, left_keys, right_keys, mine, kind)
    if where is None:
        return joined
    pairs = Join(left, right, left_keys, right_keys, columns)
    condition = resolved_predicate(where, pairs.schema)
    read = condition.columns()
    if VS in read or VE in read:
        raise InvalidPlanError("join(where=...) sees the columns of a pair, not its lifetime")
    if kind == "inner":
        return Filter(pairs, condition)
    reads = tuple(column for column in columns if column[2] in read)
    return replace(joined, where=condition, reads=reads)


def _columns(
    left: LogicalNode, right: LogicalNode, dropped: tuple[str, ...]
) -> tuple[tuple[Side, str, str], ...]:
    """The columns of a pair; those of the right get a suffix where their name is taken."""
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


def clip_nodes(left: LogicalNode, right: LogicalNode, on: Keys) -> Clip:
    """The clip of two plans; see :meth:`planner.Stream.clip`."""
    keys = _names(on)
    if not keys:
        raise InvalidPlanError("clip(...) takes on=, the columns that a match has equal")
    left_types = {f.name: f.type for f in left.schema}
    for name in keys:
        require(left.schema, name, "clip")
        theirs = require(right.schema, name, "clip")
        common = common_type(left_types[name], theirs)
        if common is None or pa.types.is_nested(common):
            raise InvalidPlanError(
                f"clip(...): keys {name!r} do not match: {left_types[name]} and {theirs}"
            )
        left_types[name] = common
    right_types = {name: left_types[name] for name in keys}
    return Clip(converted(left, left_types), converted(right, right_types), keys, keys)


def _keys(on: Keys, left_on: Keys, right_on: Keys) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if on is not None and (left_on is not None or right_on is not None):
        raise InvalidPlanError("join(...) takes on=, or left_on= and right_on=, not both")
    left_keys = _names(on if on is not None else left_on)
    right_keys = _names(on if on is not None else right_on)
    if not left_keys or len(left_keys) != len(right_keys):
        raise InvalidPlanError(
            "join(...) takes on=, or as many columns in left_on= as in right_on="
        )
    return left_keys, right_keys


def _names(keys: Keys) -> tuple[str, ...]:
    if keys is None:
        return ()
    names = (keys,) if isinstance(keys, str) else tuple(keys)
    if not all(isinstance(name, str) for name in names):
        raise InvalidPlanError("join(...) keys are names of columns; compute them first")
    return names


def _with_common_keys(
    left: LogicalNode,
    right: LogicalNode,
    left_keys: tuple[str, ...],
    right_keys: tuple[str, ...],
) -> tuple[LogicalNode, LogicalNode]:
    """Equal keys must hash equally, so both sides get one type per key."""
    left_types = {f.name: f.type for f in left.schema}
    right_types = {f.name: f.type for f in right.schema}
    for mine, other in zip(left_keys, right_keys, strict=True):
        a = require(left.schema, mine, "join")
        b = require(right.schema, other, "join")
        common = common_type(a, b)
        if common is None or pa.types.is_nested(common):
            raise InvalidPlanError(
                f"join(...): keys {mine!r} ({a}) and {other!r} ({b}) do not match"
            )
        left_types[mine] = right_types[other] = common
    return converted(left, left_types), converted(right, right_types)
