"""Calendar functions: weeks and quarters, truncation to them, adding months, formatting.

Weeks begin on Monday, as in ISO 8601. All times are in UTC.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from planner.errors import InvalidPlanError
from planner.expressions.entries.signature import method
from planner.expressions.functions.temporal import part, resolve_part, resolve_truncate
from planner.expressions.nodes import Call, Function, as_array, cast_to
from rstream.items.calendar import format_in_any_year, rounded_in_any_year

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.expressions.nodes import Node, Value

_INTEGER, _TEXT = pa.int64(), pa.string()
UNITS = ("week", "month", "quarter", "year")
#: The allowed letters after % in a format; others depend on the locale or the platform.
FORMAT_CODES = "YmdHMSyjIpaAbB%"
_CODE = re.compile(r"%(.?)", re.DOTALL)
_MONTHS_MAX = 12 * 10_000
_FIRST_MONTH, _LAST_MONTH = -12 * 290_000, 12 * 290_000
_DAY_US = 86_400_000_000
_SUNDAY = 7


def _floor(values: Sequence[Value], call: Call) -> Value:
    unit = call.option("unit")
    found = rounded_in_any_year(
        values[0], lambda t: pc.floor_temporal(t, unit=unit, week_starts_monday=True)
    )
    return found.cast(call.type)


def _add_months(values: Sequence[Value], call: Call) -> Value:
    """Add months to a day; in a month without that day, take its last day."""
    rows = max((len(v) for v in values if not isinstance(v, pa.Scalar)), default=0)
    if not rows:
        empty = any(not isinstance(v, pa.Scalar) for v in values)
        alone = [v if isinstance(v, pa.Array) else pa.repeat(v, 1 - empty) for v in values]
        return pa.nulls(0, call.type) if empty else _add_months(alone, call)[0]
    value, *given = (as_array(v, rows, v.type) for v in values)
    counts = given[0] if given else pa.repeat(dict(call.options)["months"], rows)
    if pc.any(pc.greater(pc.abs_checked(counts), _MONTHS_MAX)).as_py():
        raise pa.ArrowInvalid(f"more than {_MONTHS_MAX} months")
    us = value.cast(_INTEGER).fill_null(0).to_numpy(zero_copy_only=False)
    moments = us.astype("M8[us]")
    months = moments.astype("M8[M]")
    found = months.astype(np.int64) + counts.fill_null(0).to_numpy(zero_copy_only=False)
    if ((found < _FIRST_MONTH) | (found > _LAST_MONTH)).any():
        raise pa.ArrowInvalid(f"the {call.type} does not fit into 64 bits")
    begins = found.astype("M8[M]")
    days = ((found + 1).astype("M8[M]").astype("M8[D]") - begins.astype("M8[D]")).astype(np.int64)
    since = (moments - months.astype("M8[us]")).astype(np.int64)
    day = np.minimum(since // _DAY_US, days - 1)
    later = begins.astype("M8[us]").astype(np.int64) + day * _DAY_US + since % _DAY_US
    mask = pc.or_(value.is_null(), counts.is_null()).to_numpy(zero_copy_only=False)
    return pa.array(later, _INTEGER, mask=mask).cast(call.type)


def _resolve_months(call: Call) -> Node | None:
    if abs(dict(call.options).get("months", 0)) > _MONTHS_MAX:
        raise InvalidPlanError(f"{call}: more than {_MONTHS_MAX} months")
    time, *counts = call.args
    made = resolve_truncate(replace(call, args=(time,)))
    if not isinstance(made, Call) or not all(_is_whole(count.type) for count in counts):
        return None
    return replace(made, args=(*made.args, *(cast_to(count, _INTEGER) for count in counts)))


def _is_whole(kind: pa.DataType | None) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_null(kind))


def _show_months(call: Call) -> str:
    return method("dt.add_months", *(name for name, _ in call.options))(call)


def _resolve_format(call: Call) -> Node | None:
    for code in _CODE.findall(call.option("format")):
        if code not in FORMAT_CODES or not code:
            known = " ".join(f"%{letter}" for letter in FORMAT_CODES)
            raise InvalidPlanError(f"{call}: %{code} is not supported; write one of {known}")
    resolved = resolve_part(call)
    return replace(resolved, type=_TEXT) if isinstance(resolved, Call) else None


def _format(values: Sequence[Value], call: Call) -> Value:
    """Format times. They are cast to seconds first, because Arrow would print fractions too."""

    def write(times: Value, form: str) -> Value:
        whole = pc.floor_temporal(times, unit="second").cast(pa.timestamp("s"))
        return pc.strftime(whole, form).cast(_TEXT)

    return format_in_any_year(values[0], call.option("format"), write)


def _week_day(value: Value) -> Value:
    """Return the day of the week; Sunday is 0."""
    return pc.day_of_week(value, count_from_zero=True, week_start=_SUNDAY)


FUNCTIONS = {
    "week": part("week", pc.iso_week),
    "iso_year": part("iso_year", pc.iso_year),
    "quarter": part("quarter", pc.quarter),
    "day_of_week": part("day_of_week", _week_day),
    "floor_calendar": Function("dt.floor", resolve_truncate, _floor, method("dt.floor", "unit")),
    "add_months": Function("dt.add_months", _resolve_months, _add_months, _show_months),
    "format_time": Function("dt.format", _resolve_format, _format, method("dt.format", "format")),
}
