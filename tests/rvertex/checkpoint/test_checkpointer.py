"""When checkpoints are due, in which order they are stored, and what is announced.

Not covered: threads (the test steps the background by hand).
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from rstream import ManualClock, MemoryBlobs
from rstream.errors import OperatingError, StoreError
from rvertex.checkpoint.checkpointer import (
    FAILURES_MAX,
    AllAttached,
    Checkpointer,
    CheckpointSlot,
    read_checkpoint,
)
from rvertex.errors import CorruptCheckpointError
from rvertex.host.environment import HostLimits
from rvertex.messages import CheckpointTaken
from rvertex.operators.protocol import OperatorState
from rvertex.vertex.spec import ReplayFrom, Snapshot, VertexId, VertexSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from rvertex.messages import HostNotice

SPEC = VertexSpec(VertexId("v.0"), "v", 0, (), None, (), (), pa.schema([]), "schema")
FOLDER = "checkpoints/v.0"
ALONE = CheckpointSlot()


class Failing(MemoryBlobs):
    """A store whose puts sometimes fail."""

    is_down = False

    def put(self, path: str, data: bytes | pa.Buffer) -> None:
        if self.is_down:
            raise StoreError(path, "down")
        super().put(path, data)


class Stepped:
    """A background whose tasks run when the test tells it to."""

    def __init__(self) -> None:
        self.tasks: deque[Callable[[], Any]] = deque()

    def submit(self, task: Callable[[], Any]) -> Future[Any]:
        self.tasks.append(task)
        return Future()

    def run(self, count: int = 1_000) -> int:
        done = 0
        while self.tasks and done < count:
            self.tasks.popleft()()
            done += 1
        return done


@dataclass
class World:
    """A vertex with a few numbers as state, and its host."""

    limits: HostLimits = field(default_factory=lambda: HostLimits(checkpoint_inline_bytes_max=0))
    store: Any = field(default_factory=Failing)
    background: Any = field(default_factory=Stepped)
    clock: Any = field(default_factory=ManualClock)
    taken: list[CheckpointTaken] = field(default_factory=list)
    position: int = 0
    is_durable: bool = True
    wakes: int = 0

    def notify(self, notice: HostNotice) -> None:
        assert isinstance(notice, CheckpointTaken)
        self.taken.append(notice)

    def wake(self) -> None:
        self.wakes += 1

    def snapshot(self) -> Snapshot:
        tables = {
            "steady": pa.table({"x": list(range(100))}),
            "moving": pa.table({"x": [self.position]}),
        }
        states = (OperatorState({}), OperatorState({}, tables))
        where = ((self.position,), (self.position * 2,))
        return Snapshot(SPEC.id, "schema", *where, (b"",), states)

    def checkpointer(
        self, slot: CheckpointSlot = ALONE, epoch: int = 1, **limits: Any
    ) -> Checkpointer:
        self.limits = replace(self.limits, **limits)
        return Checkpointer(
            SPEC,
            epoch,
            self,  # type: ignore[arg-type]
            get_snapshot=lambda is_whole: self.snapshot(),
            is_durable=lambda outputs, is_urgent, is_whole: self.is_durable,
            slot=slot,
            loaded=None,
            positions=(self.position,),
        )

    def after(self, checkpoints: Checkpointer, seconds: float, *, moved: int = 1) -> int:
        """Let time pass and the vertex advance. Return the number of announced checkpoints."""
        before = len(self.taken)
        self.clock.advance(int(seconds * 1e6))
        self.position += moved
        for _ in range(3):
            checkpoints.poll((self.position,))
            self.background.run()
        return len(self.taken) - before


def test_a_stored_checkpoint_wakes_the_host() -> None:
    """An idle host would announce it up to ``idle_wait_s`` later, and a stop waits for it."""
    world = World()
    checkpoints = world.checkpointer()
    checkpoints.request()
    checkpoints.poll((1,))
    assert world.wakes == 0
    world.background.run()
    assert world.wakes == 1
    checkpoints.poll((1,))
    assert len(world.taken) == 1


def test_a_checkpoint_is_due_after_the_interval() -> None:
    world = World()
    checkpoints = world.checkpointer(checkpoint_interval_s=5.0)
    assert [world.after(checkpoints, s) for s in (4.9, 0.2, 4.9, 0.2, 5.0)] == [0, 1, 0, 1, 1]
    assert world.after(checkpoints, 100.0, moved=0) == 0, "nothing was consumed"
    assert [t.name for t in world.taken] == [f"{FOLDER}/00000001-00000{i}.ckpt" for i in (1, 2, 3)]
    assert not any(t.asked for t in world.taken)


def test_checkpoints_by_bytes_of_input() -> None:
    world = World()
    checkpoints = world.checkpointer(checkpoint_interval_s=None, checkpoint_bytes_max=1_000)
    assert world.after(checkpoints, 1e6) == 0
    checkpoints.note_input(600)
    assert world.after(checkpoints, 1.0) == 0
    checkpoints.note_input(400)
    assert world.after(checkpoints, 1.0) == 1
    checkpoints.note_input(999)
    assert world.after(checkpoints, 1e6) == 0


def test_checkpoints_by_whichever_limit_is_reached_first() -> None:
    world = World()
    checkpoints = world.checkpointer(checkpoint_interval_s=5.0, checkpoint_bytes_max=1_000)
    checkpoints.note_input(1_000)
    assert world.after(checkpoints, 0.1) == 1
    assert world.after(checkpoints, 5.0) == 1


def test_no_checkpoints_without_a_limit() -> None:
    world = World()
    checkpoints = world.checkpointer(checkpoint_interval_s=None)
    checkpoints.note_input(1 << 40)
    assert world.after(checkpoints, 1e6) == 0
    checkpoints.request()
    assert world.after(checkpoints, 0.0) == 1
    assert world.taken[0].asked


def test_replicas_take_checkpoints_in_turn() -> None:
    world = World()
    replicas = [
        world.checkpointer(CheckpointSlot(k, 3), k, checkpoint_interval_s=1.0) for k in range(3)
    ]
    order = []
    for tick in range(9):
        world.clock.advance(1_000_000)
        world.position += 1
        for k, checkpoints in enumerate(replicas):
            if world.after(checkpoints, 0.0, moved=0):
                order.append((tick, k))
    assert order == [(tick, tick % 3) for tick in range(9)], "one in each interval"


def test_a_request_is_answered_by_a_later_snapshot() -> None:
    world = World()
    checkpoints = world.checkpointer(checkpoint_interval_s=1.0)
    world.clock.advance(1_000_000)
    world.position = 7
    checkpoints.poll((7,))
    world.background.run(1)
    checkpoints.request()
    world.position = 9
    for _ in range(4):
        checkpoints.poll((9,))
        world.background.run()
    assert [(t.inputs, t.asked) for t in world.taken] == [((7,), False), ((9,), True)]
    checkpoints.request()
    assert world.after(checkpoints, 0.0, moved=0) == 1, "also where nothing was consumed since"


def test_only_a_snapshot_at_the_cut_is_the_last_checkpoint() -> None:
    world = World()
    checkpoints = world.checkpointer(checkpoint_interval_s=None)
    checkpoints.request(whole=True)
    checkpoints.poll((7,))
    checkpoints.only_requested = True
    world.position = 9
    checkpoints.request(last=True)
    for _ in range(4):
        checkpoints.poll((9,))
        world.background.run()
    assert [(t.is_whole, t.is_last) for t in world.taken] == [(True, False), (False, True)]
    assert world.taken[-1].inputs == (9,)


def test_a_checkpoint_is_announced_when_it_is_stored_and_its_outputs_are_durable() -> None:
    world = World(is_durable=False)
    checkpoints = world.checkpointer(checkpoint_interval_s=1.0)
    assert world.after(checkpoints, 1.0) == 0
    assert world.store.list(FOLDER)
    assert world.after(checkpoints, 0.5) == 0, "at most one is under way"
    world.is_durable = True
    assert world.after(checkpoints, 0.0) == 1
    taken = world.taken[0]
    assert (taken.inputs, taken.reads, taken.outputs) == ((1,), (1,), (2,))
    assert taken.size_bytes == sum(world.store.size(p) for p in (taken.name, *taken.parts))
    loaded = read_checkpoint(world.store, taken.name, SPEC)
    assert loaded.snapshot.inputs == (1,)


def test_a_checkpoint_of_a_rebuilt_vertex_names_the_start_of_a_replay() -> None:
    class Rebuilt(World):
        def snapshot(self) -> Snapshot:
            start = ReplayFrom((self.position - 3,), OperatorState({}))
            return replace(super().snapshot(), replay_from=start)

    world = Rebuilt(position=9)
    assert world.after(world.checkpointer(checkpoint_interval_s=1.0), 1.0) == 1
    (taken,) = world.taken
    assert (taken.inputs, taken.reads) == ((10,), (7,))


def test_each_part_is_a_task_and_a_closed_instance_starts_no_more() -> None:
    world = World()
    checkpoints = world.checkpointer(checkpoint_interval_s=1.0)
    world.clock.advance(1_000_000)
    checkpoints.poll((5,))
    world.background.run(1)
    assert len(world.store.list(FOLDER)) == 1
    checkpoints.close()
    world.background.run()
    assert len(world.store.list(FOLDER)) == 1


def test_a_failed_upload_is_retried_and_leaves_no_file() -> None:
    world = World()
    checkpoints = world.checkpointer(checkpoint_interval_s=1.0)
    for _ in range(FAILURES_MAX):
        world.clock.advance(1_000_000)
        world.position += 1
        checkpoints.poll((world.position,))
        world.background.run(2)
        world.store.is_down = True
        world.background.run()
        checkpoints.poll((world.position,))
        world.store.is_down = False
    assert world.after(checkpoints, 1.0) == 1
    (taken,) = world.taken
    assert world.store.list(FOLDER) == sorted([taken.name, *taken.parts])


def test_a_requested_checkpoint_that_failed_is_still_requested() -> None:
    world = World()
    checkpoints = world.checkpointer(checkpoint_interval_s=None)
    checkpoints.request()
    world.store.is_down = True
    assert world.after(checkpoints, 0.0) == 0
    world.store.is_down = False
    assert world.after(checkpoints, 0.0) == 1
    assert world.taken[0].asked
    assert world.after(checkpoints, 100.0) == 0, "it was answered once"


def test_only_consecutive_failed_uploads_count() -> None:
    world = World()
    checkpoints = world.checkpointer(checkpoint_interval_s=1.0)
    for _ in range(3):
        world.store.is_down = True
        for _ in range(FAILURES_MAX):
            assert world.after(checkpoints, 1.0) == 0
        world.store.is_down = False
        assert world.after(checkpoints, 1.0) == 1


def test_a_running_upload_becomes_urgent_when_another_checkpoint_is_requested() -> None:
    """A request makes the current checkpoint urgent, since the requested one starts after it."""
    world, urgent = World(), [False]
    checkpoints = world.checkpointer(checkpoint_interval_s=1.0)

    def is_durable(outputs: tuple[int, ...], is_urgent: bool, is_whole: bool) -> bool:
        urgent.append(is_urgent)
        return is_urgent

    checkpoints._is_durable = is_durable
    assert world.after(checkpoints, 1.0) == 0
    assert not any(urgent)
    checkpoints.request()
    assert world.after(checkpoints, 0.0, moved=0) == 2
    assert [taken.asked for taken in world.taken] == [False, True]


class Attached:
    """Files that a vertex writes over time; each is listed until a checkpoint has named it."""

    def __init__(self, kind: str) -> None:
        self.kind, self.made, self.told = kind, 0, 0

    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.kind}/{k}" for k in range(self.told, self.made))

    def announced(self, names: tuple[str, ...]) -> None:
        assert names == self.names()[: len(names)], "they are its own, from the first on"
        self.told += len(names)


def test_a_checkpoint_names_each_attached_file_from_before_its_snapshot_once() -> None:
    """Parts written while a checkpoint is stored, or if it fails, are in a later checkpoint."""
    world, values, intake = World(), Attached("values"), Attached("intake")
    checkpoints = world.checkpointer(checkpoint_interval_s=1.0)
    checkpoints._attached_files = AllAttached(values, intake)

    def take(*, made: tuple[int, int], then: tuple[int, int], fails: bool = False) -> None:
        values.made, intake.made = made
        world.clock.advance(1_000_000)
        world.position += 1
        checkpoints.poll((world.position,))
        values.made, intake.made = then
        world.store.is_down = fails
        world.background.run()
        checkpoints.poll((world.position,))
        world.store.is_down = False

    take(made=(2, 1), then=(3, 3))
    take(made=(3, 3), then=(5, 3), fails=True)
    take(made=(5, 4), then=(6, 6))
    take(made=(6, 6), then=(6, 6))
    take(made=(6, 6), then=(7, 7))
    attached = [[n for n in t.parts if not n.startswith("checkpoints/")] for t in world.taken]
    assert attached == [
        ["values/0", "values/1", "intake/0"],
        ["values/2", "values/3", "values/4", "intake/1", "intake/2", "intake/3"],
        ["values/5", "intake/4", "intake/5"],
        [],
    ]


def test_consecutive_failed_uploads_fail_the_instance() -> None:
    world = World()
    world.store.is_down = True
    checkpoints = world.checkpointer(checkpoint_interval_s=1.0)
    for _ in range(FAILURES_MAX):
        assert world.after(checkpoints, 1.0) == 0
    with pytest.raises(OperatingError, match="down"):
        world.after(checkpoints, 1.0)


def test_a_missing_checkpoint_is_named() -> None:
    with pytest.raises(CorruptCheckpointError, match="nowhere is corrupt: the file is gone"):
        read_checkpoint(MemoryBlobs(), "nowhere", SPEC)
