"""The jobs in a folder as the page shows them: read from files, once for all viewers.

A *look* reads the status file of each job, at most every :data:`LOOK_EVERY_S`. It sends no request
to jobs, so it does not disturb them. Plans, logs and rows are read when a viewer opens them.

Invariants: (1) :attr:`Board.jobs` is replaced, never changed, so any thread may read it; (2) for
all viewers together, plan and log are read once between two looks, and findings are computed at
most every :data:`FINDINGS_EVERY_S`.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections import deque
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobmanager.cli.page import answers
from jobmanager.cli.page.doctor import findings
from jobmanager.cli.page.looking import case_of, log_of, look_at
from jobmanager.delivery.answer import CurrentTable, read_table
from jobmanager.delivery.deliveries import clean_rows
from jobmanager.errors import CannotListError, NoJobError
from jobmanager.state.job_state import OPEN_STATES
from jobmanager.state.state_size import state_lines
from jobmanager.storage.root import JobRoot
from jobmanager.storage.shown import roots_in
from rstream.store.blobs import open_store
from rvertex.sources.formats.rstream import newest_claim

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from jobmanager.state.messages import Notice
    from planner.physical.plan import PhysicalPlan
    from rstream.clock import Clock

LOOK_EVERY_S, FINDINGS_EVERY_S = 1.0, 3.0
#: Number of looks that are kept, for rates and small plots.
LOOKS_MAX = 300
#: Number of statuses that are kept, for the doctor and for rates of vertices.
FORMER_MAX = 5
_COUNTS = ("events_in", "events_out", "late_events", "bad_rows", "restarts")
_ORDER = {"degraded": 0, "waiting": 1, "ok": 2}
_US_PER_S = 1_000_000


@dataclass(frozen=True, slots=True)
class SeenJob:
    """A job at the last look."""

    root: str
    status: dict[str, Any]
    #: Earlier statuses, the oldest first, for rates and trends.
    former: deque[dict[str, Any]]
    #: Per look: its time (us since 1970), the counters of :data:`_COUNTS`, and the largest lag.
    looks: deque[list[Any]] = field(default_factory=lambda: deque(maxlen=LOOKS_MAX))
    #: Results of the reads since the look, by name.
    _read: dict[str, Any] = field(default_factory=dict)
    #: A lock for each name of a read. After each look, viewers request the same reads at the same
    #: moment. Each waits for the first result of its read, but not for other reads.
    _reading: dict[str, threading.RLock] = field(default_factory=dict)

    def once(self, what: str, read: Callable[[], Any]) -> Any:
        """Call ``read`` at the first request for ``what`` since the look; then reuse its result."""
        with self._reading.setdefault(what, threading.RLock()):
            if what not in self._read:
                self._read[what] = read()
            return self._read[what]

    def notices(self) -> list[tuple[int, Notice]]:
        """Return the job's log."""
        notices: list[tuple[int, Notice]] = self.once("notices", lambda: log_of(self.root))
        return notices

    def shares(self) -> dict[str, dict[str, float]]:
        """Return events/s and time shares of each vertex since the oldest kept status."""
        before = self.former[0] if self.former else self.status
        elapsed_us = self.status.get("written_us", 0) - before.get("written_us", 0)
        was = {row["vertex"]: row for row in before.get("vertices", ())}
        shares = {}
        for row in self.status.get("vertices", ()):
            former = was.get(row["vertex"], {})
            if elapsed_us > 0 and former.get("epoch") == row["epoch"] and "busy_us" in former:
                shares[row["vertex"]] = {
                    "in_per_s": (row["events_in"] - former["events_in"]) * _US_PER_S / elapsed_us,
                    "busy": min(1.0, (row["busy_us"] - former["busy_us"]) / elapsed_us),
                    "user": min(1.0, (row["user_us"] - former["user_us"]) / elapsed_us),
                }
        return shares


class Board:
    """All jobs below ``folder``, or the single job whose root it is."""

    def __init__(self, folder: str, clock: Clock) -> None:
        self._folder, self._clock = folder, clock
        #: The manifest of a bundle; empty for a folder.
        self.bundle: dict[str, Any] = {}
        self.jobs: dict[str, SeenJob] = {}
        self.unread: dict[str, str] = {}
        #: By root and output: the output's claim, and its table up to the rows read so far.
        self._tables: dict[tuple[str, str], tuple[dict[str, Any], CurrentTable]] = {}
        #: By root: the stored plan and its picture. Only a deployment changes them.
        self._plans: dict[str, tuple[bytes | None, dict[str, Any]]] = {}
        #: By job: time, status and findings of the last examination.
        self._examined: dict[str, tuple[int, Any, list[dict[str, Any]]]] = {}

    def look(self) -> None:
        """Read all statuses.

        Raises:
            CannotListError: the folder cannot be read.
        """
        roots, self.unread = roots_in(self._folder)
        if self.jobs and not os.path.isdir(self._folder.removeprefix("file://")):
            raise CannotListError(self._folder, "it is gone")
        now_us = self._clock.now_us()
        jobs = {}
        for root in roots:
            name = Path(root).name
            jobs[name] = self._of_root(root, self.jobs.get(name), now_us)
        self.jobs = jobs
        self._tables = {key: table for key, table in self._tables.items() if key[0] in roots}
        self._plans = {root: table for root, table in self._plans.items() if root in roots}

    def _of_root(self, root: str, before: SeenJob | None, now_us: int) -> SeenJob:
        status = look_at(root, now_us)
        if before is None or before.root != root:
            before = SeenJob(root, status, deque(maxlen=FORMER_MAX))
        lags = [v["cti_lag_s"] for v in status.get("vertices", ()) if v["cti_lag_s"] is not None]
        looks = before.looks
        if status["state"] in OPEN_STATES or not looks:
            counts = [status.get(key, 0) for key in _COUNTS]
            looks = deque([*looks, [now_us, *counts, max(lags, default=None)]], LOOKS_MAX)
        former = deque([*before.former, before.status], FORMER_MAX)
        return SeenJob(root, status, former, looks)

    def rows(self) -> list[dict[str, Any]]:
        """Return the jobs for the list, with jobs that need attention first."""
        rows = [
            {
                key: job.status.get(key)
                for key in ("state", "health", "error", "written_us", *_COUNTS)
            }
            | {"name": name, "outputs": answers.freshness(job.status)}
            | {"findings": self.findings(name), "looks": list(job.looks)[-60:]}
            for name, job in self.jobs.items()
        ]
        return sorted(rows, key=lambda row: (_ORDER[row["health"]], row["name"]))

    def job(self, name: str) -> SeenJob:
        """Return a job by the name of its folder.

        Raises:
            NoJobError: there was no such job at the last look.
        """
        if name not in self.jobs:
            raise NoJobError(name)
        return self.jobs[name]

    def root(self, name: str) -> str:
        """Return the root of a job, for verbs that change it or recompute from it."""
        return self.job(name).root

    def details(self, name: str) -> dict[str, Any]:
        """Return the status of a job with its looks, rates and findings."""
        job = self.job(name)
        return {"name": name, "status": job.status, "looks": list(job.looks)} | {
            "outputs": answers.freshness(job.status),
            "shares": job.shares(),
            "states": [*state_lines(job.status)],
            "findings": self.findings(name),
        }

    def details_text(self, name: str) -> str:
        """Return :meth:`details` as JSON text, built once for all viewers."""
        text: str = self.job(name).once("details", lambda: json.dumps(self.details(name)))
        return text

    def plan(self, name: str) -> dict[str, Any]:
        """Return the plan of a job as a graph with positions."""
        root = self.job(name).root
        stored = JobRoot(root).plan_file()
        known, drawn = self._plans.get(root, (None, {}))
        if not stored or known != stored:
            drawn = answers.drawn_plan(root)
            self._plans[root] = stored, drawn
        return drawn

    def timeline(self, name: str) -> list[dict[str, Any]]:
        """Return what happened to a job, the latest last, without checkpoints."""
        return answers.timeline_of(self.job(name).notices())

    def logs(self, name: str) -> list[dict[str, Any]]:
        """Return the log of a job, with checkpoints and traces of failures, the latest last."""
        return answers.log_lines(self.job(name).notices())

    def savepoints(self, name: str) -> list[dict[str, Any]]:
        """Return the savepoints of a job."""
        return answers.savepoints_of(self.job(name).root)

    def moments(self, name: str) -> dict[str, Any]:
        """Return the range of event times for which the state can be recomputed."""
        root = self.job(name).root
        moments: dict[str, Any] = self.job(name).once("moments", lambda: answers.moments_of(root))
        return moments

    def findings(self, name: str) -> list[dict[str, Any]]:
        """Return the doctor's findings for a job."""
        job, now_us = self.job(name), self._clock.now_us()
        key = (job.root, job.status.get("written_us"), job.status["state"])
        at_us, known, rows = self._examined.get(name, (0, None, []))
        is_fresh = now_us - at_us < FINDINGS_EVERY_S * _US_PER_S
        # A job that cannot write its status, for example on a full disk, is examined again, too.
        has_news = known != key or job.status["state"] in OPEN_STATES
        if known is None or known[0] != key[0] or (has_news and not is_fresh):
            before = job.former[0] if job.former else job.status
            case = case_of(job.root, before, job.status, now_us, job.notices)
            rows = [asdict(finding) for finding in findings(case)]
            self._examined[name] = now_us, key, rows
        return rows

    def examined(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the name, the status and the findings of all jobs."""
        jobs = list(self.jobs.items())
        return [(name, {**job.status, "findings": self.findings(name)}) for name, job in jobs]

    def table(self, name: str, kind: str, rows: int, output: str = "") -> dict[str, Any]:
        """Return rows of kind ``output``, ``table`` (alive now), ``late`` or ``dead_letters``.

        ``output``: the name of an output; empty: the first one.
        """
        if kind == "table":
            return answers.shown_rows(self.current(name, output=output), rows, self.outputs(name))
        return answers.rows_of(self.job(name).root, kind, rows, output)

    def outputs(self, name: str) -> list[str]:
        """Return the names of a job's outputs."""
        return [one.name for one in self._physical(name).of_outputs]

    def current(self, name: str, at: str | None = None, output: str = "") -> pa.Table:
        """Return the rows of a job that are alive now, or at event time ``at``.

        For now, reading continues at the end of the previous request. ``output``: the name of an
        output; empty: the first one.
        """
        root, plan = self.job(name).root, self._of_output(name, output)
        if at is not None:
            return read_table(root, at, output=plan.name)
        # The claim has the id of the job: another job may have had this root before.
        claim: dict[str, Any] = {}
        with contextlib.suppress(FileNotFoundError):  # the job has not started yet
            claim = newest_claim(open_store(plan.output), plan.output)
        known = self._tables.get((root, plan.name))
        if known is None or known[0] != claim:
            known = self._tables[root, plan.name] = claim, CurrentTable(plan)
        return known[1].read()

    def schema(self, name: str, output: str = "") -> pa.Schema:
        """Return the columns of :meth:`current`."""
        return clean_rows(self._of_output(name, output)).schema

    def _of_output(self, name: str, output: str) -> PhysicalPlan:
        plans = self._physical(name)
        return plans.output_named(output or plans.of_outputs[0].name)

    def _physical(self, name: str) -> PhysicalPlan:
        job = self.job(name)
        plan: PhysicalPlan = job.once("physical plan", lambda: answers.plan_of(job.root))
        return plan
