"""Converts the snapshot of a vertex for the vertex of a changed plan that continues its work.

A vertex consists of an input side and operators. Stateful operators of both vertices are paired in
order (:func:`pairs_of`). A pair with equal meaning keeps its state. If only columns or aggregates
differ, the state is converted: new columns are null in stored rows, and removed columns are
dropped. All other operators start empty.

Rows are *lost* if they were in the state of an operator that starts empty or is gone. Windows and
sessions after it start empty too, because open ones would lack these rows.

Invariants: (1) positions in the source, late rows and frontiers are kept, so no row is read twice
or skipped; (2) nothing is guessed: a state that cannot be converted starts empty and is reported;
(3) no window is emitted with only a part of its rows.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, cast

import pyarrow as pa

from rstream.errors import UsageError, error_class
from rstream.items.batch import event_schema
from rstream.items.dictionaries import plain_schema, plain_type
from rvertex.aggregates.spec import lanes_in
from rvertex.checkpoint.window_conversion import (
    converted_edges,
    converted_panes,
    converted_running,
    from_time,
    nothing_yet,
    same_windows,
)
from rvertex.events.side_output import LATE
from rvertex.operators.composite_state import joined_states, part_state
from rvertex.operators.edges.aggregate import EdgeAggregate
from rvertex.operators.edges.running_sessions import EdgeRunningSessions
from rvertex.operators.protocol import OperatorState, Stateless, without_indexes
from rvertex.operators.windows.hopping import FinalAggregate, PartialAggregate, WindowAggregate
from rvertex.operators.windows.panes.row_lifetimes import LIFETIME_LANES
from rvertex.operators.windows.running.aggregate import RunningAggregate, RunningSessionAggregate
from rvertex.operators.windows.session import SessionAggregate
from rvertex.operators.windows.session_phases import FinalSession, PartialSession
from rvertex.vertex.holding import words_of
from rvertex.vertex.reorder import late_payload

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rvertex.operators.protocol import OperatorSpec
    from rvertex.vertex.spec import VertexSpec

Verdict = Literal["kept", "converted", "started empty"]
_RUNNING = (RunningAggregate, RunningSessionAggregate)
_EDGES = (EdgeAggregate, EdgeRunningSessions)
#: Fields of an operator that affect neither which rows it stores nor for how long.
_FREE = frozenset({"output", "columns", "aggregates", "any_order"})
#: Per field: how the query calls it, if the names differ.
_WORDS = {
    "every_us": "window step",
    "size_us": "window size",
    "pane_us": "window",
    "gap_us": "session gap",
    "lo_us": "within=",
    "hi_us": "within=",
    "keys": "key",
}
_WINDOWS = (PartialAggregate, FinalAggregate, WindowAggregate, PartialSession, FinalSession)
#: Windows and sessions whose results cover all of their rows.
_WHOLE = (FinalAggregate, WindowAggregate, FinalSession, SessionAggregate)


@error_class
class CannotConvertError(UsageError):
    """The state of an operator cannot be converted for another plan."""

    vertex: str
    operator: str

    message = "{vertex}: the state of {operator} cannot be converted for the new query"


@dataclass(frozen=True, slots=True)
class Place:
    """An operator of a vertex: its index, its spec, and the payload columns of its ports."""

    number: int
    spec: OperatorSpec
    ports: tuple[pa.Schema, ...]

    @property
    def is_stateless(self) -> bool:
        """Whether its snapshot is always empty."""
        return isinstance(self.spec.open(self.ports), Stateless)


@dataclass(frozen=True, slots=True)
class Pair:
    """A stateful operator of the new vertex, and the old operator that it continues, if any."""

    old: Place | None
    new: Place
    verdict: Verdict
    reason: str


def places_of(vertex: VertexSpec) -> list[Place]:
    """Return the operators of a vertex with the columns of their ports."""
    if vertex.source is not None:
        ports = [vertex.source.spec.schema]
    else:
        payloads = {channel.port: channel.payload for channel in vertex.inputs}
        ports = [payloads[port] for port in sorted(payloads)]
    places = []
    for number, spec in enumerate(vertex.operators):
        places.append(Place(number, spec, tuple(ports)))
        ports = [spec.output_schema(ports)]
    return places


def pairs_of(old: VertexSpec | None, new: VertexSpec, lossy: str = "") -> list[Pair]:
    """Return for each stateful operator of ``new`` the old operator whose state it continues.

    ``lossy``: what loses rows before these operators ("": nothing).
    """
    before = [] if old is None else [p for p in places_of(old) if not p.is_stateless]
    pairs = []
    for place in places_of(new):
        if place.is_stateless:
            continue
        at = next((k for k, p in enumerate(before) if type(p.spec) is type(place.spec)), None)
        if at is None:
            pairs.append(Pair(None, place, "started empty", f"the {words_of(place.spec)} is new"))
            lossy = lossy or f"the {words_of(place.spec)}"
            continue
        if at:
            lossy = lossy or f"the {words_of(before[0].spec)}"
        match, before = before[at], before[at + 1 :]
        verdict, reason = _verdict(match, place)
        if lossy and verdict != "started empty":
            if isinstance(place.spec, _WHOLE):
                verdict, reason = "started empty", f"it lacks rows that {lossy} has lost"
            else:
                lacking = f"it lacks rows that {lossy} has lost"
                reason = f"{reason}; {lacking}" if reason else lacking
        if verdict == "started empty":
            lossy = lossy or f"the {words_of(place.spec)}"
        pairs.append(Pair(match, place, verdict, reason))
    return pairs


def _verdict(old: Place, new: Place) -> tuple[Verdict, str]:
    differing = _differing(old.spec, new.spec)
    is_same = not differing and old.ports == new.ports
    if is_same:
        return "kept", ""
    what = ", ".join(sorted({words_of_field(name) for name in differing - _FREE}))
    if what:
        return "started empty", f"the {words_of(new.spec)} has another {what}"
    if converted_state(old, new, old.spec.open(old.ports).snapshot()) is None:
        return "started empty", f"the {words_of(new.spec)} keeps its rows in another form"
    return "converted", _note(old, new)


def _note(old: Place, new: Place) -> str:
    before = {a.output: a for a in getattr(old.spec, "aggregates", ())}
    others = [a for a in getattr(new.spec, "aggregates", ()) if a != before.get(a.output)]
    if others:
        start = "starts" if len(others) == 1 else "start"
        return f"{', '.join(a.output for a in others)} {start} empty in windows that are open"
    was, are = ({n for port in of.ports for n in port.names} for of in (old, new))
    if are - was:
        return "new columns are null in the rows that it keeps"
    if was - are or before.keys() - {a.output for a in getattr(new.spec, "aggregates", ())}:
        return "columns that are no longer used are dropped from its rows"
    return ""


def words_of_field(name: str) -> str:
    """Return the name of a field of a source or an operator in words of the query."""
    return _WORDS.get(name, name.removesuffix("_us").replace("_", " "))


def _differing(old: OperatorSpec, new: OperatorSpec) -> set[str]:
    """Return the names of the fields in which two operators of one class differ."""
    return {
        f.name
        for f in fields(cast("Any", old))
        if not _is_equal(getattr(old, f.name), getattr(new, f.name))
    }


def _is_equal(old: Any, new: Any) -> bool:
    return bool(old == new) or repr(old) == repr(new)


def converted_state(old: Place, new: Place, state: OperatorState) -> OperatorState | None:
    """Convert the state of ``old`` for ``new``; None: it cannot be converted."""
    state = replace(state, tables=without_indexes(state.tables))
    if isinstance(old.spec, _WINDOWS) and isinstance(new.spec, _WINDOWS):
        return _converted_windows(old, new, state) if same_windows(old.spec, new.spec) else None
    fresh = new.spec.open(new.ports).snapshot()
    if isinstance(old.spec, _RUNNING) and isinstance(new.spec, _RUNNING):
        converted = converted_running(
            (old.spec, old.ports[0]), (new.spec, new.ports[0]), state, fresh
        )
        return None if converted is None else _reshaped(converted, fresh, {})
    if isinstance(old.spec, _EDGES) and old.spec.aggregates != new.spec.aggregates:  # type: ignore[attr-defined]
        if not isinstance(old.spec, EdgeAggregate) or not isinstance(new.spec, EdgeAggregate):
            return None
        of_old, of_new = (old.spec, old.ports[0]), (new.spec, new.ports[0])
        edges = converted_edges(of_old, of_new, state, fresh)
        return None if edges is None else _reshaped(edges, fresh, {})
    return _reshaped(state, fresh, {})


def _converted_windows(old: Place, new: Place, state: OperatorState) -> OperatorState | None:
    fresh = new.spec.open(new.ports).snapshot()
    match old.spec, new.spec:
        case PartialAggregate(aggregates=before), PartialAggregate(aggregates=after):
            if "panes" not in state.header:
                return _reshaped(state, fresh, {})
            return converted_panes((before, old.ports[0]), (after, new.ports[0]), state)
        case PartialSession(aggregates=before), PartialSession(aggregates=after):
            were, are = (before, old.ports[0]), (after, new.ports[0])
            return converted_panes(were, are, state, LIFETIME_LANES)
        case (
            (FinalAggregate() | FinalSession()),
            (FinalAggregate(aggregates=after) | FinalSession(aggregates=after)),
        ):
            return _reshaped(state, fresh, nothing_yet(lanes_in(after, new.ports[0])))
        case WindowAggregate() as before, WindowAggregate() as after:
            if ("partial" in state.header) != ("partial" in fresh.header):
                return None
            if "partial" not in state.header:
                return _reshaped(state, fresh, {})
            return _both_phases(old, new, before, after, state)
        case _:
            return None


def _both_phases(
    old: Place, new: Place, before: WindowAggregate, after: WindowAggregate, state: OperatorState
) -> OperatorState | None:
    """Convert the state of an operator with two phases: each phase separately."""
    (old_partial, old_final), (new_partial, new_final) = before.phases, after.phases
    of_old = (old_partial.output_schema(old.ports),)
    of_new = (new_partial.output_schema(new.ports),)
    steps = {
        "partial": (replace(old, spec=old_partial), replace(new, spec=new_partial)),
        "final": (Place(0, old_final, of_old), Place(0, new_final, of_new)),
    }
    parts = {}
    for phase, (was, is_now) in steps.items():
        made = _converted_windows(was, is_now, part_state(state, phase))
        if made is None:
            return None
        parts[phase] = made
    return joined_states(parts, {}, {})


def _reshaped(
    state: OperatorState, fresh: OperatorState, empty: Mapping[str, pa.Scalar] | None
) -> OperatorState | None:
    """Return the state with its tables converted to the columns of a fresh state's tables."""
    if empty is None or set(state.header) != set(fresh.header):
        return None
    if not fresh.tables.keys() <= state.tables.keys():
        return None
    tables = {}
    for name, table in state.tables.items():
        if name not in fresh.tables:
            return None
        made = reshaped(table, fresh.tables[name].schema, empty)
        if made is None:
            return None
        tables[name] = made
    return replace(state, tables=tables)


def reshaped(
    table: pa.Table, schema: pa.Schema, empty: Mapping[str, pa.Scalar] | None = None
) -> pa.Table | None:
    """Return the table with the columns of ``schema``; a new column is ``empty``'s value or null.

    None: a column has another type than before.
    """
    columns = []
    for field in schema:
        if field.name not in table.schema.names:
            value = (empty or {}).get(field.name)
            if value is None or not value.is_valid or not table.num_rows:
                columns.append(pa.nulls(table.num_rows, field.type))
            else:
                columns.append(pa.repeat(value, table.num_rows))
            continue
        column = table.column(field.name)
        if column.type != field.type:
            if plain_type(column.type) != plain_type(field.type):
                return None
            column = column.cast(plain_type(column.type)).cast(field.type)
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=schema)


def cast_to(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the table with its columns cast to the types of ``schema``, if all values fit."""
    fields = [schema.field(f.name) if f.name in schema.names else f for f in table.schema]
    try:
        return table.cast(pa.schema(fields))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return table


def converted_operators(
    old: VertexSpec | None,
    new: VertexSpec,
    states: Sequence[OperatorState],
    time: int,
    lossy: str = "",
) -> list[OperatorState]:
    """Return the states of all operators of ``new``, converted from the ``states`` of ``old``.

    A window operator that starts empty emits no window that begins before ``time``. ``lossy``: see
    :func:`pairs_of`.

    Raises:
        CannotConvertError: a state cannot be converted.
    """
    pairs = {pair.new.number: pair for pair in pairs_of(old, new, lossy)}
    found = []
    for place in places_of(new):
        pair, state = pairs.get(place.number), None
        if pair is not None and pair.old is not None and pair.verdict != "started empty":
            state = states[pair.old.number]
            if pair.verdict == "converted":
                state = converted_state(pair.old, place, state)
                if state is None:
                    raise CannotConvertError(new.id, words_of(place.spec))
        if state is None:
            state = place.spec.open(place.ports).snapshot()
            if pair is not None and isinstance(place.spec, FinalAggregate | WindowAggregate):
                state = from_time(place.spec, state, time)
        found.append(state)
    return found


def converted_source(state: OperatorState, new: VertexSpec) -> OperatorState | None:
    """Return the state of a source's input side with the columns of the new plan.

    None: a column has another type than before.
    """
    assert new.source is not None
    spec = new.source.spec
    rows, late = (
        event_schema(spec.schema),
        event_schema(late_payload(plain_schema(spec.row_schema))),
    )
    tables = {}
    for name, table in state.tables.items():
        kind = next((part for part in name.split(".") if not part.isdecimal()), "")
        schema = {"buffer": rows, LATE: late}.get(kind)
        table = cast_to(table, late) if kind == LATE else table
        made = table if schema is None else reshaped(table, schema)
        if made is None:
            return None
        tables[name] = made
    return replace(state, tables=tables)
