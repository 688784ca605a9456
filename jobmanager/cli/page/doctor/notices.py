"""Rules about the log of a job: restarts, growing state, slow and missing checkpoints."""

from __future__ import annotations

import itertools
import math
import statistics
from typing import TYPE_CHECKING

from jobmanager.cli.page.doctor.case import US_PER_S, Case, Finding, mebibytes
from jobmanager.state import messages as own
from planner.quantities import format_bytes, format_count
from rvertex import messages as sent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobmanager.state.messages import Notice

_NIGHT_US = 24 * 3600 * US_PER_S
#: A checkpoint is late if it is older than this multiple of the median interval, and older than
#: this many seconds.
CHECKPOINT_GAPS, CHECKPOINT_AGE_S_MIN = 10, 60.0
#: A state grows if there are at least this many checkpoints, it has at least this many bytes, and
#: it grew by this factor from each third of the checkpoints to the next.
GROWING_CHECKPOINTS_MIN, GROWING_BYTES_MIN, GROWTH_MIN = 9, 8 << 20, 1.3
#: A state grows slowly if it was observed for this time, at this many points, and grew by this
#: factor. The last quarter's growth must be at least this share of the first quarter's; otherwise
#: the growth is ending.
SLOW_SPAN_S_MIN, SLOW_POINTS_MIN, SLOW_GROWTH_MIN, STEADY_MIN = 26 * 3_600, 12, 1.05, 0.9
_ENDS = "give keys an end: a window, a within= of a join, a timer that deletes"
#: Number of checkpoints that are examined for slowness, and the median seconds until they are
#: durable from which on they are slow.
SLOW_CHECKPOINTS, SLOW_CHECKPOINT_S_MIN = 5, 10.0


def restarts(case: Case) -> Iterator[Finding]:
    """Yield failures of the last day from which the job recovered, once per subject."""
    failures: dict[tuple[str, str], list[tuple[int, str]]] = {}
    ended_us = _finished_us(case)
    for at_us, notice in case.notices:
        if isinstance(notice, own.HostLost) and at_us >= ended_us:
            continue
        if at_us >= case.now_us - _NIGHT_US and (failure := _failure(notice)) is not None:
            kind, about, what = failure
            failures.setdefault((kind, about), []).append((at_us, what))
    if case.status["state"] == "failed":  # the reason of the health has the error already
        failures = {key: rows for key, rows in failures.items() if not _is_its_end(case, rows)}
    for (kind, about), found_of in failures.items():
        count, (last_us, what) = len(found_of), found_of[-1]
        times = "" if count == 1 else f" ({count} times in the last day)"
        yield Finding("note", kind, about, f"{what}{times}", _ADVICE.get(kind, ""), last_us)


def _finished_us(case: Case) -> float:
    """Return when the last vertex of a finished job finished, us UTC. Then its hosts stop."""
    times = [at for at, notice in case.notices if isinstance(notice, sent.VertexFinished)]
    return max(times) if times and case.status["state"] == "finished" else math.inf


def _is_its_end(case: Case, rows: list[tuple[int, str]]) -> bool:
    """Return whether a failure ended the job, or followed from its end."""
    at_us, what = rows[-1]
    error = case.status.get("error", "")
    last_us = max((at for at, n in case.notices if isinstance(n, sent.VertexFailed)), default=0)
    message = what.partition("): ")[2]
    return len(rows) == 1 and ((bool(message) and message in error) or at_us > last_us > 0)


_ADVICE = {"memory lost": "see 'When a job needs too much memory' in docs/howto/size-memory.md"}


def _failure(notice: Notice) -> tuple[str, str, str] | None:
    """Return kind, subject and description of a failure."""
    if isinstance(notice, sent.VertexFailed):
        kind = "memory lost" if notice.family == "memory" else "restart"
        what = f"{notice.vertex} failed ({notice.family}): {notice.message}"
        return kind, notice.vertex, what
    # "stopped" is not a failure
    if isinstance(notice, own.HostLost) and notice.reason != "stopped":
        slot = notice.host.partition(".")[0]  # a replacement has the same slot, and another suffix
        return "restart", slot, f"host {notice.host} was lost: {notice.reason}"
    if isinstance(notice, own.OutputDamaged):
        return "damaged output", notice.stream, f"{notice.stream} was damaged: {notice.reason}"
    return None


def growing_state(case: Case) -> Iterator[Finding]:
    """Yield a state that only grows, within the recorded checkpoints or over hours."""
    if not case.is_open:
        return
    fast = set()
    for vertex, checkpoints in _checkpoints_of(case).items():
        sizes = [notice.state_bytes for _, notice in checkpoints if notice.state_bytes]
        if len(sizes) < GROWING_CHECKPOINTS_MIN:
            continue
        third = len(sizes) // 3
        parts = (sizes[:third], sizes[third : 2 * third], sizes[-third:])
        first, middle, last = (statistics.median(part) for part in parts)
        grows = first * GROWTH_MIN <= middle and middle * GROWTH_MIN <= last
        if grows and last >= GROWING_BYTES_MIN:
            fast.add(vertex.partition(".")[0])
            sizes_of = f"{mebibytes(int(first))}, then {mebibytes(int(last))}"
            what = f"the state of {vertex} grows: {sizes_of}"
            advice = f"jobmanager state ROOT {vertex} shows it; {_ENDS}"
            yield Finding("waiting", "growing state", vertex, what, advice, checkpoints[0][0])
    for stage, points in case.status.get("state_sizes", {}).items():
        if stage not in fast and (grown := _slow_growth(points)) is not None:
            per_hour, last = grown
            root = case.status.get("root", "ROOT")
            size_of = f"{format_bytes(last)}{_keys_of(case, stage)}"
            what = (
                f"the state of {stage} grows by {format_bytes(per_hour)} per hour: it has "
                f"{size_of} and doubles in {last / per_hour:,.0f} h"
            )
            advice = f"jobmanager state {root} {stage} shows it; {_ENDS}"
            yield Finding("note", "growing state", stage, what, advice, points[0][0])


def _slow_growth(points: list[tuple[int, int]]) -> tuple[int, int] | None:
    """Return bytes per hour and present bytes of a state that grows steadily; None otherwise.

    It compares the least size in each quarter of the time, so a state that shrinks from time to
    time is not reported. More than a day is examined, so a state that follows the hours of the day
    is not reported.
    """
    if len(points) < SLOW_POINTS_MIN:
        return None
    began_us, span_us = points[0][0], points[-1][0] - points[0][0]
    if span_us < SLOW_SPAN_S_MIN * US_PER_S:
        return None
    quarters: list[list[int]] = [[], [], [], []]
    for at_us, size in points:
        quarters[min(3, 4 * (at_us - began_us) // span_us)].append(size)
    if not all(quarters):
        return None
    least = [min(sizes) for sizes in quarters]
    steps = [b - a for a, b in itertools.pairwise(least)]
    is_steady = min(steps) > 0 and steps[-1] >= STEADY_MIN * steps[0]
    if not is_steady or least[0] * SLOW_GROWTH_MIN > least[-1] or least[-1] < GROWING_BYTES_MIN:
        return None
    # The middles of the first and the last quarter are 3/4 of the time apart
    hours = span_us * 3 / 4 / (3_600 * US_PER_S)
    return max(1, round((least[-1] - least[0]) / hours)), points[-1][1]


def _keys_of(case: Case, stage: str) -> str:
    rows = (row for row in case.status.get("vertices", ()) if row["stage"] == stage)
    keys = sum(row.get("state_keys", 0) for row in rows)
    return f" of {format_count(keys)} keys" if keys else ""


def slow_store(case: Case) -> Iterator[Finding]:
    """Yield checkpoints that take long to become durable."""
    for vertex, durable in _checkpoints_of(case).items():
        took_s = [(at - n.taken_us) / US_PER_S for at, n in durable if n.taken_us and not n.asked]
        if case.is_open and len(took_s) >= SLOW_CHECKPOINTS:
            median = statistics.median(took_s[-SLOW_CHECKPOINTS:])
            if median > SLOW_CHECKPOINT_S_MIN:
                what = f"checkpoints of {vertex} take {median:,.0f} s until they are durable"
                advice = "the store of ROOT is slow: use a nearer or a faster one"
                yield Finding("waiting", "slow store", vertex, what, advice)
                return  # all vertices use the same store, so one finding is enough


def _checkpoints_of(case: Case) -> dict[str, list[tuple[int, sent.CheckpointTaken]]]:
    checkpoints: dict[str, list[tuple[int, sent.CheckpointTaken]]] = {}
    for at_us, notice in case.notices:
        if isinstance(notice, sent.CheckpointTaken):
            checkpoints.setdefault(notice.vertex, []).append((at_us, notice))
    return checkpoints


def checkpoints(case: Case) -> Iterator[Finding]:
    """Yield a finding per vertex whose checkpoints have stopped although it had events."""
    taken = {vertex: [at for at, _ in rows] for vertex, rows in _checkpoints_of(case).items()}
    before = {row["vertex"]: row["events_in"] for row in case.before.get("vertices", ())}
    for row in case.status.get("vertices", ()):
        times = taken.get(row["vertex"], [])
        is_busy = row["events_in"] > before.get(row["vertex"], row["events_in"])
        if not case.is_open or len(times) < 2 or not is_busy:
            continue
        gap_us = statistics.median(b - a for a, b in itertools.pairwise(times))
        age_us = case.now_us - times[-1]
        if age_us > max(CHECKPOINT_GAPS * gap_us, CHECKPOINT_AGE_S_MIN * US_PER_S):
            what = f"{row['vertex']} had its last checkpoint {age_us // US_PER_S} s ago"
            advice = "the store may be slow or unreachable: see jobmanager logs"
            yield Finding("waiting", "checkpoint age", row["vertex"], what, advice, times[-1])
