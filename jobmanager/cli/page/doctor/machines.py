"""Rules about machines: memory, disks, clocks, a job manager that is silent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobmanager.cli.page.doctor.case import US_PER_S, Case, Finding, mebibytes

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A host's memory is nearly used up from this share of its limit on.
MEMORY_SHARE_MAX = 0.9
#: Tolerated difference between the clocks of a host and this machine, s.
CLOCK_S_MAX = 5.0
#: A disk is nearly full if its free space is below both this share and these bytes.
DISK_SHARE_MIN, DISK_FREE_BYTES_MIN = 0.05, 2 << 30
#: A disk with fewer free bytes than this is full: the job cannot even replace its status.
FULL_BYTES = 64 << 10
#: Tolerated seconds by which the times of rows may be ahead of the clock; and the seconds from
#: which on such times are a reason of the job's health.
ROW_AHEAD_S_MAX, ODD_AHEAD_S = 60.0, 86_400.0


def memory(case: Case) -> Iterator[Finding]:
    for host in case.status.get("hosts", ()):
        memory = host.get("memory")
        if not case.is_open or not memory or not memory["limit_bytes"]:
            continue
        free_bytes = memory["free_bytes"]
        share = 1 - free_bytes / memory["limit_bytes"]
        if share > MEMORY_SHARE_MAX:
            what = (
                f"host {host['host']} on {host['machine']} has {mebibytes(free_bytes)} of "
                f"memory left; its process uses {mebibytes(memory['used_bytes'])}"
            )
            advice = "see 'When a job needs too much memory' in docs/howto/size-memory.md"
            yield Finding("waiting", "memory", host["host"], what, advice)


def disk(case: Case) -> Iterator[Finding]:
    """Yield disks of the root and of outputs that are full or nearly full."""
    for folder, (free_bytes, all_bytes) in case.disks.items() if case.is_open else ():
        if free_bytes < FULL_BYTES:
            what = f"the disk of {folder} is full, so the job waits"
            advice = "free space there; the job continues automatically"
        elif free_bytes < min(DISK_SHARE_MIN * all_bytes, DISK_FREE_BYTES_MIN):
            what = f"the disk of {folder} has {mebibytes(free_bytes)} left"
            advice = "free space there, or delete what the job keeps: --retention, jobmanager gc"
        else:
            continue
        yield Finding("waiting", "disk", "job", what, advice)


def clock(case: Case) -> Iterator[Finding]:
    """Yield a status from the future: the clocks of two machines differ."""
    ahead_s = (case.status.get("written_us", 0) - case.now_us) / US_PER_S
    if ahead_s > CLOCK_S_MAX:
        what = f"the clock of {case.status['machine']} is {ahead_s:,.0f} s ahead of this machine's"
        yield Finding("note", "clocks differ", "job", what, "let both follow a time server")


def clocks_of_producers(case: Case) -> Iterator[Finding]:
    """Yield partitions whose rows come from the near future."""
    for vertex in case.status.get("vertices", ()) if case.is_open else ():
        for log in vertex.get("logs", ()):
            ahead_s = -(log["lag_s"] or 0.0)
            if ROW_AHEAD_S_MAX < ahead_s < ODD_AHEAD_S:
                name = f"partition {log['partition']} of {vertex['stage']}"
                what = f"the newest row of {name} is {ahead_s:,.0f} s ahead of the clock"
                advice = (
                    "compare the clocks of its producer and of this machine; max_ahead= treats "
                    "such rows as bad rows"
                )
                yield Finding("note", "clocks differ", name, what, advice)


def silence(case: Case) -> Iterator[Finding]:
    """Yield open jobs whose status is no longer written."""
    age_s = (case.now_us - case.status.get("written_us", case.now_us)) / US_PER_S
    root = case.status.get("root", "")
    is_full = any(f == root and free < FULL_BYTES for f, (free, _) in case.disks.items())
    if case.is_open and age_s > CLOCK_S_MAX and not is_full:
        what = f"the job manager has not written its status for {age_s:,.0f} s"
        process = f"its process is {case.status.get('pid')} on {case.status.get('machine')}"
        advice = f"{process}; if it still runs, the store of {root} is full or cannot be reached"
        yield Finding("waiting", "silent job manager", "job", what, advice)
