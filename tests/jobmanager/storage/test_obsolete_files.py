"""Which files ``gc`` may delete, for a hand-made root with a few files and a job's state.

Not covered: whether a resume works with the rest (test_garbage.py, tests/sim).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jobmanager import JobConfig
from jobmanager.manager.collection import kept_marks
from jobmanager.manager.manager import JobManager
from jobmanager.state.messages import CheckpointsKept
from jobmanager.state.topology import Topology
from jobmanager.state.tracker import CheckpointRef
from jobmanager.storage import garbage
from jobmanager.storage.notice_log import NoticeLog, read_notices
from jobmanager.storage.root import JobRoot
from planner.physical.lower import lower
from rstream import InlineBackground, MemoryBlobs, open_store
from rstream.clock import ManualClock
from rstream.log.durable import DurableLog
from rvertex.checkpoint.journal import INTAKE, PRODUCTIONS, VALUES, Journal
from tests.support.content import items, open_inline
from tests.support.jobs import two_exchanges, write_events
from tests.support.shapes import vertex

if TYPE_CHECKING:
    from jobmanager.state.job_state import JobState
    from planner.physical.plan import PhysicalPlan

KINDS = pytest.mark.parametrize("kind", [VALUES, PRODUCTIONS, INTAKE])
#: Entries of a journal: two that only older checkpoints name, one that the newest does, two more.
ENTRIES = 5


def job_of_one() -> JobState:
    """A vertex with one checkpoint, which names a part and an entry of each journal."""
    job = JobManager(Topology([vertex("a", writes=["out"], is_sink=True)]), JobConfig()).job
    parts = ("checkpoints/a/parts/1-1-x", *(f"{kind}/a/{2:016}" for kind in (VALUES, INTAKE)))
    parts += (f"{PRODUCTIONS}/a/{2:016}",)
    assert job.tracker.add("a", CheckpointRef("checkpoints/a/1-1.ckpt", (4,), (4,), (4,), parts))
    return job


def obsolete(job: JobState, root: JobRoot, announced: set[str]) -> set[str]:
    return set(garbage._obsolete_files(root, job, announced))


def test_checkpoints_that_no_restart_needs_are_deleted_with_their_parts() -> None:
    job, root = job_of_one(), JobRoot(MemoryBlobs())
    needed = {"checkpoints/a/1-1.ckpt", "checkpoints/a/parts/1-1-x"}
    others = {"checkpoints/a/1-0.ckpt", "checkpoints/a/parts/1-0-y", "checkpoints/a/2-7.ckpt"}
    for path in needed | others:
        root.store.put(path, b"x")
    assert obsolete(job, root, set()) == others, "announced or not"


@KINDS
def test_journal_entries_that_only_older_checkpoints_name_are_deleted(kind: str) -> None:
    job, root = job_of_one(), JobRoot(MemoryBlobs())
    names = [Journal(root.store, f"{kind}/a").append(n, b"x") for n in range(ENTRIES)]
    assert obsolete(job, root, set(names[:2])) == set(names[:2])
    assert obsolete(job, root, set()) == set(), "nobody has restarted behind them yet"
    assert obsolete(job, root, set(names)) == {names[n] for n in (0, 1, 3)}, "not the newest"


@KINDS
def test_of_a_finished_vertex_only_the_newest_entry_is_kept(kind: str) -> None:
    """The newest journal entry of a finished vertex stays: it stops an instance that wakes up."""
    job = JobManager(Topology([vertex("a", writes=["out"], is_sink=True)]), JobConfig()).job
    job.vertices["a"].is_finished = True
    root = JobRoot(MemoryBlobs())
    names = [Journal(root.store, f"{kind}/a").append(n, b"x") for n in range(ENTRIES)]
    root.store.put("production-state/a/1-0-x", b"x")
    assert obsolete(job, root, set()) == {*names[:-1], "production-state/a/1-0-x"}


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> PhysicalPlan:
    folder = tmp_path_factory.mktemp("plan")
    events = write_events(folder / "events.parquet", rows=50)
    return lower(two_exchanges(events), root="memory://obsolete", parallelism=2)


@pytest.mark.parametrize("mark", [0, 15, 16, 31, 32, 33, 40, None])
def test_the_listed_items_of_a_stream_are_deleted(mark: int | None) -> None:
    store = open_store("memory://obsolete/streams/s")
    for name in store.list():
        store.delete(name)
    stream = open_inline(store)
    stream.write(0, items(0, 40))
    stream.close()
    shown = garbage._Stream("s", store.uri, mark)
    before = {name: store.size(name) for name in store.list()}
    told = dict(garbage._segments(shown))
    DurableLog(store, "s").collect(garbage._mark(shown))
    gone = before.keys() - set(store.list())
    assert len(gone) == (3 if mark in (40, None) else mark // 16)
    assert told == {f"{store.uri}/{name}": before[name] for name in gone}


@pytest.mark.parametrize("has_ended", [False, True])
def test_streams_with_outside_or_repeated_readers_are_kept(
    has_ended: bool, plan: PhysicalPlan
) -> None:
    """The output and side outputs; volatile channels as long as a vertex may restart."""
    job = JobManager(Topology(plan.vertices), JobConfig()).job
    for state in job.vertices.values():
        state.is_finished = has_ended
    found = {s.id for s in garbage._streams(plan, job, kept_marks(job))}
    edges = [edge for vertex in plan.vertices for edge in vertex.outputs]
    kinds = {edge.durability for edge in edges if not (edge.is_sink or edge.side)}
    assert kinds == {"volatile", "async"}
    assert found == {
        stream
        for edge in edges
        if not (edge.is_sink or edge.side) and (has_ended or edge.durability != "volatile")
        for stream in edge.streams
    }


def test_earlier_deletions_are_recorded_again(plan: PhysicalPlan) -> None:
    """A second gc finds empty folders, which do not show what was deleted before."""
    topology = Topology(plan.vertices)
    durable = next(s for s in topology.streams.values() if s.is_durable and s.reader is not None)
    root = JobRoot(MemoryBlobs())
    root.claim(1)
    log = NoticeLog(root, ManualClock(7), JobConfig(), InlineBackground())
    job = JobManager(topology, JobConfig()).job
    job.collected[durable.id] = 32
    garbage._record(log, job, [garbage._Stream(durable.id, "memory://obsolete/none", None)])
    ((_, kept),) = read_notices(root.store)
    assert isinstance(kept, CheckpointsKept)
    assert {mark.stream: mark.seq for mark in kept.collected} == {durable.id: 32}
