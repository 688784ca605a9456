"""Retained data of a job in its root: plan, checkpoints, streams, digests of finished vertices.

This module only reads. A running job may delete listed files; a reader then gets an error that
names the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobmanager.errors import NoJobError
from jobmanager.replay.errors import CannotReplayError
from jobmanager.storage.notice_log import read_notices
from jobmanager.storage.root import CHECKPOINTS, GENERATION, JobRoot, display_uri
from rstream.log.durable import DurableLog
from rstream.store.blobs import open_store
from rvertex.checkpoint.checkpointer import read_checkpoint
from rvertex.checkpoint.codec import read_header
from rvertex.messages import VertexFinished

if TYPE_CHECKING:
    from planner.physical.plan import PhysicalPlan
    from rstream.store.protocol import BlobStore
    from rvertex.vertex.spec import Snapshot, VertexSpec

#: The ends of file names: of every manifest of a checkpoint, and of one with which a changed job
#: begins.
_MANIFEST, _FIRST = ".ckpt", "-000000.ckpt"
_CHANGED = "Name a time after the change with --from, or start jobs with --retain all"


@dataclass(frozen=True, slots=True)
class Retained:
    """A retained checkpoint: the position of its vertex, without the state."""

    name: str
    #: The seqs from which a restart reads its inputs.
    reads: tuple[int, ...]
    outputs: tuple[int, ...]
    digests: tuple[bytes, ...]


class Recorded:
    """The retained data of one job."""

    def __init__(self, root: JobRoot, *, to_run: bool = True) -> None:
        """Open the data of a job.

        ``to_run``: whether code of the plan will be called, so it must not have changed.

        Raises:
            NoJobError, UntrustedRootError, BrokenFileError, ChangedCodeError: see JobRoot.
        """
        self.settings = root.readable_settings()
        plan = root.read_plan(to_run=to_run)
        if plan is None:
            raise NoJobError(display_uri(root.uri))
        self.uri = display_uri(root.uri)
        self.plan: PhysicalPlan = plan
        self.store: BlobStore = root.store
        self._checkpoints: dict[str, list[Retained]] = {}
        self._finished: dict[str, VertexFinished] | None = None

    def of_output(self, name: str | None) -> Recorded:
        """Restrict the plan to one output; None: the only one. Return this object.

        Raises:
            UnknownOutputError: there is no such output, or there are several and none is named.
        """
        self.plan = self.plan.output_named(name)
        return self

    def vertex(self, name: str) -> VertexSpec:
        """Return the vertex of that name.

        Raises:
            CannotReplayError: there is no such vertex.
        """
        return vertex_of(self.plan, name)

    @property
    def was_changed(self) -> bool:
        """Whether the job was rescaled, deployed or rolled back since its start."""
        return bool(self.settings.get(GENERATION))

    def checkpoints(self, vertex: str) -> list[Retained]:
        """Return the retained checkpoints of a vertex since the last change, the newest first."""
        if vertex not in self._checkpoints:
            folder = f"{CHECKPOINTS}/{vertex}"
            names = sorted(n for n in self.store.list(folder) if n.endswith(_MANIFEST))
            firsts = [n for n in names if self.was_changed and n.endswith(_FIRST)]
            checkpoints = [
                self._retained(name) for name in names if name >= max(firsts, default="")
            ]
            order = [c for c in checkpoints if c is not None]
            order.sort(key=lambda c: (c.outputs, c.name), reverse=True)
            self._checkpoints[vertex] = order
        return self._checkpoints[vertex]

    def beginning(self, vertex: str) -> Retained | None:
        """Return the checkpoint with which the vertex began; None: it began without a state.

        Raises:
            CannotReplayError: a change of the job began with a checkpoint that is not retained.
        """
        if not self.was_changed:
            return None
        oldest = next(reversed(self.checkpoints(vertex)), None)
        if oldest is None or not oldest.name.endswith(_FIRST):
            reason = "the job was changed, and the state at its last change is not retained"
            raise CannotReplayError(vertex, reason, _CHANGED)
        return oldest

    def snapshot(self, checkpoint: Retained, spec: VertexSpec) -> Snapshot:
        """Return the state of a retained checkpoint.

        Raises:
            CorruptCheckpointError, CheckpointFormatError, SnapshotSchemaError: the checkpoint is
                unusable.
        """
        return read_checkpoint(self.store, checkpoint.name, spec).snapshot

    def finished(self, vertex: str) -> VertexFinished | None:
        """Return the end of a vertex, with its outputs' digests; None: it has not finished."""
        if self._finished is None:
            notices = [notice for _, notice in read_notices(self.store)]
            self._finished = {n.vertex: n for n in notices if isinstance(n, VertexFinished)}
        return self._finished.get(vertex)

    def log(self, stream: str, uri: str) -> DurableLog:
        """Return the durable part of a stream."""
        return DurableLog(open_store(uri), stream)

    def _retained(self, name: str) -> Retained | None:
        try:
            header = read_header(self.store.get(name), name)
        except FileNotFoundError:  # a running job has deleted it
            return None
        reads = header.inputs if header.replay_from is None else header.replay_from.inputs
        return Retained(name, tuple(reads), tuple(header.outputs), tuple(header.digests))


def vertex_of(plan: PhysicalPlan, name: str) -> VertexSpec:
    """Return the vertex with that name; the name of a stage with one vertex works, too.

    Raises:
        CannotReplayError: there is no such vertex.
    """
    matches = [v for v in plan.vertices if name in (v.id, v.stage)]
    if len(matches) == 1:
        return matches[0]
    names = ", ".join(v.id for v in (matches or plan.vertices))
    reason = "the stage has several vertices" if matches else "the plan has no such vertex"
    raise CannotReplayError(name, reason, f"Choose one of {names}")
