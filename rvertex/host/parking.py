"""Parking: a process whose host has ended waits, and then runs the next host.

A rescale ends all hosts of a job and starts others that run the same user code. A new process takes
longer to start than the change itself, and the output would pause meanwhile. So the processes stay:
``StopHost.stays_at`` has the address of a :class:`Parking` in the job manager's process. A process
whose host has ended connects there (:class:`Parked`) and waits for :class:`NextHost`. A process
exits if it is not needed, or if its job manager dies.

Invariants: (1) a process parks only after its host has stopped as requested and has closed all its
streams, so nothing of the former host is written later; (2) a process runs at most one host at a
time, and a process that has ended gets no host; (3) a host counts as ended only when the process
that runs it has ended; (4) a process unpickles the next plan only from the root with which it was
started, which no message changes, and only bytes with the digest that arrived over the
authenticated connection.
"""

from __future__ import annotations

import contextlib
import hashlib
import queue
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from rstream import open_store
from rstream.errors import OperatingError, UsageError, error_class
from rstream.format.message_codec import MessageCodec
from rstream.store.blobs import unsynced
from rstream.transport.flight import ControlClient, ControlServer
from rvertex.host.host import HostSpec  # noqa: TC001 - the codec reads the hints

if TYPE_CHECKING:
    from collections.abc import Callable

    from rstream.store.protocol import BlobStore

P = TypeVar("P")
#: The file with the plan for parked processes, relative to the job's root.
PLAN_FILE = "parked/plan.pkl"
#: A process exits if it gets no host for this time, s. It is shorter than ``host_start_wait_s``, so
#: a new host does not wait in vain for the task slot of a parked process.
PARKED_WAIT_S = 60.0
#: A process that waits returns its free memory to the system after this time, s. Doing so at once
#: would delay a host that arrives soon.
IDLE_AFTER_S = 5.0
#: A parked process that has not accepted its host after this time, s, is considered hung.
TAKEN_WAIT_S = 5.0
#: A message that is sent instead of a ``NextHost``: the process exits.
LEAVE = b""


@error_class
class OtherPlanError(UsageError):
    """The plan that the job manager wrote for this process was replaced or deleted."""

    path: str

    message = "{path} is not, or no longer, the plan that the job manager of this host has written"


@dataclass(frozen=True, slots=True)
class NextHost:
    """The next host of a parked process. ``digest``: digest of the plan in :data:`PLAN_FILE`."""

    #: The host's configuration without the secret and the root, which the process has already.
    spec: HostSpec
    digest: bytes


_CODEC: MessageCodec[NextHost] = MessageCodec((NextHost,))


class Processes(Generic[P]):
    """Tracks which process runs which host, and which processes wait. Pure and without locks."""

    def __init__(self) -> None:
        #: Per process that has not ended: the host that it runs, or ran last.
        self._hosts: dict[P, str] = {}
        #: Per connected process, in the order of arrival: the host that it ran before. The process
        #: is *parked* until it gets another host or is dismissed.
        self._connected: dict[P, str] = {}

    def began(self, process: P, host: str) -> None:
        """Record that a new process runs ``host``."""
        self._hosts[process] = host

    def is_parked(self, process: P) -> bool:
        """Return whether the process waits for its next host."""
        return process in self._connected and self._connected[process] == self._hosts.get(process)

    @property
    def has_parked(self) -> bool:
        """Whether a process waits for its next host."""
        return bool(self._parked)

    @property
    def _parked(self) -> list[P]:
        return [process for process in self._connected if self.is_parked(process)]

    def park(self, host: str) -> P | None:
        """Record that the process of ``host`` waits for the next host.

        Returns the process; None: it has ended.
        """
        process = self.of(host)
        if process is not None:
            self._connected[process] = host
        return process

    def take(self, host: str) -> tuple[P | None, str]:
        """Assign ``host`` to a parked process. Return the process and its former host, or None."""
        process = next(iter(self._parked), None)
        if process is None:
            return None, ""
        former, self._hosts[process] = self._hosts[process], host
        return process, former

    def has_taken(self, host: str) -> bool:
        """Return whether the process of ``host`` has left the place where it waited for a host."""
        process = self.of(host)
        return process not in self._connected or self.is_parked(process)

    def dismiss(self, keep: int) -> list[str]:
        """Let all parked processes except ``keep`` exit. Return their former hosts."""
        return [self._connected.pop(process) for process in self._parked[keep:]]

    def lose(self, host: str) -> P | None:
        """Record that the connection of the process that ran ``host`` has ended.

        Returns the process if it was parked.
        """
        process = next((p for p, former in self._connected.items() if former == host), None)
        if process is None:
            return None
        was_parked = self.is_parked(process)
        del self._connected[process]
        return process if was_parked else None

    def end(self, process: P) -> str:
        """Record that a process has ended.

        Return the name of the host that ended with it; empty if the process was parked.
        """
        was_parked, host = self.is_parked(process), self._hosts.pop(process, "")
        self._connected.pop(process, None)
        return "" if was_parked else host

    def of(self, host: str) -> P | None:
        """Return the process that runs ``host``, or ran it last; None: that process has ended."""
        return next((process for process, own in self._hosts.items() if own == host), None)

    @property
    def running(self) -> list[P]:
        """Return the processes that are neither parked nor have ended."""
        return [process for process in self._hosts if not self.is_parked(process)]


class Parking:
    """The job manager's side: the connections of parked processes, by their former hosts."""

    def __init__(
        self,
        secret: str,
        bind: str,
        on_parked: Callable[[str], None],
        on_left: Callable[[str], None],
    ) -> None:
        """Open the place where processes wait.

        ``on_parked`` and ``on_left`` are called with the former host of a process that arrived or
        has left, from other threads.
        """
        self._server = ControlServer(secret, lambda *_: None, on_parked, on_left, host=bind)
        #: The store that has the plan; None: the plan is in no store.
        self._stored_in: BlobStore | None = None
        self.address = self._server.address

    def send(self, former: str, spec: HostSpec, plan: bytes) -> None:
        """Let the process that ran ``former`` run the host ``spec`` with the plan ``plan``.

        Raises:
            OperatingError: the process has gone, or the plan cannot be stored.
        """
        if self._stored_in is None:
            store = unsynced(open_store(spec.root))
            store.put(PLAN_FILE, plan)
            self._stored_in = store
        following = NextHost(replace(spec, secret="", root=""), _digest(plan))
        self._server.send(former, _CODEC.encode(following))

    def dismiss(self, former: str) -> None:
        """Let a parked process exit. Raises OperatingError: the process has gone."""
        self._server.send(former, LEAVE)

    def close(self) -> None:
        """End all connections: the remaining processes exit. Delete the plan."""
        self._server.close()
        stored_in, self._stored_in = self._stored_in, None
        if stored_in is not None:
            with contextlib.suppress(OperatingError):  # the next plan overwrites the file
                stored_in.delete(PLAN_FILE)


class Parked:
    """A process's side: the connection over which its next host arrives."""

    def __init__(self, spec: HostSpec, address: str) -> None:
        """Connect to the job manager. ``spec``: the process's former host.

        Raises:
            OperatingError: the job manager has gone.
        """
        self._inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._spec = spec
        self._link = ControlClient(
            address, spec.secret, spec.host, self._inbox.put, lambda: self._inbox.put(LEAVE)
        )

    def wait(self, idle: Callable[[], None] = lambda: None) -> tuple[HostSpec, bytes] | None:
        """Wait for the next host. Return it and its pickled plan; None: the process must exit.

        ``idle`` is called if no host arrives for ``IDLE_AFTER_S``.

        Raises:
            OtherPlanError: another process has written or deleted the plan in the root.
            InvalidMessageError, StoreError: the message or the plan cannot be read.
        """
        try:
            message = self._received(IDLE_AFTER_S)
            if message is None:
                idle()
                message = self._received(PARKED_WAIT_S - IDLE_AFTER_S) or LEAVE
        finally:
            self._link.close()
        if message == LEAVE:
            return None
        following = _CODEC.decode(message)
        root = self._spec.root
        try:
            plan = open_store(root).get(PLAN_FILE)
        except FileNotFoundError as error:
            raise OtherPlanError(f"{root}/{PLAN_FILE}") from error
        if _digest(plan) != following.digest:
            raise OtherPlanError(f"{root}/{PLAN_FILE}")
        return replace(following.spec, root=root, secret=self._spec.secret), plan

    def _received(self, wait_s: float) -> bytes | None:
        try:
            return self._inbox.get(timeout=wait_s)
        except queue.Empty:
            return None


def next_host(
    spec: HostSpec, address: str, idle: Callable[[], None]
) -> tuple[HostSpec, bytes] | None:
    """Park at ``address``. Return the next host and its plan; None: the process must exit.

    ``idle`` is called once if the process waits for more than ``IDLE_AFTER_S``.

    Raises:
        See :meth:`Parked.wait`.
    """
    try:
        parked = Parked(spec, address)
    except OperatingError:
        return None
    return parked.wait(idle)


def _digest(plan: bytes) -> bytes:
    return hashlib.sha256(plan).digest()
