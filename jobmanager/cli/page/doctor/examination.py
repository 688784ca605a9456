"""Applies all rules to a job.

The findings include the reasons of the job's health. Other findings need two statuses, or more
files than the status: growing lags, skew, restarts, missing checkpoints. Each rule is a function
that reads a :class:`Case`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobmanager.cli.page.doctor import machines, notices, progress
from jobmanager.cli.page.doctor.case import Case, Finding, Gravity, Status
from jobmanager.driver.lost_rows import lost_lines
from jobmanager.state.health import with_health

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_GRAVEST_FIRST: tuple[Gravity, ...] = ("degraded", "waiting", "note")


def findings(case: Case) -> list[Finding]:
    """Return all findings of a job, the most severe first. A healthy job has none."""
    all_findings = [finding for rule in RULES for finding in rule(case)]
    return sorted(all_findings, key=lambda finding: _GRAVEST_FIRST.index(finding.gravity))


def _health(case: Case) -> Iterator[Finding]:
    open_windows = _open_windows(case)
    for row in with_health(case.status)["reasons"]:
        if row["reason"] in open_windows:
            continue
        gravity: Gravity = "note" if row["health"] == "ok" else row["health"]
        yield Finding(
            gravity, row["kind"], row["about"], row["reason"], row["advice"], row["since_us"]
        )


def _open_windows(case: Case) -> set[str]:
    """Return reasons about open windows that are harmless, because event time advances."""
    before = dict(_frontiers(case.before))
    # The same status: there is nothing to compare
    is_new = case.before.get("written_us") == case.status.get("written_us")
    if is_new or any(us > before.get(name, us) for name, us in _frontiers(case.status)):
        return {row["reason"] for row in case.status.get("held", ()) if row.get("is_window")}
    return set()


def _frontiers(status: Status) -> Iterator[tuple[tuple[str, int], int]]:
    for vertex in status.get("vertices", ()):
        for log in vertex.get("logs", ()):
            if log["state"] == "active":
                yield (vertex["vertex"], log["partition"]), log["frontier_us"]


def _lost_rows(case: Case) -> Iterator[Finding]:
    """Yield rows missing from the result, with the delay that would have kept late rows."""
    for line in lost_lines(case.status):
        kind, _, what = line.partition(": ")
        kind = f"{kind.removesuffix(' rows')} rows"
        yield Finding("note", kind, "job", what or line)


#: The rules. Findings of equal severity are shown in the order of their rules.
RULES: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    _health,
    machines.silence,
    progress.growing_lags,
    notices.checkpoints,
    machines.memory,
    machines.disk,
    progress.open_change,
    notices.growing_state,
    notices.slow_store,
    _lost_rows,
    progress.partitions,
    progress.slow_code,
    progress.long_steps,
    progress.skew,
    progress.unflushed,
    progress.spilled_state,
    machines.clock,
    machines.clocks_of_producers,
    notices.restarts,
)
