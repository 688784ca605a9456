"""Savepoint of a running job: checkpoints that fit together, without a stop. Pure.

Theory of operation. The vertices keep running. The job manager requests a checkpoint of every
vertex, readers before writers: a writer gets its request after all its readers have answered. So
each writer's checkpoint is at or after the items that its readers had consumed by theirs. The items
between the two were on their way; they belong to the savepoint. Until the savepoint is complete,
no checkpoint of it and no item from its readers' positions on is deleted. Hosts flush such items,
also of volatile streams, before they announce the checkpoint.

Invariant: of two vertices with checkpoints in :class:`Saving`, the reader has consumed at most the
items that the writer had written. If one of these checkpoints must be forgotten, all requests begin
again, because a later checkpoint of a reader need not fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobmanager.state.job_state import STOPPING
from jobmanager.state.records import Saving
from rvertex.messages import TakeCheckpoint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobmanager.state.job_state import JobState
    from jobmanager.state.topology import StreamShape
    from jobmanager.state.tracker import CheckpointRef
    from rvertex.messages import CheckpointTaken


def begin(job: JobState) -> None:
    """Begin to collect checkpoints, if the job runs."""
    if job.state == "running":
        job.saving = Saving(since_us=job.now_us)
        ask(job)


def ask(job: JobState) -> None:
    """Request checkpoints from vertices whose readers have answered, if no request is open."""
    saving = job.saving
    if saving is None or job.state == STOPPING:
        return
    if any(ref_of(job, name) is None for name in saving.names):
        saving.names.clear()
        saving.epochs.clear()
    for name, vertex in job.vertices.items():
        is_open = job.instance(name, saving.epochs.get(name, 0)) is not None
        if vertex.is_finished or name in saving.names or is_open or not _is_due(job, name):
            continue
        instance = job.furthest(name)
        if instance is not None:
            saving.epochs[name] = instance.epoch
            order = TakeCheckpoint(instance.host, name, instance.epoch, whole=True)
            job.tell(instance.host, order)


def note(job: JobState, notice: CheckpointTaken, ref: CheckpointRef | None) -> None:
    """Handle a requested checkpoint. ``ref`` None: it was not kept. Then :func:`ask` repeats it."""
    saving = job.saving
    if saving is None or saving.epochs.get(notice.vertex) != notice.epoch or not notice.is_whole:
        return
    if notice.vertex in saving.names:  # it answers a request from before all began again
        return
    if ref is None or not _fits(job, ref, notice.vertex):
        del saving.epochs[notice.vertex]
        return
    saving.names[notice.vertex] = ref.name
    ask(job)


def ref_of(job: JobState, vertex: str) -> CheckpointRef | None:
    """Return the checkpoint of a vertex in the savepoint; None: it has none, or it was deleted."""
    name = "" if job.saving is None else job.saving.names.get(vertex, "")
    return next((r for r in job.tracker.refs(vertex) if name and r.name == name), None)


def refs(job: JobState) -> dict[str, CheckpointRef] | None:
    """Return the checkpoints of all unfinished vertices; None if one is missing."""
    found = {}
    for name, vertex in job.vertices.items():
        ref = ref_of(job, name)
        if ref is not None:
            found[name] = ref
        elif not vertex.is_finished:
            return None
    return found


def is_frozen(job: JobState, stream: StreamShape) -> bool:
    """Return whether the items of a stream must stay, because its reader has a request."""
    saving, reader = job.saving, stream.reader
    return saving is not None and reader is not None and reader.vertex in saving.epochs


def _is_due(job: JobState, name: str) -> bool:
    """Return whether all readers of a vertex have answered or finished."""
    readers = (s.reader.vertex for s in job.topology.vertices[name].outputs if s.reader is not None)
    assert job.saving is not None
    return all(r in job.saving.names or job.vertices[r].is_finished for r in readers)


def _fits(job: JobState, ref: CheckpointRef, vertex: str) -> bool:
    """Return whether a checkpoint is at or after its readers', and its own inputs are there."""
    shape = job.topology.vertices[vertex]
    if any(ref.outputs[at] < seq for at, seq in _consumed(job, shape.outputs)):
        return False
    # the inputs of a source are positions in its files, which are no streams
    for stream, seq in zip(shape.inputs, ref.inputs, strict=False):
        writers = job.vertices[stream.writer.vertex].instances
        begins = min((i.released.get(stream.id, 0) for i in writers), default=0)
        if not stream.is_durable and begins > seq:
            return False
    return True


def _consumed(job: JobState, outputs: tuple[StreamShape, ...]) -> Iterator[tuple[int, int]]:
    for stream in outputs:
        ref = None if stream.reader is None else ref_of(job, stream.reader.vertex)
        if ref is not None and stream.reader is not None:
            yield stream.writer.index, ref.inputs[stream.reader.index]
