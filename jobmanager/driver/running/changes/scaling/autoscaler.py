"""Rescales a running job by its policy: takes readings of its load, decides, requests the change.

The decision is :func:`planner.cost.autoscaling.decide`. The change is requested as ``jobmanager
rescale`` requests it, so a successor, a rollback and a replay treat it alike. A cooldown follows
the start of the job and each change, also a change by a user. If a store fails, a change may be
missed, but the job continues.
"""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from jobmanager.driver.report import status_of
from jobmanager.driver.running.changes.pending import new_change, request
from jobmanager.driver.running.changes.scaling.widths import fitted, scalable, widths_for
from planner.cost.autoscaling import Reading, StageLoad, decide
from planner.physical.layout import Stages
from rstream.errors import OperatingError, StreamEngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jobmanager.manager.manager import JobManager
    from jobmanager.storage.root import JobRoot
    from planner.cost.policy import Policy
    from planner.physical.plan import PhysicalPlan
    from rstream.clock import Clock

_log = logging.getLogger(__name__)
#: Number of readings of the load in the time for which a condition must hold, and number of
#: decisions that the status shows.
READINGS_PER_SETTLE, DECISIONS_SHOWN = 6, 10


class Autoscaler:
    """Watches one leg of a job (its run up to the next change). The driver calls :meth:`note`."""

    def __init__(
        self,
        root: JobRoot,
        plan: PhysicalPlan,
        policy: Policy | None,
        clock: Clock,
        on_request: Callable[[], None],
        notes: Sequence[str] = (),
    ) -> None:
        """Start to watch. ``on_request``: called after a request; it reads the request file.

        ``notes``: the decisions in earlier legs, which are still shown.
        """
        ignored: list[str] = []
        if policy is not None:
            policy, ignored = fitted(policy, plan)
        self._policy = policy
        self._root, self._plan, self._clock, self._on_request = root, plan, clock, on_request
        self._stages, self._began_s = Stages(plan), clock.monotonic_s()
        self._readings: deque[Reading] = deque(maxlen=2 * READINGS_PER_SETTLE + 2)
        self._before: Mapping[str, Any] | None = None
        self._due_s = self._changed_s = self._began_s
        more = [f"autoscale: {note}" for note in ignored]  # the plan has changed since the check
        #: The last decisions, the oldest first.
        self.notes = (*(note for note in notes if note not in more), *more)

    def note(self, manager: JobManager) -> None:
        """Take a reading if it is due, and request the change that follows from the readings."""
        policy, now_s = self._policy, self._clock.monotonic_s()
        if policy is None or now_s < self._due_s or manager.state != "running":
            return
        self._due_s = now_s + policy.settle_s / READINGS_PER_SETTLE
        status = status_of(manager, now_us=self._clock.now_us())
        if self._before is not None:
            self._readings.append(reading(self._stages, self._before, status, now_s))
        self._before = status
        decision = decide(policy, self._readings, self._changed_s)
        if decision is None:
            return
        # Also without a change, so that the next decision follows the cooldown
        self._changed_s = now_s
        text = f"autoscale{' (dry run)' if policy.dry_run else ''}: {decision.reason}"
        if not policy.dry_run:
            text = self._requested(decision.widths, text)
        _log.warning("%s", text)
        self.notes = (*self.notes, text)[-DECISIONS_SHOWN:]

    def _requested(self, widths: Mapping[str, int], text: str) -> str:
        """Request the change. Return the text of the decision, with a reason if it failed."""
        try:
            change = new_change("rescale", widths=widths_for(self._plan, None, widths))
            request(self._root, change, None, None)
        except StreamEngineError as error:
            text = f"{text}; failed: {error}"
        with contextlib.suppress(OperatingError):  # it is read again at the next tick
            self._on_request()  # also after an error: the store may have the request nevertheless
        return text

    def start(self) -> None:
        """Do nothing, because the driver's ticks take the readings."""

    def stop(self, state: str) -> None:
        """Do nothing, because there is no background work."""


def reading(
    stages: Stages, before: Mapping[str, Any], status: Mapping[str, Any], at_s: float
) -> Reading:
    """Return the load of the stages with rows by key, from two statuses of the job. Pure."""
    elapsed_us = max(status["written_us"] - before["written_us"], 1)
    was = {(row["vertex"], row["epoch"]): row for row in before["vertices"]}
    loads: dict[str, StageLoad] = {}
    for name in scalable(stages):
        members, owners = stages.members(name), stages.layout(name).owners
        rows = [row for row in status["vertices"] if row["stage"] in members]
        busy_us = sum(row["busy_us"] - _busy_us(was, row) for row in rows)
        state = sum(row["state_bytes"] for row in rows)
        busy = busy_us / elapsed_us / max(len(owners), 1)
        loads[name] = StageLoad(len(owners), min(busy, 1.0), state)
    logs = [log for row in status["vertices"] for log in row["logs"]]
    lags = [log["lag_s"] or 0.0 for log in logs if log["lag_rows"] != 0]
    memory = [host["memory"] for host in status["hosts"] if host["memory"]]
    used = [m["used_bytes"] / m["limit_bytes"] for m in memory if m["limit_bytes"]]
    return Reading(at_s, loads, max(lags, default=0.0), max(used, default=0.0))


def _busy_us(was: Mapping[tuple[str, int], Mapping[str, Any]], row: Mapping[str, Any]) -> int:
    """Return the busy time at the previous reading, us; 0 for a new instance."""
    former = was.get((row["vertex"], row["epoch"]))
    return 0 if former is None else int(former["busy_us"])
