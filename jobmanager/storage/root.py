"""JobRoot: the folder of one job on a blob store, and its files.

    query.pkl            the user's query (so that ``resume`` does not need the query file)
    job.json             format, name, time, parallelism; written second: with it there is a job
    plan.pkl             the physical plan with the discovered source units, durable before use
    versions/<epoch>/    later versions of these three files, and other files that owners replace
    status.json          the latest status, rewritten while the job runs
    epochs/<epoch>       the job manager of this epoch; created exclusively
    requests/            requests of users to the job manager; any process may write there
    notices/<epoch>/     the notices of that job manager, as an rStream
    streams/<stream>/    durable channels        checkpoints/<vertex>/    output/ (default sink)

Every file has a checksum (:mod:`jobmanager.storage.documents`). Only commands that the user runs on
this root read the pickles, and only if no other user may have written them, or is trusted
(:mod:`jobmanager.storage.trust`). No data from the network is unpickled.

Invariants: (1) the owner is the creator of the newest epoch; (2) an owner that checks its ownership
*after* its notices are durable, and then acts, does nothing unknown to a successor, which reads the
notices after creating its epoch; (3) only a later owner deletes claims, the oldest first, so all
claims after an existing one exist; (4) a request stays until the job has ended, so if a job manager
dies before it handles the request, the next one does; (5) only the first owner writes query, plan
and settings under their plain names, and each later owner writes its own versions: so an owner that
was suspended after a check replaces no file of its successor.
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
    from collections.abc import Callable

    from planner import Query
    from planner.physical.plan import PhysicalPlan
    from rstream.store.protocol import BlobStore

#: Format of stored files. Raise it if the former release would misread one (docs/versions.md).
FORMAT = 9
#: The oldest readable format: that of two minor releases ago.
OLDEST_FORMAT = 9
JOB = "job.json"
QUERY = "query.pkl"
PLAN = "plan.pkl"
STATUS = "status.json"
REQUESTS = "requests"
CHECKPOINTS = "checkpoints"
EPOCHS = "epochs"
CANCEL, STOP, FINISH, DRAIN, RETRY = "cancel", "stop", "finish", "drain-", "retry"
CHANGE, GENERATION = "change", "generation"
#: In job.json: the savepoint from before the newest change that is not rolled back, or empty.
UNDO = "undo"
#: In job.json: ranges of generations, first and last, that rollbacks have undone.
UNDONE = "undone"
#: In job.json of an exported job: the id under which destinations know its deliveries, or empty.
DELIVERS_AS = "delivers_as"
NOTICES, STREAMS = "notices", "streams"
VERSIONS = "versions"
#: Most reads of a file that is replaced meanwhile.
READS_MAX = 3
#: The files that a job needs, with their contents in words, for messages.
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
        opener: Callable[[str], BlobStore] = open_store,
    ) -> None:
        """Open. ``trust``: unpickle files that others may write. ``opener``: for streams."""
        self.store, self.open_store = open_store(root) if isinstance(root, str) else root, opener
        self.uri = self.store.uri
        #: Whether a file on a local disk is synced (fsync) before it counts as durable.
        self.is_synced = True
        self._is_trusted, self._pid = trust, os.getpid() if pid is None else pid
        self._machine = socket.gethostname() if machine is None else machine
        self.epoch, self._claim = 0, b""  # of this job manager; epoch 0: it does not own the root

    def without_fsync(self) -> None:
        """Let the system decide when files on a local disk are written."""
        self.store, self.is_synced = unsynced(self.store), False

    def make_private(self) -> None:
        """Let only this user read the job's files. Raises StoreError if the folder is another's."""
        if isinstance(self.store, FsspecBlobs):
            self.store.make_private()

    @property
    def name(self) -> str:
        """The name of the job: the last part of the root's path."""
        return self.uri.rstrip("/").rsplit("/", 1)[-1]

    def check_free(self, now_us: int) -> None:
        """Check that a new job may be created here.

        Raises:
            JobExistsError: the root holds a job that has started, or is about to start.
        """
        has_started = self.store.exists(PLAN) or bool(self.store.list(NOTICES))
        if has_started or self.store.exists(JOB):
            owner = self.owner()
            if has_started or is_owned(owner, now_us):
                note = self._query_note()
                raise JobExistsError(display_uri(self.uri), owner.get("state", "unknown"), note)

    def _query_note(self) -> str:
        """Return a note if the file of the job's query has changed; else empty."""
        from jobmanager.storage.query_file import changed_note

        with contextlib.suppress(NoJobError, BrokenFileError):
            return changed_note(self.settings().get("query_file"), display_uri(self.uri)) or ""
        return ""

    def create(self, query: Query, settings: dict[str, Any], *, now_us: int) -> None:
        """Record a new job before any part of it runs. It replaces a job that never started.

        Raises:
            JobExistsError: the root holds a job already.
        """
        self.check_free(now_us)
        settings = {"format": FORMAT, **settings}
        self.store.put(self.own_path(QUERY), pickle_document(query))
        self.store.put(self.own_path(JOB), json_document(settings))
        self.store.put_new(JOB, json_document(settings))  # shows other processes that it is a root

    def own_path(self, name: str) -> str:
        """Return where this owner writes its version of a file, which replaces earlier ones."""
        return name if self.epoch <= 1 else f"{VERSIONS}/{self.epoch:010d}/{name}"

    def read_file(self, name: str) -> bytes:
        """Return the current version of a file: the newest owner that wrote one decides.

        Raises:
            FileNotFoundError: there is none.
        """
        for _ in range(READS_MAX):
            later = [path for path in self.store.list(VERSIONS) if path.endswith(f"/{name}")]
            with contextlib.suppress(FileNotFoundError):  # a later owner has replaced it meanwhile
                return self.store.get(max(later, default=name))
        raise FileNotFoundError(f"{self.store.uri}/{name}")

    def replace(self, name: str, data: bytes) -> None:
        """Write this owner's version of a file of a job that has started.

        Raises:
            JobRunningError: another job manager has taken over.
        """
        self.check_owner()
        self.store.put(self.own_path(name), data)
        self.delete_replaced()

    def delete_replaced(self) -> None:
        """Delete the versions of files that later ones have replaced. Any process may do so."""
        newest: dict[str, str] = {}
        for path in sorted(self.store.list(VERSIONS)):
            name = path.rpartition("/")[2]
            if name in newest:
                self.store.delete(newest[name])
            newest[name] = path

    def settings(self) -> dict[str, Any]:
        """Return the settings that ``create`` recorded.

        Raises:
            NoJobError: the root has no settings.
            BrokenFileError: the settings cannot be read.
        """
        try:
            return read_job_document(self.read_file(JOB), range(OLDEST_FORMAT, FORMAT + 1))
        except BrokenDocumentError as error:
            raise self._broken(JOB, str(error)) from error
        except FileNotFoundError as error:
            if self.store.exists(PLAN) or self.store.exists(QUERY):
                raise self._broken(JOB, "it is gone") from error
            raise NoJobError(display_uri(self.uri)) from error

    def readable_settings(self) -> dict[str, Any]:
        """Return the settings, after a check of the format. Call it before unpickling a file.

        Raises:
            NoJobError: the root has no job.
            JobFormatError: another version stored the job.
            BrokenFileError: the settings cannot be read.
        """
        settings = self.settings()
        version = settings.get("format", 0)
        if not OLDEST_FORMAT <= version <= FORMAT:
            raise JobFormatError(display_uri(self.uri), version, OLDEST_FORMAT, FORMAT)
        return settings

    def check_trusted(self) -> None:
        """Check that no other user may have written the pickles, or that ``trust`` is set.

        Raises:
            UntrustedRootError: another user may have written them.
        """
        if not self._is_trusted:
            later = self.store.list(VERSIONS)
            folders = {path.rpartition("/")[0] for path in later}
            check_trusted(self.uri, (JOB, PLAN, QUERY, VERSIONS, *sorted(folders), *later))

    def read_query(self) -> Query:
        """Return the user's query.

        Raises:
            UntrustedRootError, BrokenFileError: the file must not or cannot be unpickled.
        """
        return self._unpickled(QUERY, self._needed(QUERY), to_run=True)  # type: ignore[no-any-return]

    def read_plan(self, *, to_run: bool = False) -> PhysicalPlan | None:
        """Return the physical plan, with the present path of the root; None if there is none yet.

        Raises:
            UntrustedRootError, BrokenFileError: the file must not or cannot be unpickled.
            ChangedCodeError: ``to_run`` is set, and code in the plan has changed.
        """
        data = self.plan_file()
        if not data:
            if self.store.list(NOTICES):
                raise self._broken(PLAN, "it is gone or empty")
            return None  # without hard links, a dead process may leave an empty file
        return plan_in(self._unpickled(PLAN, data, to_run=to_run), display_uri(self.uri))

    def plan_file(self) -> bytes:
        """Return the content of the file of the plan, to notice changes; empty if there is none."""
        try:
            return self.read_file(PLAN)
        except FileNotFoundError:
            return b""

    def _needed(self, name: str) -> bytes:
        try:
            return self.read_file(name)
        except FileNotFoundError as error:
            raise self._broken(name, "it is gone") from error

    def _unpickled(self, name: str, data: bytes, *, to_run: bool) -> Any:
        from jobmanager.storage.query_file import module_places

        self.check_trusted()
        with contextlib.suppress(NoJobError, BrokenFileError):
            put_on_path(*module_places(self.settings()))
        try:
            return read_pickle_document(data, to_run=to_run)
        except BrokenDocumentError as error:
            raise self._broken(name, str(error)) from error

    def _broken(self, name: str, reason: str) -> BrokenFileError:
        return BrokenFileError(f"{display_uri(self.uri)}/{name}", reason, _MEANINGS[name])

    def with_inputs(
        self, plan: PhysicalPlan, *, accepts_changes: bool
    ) -> tuple[PhysicalPlan, tuple[str, ...]]:
        """Return the plan with the present versions of input files, and notes for the user.

        Raises:
            InputsChangedError: a file has changed, and ``accepts_changes`` is False.
        """
        from jobmanager.storage.inputs import checked_inputs

        checked, notes = checked_inputs(plan, accepts_changes=accepts_changes)
        if checked is not plan:
            self.replace_plan(checked)
        return checked, notes

    def replace_plan(self, plan: PhysicalPlan) -> None:
        """Replace the plan of a job that has started.

        Raises:
            JobRunningError: another job manager has taken over.
        """
        self.replace(PLAN, pickle_document(plan_without_place(plan)))

    def write_plan(self, plan: PhysicalPlan) -> None:
        """Write the first plan of a job durably.

        Raises:
            JobRunningError: another job manager has started the job meanwhile.
        """
        data = pickle_document(plan_without_place(plan))
        if self.store.put_new(PLAN, data):
            return
        self.check_owner()
        if self.read_plan() is not None:
            raise self._is_running(self.owner())
        self.store.put(self.own_path(PLAN), data)  # replaces the empty file of a dead process

    def read_status(self) -> dict[str, Any]:
        """Return the latest status; empty if there is none, or if the file is broken.

        Its paths are those of the root's present place.
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
        """Return the fields of a file that may be missing; empty if it is missing or broken."""
        try:
            return read_json_document(self.store.get(name))
        except (FileNotFoundError, BrokenDocumentError):
            return {}

    def write_status(self, status: dict[str, Any]) -> None:
        """Replace the status atomically, without a sync. If the job has ended, delete requests."""
        if self.epoch and status.get("state") not in OPEN_STATES:
            for request in self.requests():
                self.forget_request(request)
        owned = {"manager_epoch": self.epoch} if self.epoch else {}
        unsynced(self.store).put(STATUS, json_document({**status, **owned}))

    def record_failure(self, error: str, now_us: int) -> None:
        """Write an error to the status, unless this process lost the root, or the store fails."""
        with contextlib.suppress(JobRunningError, OperatingError):
            self.check_owner()
            failed = {"job": self.name, "state": "failed", "error": error}
            here = {"root": display_uri(self.uri), "written_us": now_us}
            self.write_status({**here, **self.read_status(), **failed})

    def request(self, what: str) -> None:
        """Send a request to the job manager of this root, in any process, or to the next one.

        ``what``: ``CANCEL``, ``STOP``, ``FINISH``, ``RETRY``, ``CHANGE``, or ``DRAIN`` and a host.
        """
        self.store.put(f"{REQUESTS}/{what}", b"")

    def requests(self) -> list[str]:
        """Return the open requests to this job manager or an earlier one."""
        return [path.rsplit("/", 1)[-1] for path in self.store.list(REQUESTS)]

    def forget_request(self, what: str) -> None:
        """Delete a request that is done or pointless."""
        self.store.delete(f"{REQUESTS}/{what}")

    def check_idle(self, now_us: int) -> int:
        """Check that no other process works on the root. Return the newest epoch.

        Raises:
            JobRunningError: a live job manager works on the root.
        """
        epoch = self._newest_epoch()
        owner = self.owner(epoch)
        if is_owned(owner, now_us, pid=self._pid, machine=self._machine):
            raise self._is_running(owner)
        return epoch

    def take_over(self, now_us: int) -> None:
        """Become the owner, visibly to other processes. Call it before any other work.

        Raises:
            JobRunningError: a live job manager of another process works on this root.
        """
        self.claim(now_us, after=self.check_idle(now_us))

    def claim(self, now_us: int, *, after: int | None = None) -> None:
        """Become the owner in place of any former one: create the epoch after ``after``.

        ``after``: None: the newest. Raises JobRunningError: another process has created that epoch.
        """
        epoch = (self._newest_epoch() if after is None else after) + 1
        me = {"pid": self._pid, "machine": self._machine, "written_us": now_us}
        starting = {"job": self.name, "state": "starting", "error": "", **me}
        claim = json_document({**starting, "manager_epoch": epoch})
        if not self.store.put_new(epoch_name(epoch), claim):
            raise self._is_running(self.owner())
        if self._newest_epoch() > epoch:  # a later owner has deleted this epoch's claim
            self.store.delete(epoch_name(epoch))
            raise self._is_running(self.owner())
        self.epoch, self._claim = epoch, claim
        self.write_status({**self.read_status(), **starting})

    def check_owner(self) -> None:
        """Check that no other process has taken over. Call it before any deletion.

        It reads its own claim too. If a store cannot create files exclusively, and two processes
        claim an epoch at the same moment, one of them finds the other's claim there.

        Raises:
            JobRunningError: another job manager has taken over.
            StoreError: the claim is missing, or the store failed.
        """
        assert self.epoch, "owns nothing"
        name = epoch_name(self.epoch)
        if self.store.exists(epoch_name(self.epoch + 1)):
            raise self._is_running(self.owner())
        try:
            is_own = self.store.get(name) == self._claim
        except FileNotFoundError as error:
            if self._newest_epoch() > self.epoch:
                raise self._is_running(self.owner()) from error
            raise StoreError(f"{display_uri(self.uri)}/{name}", "the file is gone") from error
        if not is_own:
            raise self._is_running(self.owner())

    def _newest_epoch(self) -> int:
        """Return the highest epoch of claims, notice logs and the status; claims may be lost."""
        claims = [path.split("/")[1] for path in self.store.list(EPOCHS)]
        logs = [path.split("/")[1] for path in self.store.list(NOTICES)]
        stated: int = self.read_status().get("manager_epoch", 0)
        return max([stated, *(int(name) for name in claims + logs if name.isdecimal())])

    def owner(self, epoch: int | None = None) -> dict[str, Any]:
        """Return the newest job manager's status, or its claim; empty if neither is readable."""
        epoch = self._newest_epoch() if epoch is None else epoch
        status = self.read_status()
        if status.get("manager_epoch", 0) >= epoch:
            return status
        return self._document(epoch_name(epoch))

    def _is_running(self, status: dict[str, Any]) -> JobRunningError:
        owner = f"pid {status.get('pid', '?')} on {status.get('machine', '?')}"
        return JobRunningError(display_uri(self.uri), owner)


def delivery_id(settings: dict[str, Any]) -> str:
    """Return the id under which destinations know the deliveries of a job with these settings."""
    return str(settings.get(DELIVERS_AS) or settings["id"])


def display_uri(uri: str) -> str:
    """Return the uri as a user would type it: a local one as a plain path."""
    return uri.removeprefix("file://")


def epoch_name(epoch: int) -> str:
    """Return the path of the file that claims an epoch."""
    return f"{EPOCHS}/{epoch:010d}"
