"""Instances: starts them, ends them, and sends their endpoints to readers. Pure.

A vertex without an instance restarts, together with the upstream vertices that
:mod:`jobmanager.state.recovery` adds, each under a new epoch. A vertex that still has another
instance continues with it, and a new instance joins (:mod:`jobmanager.manager.joining`).

Invariants: (1) a notice of an instance that no longer exists changes nothing; (2) too many restarts
without progress end the job; (3) two instances that end differently are an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobmanager.errors import NotDeterministicError
from jobmanager.manager.live import order_end
from jobmanager.state.job_state import US_PER_S
from jobmanager.state.messages import DeleteLeftovers, Feed
from jobmanager.state.placement import slots_for_restart
from jobmanager.state.records import InstanceState, count_recent
from jobmanager.state.recovery import plan_restarts
from rstream.types import MIN_TIME
from rvertex.messages import Endpoint, Locate, StartVertex, StopVertex, VertexFinished

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobmanager.state.job_state import JobState
    from jobmanager.state.messages import PartitionsAdded
    from jobmanager.state.records import HostState, VertexState
    from jobmanager.state.tracker import CheckpointRef
    from rvertex.messages import VertexFailed, VertexStarted

# ---- starting instances


def new_instance(
    job: JobState, vertex: VertexState, ref: CheckpointRef, slot: int, checkpoint_slot: int
) -> InstanceState:
    """Return a new instance that starts from a checkpoint. The caller adds it to the vertex."""
    job.epoch += 1
    # Only earlier instances can have left files behind.
    if job.takeovers or vertex.restarts or vertex.instances:
        present = tuple(i.epoch for i in vertex.instances)
        needed = tuple(sorted(named_files(job, vertex).union(filter(None, (ref.name, *ref.parts)))))
        job.out.append(DeleteLeftovers(vertex.shape.id, job.epoch, present, needed))
    volatile = [s for s in vertex.shape.outputs if not s.is_durable]
    return InstanceState(
        epoch=job.epoch,
        slot=slot,
        checkpoint_slot=checkpoint_slot,
        checkpoint=ref.name,
        parts=ref.parts,
        consumed=ref.reads,
        outputs=ref.outputs,
        released={s.id: ref.outputs[s.writer.index] for s in volatile},
        opened_us=job.now_us,
    )


def named_files(job: JobState, vertex: VertexState) -> set[str]:
    """Return the checkpoints of a vertex, their parts, and parts that instances may name again."""
    names = {p for ref in job.tracker.refs(vertex.shape.id) for p in (ref.name, *ref.parts) if p}
    names.update(p for i in vertex.instances for p in i.parts)
    return names


def order(job: JobState, vertex: VertexState, instance: InstanceState) -> None:
    """Let the host start an instance, now or once the host is ready."""
    host = job.hosts[instance.slot]
    if host.state != "ready":
        instance.state = "waiting"
        return
    instance.state, instance.host = "starting", host.name
    name, epoch, slots = vertex.shape.id, instance.epoch, vertex.shape.recovery.replicas
    _locate_inputs(job, vertex, host)
    start = StartVertex(
        host.name,
        name,
        epoch,
        instance.checkpoint,
        instance.checkpoint_slot,
        slots,
        _consumed(job, vertex),
        vertex.shape.added,
    )
    job.tell(host.name, start)


def _consumed(job: JobState, vertex: VertexState) -> tuple[int, ...]:
    """Return, per output of a live source, the seq below which its reader has all items."""
    if not vertex.shape.log_partitions:
        return ()
    positions = []
    for stream in vertex.shape.outputs:
        reader = stream.reader
        if reader is None:
            positions.append(0)
            continue
        seqs = [ref.inputs[reader.index] for ref in job.tracker.refs(reader.vertex)]
        live = job.vertices[reader.vertex].instances
        positions.append(max(*seqs, *(i.consumed[reader.index] for i in live), 0))
    return tuple(positions)


def restart(job: JobState, lost: Iterable[str], *, is_fault: bool = True) -> None:
    """Restart vertices without instances, and upstream vertices that must recompute for them.

    ``is_fault``: whether it counts against the limits of restarts without progress.
    """
    moved: dict[int, int] = {}
    chosen = plan_restarts(lost, job.topology, job.tracker, job, job.may_start_over)
    _drop_checkpoints_after_losses(job, chosen)
    job.lost.clear()
    for name, ref in chosen.items():
        vertex = job.vertices[name]
        if ref not in job.tracker.refs(name):
            job.tracker.start_over(name)
            job.has_fallen_back = True
        if not vertex.is_new:
            vertex.restarts += 1
            if is_fault and not job.waiting:
                vertex.fruitless_restarts.append(job.now_us)
        if (restarts := _recent_restarts(job, vertex)) > job.config.vertex_restarts_max:
            last = f"; last, {job.trouble}" if job.trouble else ""
            within = (
                f"{restarts - 1} times without progress within {job.config.restart_window_s:g} s"
            )
            job.end("failed", f"vertex {name} was restarted {within}{last}")
            return
        vertex.is_new = vertex.is_finished = False
        vertex.cti, vertex.due_us = MIN_TIME, None
        if vertex.instances:
            _recompute(job, vertex, ref)
            continue
        vertex.joins.clear()
        vertex.homes = slots_for_restart(job, vertex, moved)
        for number, slot in enumerate(vertex.homes):
            instance = new_instance(job, vertex, ref, slot, number)
            vertex.instances.append(instance)
            order(job, vertex, instance)


def partitions_added(job: JobState, notice: PartitionsAdded) -> None:
    """Let vertices read added log partitions: replace each instance by one that reads them.

    The new instance starts from a checkpoint and emits the same items again. The new partitions
    take part only above all emitted times (ADR 36). A vertex that waits for a restart starts with
    them; a finished vertex reads no more.
    """
    added = ((row.vertex, row.partitions) for row in notice.vertices)
    wider = [job.vertices[vertex] for vertex, parts in added if job.add_partitions(vertex, parts)]
    at_work = [v.shape.id for v in wider if v.instances and not v.is_finished]
    if at_work:
        restart(job, at_work, is_fault=False)


def _drop_checkpoints_after_losses(job: JobState, chosen: Iterable[str]) -> None:
    """Forget checkpoints that include lost durable outputs: no restart may start from one."""
    for stream, seq in job.lost.items():
        writer = job.topology.streams[stream].writer
        if writer.vertex in chosen:
            job.has_fallen_back |= job.tracker.discard_beyond(writer.vertex, writer.index, seq)


def _recompute(job: JobState, vertex: VertexState, ref: CheckpointRef) -> None:
    """Replace one instance to write lost items again. Prefer one that no drain is about to end."""
    rows = vertex.instances
    stay = [i for i in rows if i.replaces is None or not job.hosts[i.slot].is_draining]
    former = next((i for i in stay if not job.is_live(i)), stay[-1])
    new = new_instance(job, vertex, ref, former.slot, former.checkpoint_slot)
    new.replaces, new.reason = former.replaces, former.reason
    for twin in rows:
        if twin.replaces == former.epoch:
            twin.replaces, twin.goal = new.epoch, ()
    for join in vertex.joins:
        if join.replaces == former.epoch:
            join.replaces = new.epoch
        if join.source == former.epoch:
            join.source, join.frozen = None, ()
    rows[rows.index(former)] = new
    order(job, vertex, new)  # the host then closes the former instance


# ---- ending instances


def remove(vertex: VertexState, instance: InstanceState) -> None:
    """Forget an instance, and cancel the joins and twins that depend on it."""
    vertex.instances.remove(instance)
    vertex.joins = [j for j in vertex.joins if j.replaces != instance.epoch]
    for join in vertex.joins:
        if join.source == instance.epoch:
            join.source, join.frozen = None, ()
    for twin in vertex.instances:
        if twin.replaces == instance.epoch:
            twin.replaces, twin.reason = None, ""


def stop(job: JobState, vertex: VertexState, instance: InstanceState, *, flush: bool) -> None:
    """Let the host close an instance, and forget the instance."""
    if job.is_live(instance):
        name = vertex.shape.id
        job.tell(instance.host, StopVertex(instance.host, name, instance.epoch, flush))
    remove(vertex, instance)
    _report_finished(job, vertex)


def lose_slot(job: JobState, slot: int) -> None:
    """Restart vertices that lost their only instance with a slot; send readers new addresses."""
    hit = []
    for vertex in job.vertices.values():
        for instance in [i for i in vertex.instances if i.slot == slot]:
            remove(vertex, instance)
            hit.append(vertex)
    dead = [v for v in hit if not v.instances and not job.is_retired(v.shape.id)]
    restart(job, [v.shape.id for v in dead])
    for vertex in hit:
        if vertex not in dead:
            publish(job, vertex)
            _report_finished(job, vertex)


def _report_finished(job: JobState, vertex: VertexState) -> None:
    """Log that a vertex has finished, after the loss of an instance that rewrote lost items.

    All other instances have finished before, so none of them reports it again, and no instance can
    join them. A successor learns it from the log. A reader requests missing items again.
    """
    is_over = bool(vertex.instances) and all(i.state == "finished" for i in vertex.instances)
    if is_over and not vertex.is_finished:
        name, one = vertex.shape.id, vertex.instances[0]
        counts, digests = vertex.counts, vertex.digests
        end = VertexFinished(name, one.epoch, one.consumed, one.outputs, digests, counts)
        job.out.append(Feed(end))


def stop_obsolete(job: JobState) -> None:
    """Close the instances of each vertex that can never restart, except the first finished."""
    for vertex in job.vertices.values():
        if len(vertex.instances) < 2 or not job.is_retired(vertex.shape.id):
            continue
        for instance in [i for i in vertex.instances if i.epoch != vertex.finisher]:
            stop(job, vertex, instance, flush=False)  # no flush: the outputs are completely durable
        publish(job, vertex)


# ---- addresses of instances


def location(job: JobState, vertex: VertexState) -> Locate | None:
    """Return the addresses that serve a vertex's streams; None while no instance serves them."""
    serving = [i for i in vertex.instances if i.state in ("running", "finished") and job.is_live(i)]
    if not serving and not job.is_retired(vertex.shape.id):
        return None
    serving.sort(key=lambda i: job.hosts[i.slot].is_draining)  # stable: the primary comes first
    endpoints = (Endpoint(i.epoch, i.host, job.hosts[i.slot].address) for i in serving)
    job.locations += 1
    return Locate(vertex.shape.id, job.locations, tuple(endpoints))


def publish(job: JobState, vertex: VertexState) -> None:
    """Send the addresses of ``vertex`` to hosts that read it. Others get them with a new reader.

    The addresses of a sink go to one host, where the driver sees them and passes them to
    subscribers.
    """
    place = location(job, vertex)
    if place is None:
        return
    readers = dict.fromkeys(s.reader.vertex for s in vertex.shape.outputs if s.reader is not None)
    slots = {i.slot for name in readers for i in job.vertices[name].instances}
    ready = [job.hosts[slot] for slot in sorted(slots) if job.hosts[slot].state == "ready"]
    if vertex.shape.is_sink and not ready:
        ready = [host for host in job.hosts if host.state == "ready"][:1]
    for host in ready:
        job.tell(host.name, place)


def _locate_inputs(job: JobState, vertex: VertexState, host: HostState) -> None:
    """Send a host the addresses of all streams that a vertex reads."""
    for writer in dict.fromkeys(s.writer.vertex for s in vertex.shape.inputs):
        place = location(job, job.vertices[writer])
        if place is not None:
            job.tell(host.name, place)


# ---- notices of instances


def started(job: JobState, notice: VertexStarted) -> None:
    """Handle the start of an instance: its streams can be read."""
    instance = job.instance(notice.vertex, notice.epoch)
    if instance is None or instance.state != "starting":
        return
    instance.state = "running"
    publish(job, job.vertices[notice.vertex])
    order_end(job, job.vertices[notice.vertex], instance)


def finished(job: JobState, notice: VertexFinished) -> bool:
    """Handle an instance that finished, so its vertex has. Return False if it is stale."""
    instance = job.instance(notice.vertex, notice.epoch)
    if instance is None:
        return False
    vertex, digests = job.vertices[notice.vertex], notice.digests
    if vertex.digests and vertex.digests != digests:
        one, other = (f"outputs {[d.hex() for d in rows]}" for rows in (vertex.digests, digests))
        raise NotDeterministicError(notice.vertex, one, other)
    is_new = instance.state == "starting"
    vertex.finish(instance, notice)
    if is_new:  # the notice of its start has not arrived yet
        publish(job, vertex)
    job.advanced_us = job.now_us
    if not all(v.is_finished for v in job.vertices.values()):
        stop_obsolete(job)
    return True


def failed(job: JobState, notice: VertexFailed) -> None:
    """Handle a failed instance: another one continues or restarts, or the job fails."""
    instance = job.instance(notice.vertex, notice.epoch)
    if instance is None:
        return
    vertex, name = job.vertices[notice.vertex], notice.vertex
    job.trouble = f"{name}: {notice.message}"
    is_unreadable = notice.family == "checkpoint" and bool(instance.checkpoint)
    if not is_unreadable and notice.family not in ("operating", "store"):
        job.end("failed", f"{name}: {notice.message}")
        return
    remove(vertex, instance)
    if is_unreadable and not (vertex.instances and len(job.tracker.refs(name)) == 1):
        job.is_damaged = True
        may_start_over = job.may_start_over(name)
        job.tracker.discard(name, instance.checkpoint, may_start_over=may_start_over)
        job.has_fallen_back = True
    publish(job, vertex)
    if vertex.instances:
        vertex.join_failures += 1
        vertex.due_us = job.now_us + _pause_us(job, vertex.join_failures)
        _report_finished(job, vertex)
    elif not job.is_retired(name) and notice.family == "store":
        _wait_for_store(job, vertex, notice.message)
    elif not job.is_retired(name):
        _restart_failed(job, vertex, notice.message, at_once=is_unreadable)


def _wait_for_store(job: JobState, vertex: VertexState, message: str) -> None:
    """Restart a vertex whose only instance ended because a store failed, after growing pauses.

    These restarts do not count against the vertex's limits. The job fails after a while.
    """
    job.store_trouble = message
    vertex.store_failed(job.now_us)
    assert vertex.store_failing_us is not None
    waited_s = (job.now_us - vertex.store_failing_us) / US_PER_S
    if waited_s > job.config.store_wait_s:
        within = (
            f"its store failed for {waited_s:.0f} s, store_wait_s is {job.config.store_wait_s:g} s"
        )
        job.end("failed", f"{vertex.shape.id}: {message} ({within})")
    elif vertex.store_failures == 1:
        restart(job, [vertex.shape.id])
    else:
        vertex.due_us = job.now_us + _pause_us(job, vertex.store_failures - 1)


def _restart_failed(job: JobState, vertex: VertexState, message: str, *, at_once: bool) -> None:
    """Restart a vertex whose only instance failed by itself, after a growing pause, or give up."""
    name, tries = vertex.shape.id, _recent_restarts(job, vertex)
    if at_once:
        restart(job, [name])
    elif tries >= job.config.vertex_failures_max:
        job.end("failed", f"{name}: {message} (after {tries} restarts)")
    elif tries == 0:
        restart(job, [name])
    else:
        vertex.due_us = job.now_us + _pause_us(job, tries)


def _recent_restarts(job: JobState, vertex: VertexState) -> int:
    """Return the number of restarts without progress within ``restart_window_s``."""
    window_us = job.config.restart_window_s * US_PER_S
    return count_recent(vertex.fruitless_restarts, job.now_us, window_us)


def _pause_us(job: JobState, failures: int) -> int:
    """Return the pause after this number of failures, us. It grows up to a maximum."""
    pause_s = job.config.restart_pause_s * 2.0 ** min(failures - 1, 30)
    return int(min(pause_s, job.config.restart_pause_max_s) * US_PER_S)


def due(job: JobState, name: str) -> None:
    """Restart a vertex after its pause."""
    vertex = job.vertices[name]
    if vertex.due_us is None:
        return
    vertex.due_us = None
    if not vertex.instances and not job.is_retired(name):
        restart(job, [name])
