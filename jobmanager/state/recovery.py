"""Recovery: selects the vertices to restart and their checkpoints. Pure.

A lost vertex restarts from its newest checkpoint whose volatile outputs are at or below the next
items that their readers need. If an input it then needs is neither durable nor still in its
writer's memory, the writer restarts too, from a checkpoint low enough. Restarts cascade upstream
until an input is durable. Source: StreamScope NSDI'16, figure 5.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from jobmanager.errors import NoCheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from jobmanager.state.topology import StreamShape, Topology, VertexShape
    from jobmanager.state.tracker import CheckpointRef, SnapshotTracker


class JobView(Protocol):
    """The facts about the running job that recovery needs."""

    def consumed(self, vertex: str) -> tuple[int, ...]:
        """Return the input seqs that all instances of a vertex have consumed, as last reported."""

    @property
    def collected(self) -> Mapping[str, int]:
        """Return the seq per stream (and journal of a vertex) below which items may be deleted."""

    @property
    def lost(self) -> Mapping[str, int]:
        """Return the seq per damaged durable stream from which items must be written again."""

    def is_serving(self, vertex: str) -> bool:
        """Return whether an instance on a live host can serve the vertex's streams from memory."""

    def is_retired(self, vertex: str) -> bool:
        """Return whether the vertex has finished and all its outputs are durable or not needed."""

    def released(self, stream: str) -> int:
        """Return the seq below which no serving instance of its writer has the stream in memory."""


def plan_restarts(
    lost: Iterable[str],
    topology: Topology,
    tracker: SnapshotTracker,
    job: JobView,
    may_start_over: Callable[[str], bool] = lambda vertex: False,
) -> dict[str, CheckpointRef]:
    """Return the vertices that must restart, with their checkpoints, upstream first.

    ``may_start_over``: whether a vertex without a usable checkpoint may start from the initial
    snapshot.

    Raises:
        NoCheckpointError: a necessary checkpoint was found corrupt or missing, or its inputs are
            deleted. ``gc`` deletes them in a finished job, of which it keeps only the result.
    """
    chosen: dict[str, CheckpointRef] = {}
    waiting = set(lost)
    # Readers before writers: which items a writer must provide depends on its readers' restarts.
    todo = deque(v for v in reversed(topology.vertices) if v in waiting)
    while todo:  # ends, because a vertex is chosen again only with an older checkpoint
        vertex = topology.vertices[todo.popleft()]
        waiting.discard(vertex.id)
        limits = [_needed(stream, chosen, job) for stream in vertex.outputs]
        ref = tracker.usable(vertex.id, limits)
        if ref is None and may_start_over(vertex.id):
            ref = tracker.initial(vertex.id)
        if ref is None:
            raise NoCheckpointError(vertex.id, f"no checkpoint at or below {limits} is left")
        _check_readable(vertex, ref, job)
        if vertex.id in chosen and ref == chosen[vertex.id]:
            continue
        chosen[vertex.id] = ref
        for k, stream in enumerate(vertex.inputs):
            writer = stream.writer.vertex
            if writer not in waiting and not _is_available(stream, ref.reads[k], chosen, job):
                waiting.add(writer)
                todo.append(writer)
    return {v: chosen[v] for v in topology.vertices if v in chosen}


def _check_readable(vertex: VertexShape, ref: CheckpointRef, job: JobView) -> None:
    if not ref.name and vertex.id in job.collected:
        raise NoCheckpointError(vertex.id, "it has finished, and its checkpoints were deleted")
    # the reads of a source also have positions in its files, which are no streams
    for stream, seq in zip(vertex.inputs, ref.reads, strict=False):
        if stream.is_durable and seq < job.collected.get(stream.id, 0):
            gone = f"its input {stream.id} was deleted below seq {job.collected[stream.id]}"
            raise NoCheckpointError(vertex.id, gone)


def _needed(stream: StreamShape, chosen: dict[str, CheckpointRef], job: JobView) -> int | None:
    """Return the smallest seq of an output that must be written again; None if no item must.

    For a volatile stream it is the seq from which its reader will read.
    """
    if stream.is_durable:
        return job.lost.get(stream.id)
    assert stream.reader is not None
    reader, index = stream.reader.vertex, stream.reader.index
    if reader in chosen:
        return chosen[reader].reads[index]
    if job.is_retired(reader):
        return None
    return job.consumed(reader)[index]


def _is_available(
    stream: StreamShape, seq: int, chosen: dict[str, CheckpointRef], job: JobView
) -> bool:
    """Return whether items from ``seq`` on can be read, or a chosen restart writes them again."""
    writer = stream.writer
    if writer.vertex in chosen:
        return stream.is_durable or chosen[writer.vertex].outputs[writer.index] <= seq
    if stream.is_durable:
        return job.is_retired(writer.vertex) or job.is_serving(writer.vertex)
    return job.is_serving(writer.vertex) and job.released(stream.id) <= seq
