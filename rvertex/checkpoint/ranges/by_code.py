"""Rules for operators whose state is in arrays by the code of a key: keep some of the keys.

Invariants: (1) the codes of kept keys stay in order, and are 0, 1, ...; (2) a kept key has its
values, its rows and its windows under its new code; (3) windows of other keys close at once, so
that they do not hold back the watermark.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rvertex.checkpoint.ranges.slots import filtered, filtered_rows, only
from rvertex.events.arrays import as_one_array, numbers
from rvertex.operators.windows.running.aggregate import RunningAggregate

if TYPE_CHECKING:
    from rvertex.checkpoint.conversion import Place
    from rvertex.checkpoint.ranges.slots import SlotRange
    from rvertex.operators.edges.aggregate import EdgeAggregate
    from rvertex.operators.edges.running_sessions import EdgeRunningSessions
    from rvertex.operators.ordered.matching.match import MatchRows
    from rvertex.operators.protocol import OperatorState
    from rvertex.operators.windows.running.aggregate import RunningSessionAggregate
    from rvertex.operators.windows.running.frames import FrameAggregate
    from rvertex.operators.windows.snapshots.window import SnapshotAggregate

#: The column with the closing times, in the log of windows.
_CLOSES = "c2"
#: Tables indexed by code: keys, accumulators, results, and the tables of single operators.
_BY_CODE = ("groups", "open", "assigner", "endpoints", "sessions", "began", "carried")
_BY_CODE_STARTS = ("key", "at", "place")
#: Tables indexed by code whose numbers are rows of another table, and the name of that table.
_VALUES = {"at": "carried", "place": "result"}


@dataclass(frozen=True, slots=True)
class KeptKeys:
    """The keys to keep. ``mask`` bool[keys]: whether to keep the key with that code."""

    mask: np.ndarray

    def by_code(self, state: OperatorState) -> dict[str, pa.Table]:
        """Return the tables that have a row per key, restricted to the kept keys.

        Also returns the values that these rows refer to.
        """
        tables: dict[str, pa.Table] = {}
        for name, table in state.tables.items():
            if name in _BY_CODE or name.startswith(_BY_CODE_STARTS):
                tables[name] = filtered(table, self.mask[: table.num_rows])
        for start, values in _VALUES.items():
            for name in [name for name in tables if name.startswith(start)]:
                of = name.replace(start, values)
                tables[of], tables[name] = _used(state.tables[of], tables[name])
        return tables

    def recoded(self, table: pa.Table, column: str) -> pa.Table:
        """Return the rows of kept keys, with new codes in ``column``."""
        codes = numbers(as_one_array(table.column(column)))
        is_kept = self.mask[codes]
        return _replaced(filtered(table, is_kept), column, self._codes[codes[is_kept]])

    def distinct_values(
        self, state: OperatorState, sessions: np.ndarray | None = None
    ) -> dict[str, pa.Table]:
        """Return the distinct values of kept keys.

        ``sessions`` int64[keys]: the session of each key, if the values are numbered by session.
        """
        own, tables = state.tables, dict[str, pa.Table]()
        for lane in dict.fromkeys(n.partition(".")[0] for n in own if n.startswith("seen")):
            key = own[f"{lane}.key0"]
            owner = numbers(as_one_array(key.column(0)))
            is_kept = self.mask[owner] if sessions is None else np.isin(owner, sessions[self.mask])
            for name in (name for name in own if name.startswith(f"{lane}.")):
                tables[name] = filtered(own[name], is_kept)
            if sessions is None:
                codes = self._codes[owner[is_kept]]
                tables[f"{lane}.key0"] = _replaced(tables[f"{lane}.key0"], "key", codes)
        return tables

    def open_windows(self, state: OperatorState, windows: pa.ChunkedArray) -> pa.Table:
        """Return the log of windows; ``windows``: the last window of each key."""
        log = state.tables["windows"]
        gone = windows.to_numpy()[~self.mask] - state.header["first"]
        closes = log.column(_CLOSES).to_numpy().copy()
        closes[gone[gone >= 0]] = -(2**63)
        return _replaced(log, _CLOSES, closes)

    @property
    def _codes(self) -> np.ndarray:
        """Return the new code of each kept key."""
        codes: np.ndarray = np.cumsum(self.mask) - 1
        return codes


def kept_keys(spec: Any, slots: SlotRange, state: OperatorState) -> KeptKeys:
    """Return the keys of a key table that are in the range."""
    only(spec, slots, spec.keys)
    at = [spec.keys.index(name) for name in slots.keys[0]]
    return KeptKeys(slots.mask([as_one_array(state.tables[f"key{i}"].column(0)) for i in at]))


def single_window(spec: Any, place: Place, slots: SlotRange, state: OperatorState) -> OperatorState:
    """Restrict sessions and windows of counts: keys, and rows by window."""
    keys, own = kept_keys(spec, slots, state), state.tables
    tables = {
        **keys.by_code(state),
        **filtered_rows(slots, {"rows": own["rows"]}, spec),
        "windows": keys.open_windows(state, own["assigner"].column(0)),
    }
    return replace(state, tables=tables)


def running(
    spec: RunningAggregate | RunningSessionAggregate,
    place: Place,
    slots: SlotRange,
    state: OperatorState,
) -> OperatorState:
    """Return the running aggregates: keys, their totals and distinct values, and waiting rows."""
    keys, own = kept_keys(spec, slots, state), state.tables
    of_session = not isinstance(spec, RunningAggregate)
    sessions = numbers(as_one_array(own["open"].column(1))) if of_session else None
    tables = {
        **keys.by_code(state),
        **keys.distinct_values(state, sessions),
        **filtered_rows(slots, {name: own[name] for name in ("waiting", "results")}, spec),
        "windows": keys.open_windows(state, own["open"].column(0)),
    }
    return replace(state, tables=tables)


def frames(
    spec: FrameAggregate, place: Place, slots: SlotRange, state: OperatorState
) -> OperatorState:
    """Restrict frames: keys with their totals, or the rows that later frames may include."""
    keys, own = kept_keys(spec, slots, state), state.tables
    tables = {
        **keys.by_code(state),
        **keys.distinct_values(state),
        **filtered_rows(slots, {"waiting": own["waiting"]}, spec),
    }
    if "held" in own:
        is_kept = keys.mask[numbers(as_one_array(own["links"].column("key")))]
        row = np.append(np.cumsum(is_kept) - 1, -1)  # -1 (no row) stays -1
        links = keys.recoded(own["links"], "key")
        before = row[numbers(as_one_array(links.column("before")))]
        last = numbers(as_one_array(own["last"].column("row")))
        tables["held"] = filtered(own["held"], is_kept)
        tables["links"] = _replaced(links, "before", before)
        tables["last"] = pa.table({"row": row[last[keys.mask[: len(last)]]]})
    return replace(state, tables=tables)


def snapshot_windows(
    spec: SnapshotAggregate, place: Place, slots: SlotRange, state: OperatorState
) -> OperatorState:
    """Restrict snapshot windows: keys with their open windows, later ends, and rows by window."""
    rows = filtered_rows(slots, {"rows": state.tables["rows"]}, spec)
    if spec.points:
        return replace(state, tables=rows)
    keys, own = kept_keys(spec, slots, state), state.tables
    tables = {
        **keys.by_code(state),
        **rows,
        "ends": keys.recoded(own["ends"], "code"),
        "windows": keys.open_windows(state, own["endpoints"].column(2)),
    }
    return replace(state, tables=tables)


def edge_aggregate(
    spec: EdgeAggregate, place: Place, slots: SlotRange, state: OperatorState
) -> OperatorState:
    """Restrict aggregates of live rows: keys with results and sums, live rows and buffered rows."""
    keys, own = kept_keys(spec, slots, state), state.tables
    waiting = {name: own[name] for name in ("waiting0", "ahead0")}
    tables = {
        **keys.by_code(state),
        **keys.distinct_values(state),
        **filtered_rows(slots, waiting, spec),
    }
    if "codes" in own:
        codes = numbers(as_one_array(own["codes"].column("code")))
        tables["rows"] = filtered(own["rows"], keys.mask[codes])
        tables["codes"] = keys.recoded(own["codes"], "code")
    return replace(state, tables=tables)


def edge_sessions(
    spec: EdgeRunningSessions, place: Place, slots: SlotRange, state: OperatorState
) -> OperatorState:
    """Restrict running results of open sessions: keys with their results, and later ends."""
    keys, own = kept_keys(spec, slots, state), state.tables
    sessions = numbers(as_one_array(own["sessions"].column(0)))
    tables = {
        **keys.by_code(state),
        **keys.distinct_values(state, sessions),
        **filtered_rows(slots, {"waiting": own["waiting"]}, spec),
        "ahead": keys.recoded(own["ahead"], "code"),
    }
    return replace(state, tables=tables)


def matches(spec: MatchRows, place: Place, slots: SlotRange, state: OperatorState) -> OperatorState:
    """Return row patterns: keys, their stored rows, and matches that are not emitted yet."""
    keys, own = kept_keys(spec, slots, state), state.tables
    only(spec, slots, spec.kept)
    of_key = own["of_key"]
    is_kept = keys.mask[numbers(as_one_array(of_key.column("code")))]
    count, known = (numbers(as_one_array(of_key.column(name))) for name in ("count", "known"))
    of_row = filtered(own["of_row"], np.repeat(is_kept, count))
    is_stored = np.isin(
        numbers(as_one_array(own["numbers"].column(0))),
        numbers(as_one_array(of_row.column("number"))),
    )
    tables = {
        **keys.by_code(state),
        **filtered_rows(slots, {"waiting": own["waiting"]}, spec),
        **{name: filtered(own[name], is_stored) for name in ("rows", "numbers")},
        "of_key": keys.recoded(of_key, "code"),
        "of_row": of_row,
        "symbols": filtered(own["symbols"], np.repeat(is_kept, known)),
    }
    return replace(state, tables=tables)


def _used(values: pa.Table, places: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the rows of ``values`` whose numbers are in ``places``, and their new numbers.

    The number -1 means no row, and stays -1.
    """
    place = numbers(as_one_array(places.column(0)))
    is_used = np.zeros(values.num_rows, bool)
    is_used[place[place >= 0]] = True
    row = np.append(np.cumsum(is_used) - 1, -1)
    return filtered(values, is_used), _replaced(places, places.column_names[0], row[place])


def _replaced(table: pa.Table, column: str, values: np.ndarray) -> pa.Table:
    """Return ``table`` with other values in a column."""
    at = table.schema.get_field_index(column)
    return table.set_column(at, table.schema.field(at), pa.array(values))
