"""A process dies at every store call while it stores, announces and deletes a checkpoint.

One process is the job manager and the host of one vertex; its successor takes over the root, loads
the checkpoint that the log names and continues. Laws: every known checkpoint can be loaded and has
the state of its position; it is at or after the last acknowledged one; no name is used twice; after
the next checkpoint, every remaining file is named by one.

Not covered: a death of only the host or only the job manager (tests/sim).
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from jobmanager.config import JobConfig
from jobmanager.driver.root_keeper import left_behind
from jobmanager.manager.manager import JobManager
from jobmanager.state.messages import (
    DeleteFiles,
    DeleteLeftovers,
    JobResumed,
    JobStarted,
    Record,
    Tell,
    is_logged,
)
from jobmanager.state.topology import Topology
from jobmanager.storage.notice_log import NoticeLog
from jobmanager.storage.root import JobRoot
from rstream import InlineBackground, MemoryBlobs, StoreError
from rstream.clock import ManualClock
from rvertex.checkpoint.checkpointer import Checkpointer, CheckpointSlot, read_checkpoint
from rvertex.host.environment import HostLimits
from rvertex.messages import HostReady, StartVertex, VertexStarted
from rvertex.operators.protocol import OperatorState
from rvertex.vertex.spec import Snapshot
from tests.support.crashing_store import CrashingBlobs, DiedError, Life, deaths
from tests.support.shapes import vertex

if TYPE_CHECKING:
    from jobmanager.state.messages import Instruction, Notice
    from rstream import BlobStore

SPEC = vertex("a", writes=["out"], is_sink=True)
ROUNDS = 2


def snapshot_of(position: int) -> Snapshot:
    """A state with one part that stays and one that changes at every position."""
    tables = {
        "steady": pa.table({"x": list(range(50))}),
        "moving": pa.table({"x": [position] * 3}),
    }
    states = (OperatorState({"at": position}, tables),)
    return Snapshot(SPEC.id, SPEC.state_schema, (position,), (position,), (b"",), states)


@dataclass
class Work:
    """A job manager and its only host, in one process."""

    store: Any
    limits: HostLimits = field(default_factory=lambda: HostLimits(checkpoint_inline_bytes_max=0))
    background: Any = field(default_factory=InlineBackground)
    clock: Any = field(default_factory=lambda: ManualClock(7))

    def __post_init__(self) -> None:
        self._root = JobRoot(self.store, pid=1, machine="m")
        self._root.claim(1_000_000)
        self._log = NoticeLog(self._root, self.clock, JobConfig(), self.background)
        self.manager = JobManager(Topology([SPEC]), JobConfig())
        before = self._log.replay()
        self.manager.recall(before)
        self._begin = JobResumed if before else JobStarted

    def notify(self, notice: Notice) -> list[Instruction]:
        """Handle a notice as the driver does."""
        if is_logged(notice) and not self.manager.is_stale(notice):
            self._log.append(notice)
        out = self.manager.handle(notice)
        assert not [i for i in out if isinstance(i, Record)]
        leftovers = {i.vertex: i for i in out if isinstance(i, DeleteLeftovers)}
        for name in left_behind(self.store, leftovers) if leftovers else ():
            self.store.delete(name)
        if [i for i in out if isinstance(i, DeleteFiles)]:
            self.make_durable()
        for name in (n for i in out if isinstance(i, DeleteFiles) for n in i.names):
            self.store.delete(name)
        return out

    def wake(self) -> None:
        """The next poll completes the checkpoint."""

    def make_durable(self) -> None:
        self._log._stream.flush(0)
        self._root.check_owner()

    def start(self) -> tuple[int, Checkpointer]:
        """Start the vertex from its newest checkpoint. Return its position."""
        self.notify(self._begin(1, 0))
        self.make_durable()
        host = self.manager.hosts[0].name
        out = self.notify(HostReady(host, 0, 1, "m", "here"))
        (order,) = [i.instruction for i in out if isinstance(i, Tell)]
        assert isinstance(order, StartVertex)
        name = order.checkpoint
        loaded = read_checkpoint(self.store, name, SPEC) if name else None
        at = loaded.snapshot.inputs[0] if loaded is not None else 0
        self.notify(VertexStarted(host, "a", order.epoch, (at,)))
        self._at = at
        return at, Checkpointer(
            SPEC,
            order.epoch,
            self,  # type: ignore[arg-type]
            get_snapshot=lambda is_whole: snapshot_of(self._at),
            is_durable=lambda outputs, is_urgent, is_whole: True,
            slot=CheckpointSlot(),
            loaded=loaded,
            positions=(at,),
        )

    def move(self, checkpoints: Checkpointer) -> int:
        """Advance the vertex, and store and announce its checkpoints. Return its position."""
        self._at += 1
        checkpoints.request()
        checkpoints.poll((self._at,))
        checkpoints.poll((self._at,))
        return self._at


class Named(MemoryBlobs):
    """A store that accepts each name of a checkpoint or a part once."""

    def __init__(self) -> None:
        super().__init__()
        self.given: set[str] = set()

    def put(self, path: str, data: bytes | pa.Buffer) -> None:
        if path.startswith("checkpoints/"):
            assert path not in self.given, f"{path} is used twice"
            self.given.add(path)
        super().put(path, data)


def work(store: BlobStore, told: list[int]) -> None:
    """Start and take checkpoints; append the positions of the durable ones to ``told``."""
    process = Work(store)
    at, checkpoints = process.start()
    assert at >= max(told, default=0)
    for _ in range(ROUNDS):
        at = process.move(checkpoints)
        process.make_durable()
        told.append(at)


def newest(store: BlobStore) -> int:
    """Return the position of the next process, whose known parts must all be intact."""
    refs = Work(store).manager.tracker.refs("a")
    for ref in (ref for ref in refs if ref.name):
        loaded = read_checkpoint(store, ref.name, SPEC)
        expected = snapshot_of(ref.inputs[0])
        assert loaded.snapshot.inputs == ref.inputs == expected.inputs
        (state,), (wanted,) = loaded.snapshot.states, expected.states
        assert state.header == wanted.header
        assert {n: t.to_pydict() for n, t in state.tables.items()} == {
            n: t.to_pydict() for n, t in wanted.tables.items()
        }
    return refs[-1].inputs[0]


@pytest.mark.slow
def test_a_process_dies_at_every_call_of_a_checkpoint() -> None:
    """The process is the second one on the root.

    The first has left checkpoints, the third continues.
    """
    store, undisturbed = Named(), Life()
    work(store, [])
    work(CrashingBlobs(store, undisturbed), [])
    kinds = {call.split("/")[0] for call in undisturbed.calls}
    assert {"put checkpoints", "delete checkpoints", "get checkpoints"} <= kinds, kinds
    for at, how in deaths(undisturbed.calls, is_atomic=True):
        dies_at(at, how)


def dies_at(at: int, how: str) -> None:
    store, told = Named(), list[int]()
    work(store, told)
    life = Life(at, how)
    with contextlib.suppress(DiedError, StoreError):
        work(CrashingBlobs(store, life), told)
    assert life.is_dead
    where = f"{how} call {at}, {life.calls[-1]}"
    found = newest(store)
    assert told[-1] <= found <= told[-1] + 1, where
    work(store, told)
    assert newest(store) == told[-1] == found + ROUNDS, where
    assert set(store.list("checkpoints")) == named(store), where


def named(store: BlobStore) -> set[str]:
    """The files that the log names."""
    refs = Work(store).manager.tracker.refs("a")
    return {name for ref in refs for name in (ref.name, *ref.parts) if name}
