"""Rules about the positions and times of vertices, partitions and deliveries."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobmanager.cli.page.doctor.case import Case, Finding, Status, mebibytes
from jobmanager.cli.page.doctor.skew import hot_keys, skewed_vertices
from jobmanager.state.state_size import state_text

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A lag grows if it increased by this factor between two looks, and is at least this many rows.
LAG_GROWTH_MIN, LAG_ROWS_MIN = 1.05, 1_000
#: A reader is far behind if reading its remaining rows takes longer than this many looks.
LAG_LOOKS_MAX = 30
#: If a vertex has more unflushed bytes of output than this, its readers or its store are too slow.
UNFLUSHED_BYTES_MAX = 48 << 20
#: A vertex is busy from this share of the time between two looks on; user code is slow from the
#: second share on.
BUSY_SHARE_MIN, USER_SHARE_MIN = 0.8, 0.5


@dataclass(frozen=True, slots=True)
class _Lag:
    """Rows that a reader has not read yet, and its position."""

    rows: int
    position: int
    advice: str


def growing_lags(case: Case) -> Iterator[Finding]:
    """Yield readers that fall behind, or that stay far behind."""
    if not case.is_open:
        return
    before = dict(_lags(case.before))
    for name, lag in _lags(case.status):
        was = before.get(name)
        if was is None or lag.rows < LAG_ROWS_MIN or lag.rows < was.rows:
            continue
        looks_left = lag.rows / max(lag.position - was.position, 1)
        if lag.rows > was.rows * LAG_GROWTH_MIN or looks_left > LAG_LOOKS_MAX:
            what = f"{name} falls behind: {was.rows:,} rows were left, now {lag.rows:,}"
            yield Finding("waiting", "growing lag", name, what, lag.advice)


_FASTER = "give the job more hosts or a larger --parallelism, or make its code faster"
_FASTER_THERE = "the destination takes rows more slowly than the job emits them: make it faster"


def _lags(status: Status) -> Iterator[tuple[str, _Lag]]:
    for vertex in status.get("vertices", ()):
        for log in vertex.get("logs", ()):
            if log["lag_rows"] is not None:
                name = f"partition {log['partition']} of {vertex['stage']}"
                yield name, _Lag(log["lag_rows"], log["position"], _FASTER)
    for row in status.get("deliveries", ()):
        name = f"the delivery {row['delivery']}, partition {row['partition']}"
        yield name, _Lag(row["lag_items"], row["rows"], _FASTER_THERE)


def skew(case: Case) -> Iterator[Finding]:
    """Yield vertices that get most of a stage's events, and keys that have most of the rows."""
    for about, what, advice in skewed_vertices(case.status):
        yield Finding("note", "skew", about, what, advice)
    for about, what, advice in hot_keys(case.status):
        yield Finding("note", "hot key", about, what, advice)


def partitions(case: Case) -> Iterator[Finding]:
    """Yield partitions without rows while others have rows, ended sources, and lost rows."""
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
                advice = "set a retention of the log that is longer than the largest lag of the job"
                yield Finding("note", "lost input", name, what, advice)


def slow_code(case: Case) -> Iterator[Finding]:
    """Yield a vertex whose host works all the time, most of it in functions of the user."""
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
            advice = (
                "make it faster (whole columns, a cache, a table join instead of a lookup), or "
                "give the job a larger --parallelism"
            )
            yield Finding("note", "slow user code", row["vertex"], what, advice)


def _since(before: dict[str, Status], row: Status, key: str) -> int:
    """Return the growth of a time since the first look; 0 for an instance that started later."""
    was = before.get(row["vertex"], {})
    return int(row[key] - was[key]) if was.get("epoch") == row["epoch"] and key in was else 0


def long_steps(case: Case) -> Iterator[Finding]:
    """Yield a host that is in one step of a vertex for seconds."""
    for host in case.status.get("hosts", ()):
        if case.is_open and host.get("busy"):
            yield Finding("note", "long step", host["host"], host["busy"])


def open_change(case: Case) -> Iterator[Finding]:
    """Yield a savepoint, deployment or rollback that was in progress at both looks."""
    change = case.status.get("change")
    if change is None or change != case.before.get("change"):
        return
    root = case.status.get("root", "ROOT")
    if case.is_open:
        wait = "the job has not reached a consistent cut for it yet"
        what = f"a {change['kind']} was requested, and {wait}"
        yield Finding("waiting", "open change", "job", what, "jobmanager logs shows its progress")
    else:
        what = f"a {change['kind']} was requested and not completed, and no job manager runs"
        yield Finding("waiting", "open change", "job", what, f"jobmanager resume {root}")


def unflushed(case: Case) -> Iterator[Finding]:
    for row in case.status.get("vertices", ()):
        if case.is_open and row["tail_bytes"] > UNFLUSHED_BYTES_MAX:
            what = f"{row['vertex']} holds {mebibytes(row['tail_bytes'])} of output in memory"
            advice = "its readers or the store are slower than it is"
            yield Finding("note", "back pressure", row["vertex"], what, advice)


def spilled_state(case: Case) -> Iterator[Finding]:
    """Yield vertices with more state on scratch than in memory."""
    for row in case.status.get("vertices", ()) if case.is_open else ():
        if row.get("scratch_bytes", 0) > row["memory_bytes"]:
            what = f"{row['vertex']} has spilled state to scratch: {state_text([row])}"
            advice = "more memory makes it faster: --state-memory, or more hosts"
            yield Finding("note", "spilled state", row["vertex"], what, advice)
