"""Finds what holds event time back in a job over live logs, to explain missing output.

A partition holds time back if its frontier is the smallest of all partitions that have not ended,
for example because it gets no rows. An operator does if its output CTIs (watermarks) are behind its
input CTIs, for example because rows have no end yet.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from rstream.types import INF_TIME, MIN_TIME

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jobmanager.state.records import VertexState
    from rvertex.messages import LogProgress
    from rvertex.sources.spec import Live, SourceSpec

#: A partition counts as far behind if its event time is this much smaller than the others', us.
BEHIND_US_MIN = 60_000_000
#: A partition with this number of unread rows still catches up. So its event time does not show how
#: far its producer is.
MANY_ROWS = 1_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FOLLOW = 'idle="follow" advances time without this partition'


def held_of(vertices: Sequence[VertexState]) -> list[dict[str, Any]]:
    """Return rows ``vertex, time_us, health, reason, advice`` in JSON types.

    A job without live logs has no rows.
    """
    if not any(v.shape.is_live and not v.is_finished for v in vertices):
        return []
    return [*_sources(vertices), *_operators(vertices)]


def time_of(us: int) -> str:
    """Return an event time as text for people."""
    if us == MIN_TIME:
        return "the beginning"
    try:
        return f"{_EPOCH + timedelta(microseconds=us):%F %T}"
    except OverflowError:
        return f"{us} us"


def exact_time(us: int) -> str:
    """Return an event time as text for people, to the microsecond if it is not a whole second."""
    text, fraction = time_of(us), us % 1_000_000
    return f"{text}.{fraction:06}" if fraction and text[-1].isdigit() else text


def range_of(begin_us: int, end_us: int) -> str:
    """Return a range of event time as text for people, to the microsecond if it begins so."""
    fraction = begin_us % 1_000_000
    begin, end = (
        time_of(us) + (f".{fraction:06}" if fraction else "") for us in (begin_us, end_us)
    )
    return f"{begin} to {end} UTC"


def _sources(vertices: Sequence[VertexState]) -> Iterator[dict[str, Any]]:
    partitions = list(_open_partitions(vertices))
    holding = [f for f in partitions if f[2].state == "active" or f[1].idle == "wait"] or partitions
    bound = min((log.frontier for *_, log in holding), default=INF_TIME)
    is_silent = all(log.state != "active" for *_, log in partitions)
    yield from _behind(partitions)
    reasons: set[str] = set()
    for vertex, rules, log in holding:
        spec = vertex.shape.source
        assert spec is not None
        if log.frontier > bound or log.lag > 0 or log.at_end:
            continue  # another partition holds time back, or rows of this one are being read
        row = _partition(spec, rules, log, is_silent=is_silent, is_last=len(partitions) == 1)
        if row is not None and row["reason"] not in reasons:
            reasons.add(row["reason"])
            yield {"vertex": vertex.shape.id, "time_us": log.frontier, **row}


def _behind(
    partitions: Sequence[tuple[VertexState, Live, LogProgress]],
) -> Iterator[dict[str, Any]]:
    """Yield the active partition far behind the others, unless it and another one catch up."""
    active = [
        (v, log) for v, _, log in partitions if log.state == "active" and log.max_vs > MIN_TIME
    ]
    if len(active) < 2:
        return
    (vertex, last), *others = sorted(active, key=lambda row: row[1].frontier)
    next_us = others[0][1].frontier
    catches_up = _has_many_left(last) and any(_has_many_left(log) for _, log in others)
    if next_us - last.frontier < BEHIND_US_MIN or catches_up:
        return
    spec = vertex.shape.source
    assert spec is not None
    name = f"partition {last.partition} of {spec.shown}"
    left = f", with {last.lag:,} rows left to read" if last.lag >= MANY_ROWS else ""
    yield {
        "vertex": vertex.shape.id,
        "time_us": last.frontier,
        "about": name,
        "health": "ok",
        "reason": (
            f"{name} holds time back: its rows are at {time_of(last.frontier)}, and all other "
            f"partitions are at {time_of(next_us)} or later{left}"
        ),
        "advice": "see why its producer is behind, or whether its clock is",
    }


def _has_many_left(log: LogProgress) -> bool:
    return not 0 <= log.lag < MANY_ROWS


def _open_partitions(
    vertices: Sequence[VertexState],
) -> Iterator[tuple[VertexState, Live, LogProgress]]:
    for vertex in vertices:
        spec, leader = vertex.shape.source, vertex.leader
        if vertex.is_finished or leader is None or spec is None or spec.live is None:
            continue
        for log in leader.logs:
            if log.state != "ended":
                yield vertex, spec.live, log


def _partition(
    spec: SourceSpec, rules: Live, log: LogProgress, *, is_silent: bool, is_last: bool
) -> dict[str, Any] | None:
    """Return why a fully read partition holds time back; None: it does so only briefly."""
    name = f"partition {log.partition} of {spec.shown}"
    if not spec.is_endless and log.state == "idle":
        return {
            "health": "waiting",
            "reason": f"{name} ends at offset {log.position}, and until= is after it",
            "advice": "write the rows that are missing, or jobmanager stop ROOT --finish",
        }
    if rules.idle == "wait" and log.state == "idle" and not is_last:
        since = "" if log.max_vs == MIN_TIME else f" after {time_of(log.max_vs)}"
        reason = f"{name} has no rows{since} (idle=wait)"
        return {"health": "waiting", "reason": reason, "advice": _FOLLOW}
    if is_silent and rules.idle != "clock":
        reason = (
            f"all rows of {spec.shown} are read, and the watermark stays at "
            f"{time_of(log.frontier)} until later rows arrive (idle={rules.idle})"
        )
        advice = 'idle="clock" advances time without rows'
        return {"health": "ok", "reason": reason, "advice": advice}
    return None


def _operators(vertices: Sequence[VertexState]) -> Iterator[dict[str, Any]]:
    """Yield the first operator in the plan that holds event time back."""
    operators = [
        (hold.since_us, vertex.shape.id, hold)
        for vertex in vertices
        if not vertex.is_finished and vertex.leader is not None
        for hold in vertex.leader.holds
    ]
    if not operators:
        return
    since_us, vertex, hold = min(operators, key=lambda row: row[:2])
    what = f"the end of {hold.row}" if hold.row else "the end of an event that began"
    what = "the end of a window that began" if hold.is_window else what
    since = "since" if hold.row else "at"
    operator = "" if hold.is_window else f" ({hold.operator})"
    reason = f"{vertex} waits for {what} {since} {time_of(since_us)}{operator}"
    health = "ok" if hold.is_window else "waiting"
    yield {
        "vertex": vertex,
        "time_us": since_us,
        "health": health,
        "reason": reason,
        "advice": "",
        "is_window": hold.is_window,
    }
