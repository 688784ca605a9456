"""Times in years that Arrow's calendar does not have: it counts years in 16 bits.

The calendar repeats itself every 400 years, days of the week included. So times are moved by whole
cycles into years that are near, and what follows from them is moved back. Only arrays that have a
far time pay for that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable

#: Timestamps or dates; an array, or a scalar.
Times: TypeAlias = "pa.Array | pa.Scalar"
Find: TypeAlias = "Callable[[Times], Times]"

_CYCLE_YEARS = 400
_CYCLE_DAYS = 146_097
_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
#: So many cycles from 1970, either way, are years that Arrow has.
_CYCLES_MAX = 70
_YEAR = re.compile(r"%%|%Y")


@dataclass(frozen=True, slots=True)
class _Moved:
    """Times in the years 1970 to 2369, and how many cycles each was moved."""

    times: pa.Array
    cycles: pa.Array

    @property
    def years(self) -> pa.Array:
        """How many years each was moved."""
        return pc.multiply(self.cycles, _CYCLE_YEARS)


def in_any_year(times: Times, find: Find, *, is_year: bool = False) -> Times:
    """What ``find`` says of times, int64; ``is_year``: it counts years."""
    far = _moved(times)
    if far is None:
        return find(times)
    found = find(far.times)
    return _like(times, pc.add(found, far.years) if is_year else found)


def rounded_in_any_year(times: Times, find: Find) -> Times:
    """The timestamps that ``find`` gives of timestamps.

    Raises:
        pyarrow.ArrowInvalid: one has no room in 64 bits.
    """
    far = _moved(times)
    if far is None:
        return find(times)
    found = find(far.times)
    pairs = zip(found.cast(pa.int64()).to_pylist(), far.cycles.to_pylist(), strict=True)
    ticks = [None if tick is None else tick + n * _cycle(found.type) for tick, n in pairs]
    try:
        return _like(times, pa.array(ticks, pa.int64()).cast(found.type))
    except OverflowError:
        raise pa.ArrowInvalid(f"the {found.type} does not fit into 64 bits") from None


def text_in_any_year(times: Times, write: Find) -> Times:
    """What ``write`` makes of times: text that begins with a year of four digits."""
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
    """What ``write`` makes of times and a format, of which only %Y depends on the cycle."""
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
    """The times where they are near; None if they are."""
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
    """Ticks of 400 years."""
    return _CYCLE_DAYS * (_PER_DAY[kind.unit] if pa.types.is_timestamp(kind) else 1)


def _with_year(form: str, year: int) -> str:
    return _YEAR.sub(lambda m: _year(year) if m[0] == "%Y" else m[0], form)


def _year(year: int) -> str:
    """At least four digits behind the sign."""
    return f"{year:04d}" if year >= 0 else f"{year:05d}"


def _like(times: Times, found: pa.Array) -> Times:
    return found[0] if isinstance(times, pa.Scalar) else found
