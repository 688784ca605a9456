"""Converts rows as read to events: the two time columns, then the payload in declared types."""

from __future__ import annotations

from dataclasses import dataclass, field as member, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rstream.errors import UsageError
from rstream.items.batch import event_schema, lifetimes
from rstream.items.dictionaries import is_dictionary, plain_array
from rstream.items.exact import exact_cast
from rstream.items.text_failures import alone, failing
from rstream.types import INF_TIME
from rvertex.errors import SourceSchemaError
from rvertex.sources.files import first_line
from rvertex.sources.mixed import check_type
from rvertex.sources.times import (
    Fault,
    faulty_times,
    first_failure,
    is_time_type,
    parse_times,
    shown,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rvertex.operators.protocol import Evaluator
    from rvertex.sources.spec import SourceSpec


TOO_FAR_AHEAD = "starts further ahead of the clock than max_ahead allows"


def too_far_ahead(max_ahead_us: int, clock_us: int) -> str:
    """Return why a row that starts more than ``max_ahead_us`` after the clock is bad."""
    return (
        f"{TOO_FAR_AHEAD}: the clock was at {iso(clock_us)}, max_ahead is "
        f"{max_ahead_us / 1000000.0:g} s"
    )


@dataclass(frozen=True, slots=True)
class RowFault:
    """A row (index from 0 in its batch) that cannot become an event."""

    index: int
    column: str
    value: str
    reason: str
    #: Finds all rows of the batch with this fault, with their values or their own faults.
    all_rows: Callable[[], Mapping[int, str | RowFault]] = member(default=dict, compare=False)


def to_events(
    spec: SourceSpec, raw: pa.RecordBatch, path: str, first_time: int
) -> pa.RecordBatch | RowFault:
    """Return ``_vs, _ve, payload`` of rows as read. ``first_time``: time of row 0 in text files.

    Raises:
        SourceSchemaError: a column has a type that does not fit.
    """
    columns = _conform(raw, spec, path)
    if isinstance(columns, RowFault):
        return columns
    raw = columns
    unfit = _missing(raw, spec) or _too_long(raw, spec)
    if unfit is not None:
        return unfit
    if spec.vs is None:
        vs = np.arange(first_time, first_time + raw.num_rows)
    else:
        times = _times(spec.vs, "vs", raw, path)
        if isinstance(times, RowFault):
            return times
        vs = times
    if spec.checks.latest_us is not None and (vs > spec.checks.latest_us).any():
        reason = (
            f"{TOO_FAR_AHEAD}, which allowed {iso(spec.checks.latest_us)} when the job was planned"
        )
        return _alike(
            vs > spec.checks.latest_us, _name(spec.vs, "vs"), lambda k: iso(vs[k]), reason
        )
    ve = _ends(spec, vs, raw, path)
    if isinstance(ve, RowFault):
        return ve
    if spec.max_duration_us is not None and (lifetimes(vs, ve) > spec.max_duration_us).any():
        reason = f"has a lifetime longer than {spec.max_duration_us} us, the declared max_duration"
        is_long, ends = lifetimes(vs, ve) > spec.max_duration_us, ve
        return _alike(is_long, _name(spec.ve, "ve"), lambda k: _lifetime(vs[k], ends[k]), reason)
    payload = [raw.column(name) for name in spec.row_schema.names]
    return pa.RecordBatch.from_arrays(
        [pa.array(vs), pa.array(ve), *payload], schema=event_schema(spec.row_schema)
    )


def faults_of(
    spec: SourceSpec, raw: pa.RecordBatch, path: str
) -> tuple[pa.RecordBatch | None, dict[int, RowFault]]:
    """Return the events of the good rows (None: there are none), and the faults by row index.

    Rows with the same fault are found together, and each row is judged separately.
    """
    faults: dict[int, RowFault] = {}
    rows = np.arange(raw.num_rows)
    left = raw
    while True:  # ends: each round removes rows
        found = to_events(spec, left, path, 0)
        if not isinstance(found, RowFault):
            return (found if found.num_rows or not faults else None), faults
        values = found.all_rows()
        assert found.index in values, found
        shared = replace(found, index=0, all_rows=dict)
        for place, value in values.items():
            own = replace(shared, value=value) if isinstance(value, str) else value
            faults[int(rows[place])] = own
        is_left = np.ones(len(rows), np.bool_)
        is_left[list(values)] = False
        left, rows = left.filter(pa.array(is_left)), rows[is_left]


def first_fault(
    spec: SourceSpec, raw: pa.RecordBatch, path: str, found: RowFault
) -> tuple[int, RowFault]:
    """Return the first bad row of a batch and its fault; ``found``: a fault of any of its rows."""
    _, faults = faults_of(spec, raw.slice(0, found.index + 1), path)
    first = min(faults)
    return first, faults[first]


def _conform(raw: pa.RecordBatch, spec: SourceSpec, path: str) -> pa.RecordBatch | RowFault:
    """Return the declared columns in declared order and types, or a fault."""
    arrays = []
    for field in spec.columns:
        array = raw.column(field.name)
        if array.type != field.type:
            check_type(path, field.name, array.type, spec)
            try:
                array = _converted(array, field.type)
            except pa.ArrowInvalid:
                return _refused(array, field)
            except pa.ArrowNotImplementedError as error:
                reason = (
                    f"it is {array.type} here, but {field.type} in the plan: {first_line(error)}"
                )
                raise SourceSchemaError(path, field.name, reason) from error
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=spec.columns)


def _missing(raw: pa.RecordBatch, spec: SourceSpec) -> RowFault | None:
    """Return the first null in a column that must not be null."""
    for name in spec.checks.not_null:
        if name in raw.schema.names and raw.column(name).null_count:
            is_null = raw.column(name).is_null().to_numpy(zero_copy_only=False)
            return _alike(is_null, name, lambda _: "null", "null, and the column is NOT NULL")
    return None


def _too_long(raw: pa.RecordBatch, spec: SourceSpec) -> RowFault | None:
    """Return the first text that is longer than its column allows."""
    for name, longest in spec.checks.lengths:
        if name not in raw.schema.names:
            continue
        texts = plain_array(raw.column(name))
        is_long = pc.fill_null(pc.greater(pc.utf8_length(texts), longest), False)
        if is_long.true_count:
            rows, show = is_long.to_numpy(zero_copy_only=False), partial(_shown_at, texts)
            reason = f"longer than {longest} characters, the length of its VARCHAR"
            return _alike(rows, name, show, reason)
    return None


def _alike(is_bad: np.ndarray, column: str, show: Callable[[int], str], reason: str) -> RowFault:
    """Return a fault that all rows ``is_bad`` have, for the first of them."""
    at = int(is_bad.argmax())
    rows = np.flatnonzero(is_bad)
    return RowFault(at, column, show(at), reason, lambda: {k: show(k) for k in rows.tolist()})


def _shown_at(column: pa.Array, row: int) -> str:
    return shown(column[row])


def _lifetime(vs: int, ve: int) -> str:
    return f"[{iso(vs)}, {iso(ve)})"


def _refused(array: pa.Array, field: pa.Field) -> RowFault:
    """Return the first value that cannot be converted to the type of ``field``."""

    def fails(lo: int, hi: int) -> bool:
        try:
            _converted(array.slice(lo, hi - lo), field.type)
        except pa.ArrowInvalid:
            return True
        return False

    at = first_failure(len(array), fails)
    reason = f"not of type {field.type}"
    return RowFault(at, field.name, shown(array[at]), reason, partial(_refused_texts, array, field))


def _refused_texts(array: pa.Array, field: pa.Field) -> dict[int, str]:
    values = plain_array(array)
    kind = field.type.value_type if is_dictionary(field.type) else field.type
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return _values(array, failing(values, kind, lambda some: _converted(some, field.type)))
    is_bad = np.zeros(len(array), np.bool_)
    places = np.arange(len(array))
    is_bad[alone(places, values, lambda some: _converted(some, field.type))] = True
    return _values(array, is_bad)


def _faulty_times(column: pa.Array, reason: str, places: np.ndarray | None) -> dict[int, str]:
    """Return the values with this fault. ``places``: the row of each value."""
    faults = _values(column, faulty_times(column, reason))
    return faults if places is None else {int(places[k]): value for k, value in faults.items()}


def _values(column: pa.Array, is_wanted: np.ndarray) -> dict[int, str]:
    return {k: shown(column[k]) for k in np.flatnonzero(is_wanted).tolist()}


def _converted(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if not is_dictionary(kind):
        return exact_cast(plain_array(array), kind)
    return exact_cast(plain_array(array), kind.value_type).dictionary_encode().cast(kind)


def _ends(
    spec: SourceSpec, vs: np.ndarray, raw: pa.RecordBatch, path: str
) -> np.ndarray | RowFault:
    if spec.ve is None or isinstance(spec.ve, int):
        length = 1 if spec.ve is None else spec.ve
        if len(vs) and int(vs.max()) > INF_TIME - length:
            reason = "the event ends after the last possible time"
            is_late = vs > INF_TIME - length
            return _alike(is_late, _name(spec.vs, "vs"), lambda k: str(vs[k]), reason)
        return vs + length
    ve = _times(spec.ve, "ve", raw, path, open_ends=True)
    if isinstance(ve, RowFault):
        return ve
    if (ve <= vs).any():
        ends = ve
        name = _name(spec.ve, "ve")
        return _alike(ve <= vs, name, lambda k: _lifetime(vs[k], ends[k]), "ends before it starts")
    return ve


def _times(
    source: str | Evaluator, role: str, raw: pa.RecordBatch, path: str, *, open_ends: bool = False
) -> np.ndarray | RowFault:
    """Return the times. With ``open_ends``, a null is the end of time."""
    column = raw.column(source) if isinstance(source, str) else _evaluated(source, role, raw)
    if isinstance(column, RowFault):
        return column
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    name = _name(source, role)
    if not is_time_type(column.type):
        raise SourceSchemaError(path, name, f"{column.type} cannot be a time")
    places = None
    if open_ends and column.null_count:
        places = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    values = column if places is None else column.drop_null()
    times = parse_times(values)
    if isinstance(times, Fault):
        at = times.index if places is None else int(places[times.index])
        all_rows = partial(_faulty_times, values, times.reason, places)
        return RowFault(at, name, shown(column[at]), times.reason, all_rows)
    if places is None:
        return times
    ends = np.full(len(column), INF_TIME, np.int64)
    ends[places] = times
    return ends


def _evaluated(source: Evaluator, role: str, raw: pa.RecordBatch) -> Any:
    """Return the times that an expression computes, or the first row for which it fails."""
    try:
        return source.evaluate(raw)
    except UsageError:
        found = _failures(source, role, raw)
        if not found:  # the error does not depend on a row, so raise it
            raise
    first = min(found)
    return replace(found[first], index=first, all_rows=lambda: found)


def _failures(source: Evaluator, role: str, raw: pa.RecordBatch) -> dict[int, RowFault]:
    """Return the rows for which an expression fails."""
    columns: tuple[str, ...] = getattr(source, "columns", tuple)()
    name = columns[0] if len(columns) == 1 else f"({role})"
    find: Callable[[pa.RecordBatch], dict[int, str]]
    find = getattr(source, "failures", partial(_failures_by_row, source))
    return {
        place: RowFault(0, name, ", ".join(shown(raw.column(c)[place]) for c in columns), reason)
        for place, reason in find(raw).items()
    }


def _failures_by_row(source: Evaluator, raw: pa.RecordBatch) -> dict[int, str]:
    faults = {}
    for place in range(raw.num_rows):
        try:
            source.evaluate(raw.slice(place, 1))
        except UsageError as error:
            faults[place] = str(error)
    return faults


def _name(source: object, role: str) -> str:
    return source if isinstance(source, str) else f"({role})"


def iso(time: int) -> str:
    """Format a time for users; beyond the calendar, as a number."""
    try:
        return str(pc.cast(pa.scalar(int(time), pa.timestamp("us")), pa.string()).as_py())
    except MemoryError:
        raise
    except pa.ArrowException:
        return str(time)
