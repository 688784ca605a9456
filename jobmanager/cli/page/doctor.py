"""What is wrong with a job: since when, why, and what to do. Pure.

The findings are the reasons of the job's health, and what takes more than one look or more than
the status: growing lags, skew, restarts, checkpoints that stop. Each rule is a function that
reads a :class:`Case`.
"""

from __future__ import annotations

import itertools
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from jobmanager.driver.lost_rows import lost_lines
from jobmanager.state import messages as own
from jobmanager.state.health import with_health
from jobmanager.state.job_state import OPEN_STATES
from rvertex import messages as sent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jobmanager.state.messages import Notice

Status = dict[str, Any]
Gravity = Literal["degraded", "waiting", "note"]
_GRAVEST_FIRST: tuple[Gravity, ...] = ("degraded", "waiting", "note")
_US_PER_S = 1_000_000
_NIGHT_US = 24 * 3600 * _US_PER_S
#: A vertex that gets so many times the median of its stage is skewed; of fewer events it is chance.
SKEW_MIN, SKEWED_EVENTS_MIN = 3.0, 10_000
#: A lag grows that is so much larger at the second look, and at least so many rows.
LAG_GROWTH_MIN, LAG_ROWS_MIN = 1.05, 1_000
#: So many times the median of the times between its checkpoints, and at least so long.
CHECKPOINT_GAPS, CHECKPOINT_AGE_S_MIN = 10, 60.0
#: This share of the memory that a host may have is nearly all.
MEMORY_SHARE_MAX = 0.9
#: A host's clock and this machine's may differ so much.
CLOCK_S_MAX = 5.0
#: Output in memory of one vertex from which on its readers, or the store, are too slow.
UNFLUSHED_BYTES_MAX = 48 << 20


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or that explains what a person sees."""

    gravity: Gravity
    kind: str
    #: What it is about: a vertex, a delivery, a source, a host, or the job.
    about: str
    #: A sentence without its end.
    what: str
    advice: str = ""
    since_us: int | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """What is known of a job: two looks at its status, and its log."""

    before: Status
    status: Status
    now_us: int
    notices: list[tuple[int, Notice]] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        """Whether it should be running."""
        return self.status["state"] in OPEN_STATES


def findings(case: Case) -> list[Finding]:
    """All of them, the gravest first; none for a healthy job."""
    found = [finding for rule in RULES for finding in rule(case)]
    return sorted(found, key=lambda finding: _GRAVEST_FIRST.index(finding.gravity))


def _health(case: Case) -> Iterator[Finding]:
    for row in with_health(case.status)["reasons"]:
        gravity: Gravity = "note" if row["health"] == "ok" else row["health"]
        yield Finding(
            gravity, row["kind"], row["about"], row["reason"], row["advice"], row["since_us"]
        )


def _lost_rows(case: Case) -> Iterator[Finding]:
    """Rows that are not in the answer; the lines say which delay would have kept late ones."""
    for line in lost_lines(case.status):
        kind, _, what = line.partition(": ")
        yield Finding("note", f"{kind} rows", "job", what or line)


def _growing_lags(case: Case) -> Iterator[Finding]:
    if not case.is_open:
        return
    before = dict(_lags(case.before))
    for name, rows in _lags(case.status):
        was = before.get(name)
        if was is not None and rows >= LAG_ROWS_MIN and rows > was * LAG_GROWTH_MIN:
            what = f"{name} falls behind: {was:,} rows were left, now {rows:,}"
            advice = "give the job more hosts or a larger --parallelism, or look for slow user code"
            yield Finding("waiting", "growing lag", name, what, advice)


def _lags(status: Status) -> Iterator[tuple[str, int]]:
    for vertex in status.get("vertices", ()):
        for log in vertex.get("logs", ()):
            if log["lag_rows"] is not None:
                yield f"partition {log['partition']} of {vertex['stage']}", log["lag_rows"]
    for row in status.get("deliveries", ()):
        yield f"the delivery {row['delivery']}, partition {row['partition']}", row["lag_items"]


def _skew(case: Case) -> Iterator[Finding]:
    stages: dict[str, list[Status]] = {}
    for row in case.status.get("vertices", ()):
        stages.setdefault(row["stage"], []).append(row)
    for rows in stages.values():
        most = max(rows, key=lambda row: row["events_in"])
        others = [row["events_in"] for row in rows if row is not most]
        if not others or most["events_in"] < SKEWED_EVENTS_MIN:
            continue
        median = statistics.median(others)
        if most["events_in"] >= SKEW_MIN * max(median, 1):
            what = (
                f"{most['vertex']} got {most['events_in']:,} events and the other vertices of its "
                f"stage {median:,.0f} each: a few keys have most of the rows"
            )
            advice = (
                "add a column to the key, or filter the hot key; of a source: give its input more "
                "partitions or files"
            )
            yield Finding("note", "skew", most["vertex"], what, advice)


def _restarts(case: Case) -> Iterator[Finding]:
    """What failed in the last day, though the job got over it."""
    for at_us, notice in case.notices:
        if at_us < case.now_us - _NIGHT_US:
            continue
        if isinstance(notice, sent.VertexFailed):
            what = f"{notice.vertex} failed ({notice.family}): {notice.message}"
            yield Finding("note", "restart", notice.vertex, what, since_us=at_us)
        elif isinstance(notice, own.HostLost):
            what = f"host {notice.host} was lost: {notice.reason}"
            yield Finding("note", "restart", notice.host, what, since_us=at_us)
        elif isinstance(notice, own.OutputDamaged):
            what = f"output {notice.stream} was damaged: {notice.reason}"
            yield Finding("note", "damaged output", notice.stream, what, since_us=at_us)


def _checkpoints(case: Case) -> Iterator[Finding]:
    """A vertex that took checkpoints at some pace, and then none, though events came."""
    taken: dict[str, list[int]] = {}
    for at_us, notice in case.notices:
        if isinstance(notice, sent.CheckpointTaken):
            taken.setdefault(notice.vertex, []).append(at_us)
    before = {row["vertex"]: row["events_in"] for row in case.before.get("vertices", ())}
    for row in case.status.get("vertices", ()):
        times = taken.get(row["vertex"], [])
        is_busy = row["events_in"] > before.get(row["vertex"], row["events_in"])
        if not case.is_open or len(times) < 2 or not is_busy:
            continue
        gap_us = statistics.median(b - a for a, b in itertools.pairwise(times))
        age_us = case.now_us - times[-1]
        if age_us > max(CHECKPOINT_GAPS * gap_us, CHECKPOINT_AGE_S_MIN * _US_PER_S):
            what = f"{row['vertex']} had its last checkpoint {age_us // _US_PER_S} s ago"
            advice = "look at the store: jobmanager logs names what it answered"
            yield Finding("waiting", "checkpoint age", row["vertex"], what, advice, times[-1])


def _memory(case: Case) -> Iterator[Finding]:
    for host in case.status.get("hosts", ()):
        memory = host.get("memory")
        if not case.is_open or not memory or not memory["limit_bytes"]:
            continue
        free_bytes = memory["free_bytes"]
        share = 1 - free_bytes / memory["limit_bytes"]
        if share > MEMORY_SHARE_MAX:
            what = (
                f"host {host['host']} on {host['machine']} has {free_bytes / 2**20:,.0f} MiB of "
                f"memory left; its process uses {memory['used_bytes'] / 2**20:,.0f} MiB"
            )
            advice = "see 'When it is too much' in docs/howto/size-memory.md"
            yield Finding("waiting", "memory", host["host"], what, advice)


def _unflushed(case: Case) -> Iterator[Finding]:
    for row in case.status.get("vertices", ()):
        if case.is_open and row["tail_bytes"] > UNFLUSHED_BYTES_MAX:
            what = f"{row['vertex']} holds {row['tail_bytes'] / 2**20:,.0f} MiB of output in memory"
            advice = "its readers or the store are slower than it is"
            yield Finding("note", "back pressure", row["vertex"], what, advice)


def _clock(case: Case) -> Iterator[Finding]:
    """A status from the future: the clocks of two machines differ."""
    ahead_s = (case.status.get("written_us", 0) - case.now_us) / _US_PER_S
    if ahead_s > CLOCK_S_MAX:
        what = f"the clock of {case.status['machine']} is {ahead_s:,.0f} s ahead of this machine's"
        yield Finding("note", "clocks differ", "job", what, "let both follow a time server")


def _away(case: Case) -> Iterator[Finding]:
    """Open jobs whose status is no longer written."""
    age_s = (case.now_us - case.status.get("written_us", case.now_us)) / _US_PER_S
    if case.is_open and age_s > CLOCK_S_MAX:
        what = f"the job manager has not written its status for {age_s:,.0f} s"
        advice = f"its process is {case.status.get('pid')} on {case.status.get('machine')}"
        yield Finding("waiting", "silent job manager", "job", what, advice)


#: In the order in which findings of one gravity are shown.
RULES: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    _health,
    _away,
    _growing_lags,
    _checkpoints,
    _memory,
    _lost_rows,
    _skew,
    _unflushed,
    _clock,
    _restarts,
)
