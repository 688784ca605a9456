"""JobRoot: the folder of one job on a blob store, and what lies where in it.

    query.pkl            the query as the user gave it (so that ``resume`` needs no file of his)
    job.json             format, name, time, parallelism; written second: with it there is a job
    plan.pkl             the physical plan with the discovered source units, durable before use
    status.json          the latest status, rewritten while the job runs
    epochs/<epoch>       who became the job manager of this epoch; created exclusively
    requests/            what users ask of the job manager; any process may write there
    notices/<epoch>/     the rStream of that job manager
    streams/<stream>/    durable channels        checkpoints/<vertex>/    output/ (default sink)

Every file has a checksum (:mod:`jobmanager.storage.documents`). The pickles are read back only by
commands the user runs on a root that he names and that only he may write, unless he trusts others
(:mod:`jobmanager.storage.trust`); nothing that came over the network is unpickled. The plan names
what lies in the root relative to it, so a root can be moved.

Invariants: (1) the owner is who created the newest epoch; (2) whoever checks that he is still the
owner *after* his notices are durable, and then acts, does nothing that a successor does not know,
because a successor reads them after it has created its epoch; (3) claims are deleted by a later
owner alone, the oldest first, so where a claim is left the next one is, too; (4) a request stays
until its job has ended, so if a job manager dies over it, the next one takes it.
"""

from __future__ import annotations

import contextlib
import os
import socket
from typing import TYPE_CHECKING, Any

from jobmanager.errors import (
    BrokenFileError,
    JobExistsError,
    JobFormatError,
    JobRunningError,
    NoJobError,
)
from jobmanager.state.job_state import OPEN_STATES
from jobmanager.storage.documents import (
    BrokenDocumentError,
    json_document,
    pickle_document,
    read_job_document,
    read_json_document,
    read_pickle_document,
)
from jobmanager.storage.liveness import is_owned
from jobmanager.storage.places import placed, plan_in, plan_without_place, unplaced
from jobmanager.storage.trust import check_trusted
from rstream.errors import OperatingError, StoreError
from rstream.store.blobs import FsspecBlobs, open_store, unsynced
from rvertex.user_code.modules import put_on_path

if TYPE_CHECKING:
    from planner import Query
    from planner.physical.plan import PhysicalPlan
    from rstream.store.protocol import BlobStore

#: Raise it when the former release would misread a stored form (docs/versions.md).
FORMAT = 9
#: The oldest format that is read: that of two minor releases ago.
OLDEST_FORMAT = 9
JOB = "job.json"
QUERY = "query.pkl"
PLAN = "plan.pkl"
STATUS = "status.json"
REQUESTS = "requests"
CHECKPOINTS = "checkpoints"
EPOCHS = "epochs"
CANCEL, STOP, FINISH, DRAIN, RETRY = "cancel", "stop", "finish", "drain-", "retry"
CHANGE = "change"
NOTICES = "notices"
#: What a job cannot go on without, for messages.
_MEANINGS = {
    JOB: "the settings of the job",
    QUERY: "the query",
    PLAN: "the plan, with the input files that were found when the job began",
}


class JobRoot:
    """Typed access to the files of a job's root."""

    def __init__(
        self,
        root: str | BlobStore,
        *,
        pid: int | None = None,
        machine: str | None = None,
        trust: bool = False,
    ) -> None:
        """``pid``, ``machine``: who works on it. ``trust``: unpickle what others have written."""
        self.store = open_store(root) if isinstance(root, str) else root
        self.uri = self.store.uri
        #: Whether files on a local disk are synced before they count.
        self.is_synced = True
        self._is_trusted = trust
        self._pid = os.getpid() if pid is None else pid
        self._machine = socket.gethostname() if machine is None else machine
        self.epoch, self._claim = 0, b""  # the job manager's; 0: it owns nothing

    def without_fsync(self) -> None:
        """Let the system decide when files on a local disk are written."""
        self.store, self.is_synced = unsynced(self.store), False

    def make_private(self) -> None:
        """Let only this user read the job's files. Raises StoreError if the folder is another's."""
        if isinstance(self.store, FsspecBlobs):
            self.store.make_private()

    @property
    def name(self) -> str:
        """The last part of the root's path: how a job is called."""
        return self.uri.rstrip("/").rsplit("/", 1)[-1]

    def check_free(self, now_us: int) -> None:
        """A new job may be made here.

        Raises:
            JobExistsError: the root holds one that has started, or that somebody is about to start.
        """
        has_started = self.store.exists(PLAN) or bool(self.store.list(NOTICES))
        if has_started or self.store.exists(JOB):
            owner = self.owner()
            if has_started or is_owned(owner, now_us):
                note = self._query_note()
                raise JobExistsError(display_uri(self.uri), owner.get("state", "unknown"), note)

    def _query_note(self) -> str:
        """That the file of the job's query has changed, or nothing."""
        from jobmanager.storage.query_file import changed_note

        with contextlib.suppress(NoJobError, BrokenFileError):
            return changed_note(self.settings().get("query_file"), display_uri(self.uri)) or ""
        return ""

    def create(self, query: Query, settings: dict[str, Any], *, now_us: int) -> None:
        """Record a new job before anything of it runs; it replaces one that never started.

        Raises:
            JobExistsError: the root holds one already.
        """
        self.check_free(now_us)
        self.store.put(QUERY, pickle_document(query))
        self.store.put(JOB, json_document({"format": FORMAT, **settings}))

    def settings(self) -> dict[str, Any]:
        """What ``create`` recorded.

        Raises:
            NoJobError: nothing was.
            BrokenFileError: it cannot be read.
        """
        try:
            return read_job_document(self.store.get(JOB), range(OLDEST_FORMAT, FORMAT + 1))
        except BrokenDocumentError as error:
            raise self._broken(JOB, str(error)) from error
        except FileNotFoundError as error:
            if self.store.exists(PLAN) or self.store.exists(QUERY):
                raise self._broken(JOB, "it is gone") from error
            raise NoJobError(display_uri(self.uri)) from error

    def readable_settings(self) -> dict[str, Any]:
        """The settings of a job that this version can read; ask before anything is unpickled.

        Raises:
            NoJobError: there is none.
            JobFormatError: another version began it.
            BrokenFileError: they cannot be read.
        """
        settings = self.settings()
        found = settings.get("format", 0)
        if not OLDEST_FORMAT <= found <= FORMAT:
            raise JobFormatError(display_uri(self.uri), found, OLDEST_FORMAT, FORMAT)
        return settings

    def check_trusted(self) -> None:
        """Nobody else may have written the pickles, or whoever may is trusted.

        Raises:
            UntrustedRootError: somebody may.
        """
        if not self._is_trusted:
            check_trusted(self.uri, (JOB, PLAN, QUERY))

    def read_query(self) -> Query:
        """The query as the user gave it.

        Raises:
            UntrustedRootError, BrokenFileError: it is not to be unpickled.
        """
        return self._unpickled(QUERY, to_run=True)  # type: ignore[no-any-return]

    def read_plan(self, *, to_run: bool = False) -> PhysicalPlan | None:
        """The physical plan, in the place where the root is, or None if the job has none yet.

        Raises:
            UntrustedRootError, BrokenFileError: it is not to be unpickled, or is gone.
            ChangedCodeError: code that is ``to_run`` is not what it was.
        """
        if not self.store.exists(PLAN) or not self.store.size(PLAN):
            if self.store.list(NOTICES):
                raise self._broken(PLAN, "it is gone or empty")
            return None  # where there are no hard links, somebody may have died over an empty one
        return plan_in(self._unpickled(PLAN, to_run=to_run), display_uri(self.uri))

    def _unpickled(self, name: str, *, to_run: bool) -> Any:
        from jobmanager.storage.query_file import module_places

        self.check_trusted()
        put_on_path(*module_places(self._document(JOB)))
        try:
            return read_pickle_document(self.store.get(name), to_run=to_run)
        except BrokenDocumentError as error:
            raise self._broken(name, str(error)) from error
        except FileNotFoundError as error:
            raise self._broken(name, "it is gone") from error

    def _broken(self, name: str, reason: str) -> BrokenFileError:
        return BrokenFileError(f"{display_uri(self.uri)}/{name}", reason, _MEANINGS[name])

    def with_inputs(
        self, plan: PhysicalPlan, *, accepts_changes: bool
    ) -> tuple[PhysicalPlan, tuple[str, ...]]:
        """The plan to go on with on the input files that are there, and notes for the user.

        Raises:
            InputsChangedError: one has changed; where changes are accepted, the plan is replaced.
        """
        from jobmanager.storage.inputs import checked_inputs

        found, notes = checked_inputs(plan, accepts_changes=accepts_changes)
        if found is not plan:
            self.replace_plan(found)
        return found, notes

    def replace_plan(self, plan: PhysicalPlan) -> None:
        """Have the job go on with another plan.

        Raises:
            JobRunningError: another job manager has taken over.
        """
        self.check_owner()
        self.store.put(PLAN, pickle_document(plan_without_place(plan)))

    def write_plan(self, plan: PhysicalPlan) -> None:
        """Make the plan durable.

        Raises:
            JobRunningError: another job manager has begun the job meanwhile.
        """
        data = pickle_document(plan_without_place(plan))
        if self.store.put_new(PLAN, data):
            return
        self.check_owner()
        if self.read_plan() is not None:
            raise self._is_running(self.owner())
        self.store.put(PLAN, data)  # in place of one that somebody died over

    def read_status(self) -> dict[str, Any]:
        """The latest status; empty before the first, and if the file is broken: it is only shown.

        What it says of places follows the root.
        """
        status = self._document(STATUS)
        here = display_uri(self.uri)
        former = status.get("root", here)
        if former != here:
            status |= {"job": self.name, "root": here}
            if "output" in status:
                status["output"] = placed(unplaced(status["output"], former), here)
        return status

    def _document(self, name: str) -> dict[str, Any]:
        """A file that can be done without; empty if it is gone or broken."""
        try:
            return read_json_document(self.store.get(name))
        except (FileNotFoundError, BrokenDocumentError):
            return {}

    def write_status(self, status: dict[str, Any]) -> None:
        """Replace the status (atomically), without a sync. Requests to a job that ended go."""
        if self.epoch and status.get("state") not in OPEN_STATES:
            for request in self.requests():
                self.forget_request(request)
        owned = {"manager_epoch": self.epoch} if self.epoch else {}
        unsynced(self.store).put(STATUS, json_document({**status, **owned}))

    def record_failure(self, error: str, now_us: int) -> None:
        """Write it to the status, unless the root is another's by now, or the store what failed."""
        with contextlib.suppress(JobRunningError, OperatingError):
            self.check_owner()
            failed = {"job": self.name, "state": "failed", "error": error}
            here = {"root": display_uri(self.uri), "written_us": now_us}
            self.write_status({**here, **self.read_status(), **failed})

    def request(self, what: str) -> None:
        """Ask something of the job manager of this root, wherever it runs, or of the next one.

        ``what``: ``CANCEL``, ``STOP``, ``FINISH``, ``RETRY``, ``CHANGE``, or ``DRAIN`` and a host.
        """
        self.store.put(f"{REQUESTS}/{what}", b"")

    def requests(self) -> list[str]:
        """The open requests to this job manager or an earlier one."""
        return [path.rsplit("/", 1)[-1] for path in self.store.list(REQUESTS)]

    def forget_request(self, what: str) -> None:
        """It was done, or there is nothing left to do."""
        self.store.delete(f"{REQUESTS}/{what}")

    def check_idle(self, now_us: int) -> int:
        """Nobody of another process works on the root; gives the newest epoch.

        Raises:
            JobRunningError: a live job manager does.
        """
        epoch = self._newest_epoch()
        owner = self.owner(epoch)
        if is_owned(owner, now_us, pid=self._pid, machine=self._machine):
            raise self._is_running(owner)
        return epoch

    def take_over(self, now_us: int) -> None:
        """Become the owner, visibly to other processes, before anything else is done.

        Raises:
            JobRunningError: a live job manager of another process works on this root.
        """
        self.claim(now_us, after=self.check_idle(now_us))

    def claim(self, now_us: int, *, after: int | None = None) -> None:
        """Become the owner, whoever was it before: create the epoch ``after`` this (the newest).

        Raises:
            JobRunningError: somebody else has created it meanwhile.
        """
        epoch = (self._newest_epoch() if after is None else after) + 1
        me = {"pid": self._pid, "machine": self._machine, "written_us": now_us}
        starting = {"job": self.name, "state": "starting", "error": "", **me}
        claim = json_document({**starting, "manager_epoch": epoch})
        if not self.store.put_new(epoch_name(epoch), claim):
            raise self._is_running(self.owner())
        if self._newest_epoch() > epoch:  # this one was claimed and forgotten long ago
            self.store.delete(epoch_name(epoch))
            raise self._is_running(self.owner())
        self.epoch, self._claim = epoch, claim
        self.write_status({**self.read_status(), **starting})

    def check_owner(self) -> None:
        """Nobody else has taken over; to be asked before anything is taken away.

        It looks at its own claim too: where a store cannot create exclusively, one of two that
        claimed an epoch in the same moment finds that of the other there.

        Raises:
            JobRunningError: another job manager has.
            StoreError: the claim is not there any more, or the store failed.
        """
        assert self.epoch, "owns nothing"
        mine = epoch_name(self.epoch)
        if self.store.exists(epoch_name(self.epoch + 1)):
            raise self._is_running(self.owner())
        try:
            is_mine = self.store.get(mine) == self._claim
        except FileNotFoundError as error:
            if self._newest_epoch() > self.epoch:
                raise self._is_running(self.owner()) from error
            raise StoreError(f"{display_uri(self.uri)}/{mine}", "the file is gone") from error
        if not is_mine:
            raise self._is_running(self.owner())

    def _newest_epoch(self) -> int:
        """The highest epoch in claims, notice logs and the status; a claim may be lost."""
        claims = [path.split("/")[1] for path in self.store.list(EPOCHS)]
        logs = [path.split("/")[1] for path in self.store.list(NOTICES)]
        stated: int = self.read_status().get("manager_epoch", 0)
        return max([stated, *(int(name) for name in claims + logs if name.isdecimal())])

    def owner(self, epoch: int | None = None) -> dict[str, Any]:
        """The status of the newest job manager, or its claim; empty if neither can be read."""
        epoch = self._newest_epoch() if epoch is None else epoch
        status = self.read_status()
        if status.get("manager_epoch", 0) >= epoch:
            return status
        return self._document(epoch_name(epoch))

    def _is_running(self, status: dict[str, Any]) -> JobRunningError:
        owner = f"pid {status.get('pid', '?')} on {status.get('machine', '?')}"
        return JobRunningError(display_uri(self.uri), owner)


def display_uri(uri: str) -> str:
    """The uri as a user would type it: a local one as a plain path."""
    return uri.removeprefix("file://")


def epoch_name(epoch: int) -> str:
    """Where an epoch is claimed."""
    return f"{EPOCHS}/{epoch:010d}"
