"""Changes of lifetimes as Spark SQL: a second version of :mod:`rvertex.events.lifetime`.

``INF_TIME`` means for ever, and no duration moves it. An end after the time axis is cut to its end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planner.expressions.spark.casts import failure, floor_divide
from planner.expressions.spark.types import integer
from rstream.items.batch import VE, VS
from rstream.types import INF_TIME, MIN_TIME
from rvertex.operators.lifetimes.begins import Begins
from rvertex.operators.lifetimes.chop import PIECES_PER_EVENT_MAX, Chop
from rvertex.operators.lifetimes.extend import Extend
from rvertex.operators.lifetimes.extend_by import ExtendBy
from rvertex.operators.lifetimes.point_at_end import PointAtEnd
from rvertex.operators.lifetimes.set_duration import SetDuration
from rvertex.operators.lifetimes.shift import Shift

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.batch.spark_sql.frame import Frame
    from planner.logical.nodes import LifetimeChange


@dataclass(frozen=True, slots=True)
class Times:
    """Which events stay, additional columns, and the new lifetime."""

    vs: str = VS
    ve: str = VE
    kept: str = "true"
    made: tuple[str, ...] = ()


def changed(change: LifetimeChange, columns: Mapping[str, str]) -> Times:
    """Return the lifetimes after ``change`` from ``_vs`` and ``_ve``; ``columns``: SQL by name."""
    match change:
        case Shift(duration_us=duration):
            return _shifted(duration)
        case SetDuration(duration_us=duration):
            return Times(ve=lasting(VS, duration))
        case Extend(duration_us=duration):
            return Times(ve=lasting(VE, duration), kept=f"{lasting(VE, duration)} > {VS}")
        case ExtendBy(column=column):
            end, by = integer(INF_TIME), columns[column]
            return Times(ve=f"if({VE} - 1L > {end} - {by}, {end}, {VE} - 1L + {by})")
        case Begins():
            return Times(ve=moved(VS, 1))
        case PointAtEnd():
            return Times(vs=VE, ve=moved(VE, 1), kept=f"{VE} <> {integer(INF_TIME)}")
        case Chop():
            return _chopped(change)


def keeps_order(change: LifetimeChange) -> bool:
    """Return whether events that start together afterwards also did before, in the same order."""
    return isinstance(change, Begins | SetDuration | Extend | ExtendBy | Shift)


def changed_mean_us(change: LifetimeChange, mean_us: int) -> int:
    """Return the approximate mean lifetime after ``change``, from the one before."""
    match change:
        case Shift() | ExtendBy():
            return mean_us
        case SetDuration(duration_us=duration):
            return duration
        case Extend(duration_us=duration):
            return min(max(1, mean_us + duration), INF_TIME)
        case PointAtEnd() | Begins():
            return 1
        case Chop():
            return min(change.period_us, mean_us)


def moved(time: str, duration: int) -> str:
    """Return SQL for a time moved by a duration, cut at the ends of the axis."""
    end, by = integer(INF_TIME), integer(duration)
    if duration >= 0:
        return f"if({time} > {integer(INF_TIME - duration)}, {end}, {time} + {by})"
    low = integer(min(MIN_TIME - duration, INF_TIME))
    return (
        f"case when {time} = {end} then {end} when {time} < {low} then {integer(MIN_TIME)} "
        f"else {time} + {by} end"
    )


def lasting(time: str, duration: int) -> str:
    """Return SQL for the end of a lifetime with this start and length; INF_TIME means for ever."""
    return integer(INF_TIME) if duration == INF_TIME else moved(time, duration)


def gaps(cover: str) -> str:
    """Return SQL for the parts of ``[_vs, _ve)`` outside ``cover``: sorted structs ``(s, e)``."""
    ends = f"array_max(transform(slice({cover}, 1, i), part -> part.e))"
    start = f"if(i = 0, {VS}, {ends})"
    end = f"if(i = size({cover}), {VE}, {cover}[i].s)"
    between = f"transform(sequence(0, size({cover})), i -> named_struct('s', {start}, 'e', {end}))"
    return f"filter({between}, piece -> piece.s < piece.e)"


def _shifted(duration: int) -> Times:
    low = max(MIN_TIME, MIN_TIME - duration)
    high = min(INF_TIME - 1, INF_TIME - 1 - duration)
    wrong = failure(f"shift: an event would start outside the time axis, moved by {duration}")
    is_inside = f"{VS} between {integer(low)} and {integer(high)}"
    return Times(vs=f"if({is_inside}, {VS} + {integer(duration)}, {wrong})", ve=moved(VE, duration))


def _chopped(change: Chop) -> Times:
    """Return lifetimes cut at multiples of a period; cell k is between the cuts k and k + 1."""
    period, offset = change.period_us, change.offset_us % change.period_us

    def cell(time: str) -> str:
        before = f"if(pmod({time}, {integer(period)}) < {integer(offset)}, 1L, 0L)"
        return f"({floor_divide(time, period)} - {before})"

    def cut(number: str) -> str:
        return f"{number} * {integer(period)} + {integer(offset)}"

    first, last = cell(VS), cell(f"({VE} - 1L)")
    count = f"cast({last} as double) - cast({first} as double) + 1D"
    wrong = failure(f"chop: an event never ends, or has more than {PIECES_PER_EVENT_MAX} pieces")
    is_endless = f"{VE} = {integer(INF_TIME)} or {count} > {PIECES_PER_EVENT_MAX}D"
    cells = f"explode(if({is_endless}, {wrong}, sequence({first}, {last}))) as _cell"
    return Times(
        vs=f"if(_cell = {first}, {VS}, {cut('_cell')})",
        ve=f"if(_cell = {last}, {VE}, {cut('(_cell + 1L)')})",
        made=(cells,),
    )


def with_change(below: Frame, change: LifetimeChange) -> Frame:
    """Change lifetimes and keep the payload."""
    times, lifetime_us = changed(change, below.columns), changed_mean_us(change, below.lifetime_us)
    with_times = below.df.where(times.kept).selectExpr("*", *times.made)
    kept = [*list(below.columns.values())[2:], *below.place]
    df = with_times.selectExpr(f"{times.vs} as `{VS}`", f"{times.ve} as `{VE}`", *kept)
    return replace(below, df=df, lifetime_us=lifetime_us)
