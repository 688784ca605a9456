"""One aggregate of a query: how it is split into lanes, and how its result is computed from lanes.

An :class:`AggregateSpec` names a function of :mod:`rvertex.aggregates.registry`, which defines its
lanes (accumulator columns). Two aggregates may share a lane. When partial results merge, counts are
summed, first and last are chosen by time, and most other lanes use the accumulators that built
them.

Semantics: ``count`` without a column counts rows. All other functions skip nulls, and are null if
no value remains (``count`` and ``count_distinct``: 0). Exceptions: ``first``, ``last`` and user
aggregates include nulls. NaN is greater than every number. Holistic functions need all values of a
window at once (:mod:`rvertex.aggregates.holistic`), so they never run in phases or over panes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from rstream.items.dictionaries import plain_type
from rvertex.aggregates.function import AggregateFunction, Argument, Lane, LaneKind, Merged
from rvertex.aggregates.ranked.arg_extremes import plain_ranked
from rvertex.aggregates.registry import FUNCTIONS
from rvertex.errors import OperatorTypeError, UnknownColumnError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class AggregateSpec:
    """One aggregate: ``output = function(column)``.

    ``column`` None: it counts rows, as ``count(*)``.
    """

    function: str
    column: str | None
    output: str
    argument: Argument = None

    def __post_init__(self) -> None:
        if self.function not in FUNCTIONS:
            known = ", ".join(FUNCTIONS)
            raise OperatorTypeError(
                "aggregate", f"no aggregate {self.function!r}; the aggregates are: {known}"
            )
        if self.column is None and not self.definition.takes_rows:
            raise OperatorTypeError("aggregate", f"{self.function} needs a column")

    @property
    def definition(self) -> AggregateFunction:
        """The function's definition in the registry."""
        return FUNCTIONS[self.function]

    @property
    def can_run(self) -> bool:
        """Whether a running result can be updated row by row, without the earlier rows.

        ``count_distinct`` can, but its state includes the set of values so far.
        """
        merges = all(lane.merges_again for lane in self.definition.lanes)
        return not self.is_holistic and (merges or self.function == "count_distinct")

    @property
    def is_holistic(self) -> bool:
        """Whether it needs all values of a window at once."""
        return self.definition.is_holistic(self.argument)


def lanes_of(aggregates: Sequence[AggregateSpec], payload: pa.Schema) -> tuple[Lane, ...]:
    """Return the distinct lanes that ``aggregates`` over events of ``payload`` need.

    Raises:
        UnknownColumnError: an aggregate reads a column that does not exist.
        OperatorTypeError: a function does not accept the type of its column.
    """
    lanes: dict[str, Lane] = {}
    for spec in aggregates:
        value = _value_type(spec, payload)
        for kind in spec.definition.lanes:
            lane = _lane(spec, kind, kind.lane_type(value, spec.argument))
            lanes[lane.name] = lane
    return _together(lanes.values())


def lanes_in(aggregates: Sequence[AggregateSpec], partial: pa.Schema) -> tuple[Lane, ...]:
    """Return the lanes of ``aggregates``, with types from the schema of partial rows."""
    lanes: dict[str, Lane] = {}
    for spec, kind in _lane_kinds(aggregates):
        name, members = _place(spec, kind, partial.names)
        type_ = _column_type(partial, name)
        if members:
            lanes[name] = Lane(kind, members[0], type_, others=members[1:])
        else:
            lanes[name] = _lane(spec, kind, type_)
    return tuple(lanes.values())


def result_fields(aggregates: Sequence[AggregateSpec], lanes: Sequence[Lane]) -> list[pa.Field]:
    """Return the output columns of the aggregates."""
    types = {lane.name: lane.type for lane in lanes}
    fields = []
    for spec in aggregates:
        function = spec.definition
        kind = types[_place(spec, function.lanes[0], types)[0]]
        fields.append(pa.field(spec.output, function.result_type(kind, spec.argument)))
    return fields


def results(aggregates: Sequence[AggregateSpec], columns: Mapping[str, pa.Array]) -> list[pa.Array]:
    """Compute the output columns from the merged lanes; ``columns``: by lane column name."""
    return [spec.definition.finish(_merged(spec, columns)) for spec in aggregates]


def is_order_free(aggregates: Sequence[AggregateSpec], payload: pa.Schema) -> bool:
    """Return whether row order matters only among rows of equal ``vs``.

    It matters for sums of doubles, and for extremes of doubles, as 0.0 and -0.0 are equal.
    """
    return all(lane.is_order_free for lane in lanes_of(aggregates, payload))


def _lane_kinds(aggregates: Iterable[AggregateSpec]) -> Iterator[tuple[AggregateSpec, LaneKind]]:
    return ((spec, kind) for spec in aggregates for kind in spec.definition.lanes)


def _merged(spec: AggregateSpec, columns: Mapping[str, pa.Array]) -> Merged:
    """Collect the merged lanes of one aggregate, with all of their columns."""
    lanes = []
    place = 0
    for kind in spec.definition.lanes:
        name, members = _place(spec, kind, columns)
        if members:
            place = members.index(str(spec.column))
            lanes.append((columns[name],))
            continue
        lane = _lane(spec, kind, columns[name].type)
        lanes.append((columns[name], *(columns[side] for side in lane.side_names)))
    return Merged(tuple(lanes), spec.column, spec.output, spec.argument, place)


def _together(lanes: Iterable[Lane]) -> tuple[Lane, ...]:
    """Combine lanes of equal kind and type into shared lanes of at most ``columns_max`` columns."""
    out: list[Lane] = []
    last: dict[tuple[LaneKind, pa.DataType], int] = {}
    for lane in lanes:
        at = last.get((lane.kind, lane.type))
        if at is not None and len(out[at].columns) < lane.kind.columns_max:
            out[at] = replace(out[at], others=(*out[at].others, *lane.columns))
            continue
        if lane.kind.columns_max > 1:
            last[lane.kind, lane.type] = len(out)
        out.append(lane)
    return tuple(_of_shared_type(lane) if lane.others else lane for lane in out)


def _of_shared_type(lane: Lane) -> Lane:
    assert lane.kind.shared_type is not None, lane
    return replace(lane, type=lane.kind.shared_type(lane.type))


def _place(
    spec: AggregateSpec, kind: LaneKind, names: Iterable[str]
) -> tuple[str, tuple[str, ...]]:
    """Return the column that stores a lane; for a shared lane also the columns that share it."""
    if kind.columns_max > 1:
        for name in names:
            if name.startswith(kind.shared_prefix):
                members = tuple(json.loads(name.removeprefix(kind.shared_prefix)))
                if spec.column in members:
                    return name, members
    return _lane(spec, kind, pa.null()).name, ()


def _lane(spec: AggregateSpec, kind: LaneKind, type_: pa.DataType) -> Lane:
    return Lane(kind, spec.column, type_, spec.argument if kind.keeps_argument else None)


def _value_type(spec: AggregateSpec, payload: pa.Schema) -> pa.DataType:
    """Return the type of an aggregate's values; null if it counts rows."""
    if spec.column is None:
        return pa.null()
    kind = _column_type(payload, spec.column)
    function = spec.definition
    if not function.takes(kind):
        reason = f"column {spec.column!r} is {kind}, not {function.needs}"
        raise OperatorTypeError(spec.function, reason)
    return kind


def _column_type(payload: pa.Schema, column: str) -> pa.DataType:
    if column not in payload.names:
        raise UnknownColumnError("aggregate", column, tuple(payload.names))
    return plain_ranked(plain_type(payload.field(column).type))
