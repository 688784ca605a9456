"""Takes a savepoint of a running job, without a stop.

The job manager collects checkpoints that fit together (:mod:`jobmanager.manager.saving`) and keeps
all files that they need, also if the job ends meanwhile. Then a background thread copies the items
that were on their way between two vertices. The driver's thread checks that the checkpoints are
still protected, and writes the manifest. If that is not possible, the job must stop instead:
:attr:`Taking.reason`.

Invariant: the protection of the files ends after the manifest is durable, which names them.
"""

from __future__ import annotations

import contextlib
import copy
import logging
from concurrent.futures import wait
from typing import TYPE_CHECKING, Any

from jobmanager.driver.running.changes import drafting, pending
from jobmanager.driver.running.changes.copies import Draft
from jobmanager.driver.running.changes.cut import Cut, rests_of
from jobmanager.driver.running.changes.errors import ChangeRefusedError, NotACutError
from jobmanager.errors import JobRunningError
from jobmanager.manager import saving
from jobmanager.storage.root import display_uri
from jobmanager.storage.savepoints import delete_replaced
from rstream.errors import OperatingError
from rstream.log.background import JOIN_WAIT_S

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
        #: The draft, and after the manifest the deletion of the replaced savepoint.
        self._writing: Future[Any] | None = None
        self._refs: dict[str, CheckpointRef] = {}
        self._outcome: dict[str, Any] | None = None
        self._tries, self._begun_s = 1, clock.monotonic_s()
        #: Why the job must stop for the savepoint; empty: not known to be necessary.
        self.reason = ""
        #: Whether the outcome is recorded, or another job manager has taken over.
        self.is_over = False
        driver.save()

    def poll(self, manager: JobManager) -> None:
        """Do the next step, if it is due. Called between two notices."""
        if self._writing is not None and not self._writing.done():
            return
        if self._outcome is not None:
            self._record(self._outcome)
        elif self._writing is not None:
            self._written(self._writing)
        elif refs := saving.refs(manager.job):
            self._refs, job = refs, _copy_of(manager.job)
            self._writing = self._background.submit(lambda: self._write(job, refs))
        elif refs is None and self._clock.monotonic_s() - self._begun_s > (
            manager.config.stop_wait_s
        ):
            job = manager.job
            open_ones = [name for name, vertex in job.vertices.items() if not vertex.is_finished]
            late = next(name for name in open_ones if saving.ref_of(job, name) is None)
            self._give_up(f"no checkpoint of {late} within {job.config.stop_wait_s:g} s")

    def close(self) -> None:
        """The driver has ended. Complete a savepoint that is being written.

        A hung store delays this by at most ``JOIN_WAIT_S`` of the background. Then nothing is
        completed, and the change stays pending.
        """
        self._tries = TRIES_MAX
        if self._writing is not None and self._outcome is None:
            wait([self._writing], JOIN_WAIT_S)
            if self._writing.done():
                self._written(self._writing)
        self._background.close()
        if self._outcome is not None and not self.is_over:
            self._record(self._outcome)

    @property
    def is_hung(self) -> bool:
        """Whether the background still works after :meth:`close`."""
        return self._writing is not None and not self._writing.done()

    def _write(self, job: JobState, refs: dict[str, CheckpointRef]) -> tuple[Draft, Savepoint]:
        """Write all files but the manifest. Runs in the background."""
        plan, draft = self._root.read_plan(), Draft(self._root)
        assert plan is not None, "a job that runs has a plan"
        cut = Cut(job, refs, rests_of(job, plan, refs))
        name, now_us = self._change.savepoint, self._clock.now_us()
        saved = drafting.save_cut(draft, plan, cut, name, now_us)
        draft.synced()
        drafting.check_files(self._root, saved)
        return draft, saved

    def _written(self, writing: Future[tuple[Draft, Savepoint]]) -> None:
        self._writing, name = None, self._change.savepoint
        try:
            draft, saved = writing.result()
            if saving.refs(self._driver.job) != self._refs:
                raise NotACutError(display_uri(self._root.uri), "a checkpoint was lost meanwhile")
            made = drafting.complete(draft, saved)
        except JobRunningError:  # the driver's next check notices it, too
            self.is_over = True
        except (NotACutError, ChangeRefusedError, FileNotFoundError) as error:
            _log.info("savepoint %s begins again: %s", name, error)
            drafting.discard(self._root, name)
            if self._tries >= TRIES_MAX:
                self._give_up(str(error))
            else:
                self._tries += 1
                self._driver.end_save()
                self._driver.save()
        except Exception as error:  # no error of a savepoint may end the job
            _log.warning("savepoint %s could not be taken", name, exc_info=True)
            drafting.discard(self._root, name)
            reason = str(error) or type(error).__name__
            self._end({"state": "undone", "kind": "savepoint", "reason": reason})
        else:
            store = self._root.store
            self._writing = self._background.submit(lambda: delete_replaced(store, made))
            where = {"savepoint": made.name, "time": made.time_us, "stopped_because": ""}
            self._end({"state": "done", "kind": "savepoint", **where})

    def _give_up(self, reason: str) -> None:
        _log.warning("the job must stop for savepoint %s: %s", self._change.savepoint, reason)
        self.reason, self.is_over = reason, True
        self._driver.end_save()

    def _end(self, outcome: dict[str, Any]) -> None:
        """Protect the files no longer, unless the manifest names them."""
        self._outcome = outcome
        self._driver.end_save()

    def _record(self, outcome: dict[str, Any]) -> None:
        """Record the outcome. If the store fails, the next tick tries again."""
        store = self._root.store
        try:
            self._root.check_owner()
            pending.record(store, self._change.id, outcome, self._root.epoch)
        except JobRunningError:
            self.is_over = True
        except OperatingError as error:
            _log.warning("the outcome of a savepoint is not recorded yet: %s", error)
        else:
            self.is_over = True
            with contextlib.suppress(OperatingError):  # the next change deletes them, too
                pending.tidy(store)


def _copy_of(job: JobState) -> JobState:
    """Return the state of now, which a background thread may read."""
    now = copy.copy(job)
    now.vertices = {name: copy.copy(vertex) for name, vertex in job.vertices.items()}
    return now
