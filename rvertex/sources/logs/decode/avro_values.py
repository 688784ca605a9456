"""Converts Avro values that Arrow does not accept directly: decimals, times of day, UUIDs."""

from __future__ import annotations

from decimal import Context, Decimal
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

from rvertex.sources.logs.decode.decoded import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Convert: TypeAlias = Callable[[Any], Any]

_EXACT = Context(prec=1_000)
#: Bounds of a UUID's groups of digits.
_UUID_ENDS = (0, 8, 12, 16, 20, 32)
_PER_DAY = {"ms": 86_400_000, "us": 86_400_000_000}


def as_decimal(scale: int) -> Convert:
    """Return a function from unscaled bytes to a decimal."""
    return partial(_decimal, scale)


def as_time(unit: str) -> Convert:
    """Return a check of times of day, because Arrow would accept times beyond the day."""
    return partial(_time, _PER_DAY[unit])


def as_uuid(value: bytes | None) -> str | None:
    """Return the text of a UUID."""
    if value is None:
        return None
    digits = value.hex()
    return "-".join(digits[lo:hi] for lo, hi in pairwise(_UUID_ENDS))


def each(convert: Convert) -> Convert:
    """Apply a conversion to each value of an array."""
    return partial(_each, convert)


def each_value(convert: Convert) -> Convert:
    """Apply a conversion to each value of a map."""
    return partial(_each_value, convert)


def members(converts: Mapping[str, Convert]) -> Convert | None:
    """Apply conversions to the fields of a record; None if no field needs one."""
    return partial(_members, converts) if converts else None


def _decimal(scale: int, value: bytes | None) -> Decimal | None:
    if value is None:
        return None
    return Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-scale, _EXACT)


def _time(per_day: int, value: int | None) -> int | None:
    if value is not None and not 0 <= value < per_day:
        raise Refused(f"{value} is not a time of day")
    return value


def _each(convert: Convert, values: list[Any] | None) -> list[Any] | None:
    return None if values is None else [convert(value) for value in values]


def _each_value(convert: Convert, values: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if values is None else {key: convert(value) for key, value in values.items()}


def _members(converts: Mapping[str, Convert], row: dict[str, Any] | None) -> dict[str, Any] | None:
    if row is None:
        return None
    return row | {name: make(row[name]) for name, make in converts.items() if name in row}
