"""What the page knows of the jobs in a folder: looked at once for all viewers, read from files.

A look reads the status file of each job, at most every :data:`LOOK_EVERY_S`; jobs are not asked and
do not notice. What lies deeper (plan, log, rows) is read when somebody asks for it.

Invariants: (1) :attr:`Board.jobs` is replaced, never changed, so any thread may read it; (2) plan,
log and findings are read once between two looks, for all viewers together.
"""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobmanager.cli.page.doctor import findings
from jobmanager.cli.page.layout import laid_out
from jobmanager.cli.page.looking import case_of, log_of, look_at
from jobmanager.delivery.answer import Answer, CurrentTable, read_table
from jobmanager.driver.running.side_output import read_dead_letters, read_late
from jobmanager.errors import NoJobError
from jobmanager.state.job_state import OPEN_STATES
from jobmanager.state.sentences import sentence
from jobmanager.storage.root import JobRoot
from jobmanager.storage.shown import roots_in
from planner.explain.json import document
from rstream.items.json_text import json_text, plain_rows
from rstream.store.blobs import open_store
from rstream.store.memory_blobs import get_or_none
from rvertex import messages as sent
from rvertex.sources.formats.rstream import CLAIM

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from jobmanager.state.messages import Notice
    from planner.physical.plan import PhysicalPlan
    from rstream.clock import Clock

LOOK_EVERY_S = 1.0
#: Looks that are remembered, for rates and small plots.
LOOKS_MAX = 300
#: Statuses that are remembered, for the doctor.
FORMER_MAX = 5
#: The latest sentences of a log, and rows, that one answer has.
SENTENCES_MAX, ROWS_MAX = 1_000, 1_000
#: What is in a sentence each few seconds says nothing on a timeline.
_ROUTINE = (sent.CheckpointTaken,)
_COUNTS = ("events_in", "events_out", "late_events", "bad_rows", "restarts")


@dataclass(frozen=True, slots=True)
class SeenJob:
    """A job as of the last look."""

    root: str
    status: dict[str, Any]
    #: Former statuses, the oldest first, for rates and trends.
    former: deque[dict[str, Any]]
    #: Of each look: when (us since 1970), then what :data:`_COUNTS` names, then the largest lag.
    looks: deque[list[Any]] = field(default_factory=lambda: deque(maxlen=LOOKS_MAX))
    #: Results of the reads since the look, by name.
    _read: dict[str, Any] = field(default_factory=dict)

    def once(self, what: str, read: Callable[[], Any]) -> Any:
        """What ``read`` returned the first time since the look."""
        if what not in self._read:
            self._read[what] = read()
        return self._read[what]

    def notices(self) -> list[tuple[int, Notice]]:
        """The job's log."""
        found: list[tuple[int, Notice]] = self.once("notices", lambda: log_of(self.root))
        return found


class Board:
    """The jobs whose roots lie in ``folder``, or the one job whose root it is."""

    def __init__(self, folder: str, clock: Clock) -> None:
        self._folder, self._clock = folder, clock
        self.jobs: dict[str, SeenJob] = {}
        self.unread: dict[str, str] = {}
        #: By root the claim of the output, and its rows as far as they were read.
        self._tables: dict[str, tuple[bytes | None, CurrentTable]] = {}

    def look(self) -> None:
        """Read all statuses anew.

        Raises:
            CannotListError: the folder cannot be looked into.
        """
        roots, self.unread = roots_in(self._folder)
        now_us = self._clock.now_us()
        jobs = {}
        for root in roots:
            name = Path(root).name
            jobs[name] = self._of_root(root, self.jobs.get(name), now_us)
        self.jobs = jobs
        self._tables = {root: found for root, found in self._tables.items() if root in roots}

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
        """The jobs as a list shows them, those that need somebody first."""
        order = {"degraded": 0, "waiting": 1, "ok": 2}
        found = [
            {
                key: job.status.get(key)
                for key in ("state", "health", "reasons", "error", "written_us", *_COUNTS)
            }
            | {"name": name, "outputs": freshness(job.status), "looks": list(job.looks)[-60:]}
            for name, job in self.jobs.items()
        ]
        return sorted(found, key=lambda row: (order[row["health"]], row["name"]))

    def job(self, name: str) -> SeenJob:
        """A job by the name of its folder.

        Raises:
            NoJobError: there is none, as of the last look.
        """
        if name not in self.jobs:
            raise NoJobError(name)
        return self.jobs[name]

    def details(self, name: str) -> dict[str, Any]:
        """The status of a job with its looks."""
        job = self.job(name)
        return {"name": name, "status": job.status, "looks": list(job.looks)} | {
            "outputs": freshness(job.status)
        }

    def plan(self, name: str) -> dict[str, Any]:
        """The plan of a job as a graph with places."""
        job = self.job(name)
        found: dict[str, Any] = job.once("plan", lambda: _drawn(job.root))
        return found

    def timeline(self, name: str) -> list[dict[str, Any]]:
        """What happened to a job, the latest last; checkpoints are left out."""
        found = []
        for at_us, notice in self.job(name).notices():
            text = "" if isinstance(notice, _ROUTINE) else sentence(notice)
            if text:
                found.append({"at_us": at_us, "kind": type(notice).__name__, "text": text})
        return found[-SENTENCES_MAX:]

    def findings(self, name: str) -> list[dict[str, Any]]:
        """What the doctor says."""
        return self._findings(self.job(name))

    def _findings(self, job: SeenJob) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = job.once("findings", lambda: self._examined(job))
        return found

    def examined(self) -> list[tuple[str, dict[str, Any]]]:
        """All jobs by name, each a status with the findings."""
        jobs = list(self.jobs.items())
        return [(name, {**job.status, "findings": self._findings(job)}) for name, job in jobs]

    def _examined(self, job: SeenJob) -> list[dict[str, Any]]:
        before = job.former[0] if job.former else job.status
        case = case_of(job.root, before, job.status, self._clock.now_us(), job.notices)
        return [asdict(found) for found in findings(case)]

    def table(self, name: str, kind: str, rows: int) -> list[dict[str, Any]]:
        """Rows of a job: ``output``, ``table`` (those alive now), ``late`` or ``dead_letters``."""
        root, rows = self.job(name).root, min(rows, ROWS_MAX)
        found = self.current(name) if kind == "table" else _table(root, kind, rows)
        return [_shown(row) for row in plain_rows(found.slice(0, rows))]

    def current(self, name: str, at: str | None = None) -> pa.Table:
        """The rows of a job that are alive now, read on from the last time, or at a time."""
        job = self.job(name)
        plan = job.once("physical plan", lambda: _plan(job.root).of_outputs[0])
        if at is not None:
            return read_table(job.root, at, output=plan.name)
        # The claim has the id of the job: another may have had this root before.
        claim = get_or_none(open_store(plan.output), CLAIM)
        known = self._tables.get(job.root)
        if known is None or known[0] != claim:
            known = self._tables[job.root] = claim, CurrentTable(plan)
        return known[1].read()


def _plan(root: str) -> PhysicalPlan:
    plan = JobRoot(root).read_plan()
    if plan is None:
        raise NoJobError(root)
    return plan


def _drawn(root: str) -> dict[str, Any]:
    shown = document(_plan(root))
    return shown | {"stages": laid_out(shown["stages"])}


def _table(root: str, kind: str, rows: int) -> pa.Table:
    if kind == "output":
        return Answer(_plan(root).of_outputs[0]).first(rows)
    return {"late": read_late, "dead_letters": read_dead_letters}[kind](root)


def _shown(row: dict[str, Any]) -> dict[str, str]:
    """A row of texts, so that a browser rounds no number."""
    return {k: value if isinstance(value, str) else json_text(value) for k, value in row.items()}


def freshness(status: dict[str, Any]) -> list[dict[str, Any]]:
    """How far each output is: the watermark of what writes it, and where deliveries stand."""
    vertices = status.get("vertices", [])
    last = vertices[-1]["stage"] if vertices else ""
    sinks = [row for row in vertices if row["stage"] == last]
    found = []
    if sinks:
        furthest_behind = min(sinks, key=lambda row: row["cti_us"])
        found.append(
            {
                "output": "the answer",
                "watermark_us": furthest_behind["cti_us"],
                "lag_s": furthest_behind["cti_lag_s"],
                "state": furthest_behind["state"],
            }
        )
    for row in status.get("deliveries", ()):
        name = f"{row['delivery']}, partition {row['partition']}"
        lag = {"lag_items": row["lag_items"], "error": row["error"]}
        found.append({"output": name, "state": row["state"], **lag})
    return found
