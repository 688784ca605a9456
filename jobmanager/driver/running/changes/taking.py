"""Takes a savepoint of a running job, without a stop.

The job manager collects checkpoints that fit together (:mod:`jobmanager.manager.saving`) and keeps
all files that they need. Then a background thread copies the items that were on their way between
two vertices, and writes the manifest. If that is not possible, the job must stop instead:
:attr:`Taking.reason`.

Invariant: the protection of the files ends after the manifest is durable, which names them.
"""

from __future__ import annotations

import contextlib
import copy
import logging
from typing import TYPE_CHECKING, Any

from jobmanager.driver.running.changes import drafting, pending
from jobmanager.driver.running.changes.copies import Draft
from jobmanager.driver.running.changes.cut import Cut, rests_of
from jobmanager.driver.running.changes.errors import ChangeRefusedError, NotACutError
from jobmanager.errors import JobRunningError
from jobmanager.manager import saving
from jobmanager.storage.savepoints import delete_replaced
from rstream.errors import OperatingError, StreamEngineError

if TYPE_CHECKING:
    from concurrent.futures import Future

    from jobmanager.driver.driver import Driver
    from jobmanager.driver.running.changes.pending import Change
    from jobmanager.manager.manager import JobManager
    from jobmanager.state.job_state import JobState
    from jobmanager.state.tracker import CheckpointRef
    from jobmanager.storage.root import JobRoot
    from jobmanager.storage.savepoints import Savepoint
    from rstream.clock import Clock
    from rstream.log.background import Background

_log = logging.getLogger(__name__)
#: Most attempts. One fails if rows between two vertices are lost with a host.
TRIES_MAX = 3


def reason_to_stop(manager: JobManager) -> str:
    """Return why a savepoint of this job needs a stop; empty: it needs none."""
    vertices = manager.job.topology.vertices.values()
    strong = [v.id for v in vertices if v.recovery.strategy == "strong"]
    return f"vertex {strong[0]} recovers by 'strong'" if strong else ""


class Taking:
    """One savepoint of a running job, from its request to its outcome; for the driver's thread."""

    def __init__(
        self, root: JobRoot, change: Change, driver: Driver, background: Background, clock: Clock
    ) -> None:
        """Request the checkpoints."""
        self._root, self._change, self._driver = root, change, driver
        self._background, self._clock = background, clock
        self._writing: Future[Savepoint] | None = None
        self._outcome: dict[str, Any] | None = None
        self._tries, self._begun_s = 1, clock.monotonic_s()
        #: Why the job must stop for the savepoint; empty: not known to be necessary.
        self.reason = ""
        #: Whether the outcome is recorded, or another job manager has taken over.
        self.is_over = False
        driver.save()

    def poll(self, manager: JobManager) -> None:
        """Do the next step, if it is due. Called between two notices."""
        if self._outcome is not None:
            self._record(self._outcome)
        elif self._writing is not None:
            if self._writing.done():
                self._written(self._writing)
        elif (refs := saving.refs(manager.job)) is not None:
            job = _copy_of(manager.job)
            self._writing = self._background.submit(lambda: self._write(job, refs))
        elif self._clock.monotonic_s() - self._begun_s > manager.config.stop_wait_s:
            job = manager.job
            open_ones = [name for name, vertex in job.vertices.items() if not vertex.is_finished]
            late = next(name for name in open_ones if saving.ref_of(job, name) is None)
            self._give_up(f"no checkpoint of {late} within {job.config.stop_wait_s:g} s")

    def close(self) -> None:
        """The driver has ended. Wait for a savepoint that is being written, and record it."""
        self._background.close()
        if self._writing is not None and self._writing.done() and self._outcome is None:
            self._tries = TRIES_MAX
            self._written(self._writing)
        if self._outcome is not None and self._outcome["state"] == "done" and not self.is_over:
            self._record(self._outcome)

    def _write(self, job: JobState, refs: dict[str, CheckpointRef]) -> Savepoint:
        """Write the savepoint. Runs in the background."""
        root, name = self._root, self._change.savepoint
        plan = root.read_plan()
        assert plan is not None, "a job that runs has a plan"
        try:
            cut = Cut(job, refs, rests_of(job, plan, refs))
            draft = Draft(root)
            saved = drafting.save_cut(draft, plan, cut, name, self._clock.now_us())
            made = drafting.complete(draft, saved)
        except JobRunningError:
            raise
        except StreamEngineError:
            drafting.discard(root, name)
            raise
        with contextlib.suppress(OperatingError):  # a later savepoint of the name deletes them, too
            delete_replaced(root.store, made)
        return made

    def _written(self, writing: Future[Savepoint]) -> None:
        self._writing = None
        try:
            made = writing.result()
        except JobRunningError:  # the driver's next check notices it, too
            self.is_over = True
        except (NotACutError, ChangeRefusedError, FileNotFoundError) as error:
            _log.info("savepoint %s begins again: %s", self._change.savepoint, error)
            if self._tries >= TRIES_MAX:
                self._give_up(str(error))
            else:
                self._tries += 1
                self._driver.end_save()
                self._driver.save()
        except StreamEngineError as error:
            undone = {"state": "undone", "kind": "savepoint", "reason": str(error)}
            self._record(undone)
        else:
            where = {"savepoint": made.name, "time": made.time_us, "stopped_because": ""}
            self._record({"state": "done", "kind": "savepoint", **where})

    def _give_up(self, reason: str) -> None:
        _log.warning("the job must stop for savepoint %s: %s", self._change.savepoint, reason)
        self.reason, self.is_over = reason, True
        self._driver.end_save()

    def _record(self, outcome: dict[str, Any]) -> None:
        """Record the outcome. If the store fails, the next tick tries again."""
        self._outcome = outcome
        try:
            self._root.check_owner()
            pending.close(self._root.store, self._change.id, outcome, self._root.epoch)
        except JobRunningError:
            self.is_over = True
        except OperatingError as error:
            _log.warning("the outcome of a savepoint is not recorded yet: %s", error)
        else:
            self.is_over = True
            self._driver.end_save()


def _copy_of(job: JobState) -> JobState:
    """Return the state of now, which a background thread may read."""
    now = copy.copy(job)
    now.vertices = {name: copy.copy(vertex) for name, vertex in job.vertices.items()}
    return now
