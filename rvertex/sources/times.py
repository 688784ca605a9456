"""Converts columns of time to int64 microseconds UTC, vectorised and in exact integer arithmetic.

Accepted: integers (microseconds), timestamps of any unit and zone, dates, ISO-8601 strings (without
a zone: UTC). Finer units are rounded down, also before 1970. A :class:`Fault` reports the first row
without a valid time. Rows are processed in Python only if there is a fault.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rstream.items.text_failures import alone, failing

if TYPE_CHECKING:
    from collections.abc import Callable

_FACTORS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_DAY_US = 86_400_000_000
#: A zone after a time of day. Without the time, the end of a date would look like a zone.
_ZONE = r"[T ]\d(?s:.*)(?:Z|[+-]\d{2}(?::?\d{2})?)$"
_OTHER_ISO = r"^\s*(?:\d{8}T\d|\d{4}-?W\d\d)"
#: Why a text is not a time.
NOT_ISO = "not an ISO-8601 time"
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Fault:
    """The first row (from 0 in the column) that has no valid time, and why."""

    index: int
    reason: str


def is_time_type(kind: pa.DataType) -> bool:
    """Return whether a column of this type can hold times."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_date(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
    )


def is_zoned(text: pa.Array) -> np.ndarray:
    """Return which ISO-8601 times name a zone, bool[n]; undefined for nulls."""
    has_zone = pc.match_substring_regex(text, _ZONE).fill_null(False)
    is_zoned: np.ndarray = has_zone.to_numpy(zero_copy_only=False)
    return is_zoned


def extended(text: pa.Array) -> pa.Array:
    """Rewrite times in ISO's basic form and in weeks for Arrow; return ``text`` if it has none.

    Examples are ``20260101T000000Z`` and ``2026-W01-3``. Eight digits alone are a number.
    """
    is_other = pc.match_substring_regex(text, _OTHER_ISO).fill_null(False)
    if not is_other.true_count:
        return text
    texts = text.to_pylist()
    for k in np.flatnonzero(is_other.to_numpy(zero_copy_only=False)).tolist():
        with contextlib.suppress(ValueError):  # it matches the pattern, but is not a time
            texts[k] = datetime.fromisoformat(texts[k].strip()).isoformat()
    made = pa.array(texts, text.type)
    return text if made.equals(text) else made


def shown(value: pa.Scalar) -> str:
    """Format a value as Python does; a time beyond Python's range as a number in its unit."""
    try:
        return repr(value.as_py())
    except (OverflowError, ValueError):
        return str(value.cast(pa.int64()))


def parse_times(column: pa.Array) -> np.ndarray | Fault:
    """Return the column as int64[n] microseconds UTC, or its first null or invalid row."""
    assert is_time_type(column.type), column.type
    if column.null_count:
        return _first(pc.is_null(column).to_numpy(zero_copy_only=False), "the time is null")
    kind = column.type
    if pa.types.is_integer(kind):
        return _from_integers(column)
    if pa.types.is_timestamp(kind):
        return _from_ticks(column.cast(pa.int64()), kind.unit)
    if pa.types.is_date32(kind):
        return _scaled(column.cast(pa.int32()).to_numpy().astype(np.int64), _DAY_US)
    if pa.types.is_date64(kind):
        return _from_ticks(column.cast(pa.int64()), "ms")
    return _from_strings(column)


def faulty_times(column: pa.Array, reason: str) -> np.ndarray:
    """Return the rows that are invalid for this reason of :func:`parse_times`, bool[n]."""
    is_null: np.ndarray = column.is_null().to_numpy(zero_copy_only=False)
    if is_null.any():
        return is_null

    def convert(values: pa.Array) -> None:
        if isinstance(parse_times(values), Fault):
            raise pa.ArrowInvalid(reason)

    if reason == NOT_ISO:
        return failing(column, pa.timestamp("us"), convert)
    is_bad = np.zeros(len(column), np.bool_)
    is_bad[alone(np.arange(len(column)), column, convert)] = True
    return is_bad


def _first(mask: np.ndarray, reason: str) -> Fault:
    return Fault(int(mask.argmax()), reason)


def _from_integers(column: pa.Array) -> np.ndarray | Fault:
    values: np.ndarray = column.to_numpy(zero_copy_only=True)
    if values.dtype == np.uint64 and (values > _INT64_MAX).any():
        return _first(values > _INT64_MAX, "the time is out of range")
    return values.astype(np.int64, copy=False)


def _from_ticks(column: pa.Array, unit: str) -> np.ndarray | Fault:
    values: np.ndarray = column.to_numpy(zero_copy_only=True)
    if unit == "ns":
        return values // 1_000
    return _scaled(values, _FACTORS[unit])


def _scaled(values: np.ndarray, factor: int) -> np.ndarray | Fault:
    if factor == 1:
        return values
    limit = _INT64_MAX // factor
    wrong = (values > limit) | (values < -limit)
    if wrong.any():
        return _first(wrong, "the time is out of range")
    return values * factor


def _from_strings(column: pa.Array) -> np.ndarray | Fault:
    text = pc.utf8_trim_whitespace(column)
    text = pc.replace_substring_regex(text, pattern=r"(\.\d{6})\d+", replacement=r"\1")
    zoned = is_zoned(text)
    values = np.empty(len(text), np.int64)
    for mask, kind in ((zoned, pa.timestamp("us", "UTC")), (~zoned, pa.timestamp("us"))):
        rows = np.flatnonzero(mask)
        part = text if len(rows) == len(text) else text.take(pa.array(rows))
        parsed = _cast(part, kind)
        if parsed is None:
            spelled_out = extended(text)
            if spelled_out is not text:
                return _from_strings(spelled_out)
            bad = first_failure(len(part), partial(_fails, part, kind))
            return _earliest(Fault(int(rows[bad]), NOT_ISO), text, ~mask)
        values[rows] = parsed
    return values


def _earliest(fault: Fault, text: pa.Array, others: np.ndarray) -> Fault:
    """Return the first fault, which may be an earlier row of the other kind (zoned or not)."""
    before = np.flatnonzero(others[: fault.index])
    if len(before) == 0:
        return fault
    earlier = _from_strings(text.take(pa.array(before)))
    return (
        Fault(int(before[earlier.index]), earlier.reason) if isinstance(earlier, Fault) else fault
    )


def _cast(text: pa.Array, kind: pa.DataType) -> np.ndarray | None:
    try:
        values: np.ndarray = text.cast(kind).cast(pa.int64()).to_numpy(zero_copy_only=True)
    except pa.ArrowInvalid:
        return None
    return values


def _fails(text: pa.Array, kind: pa.DataType, lo: int, hi: int) -> bool:
    return _cast(text.slice(lo, hi - lo), kind) is None


def first_failure(n: int, fails: Callable[[int, int], bool]) -> int:
    """Return the first row of ``[0, n)`` that fails, by bisection. ``fails(0, n)`` must be true."""
    lo, hi = 0, n
    while hi - lo > 1:
        middle = (lo + hi) // 2
        if fails(lo, middle):
            hi = middle
        else:
            lo = middle
    return lo
