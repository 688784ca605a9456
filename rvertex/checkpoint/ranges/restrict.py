"""Restrict an operator's state to a range of slots (a slot is a hash value of the exchange key).

General rule: a table of the state with the key columns is filtered to the rows of the range. An
operator with other state per key has a special rule here. An operator without a rule is refused by
name: the job continues, but the number of the operator's vertices cannot change.

Invariants: (1) if disjoint ranges cover all slots, each row and key is in exactly one part; (2) for
keys of the range, an operator that continues with a part has the same output as with the whole
state; (3) it has no output for other keys. The operator harness tests this for every operator.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rstream.items.batch import KIND, SEQ, event_schema
from rstream.items.hashing import SLOTS
from rvertex.checkpoint.ranges import by_code
from rvertex.checkpoint.ranges.slots import NotByKeyError, SlotRange, filtered, filtered_rows, only
from rvertex.events.arrays import as_one_array
from rvertex.operators.composite_state import joined_states, part_state
from rvertex.operators.cti_forwarding import ForwardCtis
from rvertex.operators.edges.aggregate import EdgeAggregate
from rvertex.operators.edges.join import EdgeJoin
from rvertex.operators.edges.lifetimes.chop import EdgeChop
from rvertex.operators.edges.lifetimes.clip import EdgeClip
from rvertex.operators.edges.lifetimes.extend import EdgeExtend
from rvertex.operators.edges.of_begins import NUMBER, EdgeOfBegins
from rvertex.operators.edges.running_sessions import EdgeRunningSessions
from rvertex.operators.edges.spread import EdgeSpread
from rvertex.operators.edges.windows import EdgeWindows
from rvertex.operators.joins.anti import AntiJoin
from rvertex.operators.joins.as_of import AsOfJoin
from rvertex.operators.joins.conditional import ALONE, PAIRS, ConditionalJoin
from rvertex.operators.joins.inner import TemporalJoin
from rvertex.operators.joins.interval import IntervalJoin
from rvertex.operators.joins.left import LeftJoin
from rvertex.operators.joins.right_rows import log_column
from rvertex.operators.lifetimes.calendar import CalendarTimes
from rvertex.operators.lifetimes.chop import Chop
from rvertex.operators.lifetimes.clip import Clip
from rvertex.operators.lifetimes.point_at_end import PointAtEnd
from rvertex.operators.lifetimes.stitch import Stitch
from rvertex.operators.ordered.deduplicate import Deduplicate
from rvertex.operators.ordered.matching.match import MatchRows
from rvertex.operators.ordered.sort_together import SortTogether
from rvertex.operators.protocol import OperatorState, without_indexes
from rvertex.operators.user.apply import Apply
from rvertex.operators.user.keyed_process import KeyedProcessing
from rvertex.operators.user.transform import UserOperator
from rvertex.operators.windows.count import CountWindowAggregate
from rvertex.operators.windows.extremes import Extremes
from rvertex.operators.windows.hopping import FinalAggregate, PartialAggregate, WindowAggregate
from rvertex.operators.windows.running.aggregate import RunningAggregate, RunningSessionAggregate
from rvertex.operators.windows.running.frames import FrameAggregate
from rvertex.operators.windows.session import SessionAggregate
from rvertex.operators.windows.session_phases import FinalSession, PartialSession
from rvertex.operators.windows.snapshots.window import SnapshotAggregate
from rvertex.state.row_log import INDEX_TABLES, LOG

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rvertex.checkpoint.conversion import Place
    from rvertex.checkpoint.ranges.columns import Keys
    from rvertex.checkpoint.ranges.slots import Slots
    from rvertex.operators.protocol import OperatorSpec

_LOST_KEYS = (
    "its rows no longer have the columns that partition them, or apply computed them; call apply "
    "and select after it, or run the query in another root with another --parallelism"
)
_OF_USER = (
    "the state of a transform has no known keys; write it as a process, "
    "group_by(...).process(...), whose state is stored by key"
)


def restricted(
    place: Place,
    keys: Keys | None,
    slots: Slots,
    state: OperatorState,
    whole: Slots = (0, SLOTS),
) -> OperatorState:
    """Return the part of ``state`` whose keys have these slots.

    ``keys`` are the hashed columns of each port; None: the operator's input no longer has them.
    ``whole``: the slots that ``state`` covers.

    Raises:
        NotByKeyError: the operator has no rule, or lacks a column that the rule needs.
    """
    spec, is_first = place.spec, slots[0] == whole[0]
    if slots == whole or place.is_stateless:
        return state
    state = replace(state, tables=without_indexes(state.tables))
    if isinstance(spec, PartialAggregate | PartialSession):
        return state if is_first else _emptied(place, state)
    if isinstance(spec, Apply | CalendarTimes):
        count = {"poisoned": 0} if "poisoned" in state.header and not is_first else {}
        return replace(state, header={**state.header, **count})
    if isinstance(spec, UserOperator):
        raise NotByKeyError(spec.code.name, _OF_USER)
    if keys is None:
        raise NotByKeyError(type(spec).__name__, _LOST_KEYS)
    kept = getattr(spec, "keys", getattr(spec, "on", None))
    if isinstance(kept, tuple):
        only(spec, SlotRange(keys, *slots), kept)
    return _divided(spec, place, SlotRange(keys, *slots, is_first), state)


def _divided(
    spec: OperatorSpec, place: Place, slots: SlotRange, state: OperatorState
) -> OperatorState:
    rule = _RULES.get(type(spec))
    if rule is None:
        raise NotByKeyError(type(spec).__name__, "its state is not kept by key")
    return rule(spec, place, slots, state)


def _emptied(place: Place, state: OperatorState) -> OperatorState:
    """Return an empty state, for all vertices except the first.

    Used for the first phase of an aggregate: one vertex gets all groups, because the second phase
    merges them by key.
    """
    fresh = place.spec.open(place.ports).snapshot()
    kept = {k: v for k, v in state.header.items() if k in ("open", "last_cti")}
    return replace(fresh, header={**fresh.header, **kept})


def check_rule(place: Place, keys: Keys | None) -> None:
    """Check that the operator's state can be divided by key.

    Raises:
        NotByKeyError: it has no rule, or lacks a column that the rule needs.
    """
    restricted(place, keys, (0, SLOTS // 2), place.spec.open(place.ports).snapshot())


def _by_rows(spec: Any, place: Place, slots: SlotRange, state: OperatorState) -> OperatorState:
    return replace(state, tables=filtered_rows(slots, state.tables, spec))


def _left_join(
    spec: LeftJoin, place: Place, slots: SlotRange, state: OperatorState
) -> OperatorState:
    """Restrict a left join. Buffered matches are filtered by the output's key columns."""
    names = {column: name for side, column, name in spec.output if side == "left"}
    only(spec, slots, list(names))
    held = state.tables["held"]
    mask = slots.mask([as_one_array(held.column(names[key])) for key in slots.keys[0]])
    tables = {name: table for name, table in state.tables.items() if name != "held"}
    return replace(
        state, tables={**filtered_rows(slots, tables, spec), "held": filtered(held, mask)}
    )


def _conditional(
    spec: ConditionalJoin, place: Place, slots: SlotRange, state: OperatorState
) -> OperatorState:
    """Restrict a left or anti join with a condition: left rows, and their matches by row number."""
    names = {column: name for side, column, name in spec.output if side == "left"}
    only(spec, slots, list(names))
    pairs, alone = part_state(state, PAIRS), part_state(state, ALONE)
    number = spec.open(place.ports).number
    lefts = {name: alone.tables[name] for name in ("left", "alive", "pieces")}
    kept = filtered_rows(replace(slots, keys=slots.keys[:1]), lefts, spec)
    own = pa.concat_arrays([as_one_array(table.column(number)) for table in kept.values()])
    for name in ("right", "ends"):
        table = alone.tables[name]
        kept[name] = table.filter(pc.is_in(table.column(number), own))
    held = state.tables["held"]
    mask = slots.mask([as_one_array(held.column(names[key])) for key in slots.keys[0]])
    parts = {
        PAIRS: replace(pairs, tables=filtered_rows(slots, pairs.tables, spec)),
        ALONE: replace(alone, tables=kept),
    }
    return joined_states(parts, {"next": state.header["next"]}, {"held": filtered(held, mask)})


def _interval(
    spec: IntervalJoin, place: Place, slots: SlotRange, state: OperatorState
) -> OperatorState:
    """Restrict an interval join. Pairs refer to unmatched rows by position, so renumber these."""
    tables = filtered_rows(slots, state.tables, spec)
    operator = spec.open(place.ports)
    for side, column in operator.numbers.items():
        first = state.header["first"][side]
        mask = slots.of_table(state.tables[side], 0 if side == "left" else 1)
        renumbered = first + np.cumsum(mask) - 1
        for name, table in tables.items():
            if column not in table.schema.names:
                continue
            numbers = as_one_array(table.column(column)).to_numpy().copy()
            waits = numbers >= first
            numbers[waits] = renumbered[numbers[waits] - first]
            at = table.schema.names.index(column)
            tables[name] = table.set_column(at, table.schema.field(at), pa.array(numbers))
    return replace(state, tables=tables)


def _as_of(spec: AsOfJoin, place: Place, slots: SlotRange, state: OperatorState) -> OperatorState:
    """Restrict an as-of join. Buffered rows refer to matches by position, so renumber these."""
    own = {name: table for name, table in state.tables.items() if not name.startswith(LOG)}
    right = event_schema(spec.stored("right", place.ports[1]))
    tables = filtered_rows(slots, own, spec)
    tables |= _of_log(slots, state, [log_column(right, name) for name in slots.keys[-1]])
    kept = slots.of_table(state.tables["matches"], 1)
    numbers = np.append(np.cumsum(kept) - 1, -1)  # -1 (no match) stays -1
    waiting = tables["waiting"]
    for name in (SEQ, KIND):
        at = waiting.schema.names.index(name)
        named = as_one_array(waiting.column(at)).to_numpy()
        waiting = waiting.set_column(at, waiting.schema.field(at), pa.array(numbers[named]))
    return replace(state, tables={**tables, "waiting": waiting})


def _edge_join(
    spec: EdgeJoin, place: Place, slots: SlotRange, state: OperatorState
) -> OperatorState:
    """Restrict an edge join.

    Table ``since`` has one row per left row, so the same rows are kept.
    """
    tables = {name: table for name, table in state.tables.items() if name != "since"}
    kept = filtered_rows(slots, tables, spec)
    if "since" in state.tables:
        mask = slots.of_table(state.tables["left"], 0)
        kept["since"] = filtered(state.tables["since"], mask)
    return replace(state, tables=kept)


def _forwarding(
    spec: ForwardCtis, place: Place, slots: SlotRange, state: OperatorState
) -> OperatorState:
    inside = _divided(
        spec.operator, replace(place, spec=spec.operator), slots, part_state(state, "inside")
    )
    return joined_states({"inside": inside}, {"held": state.header["held"]}, {})


def _of_begins(
    spec: EdgeOfBegins, place: Place, slots: SlotRange, state: OperatorState
) -> OperatorState:
    """Keep the live rows and buffered ends whose emitted rows have keys in the range."""
    inner = replace(place, spec=spec.inner, ports=_numbered(place.ports))
    inside = _divided(spec.inner, inner, slots, part_state(state, "inner"))
    own = state.tables
    only(spec, slots, own["made"].schema.names)
    mask = slots.of_table(own["rows"], 0)
    made = filtered(own["made"], slots.of_table(own["made"], 0))
    living = [made, *(table for table in inside.tables.values() if NUMBER in table.schema.names)]
    numbers = pa.concat_arrays([as_one_array(table.column(NUMBER)) for table in living])
    is_kept = pc.is_in(own["ends"].column(NUMBER), numbers)
    tables = {
        "waiting": filtered(own["waiting"], slots.of_table(own["waiting"], 0)),
        "rows": filtered(own["rows"], mask),
        "numbers": filtered(own["numbers"], mask),
        "made": made,
        "ends": own["ends"].filter(is_kept),
    }
    header = {name: state.header[name] for name in ("frontier", "next")}
    return joined_states({"inner": inside}, header, tables)


def _numbered(ports: Sequence[pa.Schema]) -> tuple[pa.Schema, ...]:
    return tuple(port.append(pa.field(NUMBER, pa.int64())) for port in ports)


def _deduplicate(
    spec: Deduplicate, place: Place, slots: SlotRange, state: OperatorState
) -> OperatorState:
    """Restrict keys and their expiry times; keys on scratch are in a log."""
    mask = by_code.kept_keys(spec, slots, state).mask
    own = {name: table for name, table in state.tables.items() if not name.startswith(LOG)}
    keys = {name: filtered(own[name], mask) for name in own}
    keys |= _of_log(slots, state, [f"key{spec.keys.index(name)}" for name in slots.keys[0]])
    count = {} if slots.is_first else {"duplicates": 0}
    return OperatorState({**state.header, **count}, keys)


def _of_log(slots: SlotRange, state: OperatorState, names: Sequence[str]) -> dict[str, pa.Table]:
    """Restrict the rows of a log on scratch, if there is one; ``names``: its key columns."""
    tables = {n: state.tables[n] for n in (f"{LOG}keys", f"{LOG}current") if n in state.tables}
    if not tables:
        return {}
    mask = slots.mask([as_one_array(tables[f"{LOG}keys"].column(name)) for name in names])
    return {name: filtered(table, mask) for name, table in tables.items()}


def _phases(
    spec: WindowAggregate, place: Place, slots: SlotRange, state: OperatorState
) -> OperatorState:
    """Emit the groups of open panes as partial rows; the second phase merges them by key."""
    if "live" in state.tables:
        return _by_rows(spec, place, slots, state)
    partial, _ = spec.phases
    first, last = part_state(state, "partial"), part_state(state, "final")
    if "live" in first.tables:
        first = _by_rows(partial, place, slots, first)
    else:
        running: Any = partial.open(place.ports)
        running.load(first)
        (rows,) = running.held_tables().values()
        empty = partial.open(place.ports).snapshot()
        first = replace(empty, header={**empty.header, "last_cti": first.header["last_cti"]})
        schema = last.tables["live"].schema
        last = replace(
            last, tables={"live": pa.concat_tables([last.tables["live"], rows.cast(schema)])}
        )
    last = replace(last, tables=filtered_rows(slots, last.tables, spec))
    return joined_states({"partial": first, "final": last}, {}, {})


def _process(
    spec: KeyedProcessing, place: Place, slots: SlotRange, state: OperatorState
) -> OperatorState:
    """Restrict keys with their fields and timers, buffered rows, and events for begins and ends."""
    only(spec, slots, spec.keys)
    own = state.tables
    at = [spec.keys.index(name) for name in slots.keys[0]]
    log = own["keys"]
    types = [place.ports[0].field(spec.keys[i]).type for i in at]
    columns = [as_one_array(log.column(f"key{i}")) for i in at]
    mask = slots.mask([c.cast(kind) for c, kind in zip(columns, types, strict=True)])
    tables = {"keys": filtered(log, mask), "current": filtered(own["current"], mask)}
    for name in own.keys() - tables.keys() - INDEX_TABLES:
        tables[name] = filtered(own[name], slots.of_table(own[name], 0))
    count = {} if slots.is_first else {"poisoned": 0}
    return OperatorState({**state.header, **count}, tables)


#: The rule for each class of operator specification.
_RULES: dict[type, Callable[[Any, Place, SlotRange, OperatorState], OperatorState]] = {
    AntiJoin: _by_rows,
    AsOfJoin: _as_of,
    Chop: _by_rows,
    Clip: _by_rows,
    ConditionalJoin: _conditional,
    CountWindowAggregate: by_code.single_window,
    Deduplicate: _deduplicate,
    EdgeAggregate: by_code.edge_aggregate,
    EdgeChop: _by_rows,
    EdgeClip: _by_rows,
    EdgeExtend: _by_rows,
    EdgeJoin: _edge_join,
    EdgeOfBegins: _of_begins,
    EdgeRunningSessions: by_code.edge_sessions,
    EdgeSpread: _by_rows,
    EdgeWindows: _by_rows,
    Extremes: _by_rows,
    FinalAggregate: _by_rows,
    FinalSession: by_code.single_window,
    ForwardCtis: _forwarding,
    FrameAggregate: by_code.frames,
    IntervalJoin: _interval,
    KeyedProcessing: _process,
    LeftJoin: _left_join,
    MatchRows: by_code.matches,
    PointAtEnd: _by_rows,
    RunningAggregate: by_code.running,
    RunningSessionAggregate: by_code.running,
    SessionAggregate: by_code.single_window,
    SnapshotAggregate: by_code.snapshot_windows,
    SortTogether: _by_rows,
    Stitch: _by_rows,
    TemporalJoin: _by_rows,
    WindowAggregate: _phases,
}
