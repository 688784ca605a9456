"""Converts rows as read to events: the two time columns, then the payload in declared types."""

from __future__ import annotations

from dataclasses import dataclass, replace
from dataclasses import field as member
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rstream.errors import UsageError
from rstream.items.batch import event_schema, lifetimes
from rstream.items.dictionaries import is_dictionary, join_batches, plain_array
from rstream.items.exact import exact_cast
from rstream.items.text_failures import failing
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
    from collections.abc import Callable

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
    #: Finds all rows of the batch with this fault and their values; None: only this row is known.
    all_rows: Callable[[], dict[int, str] | None] | None = member(default=None, compare=False)


def to_events(
    spec: SourceSpec, raw: pa.RecordBatch, path: str, first_time: int
) -> pa.RecordBatch | RowFault:
    """Return ``_vs, _ve, payload`` of rows as read; ``first_time``: time of row 0, for text.

    Raises:
        SourceSchemaError: a column has a type that does not fit.
    """
    found = _conform(raw, spec, path)
    if isinstance(found, RowFault):
        return found
    raw = found
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
    if spec.latest_us is not None and (vs > spec.latest_us).any():
        at = int((vs > spec.latest_us).argmax())
        reason = f"{TOO_FAR_AHEAD}, which allowed {iso(spec.latest_us)} when the job was planned"
        return RowFault(at, _name(spec.vs, "vs"), iso(vs[at]), reason)
    ve = _ends(spec, vs, raw, path)
    if isinstance(ve, RowFault):
        return ve
    if spec.max_duration_us is not None and (lifetimes(vs, ve) > spec.max_duration_us).any():
        at = int((lifetimes(vs, ve) > spec.max_duration_us).argmax())
        reason = f"has a lifetime longer than {spec.max_duration_us} us, the declared max_duration"
        return RowFault(at, _name(spec.ve, "ve"), f"[{iso(vs[at])}, {iso(ve[at])})", reason)
    payload = [raw.column(name) for name in spec.row_schema.names]
    return pa.RecordBatch.from_arrays(
        [pa.array(vs), pa.array(ve), *payload], schema=event_schema(spec.row_schema)
    )


def faults_of(
    spec: SourceSpec, raw: pa.RecordBatch, path: str
) -> tuple[pa.RecordBatch | None, dict[int, RowFault]]:
    """Return the events of the good rows (None: there are none), and the faults by row index.

    Rows with the same fault are found together if the fault has ``all_rows``. Otherwise the batch
    is halved until the faulty row is alone. So each row is judged separately.
    """
    faults: dict[int, RowFault] = {}
    rows = np.arange(raw.num_rows)
    left = raw
    while True:  # ends: each pass removes rows
        found = to_events(spec, left, path, 0)
        if not isinstance(found, RowFault):
            return (found if found.num_rows or not faults else None), faults
        values = None if found.all_rows is None else found.all_rows()
        if values is None:
            break
        assert found.index in values, found
        shared = replace(found, all_rows=None)
        for place, value in values.items():
            faults[int(rows[place])] = replace(shared, index=0, value=value)
        is_left = np.ones(len(rows), np.bool_)
        is_left[list(values)] = False
        left, rows = left.filter(pa.array(is_left)), rows[is_left]
    pieces: list[pa.RecordBatch] = []
    todo = [(0, left.num_rows)]
    while todo:  # ends: a piece has no fault, or is halved until it is a single row
        lo, hi = todo.pop()
        found = to_events(spec, left.slice(lo, hi - lo), path, 0)
        if not isinstance(found, RowFault):
            pieces.append(found)
        elif hi - lo == 1:
            faults[int(rows[lo])] = found
        else:
            middle = (lo + hi) // 2
            todo += [(middle, hi), (lo, middle)]
    return (join_batches(pieces) if pieces else None), faults


def _conform(raw: pa.RecordBatch, spec: SourceSpec, path: str) -> pa.RecordBatch | RowFault:
    """Return the declared columns in declared order and types, or a value that does not fit."""
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
    """Return the first null of a column that must not be null."""
    for name in spec.not_null:
        if name in raw.schema.names and raw.column(name).null_count:
            at = raw.column(name).is_null().index(True).as_py()
            nulls = np.flatnonzero(raw.column(name).is_null().to_numpy(zero_copy_only=False))
            all_rows = partial(_shared_value, nulls, "null")
            return RowFault(at, name, "null", "null, and the column is NOT NULL", all_rows)
    return None


def _too_long(raw: pa.RecordBatch, spec: SourceSpec) -> RowFault | None:
    """Return the first text that is longer than its column allows."""
    for name, longest in spec.lengths.items():
        if name not in raw.schema.names:
            continue
        texts = plain_array(raw.column(name))
        is_long = pc.fill_null(pc.greater(pc.utf8_length(texts), longest), False)
        if is_long.true_count:
            at = is_long.index(True).as_py()
            all_rows = partial(_values, texts, is_long.to_numpy(zero_copy_only=False))
            reason = f"longer than {longest} characters, the length of its VARCHAR"
            return RowFault(at, name, shown(texts[at]), reason, all_rows)
    return None


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


def _refused_texts(array: pa.Array, field: pa.Field) -> dict[int, str] | None:
    texts = plain_array(array)
    if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
        return None
    kind = field.type.value_type if is_dictionary(field.type) else field.type
    is_bad = failing(texts, kind, lambda some: _converted(some, field.type))
    return _values(array, is_bad)


def _shared_value(rows: np.ndarray, value: str) -> dict[int, str]:
    return dict.fromkeys(rows.tolist(), value)


def _faulty_times(column: pa.Array, reason: str) -> dict[int, str] | None:
    is_bad = faulty_times(column, reason)
    return None if is_bad is None else _values(column, is_bad)


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
            at = int(vs.argmax())
            return RowFault(
                at, _name(spec.vs, "vs"), str(vs[at]), "the event ends after the last possible time"
            )
        return vs + length
    ve = _times(spec.ve, "ve", raw, path, open_ends=True)
    if isinstance(ve, RowFault):
        return ve
    wrong = ve <= vs
    if wrong.any():
        at = int(wrong.argmax())
        name = _name(spec.ve, "ve")
        values = {k: f"[{iso(vs[k])}, {iso(ve[k])})" for k in np.flatnonzero(wrong).tolist()}
        return RowFault(at, name, values[at], "ends before it starts", lambda: values)
    return ve


def _times(
    source: str | Evaluator, role: str, raw: pa.RecordBatch, path: str, *, open_ends: bool = False
) -> np.ndarray | RowFault:
    """Return the times; with ``open_ends``, null is the end of time."""
    column = raw.column(source) if isinstance(source, str) else _evaluated(source, role, raw)
    if isinstance(column, RowFault):
        return column
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    name = _name(source, role)
    if not is_time_type(column.type):
        raise SourceSchemaError(path, name, f"{column.type} cannot be a time")
    if not (open_ends and column.null_count):
        times = parse_times(column)
        if isinstance(times, Fault):
            all_rows = None
            if isinstance(source, str):  # else the column does not have the row's value
                all_rows = partial(_faulty_times, column, times.reason)
            value = shown(column[times.index])
            return RowFault(times.index, name, value, times.reason, all_rows)
        return times
    places = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    times = parse_times(column.drop_null())
    if isinstance(times, Fault):
        at = int(places[times.index])
        return RowFault(at, name, shown(column[at]), times.reason)
    ends = np.full(len(column), INF_TIME, np.int64)
    ends[places] = times
    return ends


def _evaluated(source: Evaluator, role: str, raw: pa.RecordBatch) -> Any:
    """Return the times that an expression computes, or the first row for which it fails."""

    def failing(lo: int, hi: int) -> UsageError | None:
        try:
            source.evaluate(raw.slice(lo, hi - lo))
        except UsageError as error:
            return error
        return None

    try:
        return source.evaluate(raw)
    except UsageError:
        at = first_failure(raw.num_rows, lambda lo, hi: failing(lo, hi) is not None)
        error = failing(at, at + 1)
        if error is None:  # the error does not depend on a row
            raise
        columns: tuple[str, ...] = getattr(source, "columns", tuple)()
        value = ", ".join(shown(raw.column(name)[at]) for name in columns)
        return RowFault(at, columns[0] if len(columns) == 1 else f"({role})", value, str(error))


def _name(source: object, role: str) -> str:
    return source if isinstance(source, str) else f"({role})"


def iso(time: int) -> str:
    """Format a time for people; as a number beyond the calendar."""
    try:
        return str(pc.cast(pa.scalar(int(time), pa.timestamp("us")), pa.string()).as_py())
    except MemoryError:
        raise
    except pa.ArrowException:
        return str(time)
