"""Changes a job between two legs: stops it at a cut, and carries the change out.

A leg is the run of a job from one change to the next. A request file starts a change of a running
job. The driver stops once the sources have reached the event time of the request. After the change,
the job's thread starts the next leg. A savepoint is taken without a stop, if possible. If a driver
dies before the change is done, ``resume`` carries it out before it starts the job, or at the next
cut.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from jobmanager.driver.input_positions import CHANGING
from jobmanager.driver.running.changes import pending
from jobmanager.driver.running.changes.apply import (
    SHELL,
    Shell,
    before_stop,
    carry_out,
    draw_ahead,
)
from jobmanager.driver.running.changes.drafting import save
from jobmanager.driver.running.changes.errors import NotACutError
from jobmanager.driver.running.changes.taking import Taking, reason_to_stop
from jobmanager.errors import JobRunningError
from jobmanager.storage.savepoints import STOP
from rstream.clock import SystemClock
from rstream.errors import OperatingError, StreamEngineError
from rstream.log.background import ThreadBackground

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobmanager.driver.driver import Driver
    from jobmanager.driver.running.changes.drafting import Drawn
    from jobmanager.driver.running.changes.pending import Change
    from jobmanager.manager.manager import JobManager
    from jobmanager.storage.root import JobRoot
    from rstream.clock import Clock
    from rstream.log.background import Background

_log = logging.getLogger(__name__)
#: Most stops for one change, since a stop may fail to reach a cut.
CHANGE_TRIES_MAX = 3
#: Kinds of changes after which processes may continue: they have imported the user's modules, and
#: another query may need other versions of them.
SAME_CODE = ("rescale", "savepoint")
#: Starts work and returns a function that waits for its end.
Aside = Callable[[Callable[[], None]], Callable[[], object]]


def in_thread(work: Callable[[], None]) -> Callable[[], object]:
    """Start the work. Return a function that waits for its end."""
    thread = threading.Thread(target=work, name="change", daemon=True)
    thread.start()
    return thread.join


class Delivering(Protocol):
    """The deliveries of a job."""

    @property
    def have_caught_up(self) -> bool:
        """Return whether the output again has all items that were delivered before a restart."""


class Changing:
    """Watches one leg of a job for requested changes.

    The driver's thread calls :meth:`note_request` and :meth:`note`.
    """

    #: Messages for users.
    notes: tuple[str, ...] = ()

    def __init__(
        self,
        root: JobRoot,
        deliveries: Delivering,
        on_begin: Callable[[], None],
        *,
        clock: Clock | None = None,
        background: Callable[[], Background] = lambda: ThreadBackground("savepoint"),
        aside: Aside = in_thread,
    ) -> None:
        """Start to watch. ``on_begin``: called before the driver is stopped.

        ``background``: opens the thread that writes a savepoint. ``aside``: draws a change.

        After a restart, a change waits until the output again has all items that ``deliveries``
        have delivered. Otherwise the new query would compute other items in their place.
        """
        self._root, self._deliveries, self._on_begin = root, deliveries, on_begin
        self._clock, self._background = clock or SystemClock(), background
        self._driver: Driver | None = None
        #: The savepoint that is being taken while the job runs.
        self._taking: Taking | None = None
        #: Why the job must stop for the savepoint.
        self.stopped_because = ""
        #: The change to carry out at the next cut.
        self.change: Change | None = None
        #: Whether it has requested the driver to stop.
        self.has_begun = False
        #: Whether the request file could not be read after a notice.
        self._is_unread = False
        self._aside = aside
        self._await_drawn: Callable[[], object] = lambda: None
        self._drawn: Drawn | None = None

    def watch(self, driver: Driver) -> None:
        """Stop this driver if a change is requested, or is already pending."""
        self._driver = driver
        driver.on_change, driver.on_ending = self.note_request, self._draw
        self.note_request()

    def note_request(self) -> None:
        """Read the request file after a notice, or after the savepoint that is being taken.

        Raises:
            OperatingError: the file cannot be read; :meth:`note` tries again.
        """
        self._is_unread = True
        if self._taking is None:
            self.change, self._is_unread = pending.pending(self._root.store), False

    def note(self, manager: JobManager) -> None:
        """Stop the driver if a change is due. Called between two notices."""
        if self._is_unread:
            with contextlib.suppress(OperatingError):
                self.note_request()
        if self._taking is not None:
            self._take(self._taking, manager)
            return
        if self.change is None or self.has_begun or manager.state != "running":
            return
        if any(host.state == "starting" for host in manager.hosts):
            # Its vertices cannot take part in the stop. Without a task slot, the job fails after
            # ``host_start_wait_s``: the error names the slots, and the change stays pending.
            return
        at_us = self.change.at_us
        is_due = at_us is None or at_us <= _reached(manager)
        if is_due and self._deliveries.have_caught_up:
            assert self._driver is not None
            if self.change.kind == "savepoint":
                self.stopped_because = self.stopped_because or reason_to_stop(manager)
                if not self.stopped_because:
                    made = self._driver, self._background(), self._clock
                    self._taking = Taking(self._root, self.change, *made)
                    return
            else:
                with contextlib.suppress(OperatingError):  # it is tried again after the stop
                    before_stop(self._root)
            self.has_begun = True
            self._driver.keeps_log = True
            if self.keeps_code:
                self._driver.keep_processes()
            self._on_begin()
            self._driver.stop()

    def _take(self, taking: Taking, manager: JobManager) -> None:
        taking.poll(manager)
        if not taking.is_over:
            return
        taking.close()
        self._taking, self.stopped_because = None, taking.reason
        if not taking.reason:
            self.change = None
            self._is_unread = True

    @property
    def keeps_code(self) -> bool:
        """Whether processes of hosts may run on after the change."""
        return self.change is not None and self.change.kind in SAME_CODE

    def _draw(self) -> None:
        """Draw the change while the hosts end, if the job has stopped for it."""
        driver, change = self._driver, self.change
        if not self.has_begun or change is None or driver is None:
            return

        def draw() -> None:
            self._drawn = draw_ahead(self._root, driver.job, change, self._clock)

        self._await_drawn = self._aside(draw)

    def drawn(self) -> Drawn | None:
        """Wait for the drawn change. Return it, once; None: there is none."""
        self._await_drawn()
        drawn, self._drawn = self._drawn, None
        return drawn

    def start(self) -> None:
        """Do nothing, because the driver's first tick checks for a change."""

    def stop(self, state: str) -> None:
        """Wait for a savepoint that is being written. End requests that wait for one in vain.

        Wait for a drawn change, too, unless the change is carried out.
        """
        if state != CHANGING:
            self._await_drawn()
        if self._taking is not None:
            self._taking.close()
            if self._taking.is_hung:  # it may still write files, so a successor must begin again
                return
            self._taking = None
        if state in ("finished", "cancelled", "stopped"):
            try:
                _end_pending(self._root, state)
            except StreamEngineError as error:
                _log.warning("the pending change was not ended: %s", error)


class Tidying:
    """Deletes files that a change has left, once all vertices run again."""

    notes: tuple[str, ...] = ()

    def __init__(self, root: JobRoot, work: Sequence[Callable[[], object]]) -> None:
        self._root, self._work = root, list(work)
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Do nothing, because hosts must start first."""

    def note(self, manager: JobManager) -> None:
        """Start once all vertices run. Called between two notices."""
        if self._thread is not None or not self._work:
            return
        if all(manager.job.is_running(instance) for _, instance in manager.job.instances()):
            self._thread = threading.Thread(
                target=tidy, args=(self._root, self._work), name="tidy", daemon=True
            )
            self._thread.start()

    def stop(self, state: str) -> None:
        """Wait until the files are deleted, or delete them now."""
        if self._thread is not None:
            self._thread.join()
        tidy(self._root, self._work)


def tidy(root: JobRoot, work: list[Callable[[], object]]) -> None:
    """Do the work, which deletes files, unless another job manager has taken over."""
    while work:
        one = work.pop(0)
        try:
            root.check_owner()
            one()
        except JobRunningError:  # its change may use files that this work would delete
            return
        except StreamEngineError as error:  # such files are obsolete for the next change, too
            _log.warning("files that a change has left were not deleted: %s", error)


def _reached(manager: JobManager) -> int:
    """Return the event time that all sources have reached."""
    sources = [v for v in manager.vertices.values() if v.shape.is_source and not v.is_finished]
    return min((vertex.cti for vertex in sources), default=2**63 - 1)


def change_now(
    root: JobRoot, *, tries_left: int = CHANGE_TRIES_MAX, shell: Shell = SHELL
) -> dict[str, Any] | None:
    """Carry out the pending change if the job is at a cut. Return its outcome.

    Returns None if no change is pending, or if the job is not at a cut and must continue and stop
    again.
    """
    try:
        return carry_out(root, shell)
    except NotACutError as error:
        _log.info("the change waits for a clean stop: %s", error)
        change = pending.pending(root.store)
        if tries_left > 1 or change is None:
            return None
        outcome = {"state": "undone", "kind": change.kind, "reason": str(error)}
        pending.close(root.store, change.id, outcome, root.epoch)
        return outcome


def _end_pending(root: JobRoot, state: str) -> None:
    """Give a pending change its outcome after the job has ended, if no later run can.

    A savepoint is taken of a stopped job.
    """
    change = pending.pending(root.store)
    if change is None:
        return
    if state == "finished" or (state == "cancelled" and change.kind == "savepoint"):
        reason = "the job has finished" if state == "finished" else "the job was cancelled"
        outcome = {"state": "undone", "kind": change.kind, "reason": reason}
        root.check_owner()
        pending.close(root.store, change.id, outcome, root.epoch)
    elif state == "stopped" and change.kind == "savepoint":
        change_now(root, tries_left=1)


def save_at_stop(root: JobRoot) -> None:
    """Save the cut of a clean stop as a savepoint, if there is one. ``resume`` does not need it."""
    with contextlib.suppress(NotACutError):
        try:
            save(root, STOP, SystemClock().now_us())
        except NotACutError:
            raise
        except StreamEngineError as error:
            _log.warning("the savepoint of the stop could not be taken: %s", error)
