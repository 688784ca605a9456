"""Converts the state of a window aggregate for other aggregates over the same windows.

Keys and windows stay as they are. A lane of both the old and the new aggregates is kept. A new lane
starts empty: open windows have no values of it yet. An unused lane is dropped.
"""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.batch import event_schema
from rvertex.aggregates.accumulators import Rows
from rvertex.aggregates.spec import lanes_of
from rvertex.events.reorder_buffer import empty_batch
from rvertex.operators.windows.grouping import NEAR, OVERFLOW
from rvertex.operators.windows.running.carried import NewValues

#: Tables of a running aggregate that belong to one lane, or to one column of distinct values.
_NUMBERED = re.compile(r"(carried|at|seen)[0-9]+(\..*)?")
#: Tables of an aggregate over edges that belong to one result column.
_RESULT = re.compile(r"(result|place)[0-9]+")

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rvertex.aggregates.function import Lane
    from rvertex.aggregates.spec import AggregateSpec
    from rvertex.operators.edges.aggregate import EdgeAggregate
    from rvertex.operators.protocol import OperatorState
    from rvertex.operators.windows.hopping import FinalAggregate, PartialAggregate, WindowAggregate
    from rvertex.operators.windows.running.aggregate import (
        RunningAggregate,
        RunningSessionAggregate,
    )
    from rvertex.operators.windows.session_phases import FinalSession, PartialSession

    AnyRunning = RunningAggregate | RunningSessionAggregate | EdgeAggregate
    AnyWindows = PartialAggregate | FinalAggregate | WindowAggregate | PartialSession | FinalSession


def same_windows(
    old: AnyWindows,
    new: AnyWindows,
) -> bool:
    """Return whether both aggregate by the same keys over the same windows, in as many phases."""
    free = ("aggregates", "any_order")
    names = [f.name for f in fields(old) if f.name not in free]
    return type(old) is type(new) and all(getattr(old, n) == getattr(new, n) for n in names)


def converted_panes(
    old: tuple[Sequence[AggregateSpec], pa.Schema],
    new: tuple[Sequence[AggregateSpec], pa.Schema],
    state: OperatorState,
    further: int = 0,
) -> OperatorState | None:
    """Return the open panes of a first phase, converted from ``old`` to ``new``.

    ``old`` and ``new`` are aggregates and the events' columns. ``further`` is the number of
    accumulators that both have per group after the lanes. Returns None if the stored form of a lane
    does not fit.
    """
    if any(name.partition(".")[2].startswith(OVERFLOW) for name in state.tables):
        return None  # groups on disk are rows with all lanes, which cannot be converted one by one
    before, after = lanes_of(*old), lanes_of(*new)
    if not _fit(before, after):
        return None
    tables: dict[str, pa.Table] = {}
    for number in range(len(state.header["panes"])):
        prefix = f"{number}."
        own = {n.removeprefix(prefix): t for n, t in state.tables.items() if n.startswith(prefix)}
        for part in ("", NEAR):
            lanes = {n.removeprefix(part): t for n, t in own.items() if n.startswith(part)}
            lanes = lanes if part else {n: t for n, t in own.items() if not n.startswith(NEAR)}
            made = _groups(before, after, lanes, new[1]) if lanes else {}
            for at in range(further):
                was, is_now = f"lane{len(before) + at}.", f"lane{len(after) + at}."
                kept = ((n.removeprefix(was), t) for n, t in lanes.items() if n.startswith(was))
                made |= {f"{is_now}{name}": table for name, table in kept}
            tables |= {f"{prefix}{part}{name}": table for name, table in made.items()}
    return replace(state, tables=tables)


def _fit(before: Sequence[Lane], after: Sequence[Lane]) -> bool:
    """Return whether lanes in both are stored with the same set of columns."""
    kept = {(lane.kind.name, column): lane.name for lane in before for column in _columns(lane)}
    return all(
        kept.get((lane.kind.name, column), lane.name) == lane.name
        for lane in after
        for column in _columns(lane)
    )


def _columns(lane: Lane) -> tuple[str | None, ...]:
    return (lane.column, *lane.others)


def _groups(
    before: Sequence[Lane],
    after: Sequence[Lane],
    tables: Mapping[str, pa.Table],
    payload: pa.Schema,
) -> dict[str, pa.Table]:
    """Return the tables of one set of groups, with the lanes ``after``."""
    groups = tables["present" if "present" in tables else "groups"].num_rows
    made = {name: table for name, table in tables.items() if not name.startswith("lane")}
    places = {(lane.name, str(lane.type)): i for i, lane in enumerate(before)}
    for i, lane in enumerate(after):
        at = places.get((lane.name, str(lane.type)))
        if at is not None:
            own = ((n.split(".", 1)[1], t) for n, t in tables.items() if n.startswith(f"lane{at}."))
            made |= {f"lane{i}.{part}": table for part, table in own}
            continue
        accumulator = lane.accumulator()
        accumulator.update(Rows(np.empty(0, np.int64), groups, empty_batch(event_schema(payload))))
        saved = enumerate(accumulator.save())
        made |= {f"lane{i}.{j}": pa.table({"lane": column}) for j, column in saved}
    return made


def nothing_yet(lanes: Sequence[Lane]) -> dict[str, pa.Scalar] | None:
    """Return the value of a group without rows in each lane column; None: it is unknown."""
    found: dict[str, pa.Scalar] = {}
    for lane in lanes:
        kind = lane.type.value_type if pa.types.is_list(lane.type) else lane.type
        columns = [(column, kind) for column in _columns(lane) if column is not None]
        rows = empty_batch(event_schema(pa.schema(columns)))
        try:
            accumulator = lane.accumulator()
            accumulator.update(Rows(np.empty(0, np.int64), 1, rows))
            values = zip(lane.fields, accumulator.columns(), strict=True)
            found |= {field.name: column[0] for field, column in values}
        except (TypeError, ValueError, NotImplementedError):  # values of another type
            return None
    return found


def from_time(
    spec: FinalAggregate | WindowAggregate, state: OperatorState, time: int
) -> OperatorState:
    """Return an empty state that emits no window that begins before ``time``."""
    first = -(-time // spec.every_us)

    def moved(header: dict[str, object]) -> dict[str, object]:
        return {**header, "open": first, "last_cti": time}

    if "final" in state.header:
        return replace(state, header={**state.header, "final": moved(state.header["final"])})
    return replace(state, header=moved(state.header))


def converted_running(
    old: tuple[AnyRunning, pa.Schema],
    new: tuple[AnyRunning, pa.Schema],
    state: OperatorState,
    fresh: OperatorState,
) -> OperatorState | None:
    """Return the state of a running aggregate, for other aggregates over the same windows.

    ``old`` and ``new`` are a spec and the columns of its events. A new lane has no value yet for
    the known keys. ``fresh`` is a state without keys. Returns None if a lane is stored in another
    form.
    """
    marks_before, marks_after = (NewValues(spec.aggregates, given) for spec, given in (old, new))
    before = lanes_of(marks_before.aggregates, marks_before.payload)
    after = lanes_of(marks_after.aggregates, marks_after.payload)
    if not _fit(before, after) or (empty := nothing_yet(after)) is None:
        return None
    made = {n: t for n, t in state.tables.items() if not _NUMBERED.fullmatch(n)}
    places = {field: k for k, field in enumerate(f for lane in before for f in lane.fields)}
    keys = state.tables["at0"].num_rows
    for k, field in enumerate(f for lane in after for f in lane.fields):
        at = places.get(field)
        if at is not None:
            made |= {f"{name}{k}": state.tables[f"{name}{at}"] for name in ("carried", "at")}
        else:
            nothing = pa.array([empty[field.name].as_py()], field.type)
            made[f"carried{k}"] = pa.table({"c": nothing})
            made[f"at{k}"] = pa.table({"c": np.zeros(keys, np.int64)})
    known = list(marks_before.columns)
    for k, column in enumerate(marks_after.columns):
        source = (state, known.index(column)) if column in known else (fresh, k)
        mark, tables = f"seen{source[1]}.", source[0].tables
        own = {n: t for n, t in tables.items() if n.startswith(mark)}
        made |= {f"seen{k}.{n.removeprefix(mark)}": table for n, table in own.items()}
    return replace(state, tables=made)


def converted_edges(
    old: tuple[EdgeAggregate, pa.Schema],
    new: tuple[EdgeAggregate, pa.Schema],
    state: OperatorState,
    fresh: OperatorState,
) -> OperatorState | None:
    """Return the state of an aggregate over rows that never end, for other aggregates.

    A new aggregate is null in the current results. Returns None if rows may end, or in the cases of
    :func:`converted_running`.
    """
    specs = (old[0], new[0])
    if not all(spec.endless and all(a.can_run for a in spec.aggregates) for spec in specs):
        return None
    before, after = ([*spec.keys, *(a.output for a in spec.aggregates)] for spec in specs)
    made = {n: t for n, t in state.tables.items() if not _RESULT.fullmatch(n)}
    keys = state.tables["began"].num_rows
    for i, name in enumerate(after):
        if name in before:
            at = before.index(name)
            made |= {f"{part}{i}": state.tables[f"{part}{at}"] for part in ("result", "place")}
        else:
            nulls = pa.nulls(keys, fresh.tables[f"result{i}"].schema.field(0).type)
            made[f"result{i}"] = pa.table({"c": nulls})
            made[f"place{i}"] = pa.table({"c": np.arange(keys)})
    return converted_running(old, new, replace(state, tables=made), fresh)
