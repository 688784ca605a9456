"""Strong and logged instances, in any order or several at once: visible items never change.

Instances of one vertex run on one store with a background that the test steps, so that an old one
may wake up between any two actions of its successor. All items that any instance ever made
visible are compared, by sequence number.

Not covered: orders within one store operation, and hosts (tests/jobmanager/test_strong.py).
"""

from __future__ import annotations

import random
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgpack
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from rstream import ManualClock, MemoryBlobs, StreamLimits, open_reader
from rstream.errors import InvalidBatchError
from rstream.items.batch import Items
from rvertex.checkpoint.checkpointer import CheckpointSlot
from rvertex.checkpoint.journal import Journal
from rvertex.checkpoint.productions import Productions, open_history
from rvertex.checkpoint.value_log import _encode, open_values
from rvertex.errors import CorruptJournalError, OvertakenError
from rvertex.events.run import Run
from rvertex.host.environment import HostEnvironment, HostLimits
from rvertex.host.opening import prepare_instance
from rvertex.host.runner import VertexRunner
from rvertex.messages import CheckpointTaken, TakeCheckpoint, VertexFinished
from rvertex.operators.protocol import OperatorState, Stateless
from rvertex.operators.user.apply import Apply
from rvertex.operators.user.transform import UserOperator
from rvertex.sources.discover import discover
from rvertex.sources.spec import PlanItems, SourcePartition, SourceSpec
from rvertex.user_code.code import UserCode
from rvertex.user_code.context import Drawn
from rvertex.vertex.rvertex import StepResult
from rvertex.vertex.spec import OutputEdge, Recovery, Snapshot, VertexId, VertexSpec
from tests.support.budget import examples
from tests.support.builders import Item, cti, ev, make_items

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rstream.store.protocol import BlobStore
    from rvertex.messages import HostNotice
    from rvertex.operators.protocol import OperatorSpec
    from rvertex.user_code.context import VertexContext

PAYLOAD = pa.schema([("k", pa.int64())])
DRAWN = pa.schema([("k", pa.int64()), ("r", pa.float64()), ("total", pa.float64())])
ROWS = 30


class Draws:
    """Adds up the random numbers that it draws, two for some events."""

    def __init__(self) -> None:
        self.total = 0.0

    def open(self, ctx: VertexContext) -> None:
        self.ctx = ctx

    def execute(self, events: pa.RecordBatch, ctis: list[int]) -> Any:
        rows = []
        for vs, ve, k, *_ in (row.values() for row in events.to_pylist()):
            drawn = self.ctx.random() if k % 3 else float(self.ctx.lookup(looked_up, k))
            self.total += drawn
            rows.append((vs, ve, k, drawn, self.total))
        names = ["_vs", "_ve", *DRAWN.names]
        return {name: [row[i] for row in rows] for i, name in enumerate(names)}

    def get_snapshot(self) -> dict[str, Any]:
        return {"total": self.total}

    def load(self, state: dict[str, Any]) -> None:
        self.total = state["total"]


def looked_up(key: int) -> float:
    return key + random.random()


def rolled(batch: pa.RecordBatch) -> Any:
    """Returns other values each time."""
    r = [random.random() for _ in range(batch.num_rows)]
    return {"k": batch.column("k"), "r": r, "total": r}


def vertex(operators: list[OperatorSpec], recovery: Recovery) -> VertexSpec:
    items: list[Item] = []
    for t in range(ROWS):
        items += [ev(t, k=t % 7), *([cti(t + 1)] if t % 4 == 0 else [])]
    source = SourceSpec(
        kind=PlanItems(make_items(items, PAYLOAD)),
        path="",
        schema=PAYLOAD,
        columns=pa.schema([]),
        vs=None,
        cti_every_us=5,
    )
    return VertexSpec(
        id=VertexId("v.0"),
        stage="v",
        index=0,
        inputs=(),
        source=SourcePartition(source, discover(source), 0),
        operators=tuple(operators),
        outputs=(
            OutputEdge(("a", "b"), ("out/a", "out/b"), ("k",), "async"),
            OutputEdge(("c",), ("out/c",), (), "async", is_sink=True),
        ),
        output_payload=DRAWN,
        state_schema="tag",
        recovery=recovery,
    )


def drawing() -> list[OperatorSpec]:
    code = UserCode("Draws", Draws, draws_values=True)
    return [UserOperator(code, DRAWN), UserOperator(code, DRAWN)]


LOGGED = vertex(drawing(), Recovery())
STRONG = vertex([Apply(UserCode("rolled", rolled, False), DRAWN)], Recovery("strong"))
STRONG_DRAWING = vertex(drawing(), Recovery("strong"))


class Stepped:
    """A background whose tasks run when the test tells it to."""

    def __init__(self) -> None:
        self.tasks: deque[tuple[Callable[[], Any], Future[Any]]] = deque()

    def submit(self, task: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        self.tasks.append((task, future))
        return future

    def submit_later(self, delay_s: float, task: Callable[[], object]) -> None:
        self.submit(task)

    def wait_for(self, *_: Any) -> bool:
        raise AssertionError("nothing waits here")

    def close(self) -> None:
        self.tasks.clear()

    def run(self, count: int = 1) -> None:
        for _ in range(min(count, len(self.tasks))):
            task, future = self.tasks.popleft()
            try:
                future.set_result(task())
            except Exception as error:
                future.set_exception(error)


class Server:
    """A server that no reader uses."""

    address = ""

    def publish(self, *_: Any) -> None: ...

    def withdraw(self, *_: Any) -> None: ...


class Wiring:
    """A host's environment: the shared store, and a background of its own."""

    def __init__(self, store: MemoryBlobs, clock: ManualClock) -> None:
        self.background, self.clock, self._store = Stepped(), clock, store

    def open_store(self, uri: str) -> BlobStore:
        return self._store if uri == "root" else self._store.child(uri)


class Instance:
    """A runner on its own host; ``failure``: why it ended."""

    def __init__(self, world: World, epoch: int, checkpoint: str) -> None:
        self.world, self.epoch = world, epoch
        self.wiring = Wiring(world.store, world.clock)
        self.failure: Exception | None = None
        self.is_finished = False
        self.wakes = 0
        self.env = env = HostEnvironment(
            host=f"h{epoch}",
            writers={},
            root="root",
            server=Server(),  # type: ignore[arg-type]
            secret="",
            wiring=self.wiring,  # type: ignore[arg-type]
            limits=world.limits,
            notify=self.notify,
            wake=self.wake,
        )
        self.runner = VertexRunner(
            epoch, prepare_instance(world.spec, checkpoint, epoch, env), env, CheckpointSlot()
        )

    def wake(self) -> None:
        self.wakes += 1

    def notify(self, notice: HostNotice) -> None:
        if isinstance(notice, VertexFinished):
            self.is_finished = True
        elif isinstance(notice, CheckpointTaken) and self is self.world.newest:
            self.world.announce(notice)

    def poll(self) -> None:
        if self.failure is not None:
            return
        try:
            self.runner.poll()
        except OvertakenError as error:
            self.failure = error
            self.runner.close()
            return
        self.world.look(self)


class World:
    """A vertex, its instances, the known checkpoints, and all visible items."""

    def __init__(
        self,
        spec: VertexSpec,
        step_rows_max: int = 3,
        *,
        collect: bool = False,
        verify: bool = False,
        pace: float = 0.0,
    ) -> None:
        self.spec, self.store, self.clock = spec, MemoryBlobs(), ManualClock(1)
        self.limits = HostLimits(
            step_rows_max=step_rows_max,
            checkpoint_interval_s=2.0,
            checkpoint_inline_bytes_max=0,
            verify=verify,
            pace=pace,
            stream=StreamLimits(flush_interval_ms=1),
        )
        self.collect = collect
        self.checkpoints: list[CheckpointTaken] = []
        self.deleted: set[str] = set()
        self.seen: dict[tuple[str, int], Any] = {}
        self.instances: list[Instance] = []
        self.newest: Instance | None = None
        self.start()

    def start(self, back: int = 0) -> None:
        """Start a successor from the newest checkpoint, or ``back`` checkpoints earlier."""
        known = self.checkpoints[max(0, len(self.checkpoints) - 1 - back) :]
        instance = Instance(self, len(self.instances) + 1, known[0].name if known else "")
        self.instances.append(instance)
        self.newest = instance

    def announce(self, notice: CheckpointTaken) -> None:
        """Record a checkpoint. With ``collect``, only the last two and their files are kept."""
        self.checkpoints.append(notice)
        if self.collect and len(self.checkpoints) > 2:
            old = self.checkpoints.pop(0)
            named = {part for c in self.checkpoints for part in c.parts}
            for path in {old.name, *old.parts} - named:
                self.store.delete(path)
                self.deleted.add(path)

    def look(self, instance: Instance) -> None:
        """Check that each item in an instance's memory equals the earlier one with its number."""
        for stream in instance.runner.outputs:
            _, items = stream.read_tail(stream.tail_first_seq, 10_000)
            if items is None:
                continue
            for seq, row in enumerate(items.batch.to_pylist(), items.first_seq):
                assert self.seen.setdefault((stream.stream_id, seq), row) == row, seq

    def act(self, action: int) -> None:
        """Do an action. 0: the newest instance steps; 1: its background; 2: time.

        3, 4: an old instance; 5: restart.
        """
        assert self.newest is not None
        old = self.instances[len(self.instances) // 2 - 1]
        match action:
            case 0:
                self.newest.poll()
            case 1:
                self.newest.wiring.background.run(2)
            case 2:
                self.clock.advance(1_000_000)
            case 3:
                old.poll()
            case 4:
                old.wiring.background.run()
            case _:
                self.start(back=action - 5)
        if self.newest.failure is not None:
            self.start()

    def finish(self) -> list[list[Any]]:
        """Continue to the end. Return the items of every stream, from Parquet."""
        for _ in range(2_000):
            for action in (0, 1, 2):
                self.act(action)
            assert self.newest is not None
            if self.newest.is_finished:
                break
        else:
            raise AssertionError("it does not end")
        answers = [self._durable(name) for name in ("a", "b", "c")]
        for (name, seq), row in self.seen.items():
            assert answers["abc".index(name)][seq] == row, (name, seq)
        return answers

    def _durable(self, name: str) -> list[Any]:
        reader = open_reader(self.store.child(f"out/{name}"), 0)
        rows: list[Any] = []
        while (items := reader.read_next()) is not None:
            assert items.first_seq == len(rows)
            rows += items.batch.to_pylist()
        return rows


@pytest.mark.parametrize("spec", [LOGGED, STRONG, STRONG_DRAWING], ids=["logged", "strong", "both"])
@examples(3)
@given(
    actions=st.lists(st.sampled_from([0, 0, 0, 1, 1, 1, 2, 3, 4, 5, 6]), max_size=80),
    rows=st.integers(1, 9),
    collect=st.booleans(),
)
def test_all_instances_produce_one_history(
    spec: VertexSpec, actions: list[int], rows: int, collect: bool
) -> None:
    world = World(spec, rows, collect=collect)
    for action in actions:
        world.act(action)
    answers = world.finish()
    assert [len([r for r in rows if r["_kind"] == 0]) for rows in answers][2] == ROWS
    # A process that sleeps on wakes up too late.
    before = productions(world)
    for instance in world.instances[:-1]:
        for _ in range(20):
            instance.poll()
            instance.wiring.background.run(5)
    after = productions(world)
    assert before.items() <= after.items()
    left = after.keys() - before.keys()
    assert all(path < min(before) for path in left), "what it leaves is older than all that is read"
    assert [world._durable(name) for name in "abc"] == answers


def productions(world: World) -> dict[str, bytes]:
    return {p: data for p, data in world.store.blobs.items() if p.startswith("productions/")}


def run(world: World, turns: int) -> None:
    for _ in range(turns):
        for action in (0, 1, 2):
            world.act(action)


@pytest.mark.parametrize("spec", [LOGGED, STRONG], ids=["logged", "strong"])
def test_output_of_a_held_step_is_not_visible(spec: VertexSpec) -> None:
    world = World(spec, 4)
    for _ in range(10):
        world.act(0)
    assert not world.seen, "nothing is durable yet"
    assert world.newest is not None
    assert len(world.newest.wiring.background.tasks) == 1, "and no further step is made"
    world.newest.wiring.background.run()
    world.act(0)
    assert world.seen


@pytest.mark.parametrize("spec", [LOGGED, STRONG], ids=["logged", "strong"])
def test_no_row_is_awaited_while_a_step_is_held(spec: VertexSpec) -> None:
    """Due rows must not cause polling; the event that the step waits for wakes it."""
    world = World(spec, pace=0.001)
    instance = world.newest
    assert instance is not None
    runner = instance.runner
    for _ in range(ROWS):
        if runner._held is None:
            world.clock.advance(1_000)
            runner.poll()
    world.clock.advance(1_000_000)
    assert runner._ahead is not None
    assert not runner.poll()
    assert runner.wait_s is None
    wakes = instance.wakes
    instance.wiring.background.run(10)
    assert instance.wakes > wakes
    assert runner.poll()
    assert runner.wait_s == 0, "the next rows are due"


@pytest.mark.parametrize("due_us", [0, 9_000])
def test_an_idle_vertex_takes_each_requested_checkpoint(due_us: int) -> None:
    """It waited for the next step, and a stop waited for it, although its last step was stored."""
    world = World(STRONG, pace=0.001)
    world.clock.advance(due_us)  # later rows are not due

    def idle() -> None:
        for _ in range(20):
            world.act(0)
            world.act(1)

    idle()
    for count in (1, 2, 3):
        assert world.newest is not None
        world.newest.runner.take_checkpoint(TakeCheckpoint("h1", "v", 1, holds=count == 3))
        idle()
        taken = world.checkpoints[count - 1 :]
        assert [(one.asked, one.is_last) for one in taken] == [(True, count == 3)]
        assert taken[0].outputs == world.newest.runner.progress().outputs
    assert len({one.name for one in world.checkpoints}) == 3
    world.start()
    world.finish()


@pytest.mark.parametrize("spec", [LOGGED, STRONG], ids=["logged", "strong"])
def test_a_resumed_old_instance_is_rejected(spec: VertexSpec) -> None:
    world = World(spec, 4)
    old = world.newest
    assert old is not None
    run(world, 2)
    world.act(0)
    world.act(0)  # a step of the old instance is pending
    world.start()
    run(world, 4)
    for _ in range(10):
        old.wiring.background.run()
        old.poll()
    assert isinstance(old.failure, OvertakenError)
    world.finish()


@pytest.mark.parametrize("spec", [LOGGED, STRONG], ids=["logged", "strong"])
def test_journal_entries_are_deleted_with_their_checkpoints(spec: VertexSpec) -> None:
    world = World(spec, 2, collect=True)
    folder = "productions" if spec is STRONG else "values"
    world.finish()
    assert len(world.deleted) >= 3
    left = world.store.list(folder)
    assert 1 <= len(left) < 14, left
    assert max(left) > max(path for path in world.deleted if path.startswith(folder))


@pytest.mark.parametrize("spec", [STRONG, STRONG_DRAWING], ids=["strong", "both"])
@pytest.mark.parametrize("rows", [1, 2, 7])
def test_the_state_of_each_production_is_deleted_with_it(spec: VertexSpec, rows: int) -> None:
    world = World(spec, rows, collect=True)
    world.finish()
    kept = {name for c in world.checkpoints for name in (c.name, *c.parts)}
    newest = int(world.checkpoints[-1].name.rpartition("/")[2])
    states = world.store.list("production-state")
    assert states
    for path in states:
        number = int(path.rpartition("/")[2].split("-")[1])
        assert path in kept or number > newest, f"nothing names {path}"
    assert rows == 7 or any(path.startswith("production-state") for path in world.deleted)


@pytest.mark.parametrize("spec", [STRONG, STRONG_DRAWING], ids=["strong", "both"])
@pytest.mark.parametrize("rows", [1, 4, ROWS])
def test_the_last_entry_of_a_finished_vertex_belongs_to_no_checkpoint(
    spec: VertexSpec, rows: int
) -> None:
    """The last entry of a finished vertex stays, to stop an instance that wakes up."""
    world = World(spec, rows)
    zombie = world.newest
    assert zombie is not None
    world.start()
    instance = world.newest
    assert instance is not None
    while not instance.is_finished:  # a few rows per turn, or it has failed
        assert instance.failure is None
        instance.runner.checkpoints.request()
        for action in (0, 1, 2):
            world.act(action)
    for _ in range(5):
        instance.runner.checkpoints.request()
        instance.runner.checkpoints.poll(instance.runner.vertex.consumed)
        instance.wiring.background.run(10)
    named = {name for taken in world.checkpoints for name in (taken.name, *taken.parts)}
    *earlier, last = world.store.list("productions")
    assert set(earlier) == {name for name in named if name.startswith("productions/")}
    for name in earlier:
        world.store.delete(name)
    for _ in range(20):
        zombie.poll()
        zombie.wiring.background.run(5)
    assert isinstance(zombie.failure, OvertakenError)
    assert world.store.list("productions")[-1] == last


class Steps:
    """The productions of one instance whose steps the test makes; outputs are numbers."""

    def __init__(self, store: MemoryBlobs, checkpoint: str = "") -> None:
        self.store, self.background, self.clock = store, Stepped(), ManualClock(1)
        self.limits = HostLimits(checkpoint_interval_s=None)
        self.taken: list[CheckpointTaken] = []
        self.durable = 0
        self.history = open_history(STRONG, checkpoint, store)
        self.position = self.history.next_number
        self.productions = Productions(
            STRONG,
            self,  # type: ignore[arg-type]
            1,
            self.history,
            get_snapshot=self.snapshot,
            is_durable=lambda outputs, is_urgent, is_whole: outputs[0] <= self.durable,
        )

    def notify(self, notice: HostNotice) -> None:
        assert isinstance(notice, CheckpointTaken)
        self.taken.append(notice)

    def snapshot(self) -> Snapshot:
        at = self.position
        return Snapshot(STRONG.id, "tag", (at,), (at,) * 3, (b"",) * 3, (OperatorState({}),))

    def step(self, count: int = 1) -> None:
        for _ in range(count):
            self.position += 1
            self.productions.hold(StepResult((None, None, None)))
            self.background.run()
            self.productions.poll((self.position,))

    def ask(self, durable: int) -> list[tuple[int, list[int], int]]:
        """The entry number, entry names and time to announce once this much is durable."""
        self.productions.request()
        self.productions.poll((self.position,))
        return self.wait(durable)

    def wait(self, durable: int) -> list[tuple[int, list[int], int]]:
        self.clock.advance(1_000_000)
        self.durable, self.taken = durable, []
        self.productions.poll((self.position,))
        return [(_number(t.name), [_number(p) for p in t.parts], t.taken_us) for t in self.taken]


def _number(name: str) -> int:
    return int(name.rpartition("/")[2])


def test_a_checkpoint_waits_for_its_newest_production_and_names_older_ones() -> None:
    steps = Steps(MemoryBlobs())
    steps.step(3)
    began_us = steps.clock.now_us()
    assert steps.ask(durable=2) == []
    steps.step()
    assert steps.wait(durable=3) == [(2, [0, 1], began_us)]
    assert steps.wait(durable=4) == [], "it was asked for once"
    steps.step()
    began_us = steps.clock.now_us()
    assert steps.ask(durable=5) == [(4, [3], began_us)]
    assert steps.ask(durable=5) == [], "there is no entry since"


@pytest.mark.parametrize("told", ["", "productions/v.0/0000000000000001"])
def test_a_successor_names_the_productions_after_its_checkpoint(
    told: str,
) -> None:
    store = MemoryBlobs()
    Steps(store).step(4)
    successor = Steps(store, told)
    successor.step()
    ((newest, named, _),) = successor.ask(durable=9)
    assert (newest, named) == (4, [2, 3] if told else [0, 1, 2, 3])


def test_a_production_of_a_closed_instance_is_not_stored() -> None:
    steps = Steps(MemoryBlobs())
    held = steps.productions.hold(StepResult((None, None, None)))
    steps.productions.close()
    steps.background.run()
    assert isinstance(held.exception(), RuntimeError)
    assert steps.store.list() == []


#: What two operators drew in three steps: the number of the first value, and the number of values.
DRAWN_STEPS = [((0, 2), (0, 1)), ((2, 1), (1, 0)), ((3, 0), (1, 2))]


def drawn_journal() -> tuple[MemoryBlobs, list[str]]:
    """A journal of these steps, and the names of its entries."""
    store = MemoryBlobs()
    journal = Journal(store, "values/v.0")
    entries = [[(first, [Drawn("r", "", 0.5)] * n) for first, n in step] for step in DRAWN_STEPS]
    numbers = [sum(first for first, _ in step) for step in DRAWN_STEPS]
    names = [journal.append(n, _encode(entry)) for n, entry in zip(numbers, entries, strict=True)]
    return store, names


@pytest.mark.parametrize(
    ("drawn", "ended"),
    [((0, 0), 0), ((1, 0), 0), ((2, 0), 0), ((2, 1), 1), ((3, 1), 2), ((3, 2), 2), ((3, 3), 2)],
)
def test_entries_of_values_are_deleted_after_use_except_the_newest(
    drawn: tuple[int, int], ended: int
) -> None:
    """An entry of drawn values is deleted once all of it was drawn, except the newest entry."""
    store, names = drawn_journal()
    opened = open_values(LOGGED, having_drawn(*drawn), store, None)  # type: ignore[arg-type]
    assert opened is not None
    for source, at in zip(opened._sources.values(), drawn, strict=True):
        source.load(at)
    assert opened.names() == tuple(names[:ended])
    opened.announced(opened.names())
    assert opened.names() == ()
    for source, end in zip(opened._sources.values(), (3, 3), strict=True):
        while source.next_index < end:
            source.draw("r", "", lambda: pytest.fail("it is recorded"))
    assert opened.names() == tuple(names[ended:2])
    for source in opened._sources.values():
        source.draw("r", "", lambda: 1.0)
    background = Stepped()
    stored = opened.hold(background)  # type: ignore[arg-type]
    background.run()
    assert stored is not None
    assert opened.names() == tuple(names[ended:]), "there is a newer one now"
    assert stored.result() not in opened.names()


def test_values_in_a_snapshot_that_are_missing_in_the_journal_are_named() -> None:
    world = World(LOGGED, 2)
    run(world, 20)
    journal = Journal(world.store, "values/v.0")
    last = journal.numbers()[-1]
    (data,) = journal.read([last])
    total = last + sum(len(values) for _, values in msgpack.unpackb(data))
    opened = open_values(LOGGED, having_drawn(total), world.store, None)  # type: ignore[arg-type]
    assert opened is not None
    with pytest.raises(CorruptJournalError, match=f"{total:016}.*the file is gone"):
        open_values(LOGGED, having_drawn(total + 1), world.store, None)  # type: ignore[arg-type]


def test_values_continue_after_those_used_by_the_snapshot() -> None:
    """A restart draws again from the position in its snapshot, even within an entry."""
    world = World(LOGGED, 2)
    run(world, 20)
    journal = Journal(world.store, "values/v.0")
    numbers = journal.numbers()
    entries = [msgpack.unpackb(data)[0][1] for data in journal.read(numbers)]
    recorded = [value for entry in entries for value in entry]
    assert len(numbers) > 3
    for drawn in range(len(recorded) + 1):
        store = MemoryBlobs()
        store.blobs.update(world.store.blobs)
        here = max(number for number in numbers if number <= drawn)
        for number in numbers[: numbers.index(here)]:
            store.delete(journal.name(number))
        opened = open_values(LOGGED, having_drawn(drawn), store, None)  # type: ignore[arg-type]
        assert opened is not None
        source = opened._sources[0]
        source.load(drawn)
        again = [source.draw(kind, asked, lambda: "new") for kind, asked, _ in recorded[drawn:]]
        assert again == [value for *_, value in recorded[drawn:]]
        assert source.draw("random", "", lambda: "new") == "new"
        assert source.take_fresh() == (len(recorded), (Drawn("random", "", "new"),))


def having_drawn(values: int, by_second: int = 0) -> Snapshot:
    """A snapshot whose operators have drawn this number of values."""
    drawn = (OperatorState({"drawn": count}) for count in (values, by_second))
    states = (OperatorState({}), *drawn)
    return Snapshot(LOGGED.id, "tag", (0,), (0, 0, 0), (b"", b"", b""), states)


@pytest.mark.parametrize("spec", [LOGGED, STRONG], ids=["logged", "strong"])
def test_missing_or_damaged_files_are_named(spec: VertexSpec) -> None:
    world = World(spec, 2)
    run(world, 20)
    folder = "productions" if spec is STRONG else "values"
    names = world.store.list(folder)
    kept = world.store.blobs[names[1]]
    world.store.blobs[names[1]] = kept[:-1]
    world.checkpoints.clear()
    with pytest.raises(CorruptJournalError, match=names[1]):
        world.start()
    world.store.delete(names[1])
    with pytest.raises(CorruptJournalError, match=names[1]):
        world.start()


def test_only_checkpoint_and_strong_vertices_use_outside_values() -> None:
    store = MemoryBlobs()
    for recovery in (Recovery("replication", 2), Recovery("replay", horizon_us=1)):
        spec = replace(LOGGED, recovery=recovery)
        assert open_values(spec, None, store, None) is None  # type: ignore[arg-type]
    plain = replace(LOGGED, operators=STRONG.operators)
    assert open_values(plain, None, store, None) is None  # type: ignore[arg-type]
    assert not Journal(store, "values/v.0").numbers()


def without_lifetimes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Every event ends at its start, which is not allowed."""
    names = ["_vs" if name == "_ve" else name for name in batch.schema.names]
    return pa.RecordBatch.from_arrays([batch.column(n) for n in names], schema=batch.schema)


def ended(items: Items | None) -> Items | None:
    return None if items is None else Items(items.first_seq, without_lifetimes(items.batch))


@dataclass(frozen=True)
class Ending(Stateless):
    """An operator that fails."""

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        return inputs[0]

    def open(self, inputs: Sequence[pa.Schema]) -> Ending:
        return self

    def process(self, ports: Sequence[Run]) -> Run:
        return Run(without_lifetimes(ports[0].events), ports[0].ctis)


def test_stored_items_are_checked_before_they_are_written_again() -> None:
    world = World(STRONG, 4)
    run(world, 4)
    assert world.newest is not None
    env = world.newest.env
    opened = prepare_instance(STRONG, "", 9, env)
    assert opened.history is not None
    again = tuple(StepResult(tuple(map(ended, step.outputs))) for step in opened.history.again)
    opened = replace(opened, history=replace(opened.history, again=again))
    runner = VertexRunner(2, opened, env, CheckpointSlot())
    with pytest.raises(InvalidBatchError, match="has _vs == _ve"):
        all(runner.poll() for _ in again)


def test_in_verify_mode_all_written_items_are_checked() -> None:
    spec = replace(LOGGED, operators=(Ending(),), output_payload=PAYLOAD)
    with pytest.raises(InvalidBatchError, match="has _vs == _ve"):
        World(spec, verify=True).finish()
