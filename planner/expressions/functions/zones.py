"""Convert between instants and wall-clock times of a zone.

A timestamp with a zone is an instant, stored in UTC; one without a zone is a wall-clock time. When
clocks are set back, a repeated wall-clock time is the later of its two instants. When clocks are
set forward, a skipped wall-clock time has the offset before the change. DuckDB and PostgreSQL do
the same.
"""

from __future__ import annotations

import functools
import zoneinfo
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from planner.errors import InvalidPlanError
from planner.expressions.entries.family import E, Family, Functions, Sql, plain_value
from planner.expressions.entries.signature import arg_types, typed
from planner.expressions.functions.temporal import with_time
from planner.expressions.spark.errors import UnsupportedInBatchError
from planner.expressions.types import TIMESTAMP, TIMESTAMP_UTC, is_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

    from planner.expressions.nodes import Call, Node, Value

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND_US = 1_000_000
#: Times outside of this range have the offset at its nearest end, because Python has no such times.
_FIRST_US, _LAST_US = -62_135_510_400 * _SECOND_US, 253_402_214_400 * _SECOND_US
_HOUR_US = 3_600 * _SECOND_US


def _zone(name: str) -> zoneinfo.ZoneInfo:
    """Find a zone by name.

    Raises:
        InvalidPlanError: no zone has this name.
    """
    try:
        return zoneinfo.ZoneInfo(name)
    except (TypeError, ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        raise InvalidPlanError(f"no time zone {name!r}; write one as 'Europe/Berlin'") from None


@functools.lru_cache(maxsize=1 << 16)
def _offset_us(zone: str, hour: int) -> tuple[int, int, int]:
    """Return an hour's first offset, the time at which it changes, and the later offset, us."""
    key = _zone(zone)
    at = max(_FIRST_US, min(hour * _HOUR_US, _LAST_US))

    def offset(us: int) -> int:
        moment = _EPOCH + timedelta(microseconds=us)
        offset_ = moment.astimezone(key).utcoffset()
        assert offset_ is not None, zone
        return offset_ // timedelta(microseconds=1)

    before, after = offset(at), offset(at + _HOUR_US - 1)
    low, high = at, at + _HOUR_US - 1
    while before != after and high - low > 1:  # terminates: the interval is halved
        middle = (low + high) // 2
        low, high = (middle, high) if offset(middle) == before else (low, middle)
    return before, high if before != after else at + _HOUR_US, after


def offsets(zone: str, us: np.ndarray) -> np.ndarray:
    """Return the zone's offset in microseconds east of UTC at each instant."""
    hours, where = np.unique(us // _HOUR_US, return_inverse=True)
    known = np.array([_offset_us(zone, int(hour)) for hour in hours], np.int64).reshape(-1, 3)
    before, change, after = (known[where, at] for at in range(3))
    offsets_us: np.ndarray = np.where(us >= change, after, before)
    return offsets_us


def instants(zone: str, wall: np.ndarray) -> np.ndarray:
    """Return the instants of wall-clock times: the later of two; in a gap by the earlier offset."""
    day = 24 * _HOUR_US
    earlier = wall - offsets(zone, wall - day)
    later = wall - offsets(zone, wall + day)
    instants_us: np.ndarray = np.where(later + offsets(zone, later) == wall, later, earlier)
    return instants_us


def _resolve(call: Call) -> Node | None:
    _zone(str(call.option("zone")))
    call = with_time(call)
    kind = arg_types(call)[0]
    if not is_time(kind):
        return None
    is_instant = pa.types.is_timestamp(kind) and kind.tz is not None
    if is_instant:
        return typed(call, TIMESTAMP, TIMESTAMP_UTC)
    return typed(call, TIMESTAMP_UTC, TIMESTAMP)


def _at_zone(values: Sequence[Value], call: Call) -> Value:
    (value,) = values
    if isinstance(value, pa.Scalar):
        return _at_zone([pa.array([value.as_py()], value.type)], call)[0]
    zone = str(call.option("zone"))
    us = value.cast(pa.int64()).fill_null(0).to_numpy()
    made = us + offsets(zone, us) if value.type.tz is not None else instants(zone, us)
    mask = value.is_null().to_numpy(zero_copy_only=False)
    return pa.array(made, pa.int64(), mask=mask).cast(call.type)


def _not_in_spark(call: Call, _a: str) -> NoReturn:
    raise UnsupportedInBatchError(str(call), "Spark has other rules of time zones")


def _no_resolver(_: pa.DataType | None) -> Callable[[Call], Node | None]:
    return lambda call: replace(call)


ZONES = Family("dt", _no_resolver)
FUNCTIONS = ZONES.functions


class Zones(Functions[E]):
    """Times in zones."""

    __slots__ = ()

    @ZONES.function(
        None,
        _at_zone,
        resolve=_resolve,
        spark=_not_in_spark,
        sql=(
            Sql(
                "FROM_UTC_TIMESTAMP",
                lambda t, z: t.cast(TIMESTAMP_UTC).dt.at_zone(plain_value(z)),
            ),
            Sql(
                "TO_UTC_TIMESTAMP",
                lambda t, z: t.cast(TIMESTAMP).dt.at_zone(plain_value(z)).cast(TIMESTAMP),
            ),
        ),
    )
    def at_zone(self, zone: str) -> E:
        """Convert an instant to the zone's wall-clock time, or a wall-clock time to an instant."""
        _zone(zone)
        return self._call("at_zone", zone=zone)
