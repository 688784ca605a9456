"""The laws of jobs that may read live logs and deliver their results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamscope.testing.simulation.laws import checkers as of_query
from streamscope.testing.simulation.laws.checkers import INTAKE
from tests.sim.growing import vertices_on
from tests.sim.lateness_law import late_by_silence
from tests.sim.live_workload import entries_of, expected_of
from tests.sim.workload import hashes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rvertex.vertex.spec import VertexSpec
    from streamscope.testing.simulation.scheduler import Scheduler
    from tests.sim.retention_laws import RetentionLaws
    from tests.sim.workload import Workload


class Checkers(of_query.Checkers):
    """Called for every put and delete of the store."""

    workload: Workload

    def __init__(self, scheduler: Scheduler, workload: Workload) -> None:
        super().__init__(scheduler, workload)
        #: Blobs of the journals of live sources, including deleted ones.
        self.intake: dict[str, bytes] = {}
        self.find_delivered: Callable[[], dict[str, int]] = dict
        self.retention: RetentionLaws | None = None

    def on_put(self, path: str, data: bytes) -> None:
        super().on_put(path, data)
        if self.retention is not None:
            self.retention.was_put(path, data)
        if path.startswith(INTAKE):
            self.intake.setdefault(path, data)  # a stale writer's blob has no effect
            self.promises_stand_behind_what_was_fetched(path, data)

    def vertices_on(self, blobs: dict[str, bytes]) -> Sequence[VertexSpec]:
        return vertices_on(blobs, self.workload)

    def is_right(self, stream: str, lo: int, content: list[int]) -> None:
        if self.workload.log is None:
            super().is_right(stream, lo, content)

    def delivered(self) -> dict[str, int]:
        return self.find_delivered()

    def beginning(self, root: str) -> int:
        return 0 if self.retention is None else self.retention.beginning(root)

    def has_ended(self) -> None:
        if self.workload.log is not None:
            self.follows_from_log_and_journal()

    def promises_stand_behind_what_was_fetched(self, path: str, data: bytes) -> None:
        """A partition is idle only after its instance has passed on all rows that it fetched."""
        assert self.disk is not None
        vertex = path.removeprefix(INTAKE).rpartition("/")[0]
        for entry in entries_of({path: data})[vertex]:
            number = self._partitions_of(vertex)[entry.partition]
            fetched = self.disk.fetched.get((self.disk.writer, number), 0)
            self._world.met[f"entry {entry.kind}"] += 1
            if entry.kind == "advance" and fetched > entry.position:
                detail = f"{path}: partition {number} at {entry.position}, fetched to {fetched}"
                self._world.violate("no promise ahead of a fetched row", detail)

    def _partitions_of(self, vertex: str) -> list[int]:
        vertices = vertices_on(self.blobs, self.workload)
        source = next(v.source for v in vertices if v.id == vertex)
        return [] if source is None else [unit.stream for unit in source.log_units]

    def follows_from_log_and_journal(self) -> None:
        """All durable data of a live job follow from the job's input log and its journals."""
        try:
            vertices = vertices_on(self.blobs, self.workload)
            answers = expected_of(self.workload, vertices, self.intake)
        except AssertionError as error:
            self._world.violate("entries fit the log", str(error))
            return
        self.workload.answers.update(answers)
        for stream, pieces in answers.items():
            found = [h for items in pieces for h in hashes(items.batch)]
            self.workload.expected[stream] = found
        self.silence_makes_nobody_late(vertices)
        for vertex, entries in entries_of(self.intake).items():
            paths = [entry.path for entry in entries if entry.kind == "file"]
            if len(set(paths)) < len(paths):
                self._world.violate("files are taken once", f"{vertex}: {paths}")
        for (stream, seq), value in sorted(self.durable.items()):
            known = self.workload.expected.get(stream, [])
            if seq >= len(known) or known[seq] != value:
                self._world.violate("follows from log and journal", f"{stream} seq {seq}")
                return

    def silence_makes_nobody_late(self, vertices: Sequence[VertexSpec]) -> None:
        """Rows whose times are close to those of other partitions are not late after a silence."""
        assert self.workload.log is not None
        entries = entries_of(self.intake)
        has_jumped = self._world.met["fault clock_jump"] > 0
        for row in late_by_silence(self.workload.log, vertices, entries, has_jumped=has_jumped):
            self._world.violate("no row in step is late by a silence", row)
            return
