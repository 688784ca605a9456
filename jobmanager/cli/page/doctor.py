"""Diagnoses a job: what is wrong, since when, why, and what to do. Pure.

The findings include the reasons of the job's health. Further findings need two statuses, or more
files than the status: growing lags, skew, restarts, missing checkpoints. Each rule is a function
that reads a :class:`Case`.
"""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from jobmanager.cli.page.skew import hot_keys, skewed_vertices
from jobmanager.driver.lost_rows import lost_lines
from jobmanager.state import messages as own
from jobmanager.state.health import with_health
from jobmanager.state.job_state import OPEN_STATES
from jobmanager.state.state_size import state_text
from rvertex import messages as sent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jobmanager.state.messages import Notice

Status = dict[str, Any]
Gravity = Literal["degraded", "waiting", "note"]
_GRAVEST_FIRST: tuple[Gravity, ...] = ("degraded", "waiting", "note")
_US_PER_S = 1_000_000
_NIGHT_US = 24 * 3600 * _US_PER_S
#: A growing lag: its growth between two looks, and a minimum number of rows.
LAG_GROWTH_MIN, LAG_ROWS_MIN = 1.05, 1_000
#: A late checkpoint: a multiple of the median interval, and a minimum age.
CHECKPOINT_GAPS, CHECKPOINT_AGE_S_MIN = 10, 60.0
#: Share of a host's memory limit from which on its memory is nearly used up.
MEMORY_SHARE_MAX = 0.9
#: Tolerated difference between the clocks of a host and this machine.
CLOCK_S_MAX = 5.0
#: A vertex with more unflushed output than this has readers, or a store, that are too slow.
UNFLUSHED_BYTES_MAX = 48 << 20
#: Shares of the time between two looks from which on a vertex is busy, and user code is slow.
BUSY_SHARE_MIN, USER_SHARE_MIN = 0.8, 0.5
#: A growing state: minimum checkpoints and size, and growth from third to third of these.
GROWING_CHECKPOINTS_MIN, GROWING_BYTES_MIN, GROWTH_MIN = 9, 8 << 20, 1.3
#: Slow checkpoints: how many are examined, and the least median time until they are durable.
SLOW_CHECKPOINTS, SLOW_CHECKPOINT_S_MIN = 5, 10.0
#: A disk is nearly full if its free space is below both this share and these bytes.
DISK_SHARE_MIN, DISK_FREE_BYTES_MIN = 0.05, 2 << 30


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or that explains what a person sees."""

    gravity: Gravity
    kind: str
    #: The subject: the name of a vertex, delivery, source or host, or "job".
    about: str
    #: A sentence without the full stop.
    what: str
    advice: str = ""
    since_us: int | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """The evidence: two statuses of a job, its log, and the disk of its root."""

    before: Status
    status: Status
    now_us: int
    notices: list[tuple[int, Notice]] = field(default_factory=list)
    #: Free bytes and total bytes of the root's disk; None: the root is not on a local disk.
    disk: tuple[int, int] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the job is supposed to run."""
        return self.status["state"] in OPEN_STATES


def findings(case: Case) -> list[Finding]:
    """All findings of a job, the most severe first; empty for a healthy job."""
    found = [finding for rule in RULES for finding in rule(case)]
    return sorted(found, key=lambda finding: _GRAVEST_FIRST.index(finding.gravity))


def _health(case: Case) -> Iterator[Finding]:
    for row in with_health(case.status)["reasons"]:
        gravity: Gravity = "note" if row["health"] == "ok" else row["health"]
        yield Finding(
            gravity, row["kind"], row["about"], row["reason"], row["advice"], row["since_us"]
        )


def _lost_rows(case: Case) -> Iterator[Finding]:
    """Rows missing from the result, with the delay that would have kept late rows."""
    for line in lost_lines(case.status):
        kind, _, what = line.partition(": ")
        kind = f"{kind.removesuffix(' rows')} rows"
        yield Finding("note", kind, "job", what or line)


def _growing_lags(case: Case) -> Iterator[Finding]:
    if not case.is_open:
        return
    before = dict(_lags(case.before))
    for name, rows in _lags(case.status):
        was = before.get(name)
        if was is not None and rows >= LAG_ROWS_MIN and rows > was * LAG_GROWTH_MIN:
            what = f"{name} falls behind: {was:,} rows were left, now {rows:,}"
            advice = "give the job more hosts or a larger --parallelism, or make its code faster"
            yield Finding("waiting", "growing lag", name, what, advice)


def _lags(status: Status) -> Iterator[tuple[str, int]]:
    for vertex in status.get("vertices", ()):
        for log in vertex.get("logs", ()):
            if log["lag_rows"] is not None:
                yield f"partition {log['partition']} of {vertex['stage']}", log["lag_rows"]
    for row in status.get("deliveries", ()):
        yield f"the delivery {row['delivery']}, partition {row['partition']}", row["lag_items"]


def _skew(case: Case) -> Iterator[Finding]:
    for about, what, advice in skewed_vertices(case.status):
        yield Finding("note", "skew", about, what, advice)
    for about, what, advice in hot_keys(case.status):
        yield Finding("note", "hot key", about, what, advice)


def _restarts(case: Case) -> Iterator[Finding]:
    """Yield failures of the last day from which the job recovered, once per subject."""
    failures: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for at_us, notice in case.notices:
        if at_us >= case.now_us - _NIGHT_US and (found := _failure(notice)) is not None:
            kind, about, what = found
            failures.setdefault((kind, about), []).append((at_us, what))
    if case.status["state"] == "failed":  # the health's reason has the error already
        failures = {key: rows for key, rows in failures.items() if not _is_its_end(case, rows)}
    for (kind, about), found_of in failures.items():
        count, (last_us, what) = len(found_of), found_of[-1]
        times = "" if count == 1 else f" ({count} times in the last day)"
        yield Finding("note", kind, about, f"{what}{times}", _ADVICE.get(kind, ""), last_us)


def _is_its_end(case: Case, rows: list[tuple[int, str]]) -> bool:
    """Whether a failure ended the job, or followed from its end."""
    at_us, what = rows[-1]
    error = case.status.get("error", "")
    last_us = max((at for at, n in case.notices if isinstance(n, sent.VertexFailed)), default=0)
    message = what.partition("): ")[2]
    return len(rows) == 1 and ((bool(message) and message in error) or at_us > last_us > 0)


_ADVICE = {
    "memory lost": "see 'When a job needs too much memory' in docs/howto/size-memory.md",
    "spilled state": "more memory makes it faster: --state-memory, or more hosts",
}


def _failure(notice: Notice) -> tuple[str, str, str] | None:
    """Kind, subject and description of a failure."""
    if isinstance(notice, sent.VertexFailed):
        kind = "memory lost" if notice.family == "memory" else "restart"
        return kind, notice.vertex, f"{notice.vertex} failed ({notice.family}): {notice.message}"
    if isinstance(notice, own.HostLost) and notice.reason != "stopped":  # "stopped": no failure
        slot = notice.host.partition(".")[0]  # a replacement has the same slot and another suffix
        return "restart", slot, f"host {notice.host} was lost: {notice.reason}"
    if isinstance(notice, own.OutputDamaged):
        return "damaged output", notice.stream, f"{notice.stream} was damaged: {notice.reason}"
    return None


def _partitions(case: Case) -> Iterator[Finding]:
    """Partitions without rows beside others with rows, ended sources, and rows that were lost."""
    if not case.is_open:
        return
    rows = [v for v in case.status.get("vertices", ()) if v.get("logs")]
    live = {v["stage"] for v in rows if any(log["state"] != "ended" for log in v["logs"])}
    has_active = any(log["state"] == "active" for v in rows for log in v["logs"])
    for vertex in rows:
        if live and vertex["stage"] not in live:
            what = f"the input of {vertex['stage']} has ended while other inputs continue"
            yield Finding("note", "ended source", vertex["stage"], what)
        for log in vertex["logs"]:
            name = f"partition {log['partition']} of {vertex['stage']}"
            if log["state"] == "idle" and has_active:
                no_row_s = log["lag_s"]
                last = "" if no_row_s is None else f"; its newest row is {no_row_s:,.0f} s old"
                what = f"{name} has no new rows (idle){last}"
                advice = "time advances without it, unless the source has idle='wait'"
                yield Finding("note", "idle partition", name, what, advice)
            if log.get("lost"):
                what = f"{log['lost']:,} rows of {name} were gone before they were read"
                advice = "keep rows longer in the log than the job is ever behind"
                yield Finding("note", "lost input", name, what, advice)


def _slow_code(case: Case) -> Iterator[Finding]:
    """A vertex whose host works all the time, most of it in functions of the user."""
    wall_us = case.status.get("written_us", 0) - case.before.get("written_us", 0)
    in_step = {host["host"] for host in case.status.get("hosts", ()) if host.get("busy")}
    before = {row["vertex"]: row for row in case.before.get("vertices", ())}
    rows = [row for row in case.status.get("vertices", ()) if "busy_us" in row]
    busy_us: Counter[str] = Counter()
    for row in rows:
        busy_us[row["host"]] += _since(before, row, "busy_us")
    for row in rows if case.is_open else ():
        if row["host"] in in_step:  # the host reports seldom, so add the time since the step began
            share = row["user_us"] / max(row["busy_us"], 1)
        elif wall_us > 0 and busy_us[row["host"]] >= BUSY_SHARE_MIN * wall_us:
            share = _since(before, row, "user_us") / wall_us
        else:
            continue
        if share >= USER_SHARE_MIN:
            taken = min(100, round(100 * share))
            what = f"{row['function']} takes {taken} % of the time of the host of {row['vertex']}"
            advice = "make it faster (whole columns, a cache, a table join instead of a lookup), "
            advice += "or give the job a larger --parallelism"
            yield Finding("note", "slow user code", row["vertex"], what, advice)


def _since(before: dict[str, Status], row: Status, key: str) -> int:
    """The growth of a time since the first look; 0 for an instance that started later."""
    was = before.get(row["vertex"], {})
    return int(row[key] - was[key]) if was.get("epoch") == row["epoch"] and key in was else 0


def _long_steps(case: Case) -> Iterator[Finding]:
    """A host that is in one step of a vertex for seconds."""
    for host in case.status.get("hosts", ()):
        if case.is_open and host.get("busy"):
            yield Finding("note", "long step", host["host"], host["busy"])


def _growing_state(case: Case) -> Iterator[Finding]:
    """A state that only grows, from one third of the recorded checkpoints to the next."""
    for vertex, found in _checkpoints_of(case).items():
        sizes = [notice.state_bytes for _, notice in found if notice.state_bytes]
        third = len(sizes) // 3
        if not case.is_open or len(sizes) < GROWING_CHECKPOINTS_MIN:
            continue
        parts = (sizes[:third], sizes[third : 2 * third], sizes[-third:])
        first, middle, last = (statistics.median(part) for part in parts)
        grows = first * GROWTH_MIN <= middle and middle * GROWTH_MIN <= last
        if grows and last >= GROWING_BYTES_MIN:
            what = f"the state of {vertex} grows: {_mib(int(first))}, then {_mib(int(last))}"
            advice = f"jobmanager state ROOT {vertex} shows it; give keys an end: a window, a "
            advice += "within= of a join, a timer that deletes"
            yield Finding("waiting", "growing state", vertex, what, advice, found[0][0])


def _slow_store(case: Case) -> Iterator[Finding]:
    """Checkpoints that take long to become durable."""
    for vertex, found in _checkpoints_of(case).items():
        took_s = [(at - n.taken_us) / _US_PER_S for at, n in found if n.taken_us and not n.asked]
        if case.is_open and len(took_s) >= SLOW_CHECKPOINTS:
            median = statistics.median(took_s[-SLOW_CHECKPOINTS:])
            if median > SLOW_CHECKPOINT_S_MIN:
                what = f"checkpoints of {vertex} take {median:,.0f} s until they are durable"
                advice = "the store of ROOT is slow: use a nearer or a faster one"
                yield Finding("waiting", "slow store", vertex, what, advice)
                return  # all vertices use the same store, so one finding is enough


def _disk(case: Case) -> Iterator[Finding]:
    if case.disk is None or not case.is_open:
        return
    free_bytes, all_bytes = case.disk
    if free_bytes < min(DISK_SHARE_MIN * all_bytes, DISK_FREE_BYTES_MIN):
        what = f"the disk of {case.status.get('root', 'the root')} has {_mib(free_bytes)} left"
        advice = "free space there, or delete what the job keeps: --retention, jobmanager gc"
        yield Finding("waiting", "disk", "job", what, advice)


def _open_change(case: Case) -> Iterator[Finding]:
    """A savepoint, deployment or rollback that was open at both looks."""
    change = case.status.get("change")
    if change is None or change != case.before.get("change"):
        return
    root = case.status.get("root", "ROOT")
    if case.is_open:
        what = f"a {change['kind']} was requested, and the job has not stopped at a cut for it yet"
        yield Finding("waiting", "open change", "job", what, "jobmanager logs shows its progress")
    else:
        what = f"a {change['kind']} was requested and not completed, and no job manager runs"
        yield Finding("waiting", "open change", "job", what, f"jobmanager resume {root}")


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:,.0f} MiB"


def _checkpoints_of(case: Case) -> dict[str, list[tuple[int, sent.CheckpointTaken]]]:
    found: dict[str, list[tuple[int, sent.CheckpointTaken]]] = {}
    for at_us, notice in case.notices:
        if isinstance(notice, sent.CheckpointTaken):
            found.setdefault(notice.vertex, []).append((at_us, notice))
    return found


def _checkpoints(case: Case) -> Iterator[Finding]:
    """Yield a finding per vertex whose checkpoints have stopped, although it had events."""
    taken = {vertex: [at for at, _ in rows] for vertex, rows in _checkpoints_of(case).items()}
    before = {row["vertex"]: row["events_in"] for row in case.before.get("vertices", ())}
    for row in case.status.get("vertices", ()) if case.is_open else ():
        times = taken.get(row["vertex"], [])
        is_busy = row["events_in"] > before.get(row["vertex"], row["events_in"])
        if len(times) < 2 or not is_busy:
            continue
        gap_us = statistics.median(b - a for a, b in itertools.pairwise(times))
        age_us = case.now_us - times[-1]
        if age_us > max(CHECKPOINT_GAPS * gap_us, CHECKPOINT_AGE_S_MIN * _US_PER_S):
            what = f"{row['vertex']} had its last checkpoint {age_us // _US_PER_S} s ago"
            advice = "the store may be slow or away: jobmanager logs has its answers"
            yield Finding("waiting", "checkpoint age", row["vertex"], what, advice, times[-1])


def _memory(case: Case) -> Iterator[Finding]:
    for host in case.status.get("hosts", ()):
        memory = host.get("memory")
        if not case.is_open or not memory or not memory["limit_bytes"]:
            continue
        free_bytes = memory["free_bytes"]
        share = 1 - free_bytes / memory["limit_bytes"]
        if share > MEMORY_SHARE_MAX:
            what = f"host {host['host']} on {host['machine']} has {_mib(free_bytes)} of memory left"
            what += f"; its process uses {_mib(memory['used_bytes'])}"
            yield Finding("waiting", "memory", host["host"], what, _ADVICE["memory lost"])


def _unflushed(case: Case) -> Iterator[Finding]:
    for row in case.status.get("vertices", ()) if case.is_open else ():
        if row["tail_bytes"] > UNFLUSHED_BYTES_MAX:
            what = f"{row['vertex']} holds {_mib(row['tail_bytes'])} of output in memory"
            advice = "its readers or the store are slower than it is"
            yield Finding("note", "back pressure", row["vertex"], what, advice)


def _spilled_state(case: Case) -> Iterator[Finding]:
    for row in case.status.get("vertices", ()) if case.is_open else ():
        if row.get("scratch_bytes", 0) > row["memory_bytes"]:
            what = f"{row['vertex']} has spilled state to scratch: {state_text([row])}"
            yield Finding("note", "spilled state", row["vertex"], what, _ADVICE["spilled state"])


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


#: Findings of one severity are shown in the order of their rules.
RULES: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    _health,
    _away,
    _growing_lags,
    _checkpoints,
    _memory,
    _disk,
    _open_change,
    _growing_state,
    _slow_store,
    _lost_rows,
    _partitions,
    _slow_code,
    _long_steps,
    _skew,
    _unflushed,
    _spilled_state,
    _clock,
    _restarts,
)
