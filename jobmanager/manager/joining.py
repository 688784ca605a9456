"""Join and retire: one mechanism for a new replica, a straggler's twin and a drain's twin. Pure.

Theory of operation. The job manager asks a live instance for a checkpoint. Until it arrives, the
job manager holds for the vertex the positions that the instance had consumed at that moment. Then a
new instance starts from that checkpoint on another host, where all its inputs are still available.
A *newcomer* is a new instance that stays. A *twin* is one that stays until one of the two retires:
in a drain the old one, as soon as the twin has reached its position; for a straggler the slower
one.

Invariants: (1) every start or stop of an instance is logged: a join begins and ends with logged
notices, never with a report or a tick; (2) an instance retires only when the other one has in
memory all items that readers still need from it; (3) there are at most ``twins_max`` twins at a
time.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from jobmanager.manager.instances import new_instance, order, publish, restart, stop
from jobmanager.state.job_state import US_PER_S
from jobmanager.state.messages import Feed, TwinLevel
from jobmanager.state.placement import free_slot
from jobmanager.state.records import Join
from rvertex.messages import TakeCheckpoint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobmanager.state.job_state import JobState
    from jobmanager.state.messages import StragglerFound
    from jobmanager.state.records import InstanceState, VertexState
    from jobmanager.state.tracker import CheckpointRef

DRAIN, SLOW = "drain", "slow"

# ---- missing instances


def fill(job: JobState, vertices: Iterable[VertexState]) -> None:
    """Start planned instances of these vertices that may start, and prepare the others."""
    for vertex in vertices:
        if vertex.is_finished or not vertex.instances or vertex.due_us is not None:
            continue
        vertex.joins = [j for j in vertex.joins if job.hosts[j.slot].is_open]
        _replace_missing(job, vertex)
        _leave_draining(job, vertex)
        for join in vertex.joins:
            _ask(job, vertex, join)


def _replace_missing(job: JobState, vertex: VertexState) -> None:
    """Plan a new instance (a newcomer) for every missing replica."""
    there = sum(i.replaces is None for i in vertex.instances)
    there += sum(j.replaces is None for j in vertex.joins)
    for _ in range(vertex.shape.recovery.replicas - there):
        slot = free_slot(job, vertex, ready_only=False)
        if slot is not None:
            vertex.joins.append(Join(slot))


def _leave_draining(job: JobState, vertex: VertexState) -> None:
    """Plan a twin for every instance on a draining host.

    If a vertex cannot have two instances, the old one ends before the new one starts.
    """
    for instance in list(vertex.instances):
        if job.hosts[instance.slot].is_draining:
            if vertex.shape.is_exclusive:
                stop(job, vertex, instance, flush=True)
                restart(job, [vertex.shape.id])
            elif instance.replaces is None:
                _begin_twin(job, vertex, instance, DRAIN)
            else:  # the instance is a twin itself, and the one it would replace still works
                stop(job, vertex, instance, flush=False)
                publish(job, vertex)


def straggler_found(job: JobState, notice: StragglerFound) -> None:
    """Start a second instance (a twin) of a straggler on another host."""
    instance = job.instance(notice.vertex, notice.epoch)
    vertex = job.vertices[notice.vertex]
    if instance is not None and instance.replaces is None and not vertex.is_finished:
        _begin_twin(job, vertex, instance, SLOW)


def twins(job: JobState) -> int:
    """Return the number of twins, including planned ones."""
    there = sum(i.replaces is not None for _, i in job.instances())
    return there + sum(j.replaces is not None for v in job.vertices.values() for j in v.joins)


def _begin_twin(job: JobState, vertex: VertexState, old: InstanceState, reason: str) -> None:
    if old.epoch in vertex.replaced():
        return
    slot = free_slot(job, vertex, ready_only=True)
    if slot is not None and twins(job) < job.config.twins_max:
        vertex.joins.append(Join(slot, old.epoch, reason))


# ---- from the request for a checkpoint to the newcomer


def _ask(job: JobState, vertex: VertexState, join: Join) -> None:
    """Request a checkpoint from a running instance, once a new instance has a host to start on."""
    if join.source is not None or job.hosts[join.slot].state != "ready":
        return
    running = [i for i in vertex.instances if job.is_running(i)]
    source = min(running, key=lambda i: i.epoch == join.replaces, default=None)
    if source is None:
        return
    earlier = next((j for j in vertex.joins if j.source == source.epoch), None)
    join.source, join.requested_us, join.frozen = source.epoch, job.now_us, source.consumed
    if earlier is None:
        job.tell(source.host, TakeCheckpoint(source.host, vertex.shape.id, source.epoch))
    else:  # one checkpoint serves both planned instances
        join.frozen = earlier.frozen


def request_again(job: JobState) -> None:
    """Request checkpoints again that did not arrive in time, or could not be used."""
    for vertex in job.vertices.values():
        for join in vertex.joins:
            late_us = job.now_us - join.requested_us
            source = None if join.source is None else job.instance(vertex.shape.id, join.source)
            if source is not None and late_us > job.config.join_wait_s * US_PER_S:
                join.requested_us = job.now_us
                job.tell(source.host, TakeCheckpoint(source.host, vertex.shape.id, source.epoch))


def answered(job: JobState, vertex: VertexState, source: int, ref: CheckpointRef) -> None:
    """Start the planned instances from a requested checkpoint.

    If its inputs are in no memory any more, a writer would have to restart to provide them. Then a
    later checkpoint is requested instead.
    """
    ready = [j for j in vertex.joins if j.source == source]
    if not _has_inputs(job, vertex, ref):
        for join in ready:
            join.requested_us = job.now_us
        return
    vertex.joins = [j for j in vertex.joins if j.source != source]
    for join in ready:
        new = new_instance(job, vertex, ref, join.slot, _checkpoint_slot(job, vertex, join))
        new.replaces, new.reason = join.replaces, join.reason
        vertex.restarts += join.replaces is None
        vertex.instances.append(new)
        order(job, vertex, new)
    _assign_homes(vertex)


def _has_inputs(job: JobState, vertex: VertexState, ref: CheckpointRef) -> bool:
    """Return whether all inputs from a checkpoint on are durable, or will be in a writer's memory.

    This includes writers that wait for their hosts, because their first seqs are already known.
    """
    # the reads of a source also have positions in its files, which are no streams
    for stream, seq in zip(vertex.shape.inputs, ref.reads, strict=False):
        writers = job.vertices[stream.writer.vertex].instances
        begins = min((i.released.get(stream.id, 0) for i in writers), default=0)
        if not stream.is_durable and begins > seq:
            return False
    return True


def _checkpoint_slot(job: JobState, vertex: VertexState, join: Join) -> int:
    """Return the checkpoint slot for a new instance: its old instance's, or the first free one."""
    old = None if join.replaces is None else job.instance(vertex.shape.id, join.replaces)
    if old is not None:
        return old.checkpoint_slot
    taken = {i.checkpoint_slot for i in vertex.instances}
    return min(k for k in range(len(taken) + 1) if k not in taken)


def _assign_homes(vertex: VertexState) -> None:
    vertex.homes = [i.slot for i in vertex.instances if i.replaces is None]


# ---- retiring


def compare_twins(job: JobState, vertices: Iterable[str]) -> None:
    """Notify the job manager of twins of these vertices or their writers that may end now."""
    concerned: dict[str, None] = {}
    for name in vertices:
        if name in job.vertices:
            concerned[name] = None
            concerned.update((s.writer.vertex, None) for s in job.topology.vertices[name].inputs)
    found = [v for v in map(job.vertices.__getitem__, concerned) if len(v.instances) > 1]
    for vertex, twin in [(v, i) for v in found for i in v.instances]:
        old = None if twin.replaces is None else job.instance(vertex.shape.id, twin.replaces)
        if old is None or twin.is_level_reported or not job.is_running(twin):
            continue
        if twin.reason == SLOW or not twin.goal:
            twin.goal = old.consumed
        name = vertex.shape.id
        if all(map(operator.ge, twin.consumed, twin.goal)) and _has_all(job, vertex, twin):
            twin.is_level_reported = True
            job.out.append(Feed(TwinLevel(name, old.epoch, twin.epoch)))
        elif twin.reason == SLOW and job.now_us - twin.opened_us > _patience_us(job):
            twin.is_level_reported = True
            job.out.append(Feed(TwinLevel(name, twin.epoch, old.epoch)))


def _patience_us(job: JobState) -> float:
    return job.config.twin_wait_s * US_PER_S


def _has_all(job: JobState, vertex: VertexState, twin: InstanceState) -> bool:
    """Return whether the twin has in memory all items that readers of the old instance may need."""
    for stream in vertex.shape.outputs:
        if stream.is_durable or stream.reader is None or job.is_retired(stream.reader.vertex):
            continue
        needed = job.held(stream.reader.vertex, stream.reader.index)
        if needed < twin.released.get(stream.id, 0):
            return False
    return True


def twin_level(job: JobState, notice: TwinLevel) -> None:
    """Retire one of two instances: the old one, or a twin that is slower."""
    old = job.instance(notice.vertex, notice.old_epoch)
    new = job.instance(notice.vertex, notice.new_epoch)
    vertex = job.vertices[notice.vertex]
    if old is None or new is None or vertex.is_finished:
        return
    if not _has_all(job, vertex, new):  # a reader has restarted since; a later notice repeats it
        old.is_level_reported = new.is_level_reported = False
        return
    if new.replaces == old.epoch:
        rows = vertex.instances
        rows.remove(new)
        rows.insert(rows.index(old), new)
    stop(job, vertex, old, flush=True)
    _assign_homes(vertex)
    publish(job, vertex)
