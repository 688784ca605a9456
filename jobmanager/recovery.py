"""Which vertices must be restarted, and from which checkpoints. Pure.

A vertex that is lost restarts from its newest checkpoint whose volatile outputs are at or below
what their readers need next. If an input it then needs is neither durable nor still in its writer's
memory, the writer is restarted too, from a checkpoint low enough; this cascades upstream only as
far as something durable. Source: StreamScope NSDI'16, figure 5.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from jobmanager.errors import NoCheckpointError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobmanager.topology import StreamShape, Topology
    from jobmanager.tracker import CheckpointRef, SnapshotTracker


class JobView(Protocol):
    """What recovery asks about the running job."""

    def consumed(self, vertex: str) -> tuple[int, ...]:
        """Input seqs that all its instances have consumed, as last reported."""
        ...

    def is_serving(self, vertex: str) -> bool:
        """Whether any instance on a live host can serve its streams' memory."""
        ...

    def is_settled(self, vertex: str) -> bool:
        """Whether it has finished and all its outputs are durable or needed by no one."""
        ...

    def released(self, stream: str) -> int:
        """Below this seq no instance of the writer has the stream in memory."""
        ...


def plan_restarts(
    lost: Iterable[str], topology: Topology, tracker: SnapshotTracker, job: JobView
) -> dict[str, CheckpointRef]:
    """The checkpoint from which each vertex that must restart does so, upstream first.

    Raises:
        NoCheckpointError: one that is needed turned out to be corrupt or gone before.
    """
    chosen: dict[str, CheckpointRef] = {}
    waiting = set(lost)
    # Readers before writers: what a writer must provide follows from where its readers restart.
    todo = deque(v for v in reversed(topology.vertices) if v in waiting)
    while todo:  # ends: a vertex is chosen anew only with a strictly older checkpoint
        vertex = topology.vertices[todo.popleft()]
        waiting.discard(vertex.id)
        limits = [_needed(stream, chosen, job) for stream in vertex.outputs]
        ref = tracker.usable(vertex.id, limits)
        if ref is None:
            raise NoCheckpointError(vertex.id, f"no checkpoint at or below {limits} is left")
        if vertex.id in chosen and ref == chosen[vertex.id]:
            continue
        chosen[vertex.id] = ref
        for k, stream in enumerate(vertex.inputs):
            writer = stream.writer.vertex
            if writer not in waiting and not _is_available(stream, ref.reads[k], chosen, job):
                waiting.add(writer)
                todo.append(writer)
    return {v: chosen[v] for v in topology.vertices if v in chosen}


def _needed(stream: StreamShape, chosen: dict[str, CheckpointRef], job: JobView) -> int | None:
    """Least seq of a volatile output that its reader will ask for; None where nothing binds."""
    if stream.is_durable:
        return None
    assert stream.reader is not None
    reader, index = stream.reader.vertex, stream.reader.index
    if reader in chosen:
        return chosen[reader].reads[index]
    if job.is_settled(reader):
        return None
    return job.consumed(reader)[index]


def _is_available(
    stream: StreamShape, seq: int, chosen: dict[str, CheckpointRef], job: JobView
) -> bool:
    """Whether ``seq`` onward can be read, or will be written again by a restart already chosen."""
    writer = stream.writer
    if writer.vertex in chosen:
        return stream.is_durable or chosen[writer.vertex].outputs[writer.index] <= seq
    if stream.is_durable:
        return job.is_settled(writer.vertex) or job.is_serving(writer.vertex)
    return job.is_serving(writer.vertex) and job.released(stream.id) <= seq
