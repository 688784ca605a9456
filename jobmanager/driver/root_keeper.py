"""RootKeeper: a driver's housekeeping in its root, with retries while the store is unreachable.

It checks the ownership of the root, takes the requests of users, deletes obsolete files, and
restarts a long log from a copy of the state. If a step fails at a tick, a later tick tries it
again, at growing intervals, until ``store_wait_s`` has passed. Meanwhile :attr:`waiting` has the
error.

Invariant: before a deletion, the driver flushes the log, then checks that it still owns the root.
"""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from typing import TYPE_CHECKING

from jobmanager.errors import BrokenFileError, JobRunningError
from jobmanager.storage.root import CHANGE, CHECKPOINTS, DRAIN, RETRY
from jobmanager.storage.savepoints import FOLDER, manifests, named_files
from rstream.errors import OperatingError
from rstream.store.blobs import temporaries
from rvertex.checkpoint.codec import epoch_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from jobmanager.config import JobConfig
    from jobmanager.manager.manager import JobManager
    from jobmanager.state.messages import DeleteLeftovers
    from jobmanager.storage.notice_log import NoticeLog
    from jobmanager.storage.root import JobRoot
    from rstream.clock import Clock
    from rstream.store.protocol import BlobStore

_log = logging.getLogger(__name__)
#: Attempts of a necessary action before the first pause. The store retries within each attempt.
TRIES_MIN = 4
#: Seconds from a restart to the deletion of left-over files, so that several restarts share one
#: listing.
LEFTOVERS_WAIT_S = 30.0
#: Seconds between two checks whether a savepoint was expired that names obsolete files.
KEPT_WAIT_S = 30.0


class RootKeeper:
    """The housekeeping of one driver. Only the driver's thread may use it."""

    def __init__(
        self,
        root: JobRoot,
        log: NoticeLog,
        config: JobConfig,
        clock: Clock,
        pause: Callable[[float], object],
        report: Callable[[], None],
    ) -> None:
        """Keep the root in order. ``pause``: sleeps, s. ``report``: writes a status.

        Both are called in the driver's thread.
        """
        self._report = report
        self._root, self._log, self._pause = root, log, pause
        self._config, self._clock = config, clock
        #: Files to delete. The notices that made them obsolete are durable.
        self._obsolete: deque[str] = deque()
        #: Files that savepoints name; None: not read since the last savepoint.
        self._saved: frozenset[str] | None = None
        #: The manifests of these savepoints, by name; and their obsolete files.
        self._manifests: dict[str, str] = {}
        self._kept: set[str] = set()
        #: When to check for expired savepoints, or to read a broken one again. Monotonic seconds.
        self._look_s, self._read_s = 0.0, 0.0
        #: Why no file is deleted; empty if all savepoints can be read.
        self.broken = ""
        self.leftovers_wait_s = LEFTOVERS_WAIT_S
        #: Per vertex, which instances are dead and may have left files; and when to delete these
        #: files.
        self._leftovers: dict[str, DeleteLeftovers] = {}
        self._leftovers_s = 0.0
        #: Requests that were passed to the job manager, but stay in the root until the job's end.
        self._taken: set[str] = set()
        self.is_replaced = False
        #: The error for which the job waits; empty if the root can be reached.
        self.waiting = ""
        #: Since when the root is unreachable; and when to try again. Monotonic seconds.
        self._failing_s = 0.0
        self._pause_s, self._next_s = 0.0, 0.0

    def check_owner(self) -> None:
        """Check that no other job manager has taken over.

        Raises:
            JobRunningError: another job manager has taken over.
            StoreError: the root cannot be read.
        """
        try:
            self._root.check_owner()
        except JobRunningError:
            self.is_replaced = True
            raise

    def make_obsolete(self, names: Iterable[str]) -> None:
        """Delete these files at the next tick."""
        self._obsolete.extend(names)

    def note_leftovers(self, leftovers: DeleteLeftovers) -> None:
        """Delete files of dead instances later. A later note on a vertex replaces earlier ones."""
        if not self._leftovers:
            self._leftovers_s = self._clock.monotonic_s() + self.leftovers_wait_s
        self._leftovers[leftovers.vertex] = leftovers

    def note_savepoint(self) -> None:
        """A savepoint was taken: read again which files must stay."""
        self._saved = None

    def delete_obsolete(self) -> None:
        """Delete obsolete files, except files of savepoints. Failed deletions are tried again.

        No file is deleted while a savepoint cannot be read.
        """
        if self._obsolete and self._saved is None:
            self._read_savepoints()
        while self._obsolete and self._saved is not None:
            name = self._obsolete[0]
            if name in self._saved:
                self._kept.add(name)
            else:
                self._root.store.delete(name)
            self._obsolete.popleft()

    def _read_savepoints(self) -> None:
        """Read which files savepoints name. If one is broken, try again later."""
        store, now = self._root.store, self._clock.monotonic_s()
        if self.broken and now < self._read_s:
            return
        try:
            self._manifests = manifests(store, FOLDER)  # first, so that no change is missed
            self._saved, self.broken = named_files(store), ""
        except BrokenFileError as error:
            self._read_s = now + self._config.store_pause_max_s
            self.broken = f"savepoint {error.path}: {error.reason}; no checkpoint is deleted"
            _log.warning("%s", self.broken)

    def _recheck_kept(self, now: float) -> None:
        """Make kept files obsolete again if a savepoint was taken, replaced or expired.

        Only a running driver may do this: after a rollback, the job itself may need these files.
        """
        if self._kept and self._saved is not None and now >= self._look_s:
            self._look_s = now + KEPT_WAIT_S
            if manifests(self._root.store, FOLDER) != self._manifests:
                self._saved = None
        if self._saved is None:
            self._obsolete.extend(sorted(self._kept))
            self._kept.clear()

    def maintain(
        self, manager: JobManager, take: Callable[[str], None], write_status: Callable[[], None]
    ) -> None:
        """Take requests, restart a long log, delete obsolete files. Failures are retried at a tick.

        Raises:
            OperatingError: the work has failed for ``store_wait_s``.
            JobRunningError: another job manager has taken over.
        """
        now = self._clock.monotonic_s()
        if self.waiting and now < self._next_s:
            return
        # Read this before the check of the owner. Then a successor has created its epoch after the
        # copy was durable, and has read the copy.
        is_copied = self._log.has_durable_copy
        try:
            self.check_owner()
            if manager.job.is_open:
                self._take_requests(take)
            if is_copied:
                self.make_obsolete(self._log.truncate())
            elif self._log.is_long and manager.job.is_open:
                self._log.append_copy(manager.copy_state())
            if self._leftovers and now >= self._leftovers_s:
                self.make_obsolete(left_behind(self._root.store, self._leftovers))
                self._leftovers.clear()
            self._recheck_kept(now)
            self.delete_obsolete()
            write_status()
        except OperatingError as error:
            self._note_failure(now, error)
            if now - self._failing_s > self._config.store_wait_s:
                raise
            self._report_waiting()
        else:
            self._note_success()

    def _take_requests(self, take: Callable[[str], None]) -> None:
        """Pass each request on, once. CANCEL, STOP and FINISH stay in the root until the end."""
        for request in self._root.requests():
            if request.startswith(DRAIN) or request in (RETRY, CHANGE):
                self._root.forget_request(request)
                take(request)
            elif request not in self._taken:
                self._taken.add(request)
                take(request)

    def insist(self, action: Callable[[], None]) -> None:
        """Do a necessary action, and retry while the store fails.

        Raises:
            OperatingError: the action has failed for ``store_wait_s``, or after the number of
                pauses that fit into that time.
        """
        since_s, pause_s = self._clock.monotonic_s(), self._config.store_pause_s
        tries_max = TRIES_MIN + int(self._config.store_wait_s / self._config.store_pause_max_s)
        for attempt in range(tries_max - 1):
            try:
                action()
                self._note_success()
                return
            except OperatingError as error:
                _log.warning("the root cannot be reached: %s", error)
                if self._clock.monotonic_s() - since_s > self._config.store_wait_s:
                    raise
                self.waiting = f"store: {error}"
            if attempt >= TRIES_MIN:
                self._report_waiting()
                self._pause(pause_s)
                pause_s = min(2 * pause_s, self._config.store_pause_max_s)
        action()

    def _report_waiting(self) -> None:
        """Write a status with :attr:`waiting`. This process sees it even if the store fails."""
        with contextlib.suppress(OperatingError):
            self._report()

    def _note_failure(self, now_s: float, error: OperatingError) -> None:
        config = self._config
        if not self.waiting:
            self._failing_s, self._pause_s = now_s, config.store_pause_s
            _log.warning("the root cannot be reached; trying again: %s", error)
        else:
            self._pause_s = min(2 * self._pause_s, config.store_pause_max_s)
        self._next_s = now_s + self._pause_s
        self.waiting = f"store: {error}"

    def _note_success(self) -> None:
        if self.waiting:
            _log.warning("the root can be reached again")
        self.waiting = ""


def left_behind(store: BlobStore, reported: Mapping[str, DeleteLeftovers]) -> list[str]:
    """Return checkpoint files of dead instances that are not needed.

    They include temporary files of interrupted writes.
    """
    paths = []
    broken_off = (f"{CHECKPOINTS}/{name}" for name in temporaries(store.child(CHECKPOINTS)))
    for path in (*store.list(CHECKPOINTS), *broken_off):
        _, vertex, *_ = path.split("/")
        leftovers, epoch = reported.get(vertex), epoch_of(path)
        if leftovers is None or epoch is None:
            continue
        is_dead = epoch < leftovers.before and epoch not in leftovers.present
        if is_dead and path not in leftovers.needed:
            paths.append(path)
    return paths
