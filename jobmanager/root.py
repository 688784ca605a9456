"""JobRoot: the folder of one job on a blob store, and what lies where in it.

    query.pkl            the query as the user gave it (so that ``resume`` needs no file of his)
    job.json             format, name, time, parallelism; written second: with it there is a job
    plan.pkl             the physical plan with the discovered source units, durable before use
    status.json          the latest status, rewritten while the job runs
    epochs/<epoch>       who became the job manager of this epoch; created exclusively, stays
    requests/            what users ask of the job manager; any process may write there
    notices/<epoch>/     the rStream of that job manager
    streams/<stream>/    durable channels        checkpoints/<vertex>/    output/ (default sink)

The pickles are read back only by commands the user runs on a root that he names; nothing that came
over the network is unpickled.

Invariants: (1) the owner is who created the newest epoch; (2) whoever checks that he is still the
owner *after* his notices are durable, and then acts, does nothing that a successor does not know,
because a successor reads them after it has created its epoch.
"""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

from jobmanager.errors import JobExistsError, JobFormatError, JobRunningError, NoJobError
from rstream.blobs import open_store
from rstream.errors import StoreError
from rvertex.shipped import load_shipped

if TYPE_CHECKING:
    from planner import Query
    from planner.physical import PhysicalPlan
    from rstream.blobs import BlobStore

#: Raised when anything that a job stores changes: pickled classes, notices, states of operators.
FORMAT = 3
#: Of jobs that do not say it.
_FIRST_FORMAT = 1
JOB = "job.json"
QUERY = "query.pkl"
PLAN = "plan.pkl"
STATUS = "status.json"
REQUESTS = "requests"
EPOCHS = "epochs"
CANCEL = "cancel"
DRAIN = "drain-"
NOTICES = "notices"
#: A status file older than this belongs to a job manager that is gone (or cut off).
STATUS_STALE_US = 15_000_000


class JobRoot:
    """Typed access to the files of a job's root."""

    def __init__(
        self, root: str | BlobStore, *, pid: int | None = None, machine: str | None = None
    ) -> None:
        """``pid``, ``machine``: who works on it; by default this process."""
        self.store = open_store(root) if isinstance(root, str) else root
        self.uri = self.store.uri
        self._pid = os.getpid() if pid is None else pid
        self._machine = socket.gethostname() if machine is None else machine
        #: The job manager's epoch; 0: it owns nothing.
        self.epoch = 0
        self._claim = b""

    @property
    def name(self) -> str:
        """The last part of the root's path: how a job is called."""
        return self.uri.rstrip("/").rsplit("/", 1)[-1]

    def check_free(self, now_us: int) -> None:
        """A new job may be made here.

        Raises:
            JobExistsError: the root holds one that has started, or that somebody is about to start.
        """
        if self.store.exists(JOB):
            owner = self._owner()
            if self.store.exists(PLAN) or is_owned(owner, now_us):
                raise JobExistsError(display_uri(self.uri), owner.get("state", "unknown"))

    def create(self, query: Query, settings: dict[str, Any], *, now_us: int) -> None:
        """Record a new job before anything of it runs; it replaces one that never started.

        Raises:
            JobExistsError: the root holds one already.
        """
        self.check_free(now_us)
        self.store.put(QUERY, cloudpickle.dumps(query))
        self.store.put(JOB, _json({"format": FORMAT, **settings}))

    def settings(self) -> dict[str, Any]:
        """What ``create`` recorded.

        Raises:
            NoJobError: nothing was.
        """
        if not self.store.exists(JOB):
            raise NoJobError(display_uri(self.uri))
        return json.loads(self.store.get(JOB))  # type: ignore[no-any-return]

    def readable_settings(self) -> dict[str, Any]:
        """The settings of a job that this version can read; ask before anything is unpickled.

        Raises:
            NoJobError: there is none.
            JobFormatError: another version began it.
        """
        settings = self.settings()
        found = settings.get("format", _FIRST_FORMAT)
        if found != FORMAT:
            raise JobFormatError(display_uri(self.uri), found, FORMAT)
        return settings

    def read_query(self) -> Query:
        """The query as the user gave it."""
        return load_shipped(self.store.get(QUERY))  # type: ignore[no-any-return]

    def read_plan(self) -> PhysicalPlan | None:
        """The physical plan, or None if the job failed before it had one."""
        data = self.store.get(PLAN) if self.store.exists(PLAN) else b""
        return load_shipped(data) if data else None

    def write_plan(self, plan: PhysicalPlan) -> None:
        """Make the plan durable.

        Raises:
            JobRunningError: another job manager has begun the job meanwhile.
        """
        data = cloudpickle.dumps(plan)
        if self.store.put_new(PLAN, data):
            return
        self.check_owner()
        if self.read_plan() is not None:
            raise self._is_running(self._owner())
        self.store.put(PLAN, data)  # in place of one that somebody died over

    def read_status(self) -> dict[str, Any]:
        """The latest status; empty before the first."""
        if not self.store.exists(STATUS):
            return {}
        return json.loads(self.store.get(STATUS))  # type: ignore[no-any-return]

    def write_status(self, status: dict[str, Any]) -> None:
        """Replace the status (atomically); an owner's tells its epoch."""
        owned = {"manager_epoch": self.epoch} if self.epoch else {}
        self.store.put(STATUS, _by_row({**status, **owned}))

    def request(self, what: str) -> None:
        """Ask something of the job manager of this root, wherever it runs.

        ``what``: ``CANCEL``, or ``DRAIN`` and the name of a host.
        """
        self.store.put(f"{REQUESTS}/{what}", b"")

    def requests(self) -> list[str]:
        """What was asked and not yet forgotten."""
        return [path.rsplit("/", 1)[-1] for path in self.store.list(REQUESTS)]

    def forget_request(self, what: str) -> None:
        """It was taken, or nobody is there to take it."""
        self.store.delete(f"{REQUESTS}/{what}")

    def check_idle(self, now_us: int) -> int:
        """Nobody of another process works on the root; gives the newest epoch.

        Raises:
            JobRunningError: a live job manager does.
        """
        epoch = self._newest_epoch()
        owner = self._owner(epoch)
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
        claim = _json({**starting, "manager_epoch": epoch})
        if not self.store.put_new(_epoch_name(epoch), claim):
            raise self._is_running(self._owner())
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
        mine = _epoch_name(self.epoch)
        try:
            is_mine = self.store.get(mine) == self._claim
        except FileNotFoundError as error:
            raise StoreError(f"{display_uri(self.uri)}/{mine}", "the file is gone") from error
        if not is_mine or self.store.exists(_epoch_name(self.epoch + 1)):
            raise self._is_running(self._owner())

    def _newest_epoch(self) -> int:
        names = self.store.list(EPOCHS)
        return int(names[-1].rpartition("/")[2]) if names else 0

    def _owner(self, epoch: int | None = None) -> dict[str, Any]:
        """The status of the newest job manager; before its first one, its claim."""
        epoch = self._newest_epoch() if epoch is None else epoch
        status = self.read_status()
        if status.get("manager_epoch", 0) >= epoch:
            return status
        return json.loads(self.store.get(_epoch_name(epoch)) or b"{}")  # type: ignore[no-any-return]

    def _is_running(self, status: dict[str, Any]) -> JobRunningError:
        owner = f"pid {status.get('pid', '?')} on {status.get('machine', '?')}"
        return JobRunningError(display_uri(self.uri), owner)


def display_uri(uri: str) -> str:
    """The uri as a user would type it: a local one as a plain path."""
    return uri.removeprefix("file://")


def is_owned(
    status: dict[str, Any], now_us: int, *, pid: int | None = None, machine: str | None = None
) -> bool:
    """Whether the job manager that wrote ``status``, not this process, still works on the job."""
    if status.get("state") not in ("starting", "running"):
        return False
    if status["machine"] == (machine or socket.gethostname()):
        owner, written_us = status["pid"], status["written_us"]
        is_other = owner != (os.getpid() if pid is None else pid)
        return is_other and _is_alive(owner) and _started_us(owner) <= written_us
    return bool(now_us - status["written_us"] < STATUS_STALE_US)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _started_us(pid: int) -> int:
    """When the process began, us UTC; 0 where the system does not tell.

    A process that began after the status was written only has the job manager's old number.
    """
    try:
        ticks = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
        lines = Path("/proc/stat").read_text().splitlines()
        (boot_s,) = (int(line.split()[1]) for line in lines if line.startswith("btime "))
    except (OSError, ValueError, IndexError):
        return 0
    return (boot_s + ticks // os.sysconf("SC_CLK_TCK")) * 1_000_000


def _epoch_name(epoch: int) -> str:
    return f"{EPOCHS}/{epoch:010d}"


def _by_row(value: dict[str, Any]) -> bytes:
    """As JSON, a line for each field and each row of a list: Python indents no numbers for it."""
    fields = [f"{json.dumps(name)}: {_rows(field)}" for name, field in value.items()]
    return ("{\n" + ",\n".join(fields) + "\n}").encode()


def _rows(field: Any) -> str:
    if not isinstance(field, list):
        return json.dumps(field)
    return "[\n" + ",\n".join(map(json.dumps, field)) + "\n]"


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, indent=1).encode()
