"""Calendar functions for times in any year; Arrow's calendar only has years of 16 bits.

The calendar repeats every 400 years, including the days of the week. So distant times are moved by
whole cycles into near years, the function is applied, and its result is moved back. Arrays without
distant times are not slowed down.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable

#: Timestamps or dates, as an array or a scalar.
Times: TypeAlias = "pa.Array | pa.Scalar"
Find: TypeAlias = "Callable[[Times], Times]"

_CYCLE_YEARS = 400
_CYCLE_DAYS = 146_097
_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
#: Arrow's calendar has the years within this many cycles of 400 years around 1970.
_CYCLES_MAX = 70
_YEAR = re.compile(r"%%|%Y")


@dataclass(frozen=True, slots=True)
class _Moved:
    """Times moved into the years 1970 to 2369, and the number of cycles each was moved."""

    times: pa.Array
    cycles: pa.Array

    @property
    def years(self) -> pa.Array:
        """Return how many years each time was moved."""
        return pc.multiply(self.cycles, _CYCLE_YEARS)


def in_any_year(times: Times, find: Find, *, is_year: bool = False) -> Times:
    """Return ``find(times)``, int64, for any years. ``is_year``: the result is a year."""
    far = _moved(times)
    if far is None:
        return find(times)
    result = find(far.times)
    return _like(times, pc.add(result, far.years) if is_year else result)


def rounded_in_any_year(times: Times, find: Find) -> Times:
    """Return the timestamps that ``find`` computes from timestamps of any year.

    Raises:
        pyarrow.ArrowInvalid: a result does not fit into 64 bits.
    """
    far = _moved(times)
    if far is None:
        return find(times)
    result = find(far.times)
    pairs = zip(result.cast(pa.int64()).to_pylist(), far.cycles.to_pylist(), strict=True)
    ticks = [None if tick is None else tick + n * _cycle(result.type) for tick, n in pairs]
    try:
        return _like(times, pa.array(ticks, pa.int64()).cast(result.type))
    except OverflowError:
        raise pa.ArrowInvalid(f"the {result.type} does not fit into 64 bits") from None


def text_in_any_year(times: Times, write: Find) -> Times:
    """Return ``write(times)`` for any years: text that starts with a four-digit year."""
    far = _moved(times)
    if far is None:
        return write(times)
    near = write(far.times).to_pylist()
    cycles = far.cycles.to_pylist()
    made = [
        None if text is None else f"{_year(int(text[:4]) + _CYCLE_YEARS * n)}{text[4:]}"
        for text, n in zip(near, cycles, strict=True)
    ]
    return _like(times, pa.array(made, pa.string()))


def format_in_any_year(times: Times, form: str, write: Callable[[Times, str], Times]) -> Times:
    """Return ``write(times, form)`` for any years. In the format only %Y depends on the cycle."""
    far = _moved(times)
    if far is None:
        return write(times, form)
    years = pc.add(pc.year(far.times), far.years).to_pylist()
    made = [
        None if year is None else write(far.times[k], _with_year(form, year)).as_py()
        for k, year in enumerate(years)
    ]
    return _like(times, pa.array(made, pa.string()))


def _moved(times: Times) -> _Moved | None:
    """Return the times moved into near years; None if all are near."""
    array = pa.repeat(times, 1) if isinstance(times, pa.Scalar) else times
    kind = array.type
    ticks = array.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64())
    ends = pc.min_max(ticks)
    cycle = _cycle(kind)
    if not ends["min"].is_valid or all(
        abs(ends[end].as_py()) < _CYCLES_MAX * cycle for end in ("min", "max")
    ):
        return None
    rest = [None if t is None else t % cycle for t in ticks.to_pylist()]
    cycles = [None if t is None else t // cycle for t in ticks.to_pylist()]
    return _Moved(pa.array(rest, ticks.type).cast(kind), pa.array(cycles, pa.int64()))


def _cycle(kind: pa.DataType) -> int:
    """Return the ticks of 400 years."""
    return _CYCLE_DAYS * (_PER_DAY[kind.unit] if pa.types.is_timestamp(kind) else 1)


def _with_year(form: str, year: int) -> str:
    return _YEAR.sub(lambda m: _year(year) if m[0] == "%Y" else m[0], form)


def _year(year: int) -> str:
    """Format a year with at least four digits after the sign."""
    return f"{year:04d}" if year >= 0 else f"{year:05d}"


def _like(times: Times, result: pa.Array) -> Times:
    return result[0] if isinstance(times, pa.Scalar) else result
