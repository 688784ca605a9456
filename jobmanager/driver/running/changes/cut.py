"""The cut at which a job has stopped: one checkpoint per vertex, which are consistent.

Consistent means: each reader has read the output of its writers exactly up to their checkpoints. A
clean stop (:mod:`jobmanager.manager.stopping`) leaves such checkpoints. This module reads them from
the log of a job without a job manager, and checks that they are consistent. They are not if a host
died while the job stopped, or if the job was cancelled. Then a vertex has written beyond its
checkpoint, so another query cannot start there.

Invariant: at a cut the outputs that users read end exactly at the checkpoints of their writers, so
the next query neither repeats nor skips a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobmanager.config import JobConfig
from jobmanager.driver.running.changes.errors import NotACutError
from jobmanager.manager.manager import JobManager
from jobmanager.state.topology import Topology
from jobmanager.storage.notice_log import read_notices
from jobmanager.storage.root import display_uri
from rstream.log.durable import DurableLog

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from jobmanager.state.job_state import JobState
    from jobmanager.state.records import VertexState
    from jobmanager.state.tracker import CheckpointRef
    from jobmanager.storage.root import JobRoot
    from planner.physical.plan import PhysicalPlan
    from rstream.store.protocol import BlobStore

    Opener = Callable[[str], BlobStore]


@dataclass(frozen=True, slots=True)
class Rest:
    """Items ``[lo, hi)`` of a channel that its reader has not consumed."""

    stream: str
    uri: str
    lo: int
    hi: int
    payload: pa.Schema
    #: Whether the writer has finished. Then the last item is the end of the stream.
    is_ended: bool


@dataclass(frozen=True, slots=True)
class Cut:
    """A cut. ``refs``: the checkpoints of unfinished vertices. ``rests``: unconsumed items."""

    job: JobState
    refs: dict[str, CheckpointRef]
    rests: tuple[Rest, ...]


def read_cut(root: JobRoot, plan: PhysicalPlan, job: JobState | None = None) -> Cut:
    """Return the cut at which the job has stopped.

    ``job``: its state, if this process has it and all its notices are durable.

    Raises:
        NotACutError: the checkpoints are not consistent.
    """
    if job is None:
        manager = JobManager(Topology(plan.vertices), JobConfig())
        manager.recall([notice for _, notice in read_notices(root.store)])
        job = manager.job
    try:
        return _cut_of(job, plan, root.open_store)
    except _UnfitError as error:
        raise NotACutError(display_uri(root.uri), str(error)) from error


class _UnfitError(Exception):
    """The reason why the checkpoints are not a cut."""


def _cut_of(job: JobState, plan: PhysicalPlan, open_store: Opener) -> Cut:
    refs: dict[str, CheckpointRef] = {}
    for name, vertex in job.vertices.items():
        if not vertex.is_finished:
            refs[name] = job.tracker.newest(name)
            if not refs[name].name:
                raise _UnfitError(f"vertex {name} has no checkpoint")
    _check_ends(job, plan, refs, open_store)
    return Cut(job, refs, _rests(job, plan, refs))


def rests_of(job: JobState, plan: PhysicalPlan, refs: dict[str, CheckpointRef]) -> tuple[Rest, ...]:
    """Return the items between these checkpoints of a running job.

    Raises:
        NotACutError: the checkpoints are not consistent.
    """
    try:
        return _rests(job, plan, refs)
    except _UnfitError as error:
        raise NotACutError(display_uri(plan.root), str(error)) from error


def _rests(job: JobState, plan: PhysicalPlan, refs: dict[str, CheckpointRef]) -> tuple[Rest, ...]:
    channels = {channel.stream: channel for v in plan.vertices for channel in v.inputs}
    rests = []
    for stream in job.topology.streams.values():
        if stream.reader is None or stream.reader.vertex not in refs:
            continue
        writer = job.vertices[stream.writer.vertex]
        hi = _outputs(writer, refs)[stream.writer.index]
        lo = refs[stream.reader.vertex].inputs[stream.reader.index]
        if lo > hi:
            who = f"vertex {stream.reader.vertex} has read more than {stream.writer.vertex} wrote"
            raise _UnfitError(f"{who} by its last checkpoint")
        if lo < hi:
            channel = channels[stream.id]
            is_ended = writer.shape.id not in refs
            rests.append(Rest(stream.id, channel.uri, lo, hi, channel.payload, is_ended))
    return tuple(rests)


def _outputs(writer: VertexState, refs: dict[str, CheckpointRef]) -> tuple[int, ...]:
    ref = refs.get(writer.shape.id)
    return writer.ends if ref is None else ref.outputs


def _check_ends(
    job: JobState, plan: PhysicalPlan, refs: dict[str, CheckpointRef], open_store: Opener
) -> None:
    """Check that the outputs end at the checkpoints of their writers."""
    sides = [pair for pairs in plan.side_streams().values() for pair in pairs]
    for stream, uri in (*plan.sink_streams(), *sides):
        shape = job.topology.streams[stream]
        expected = _outputs(job.vertices[shape.writer.vertex], refs)[shape.writer.index]
        log = DurableLog(open_store(uri), stream)
        end = max(log.end(), log.mark)
        if end != expected:
            reason = f"{stream} has {end} items, and its writer's checkpoint is at {expected}"
            raise _UnfitError(reason)
