"""The laws of changing jobs: the result equals that of an unchanged job; no change is half done.

A change replaces the plan, so the laws about streams and checkpoints start over. The output
continues: it keeps its sequence numbers, and its rows are compared at the end.
"""

from __future__ import annotations

import json
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from jobmanager.driver.running.changes.pending import COMMITS, FOLDER, outcome_of
from jobmanager.storage.documents import (
    BrokenDocumentError,
    read_json_document,
    read_pickle_document,
)
from jobmanager.storage.places import plan_in
from jobmanager.storage.root import display_uri
from jobmanager.storage.savepoints import FOLDER as SAVEPOINTS, MANIFEST, list_savepoints
from planner.physical.layout import Stages
from rstream.items.batch import VS, only_events
from rstream.log.reader import open_reader
from rstream.store.fences import valid_segments
from rstream.store.memory_blobs import MemoryBlobs
from rstream.store.segment_names import parse_segment_name
from streamscope.testing.simulation.laws.checkers import CHECKPOINTS
from streamscope.testing.simulation.laws.shadow import HOME, SEGMENT, Shadow
from streamscope.testing.simulation.storage import root_of
from tests.sim.checkers import Checkers
from tests.sim.growing import plan_file
from tests.sim.workload import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from planner.physical.plan import PhysicalPlan
    from rstream import Items
    from rvertex.vertex.spec import VertexSpec
    from streamscope.testing.simulation.scheduler import Scheduler
    from tests.sim.workload import Workload


def _generation(plan: PhysicalPlan) -> int:
    return max(edge.generation for vertex in plan.vertices for edge in vertex.outputs)


class ChangeCheckers(Checkers):
    """Called for every put and delete of the store."""

    #: Called with the job after each change.
    on_changed: Callable[[Workload], None] = staticmethod(lambda workload: None)

    def __init__(self, scheduler: Scheduler, workload: Workload) -> None:
        super().__init__(scheduler, workload)
        self._answers = workload.answers
        self._plan_data = b""
        #: Checkpoints of earlier epochs belong to the job before the change.
        self._first_epoch = 0
        #: Whether a job manager carries out a change.
        self.is_changing = False

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Return a context in which a job manager carries out a change."""
        self.is_changing = True
        try:
            yield
        finally:
            self.is_changing = False

    def on_put(self, path: str, data: bytes) -> None:
        if path.startswith(f"{HOME}{SAVEPOINTS}/") and path.endswith(f"/{MANIFEST}"):
            self.blobs[path] = data
            self.savepoints_are_whole("a savepoint is taken")
        if self._is_fenced(path):
            self._world.met["segment behind a fence"] += 1
            return
        if self.is_changing and (path.startswith(CHECKPOINTS) or SEGMENT.fullmatch(path)):
            return
        super().on_put(path, data)

    def _is_fenced(self, path: str) -> bool:
        """Return whether a fence makes readers ignore this segment of a former generation."""
        folder, _, name = path.rpartition("/")
        file = parse_segment_name(name)
        if file is None:
            return False
        fences = [n for n in self.blobs if n.startswith(f"{folder}/_fence-")]
        names = [name, *(fence.rpartition("/")[2] for fence in fences)]
        return file not in valid_segments(names)

    def on_delete(self, path: str) -> None:
        plan = plan_on(self.blobs) if path.startswith(f"{HOME}{COMMITS}/") else None
        if plan is not None and _generation(plan) != _generation(self.workload.plan):
            self._begin_anew()
        if self.is_changing and SEGMENT.fullmatch(path):
            return  # channels of former plans
        super().on_delete(path)

    def vertices_on(self, blobs: dict[str, bytes]) -> Sequence[VertexSpec]:
        plan = plan_on(blobs)
        return self.workload.vertices if plan is None else plan.vertices

    def is_right(self, stream: str, lo: int, content: list[int]) -> None:
        """Check nothing here: the right result is only known for the whole output, at the end."""

    def recoverable(self, when: str) -> None:
        self.savepoints_are_whole(when)
        if self._commits():
            return  # a successor completes the change before anything else
        super().recoverable(when)

    def snapshots_are_ordered(self, path: str, data: bytes) -> None:
        vertex, name = path.removeprefix(CHECKPOINTS).split("/")[:2]
        if vertex in self._schemas and int(name.split("-")[0]) >= self._first_epoch:
            super().snapshots_are_ordered(path, data)

    def _commits(self) -> list[str]:
        """Return the files that commit a change; others are empty, or torn by a loss of power."""
        prefix, found = f"{HOME}{COMMITS}/", []
        for path in self.blobs:
            with suppress(BrokenDocumentError):
                if path.startswith(prefix) and read_json_document(self.blobs[path])["id"]:
                    found.append(path)
        return found

    def _outcome(self, commit: str) -> str:
        """Return the outcome of a committed change; empty if it has none yet."""
        change = read_json_document(self.blobs[commit])["id"]
        outcome = outcome_of(MemoryBlobs(self.blobs, HOME), change)
        return "" if outcome is None else str(outcome["state"])

    def end_of(self, stream: str) -> int:
        """Return the end of a finished writer's stream."""
        shape = self._shadow.topology.streams[stream]
        return self._shadow.core.vertices[shape.writer.vertex].ends[shape.writer.index]

    def savepoints_are_whole(self, when: str) -> None:
        """No file is deleted that a savepoint names."""
        for savepoint in list_savepoints(MemoryBlobs(self.blobs, HOME)):
            for name in savepoint.files:
                if HOME + name not in self.blobs:
                    detail = f"{when}: {savepoint.name} names {name}"
                    self._world.violate("savepoints are whole", detail)

    def _begin_anew(self) -> None:
        """A change is complete: from now on the laws refer to the new plan."""
        plan = plan_on(self.blobs)
        assert plan is not None
        self._count_ranges(plan)
        sinks = tuple(plan.sink_streams())
        workload = replace(self.workload, plan=plan, vertices=plan.vertices, sinks=sinks)
        kept = self.blobs, self.disk, self._marks, self._parts, self._contents
        counts = self.segments, self.checkpoints, self.deletions
        answers, told = self._answers, self.on_changed
        self.__init__(self._world, workload)  # type: ignore[misc]
        self._answers, self.on_changed, self.is_changing = answers, told, True
        self.blobs, self.disk, self._marks, self._parts, self._contents = kept
        self.segments, self.checkpoints, self.deletions = counts
        epochs = [name.split("/")[-1].split("-")[0] for name in self._named_by_log()]
        self._first_epoch = min(map(int, epochs), default=0)
        for name in sorted(n for n in self.blobs if SEGMENT.fullmatch(n)):
            match = SEGMENT.fullmatch(name)
            assert match is not None
            stream = self._folders.get(match[1])
            if stream is not None and not self._is_fenced(name):
                self.no_conflict(stream, int(match[2]), self._hashes(name, self.blobs[name]))
        self.on_changed(workload)

    def marks_are_monotone(self, path: str, mark: int) -> None:
        """Check the marks as for unchanged jobs, but not those of channels of former plans."""
        if path.rpartition("/")[0] in self._folders:
            super().marks_are_monotone(path, mark)

    def _count_ranges(self, plan: PhysicalPlan) -> None:
        """Count the key ranges that were split and merged between both plans."""
        before, after = Stages(self.workload.plan), Stages(plan)
        for stage in before.keys.keys() & after.keys.keys():
            more = len(after.layout(stage).owners) - len(before.layout(stage).owners)
            if more:
                self._world.met["ranges split" if more > 0 else "ranges merged"] += abs(more)

    def _named_by_log(self) -> list[str]:
        shadow = Shadow(self.workload, self.vertices_on)
        shadow.catch_up(self.blobs)
        return [ref.name for _, ref in shadow.known() if ref.name]

    # ---- at the end

    def output_is_complete(self) -> None:
        """All partitions together have each row of an unchanged job once, in order."""
        left = [path for path in self._commits() if not self._outcome(path)]
        if left:
            self._world.violate("no change is half", str(left))
        answers = [items.batch for pieces in self._answers.values() for items in pieces]
        columns = ["_vs", "_ve", *self.workload.queries[0].schema.names]  # type: ignore[attr-defined]
        expected = rows_of([only_events(b) for b in answers], columns)
        found: Counter[str] = Counter()
        for stream, uri in self.workload.sinks:
            batches = [only_events(items.batch) for items in items_of(self.blobs, uri)]
            times = [t for batch in batches for t in batch.column(VS).to_pylist()]
            if times != sorted(times):
                self._world.violate("outputs are in order of time", stream)
            found += rows_of(batches, columns)
        if found != expected:
            less, more = list((expected - found).elements()), list((found - expected).elements())
            detail = f"{len(less)} rows are missing, {len(more)} too many: {less[:3]} {more[:3]}"
            self._world.violate("as a job that never changed", detail)
        for path, data in self.blobs.items():
            if path.startswith(f"{HOME}{FOLDER}/") and "/outcome-" in path:
                outcome = read_json_document(data)
                what = f"{outcome['kind']}: {outcome['state']}"
                self._world.met[f"change {what} {outcome.get('reason', '')[:90]}"] += 1


def items_of(blobs: dict[str, bytes], uri: str) -> list[Items]:
    """What readers of an output get."""
    reader, found = open_reader(MemoryBlobs(blobs, root_of(uri))), []
    while (items := reader.read_next()) is not None:
        found.append(items)
    return found


def rows_of(batches: Sequence[pa.RecordBatch], columns: Sequence[str]) -> Counter[str]:
    """The number of occurrences of each row."""
    return Counter(
        json.dumps([row[name] for name in columns], default=str)
        for batch in batches
        for row in batch.to_pylist()
    )


def plan_on(blobs: dict[str, bytes]) -> PhysicalPlan | None:
    """The plan in the job's root."""
    data = plan_file(blobs)
    return _plan_in(data) if data else None


@lru_cache(maxsize=32)
def _plan_in(data: bytes) -> PhysicalPlan:
    found: PhysicalPlan = read_pickle_document(data)
    return plan_in(found, display_uri(ROOT))
