"""Instances: starts them, ends them, and tells readers their endpoints. Pure.

A vertex without an instance restarts, together with the upstream vertices that
:mod:`jobmanager.state.recovery` adds, each under a new epoch. A vertex that still has another
instance continues with it, and a newcomer joins (:mod:`jobmanager.manager.joining`).

Invariants: (1) a notice of an instance that no longer exists changes nothing; (2) too many restarts
without progress end the job; (3) two instances that end differently are an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobmanager.errors import NotDeterministicError
from jobmanager.manager.live import tell_end
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

# ---- opening


def new_instance(
    job: JobState, vertex: VertexState, ref: CheckpointRef, slot: int, checkpoint_slot: int
) -> InstanceState:
    """An instance that begins from a checkpoint; not yet among those of its vertex."""
    job.epoch += 1
    if job.takeovers or vertex.restarts or vertex.instances:  # others were there before
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
    """Checkpoints of a vertex, their parts, and those that a present instance may name again."""
    found = {p for ref in job.tracker.refs(vertex.shape.id) for p in (ref.name, *ref.parts) if p}
    found.update(p for i in vertex.instances for p in i.parts)
    return found


def order(job: JobState, vertex: VertexState, instance: InstanceState) -> None:
    """Tell its host to start it, now or when that is ready."""
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
    """By output of a live source, up to where its reader is known to have consumed it."""
    if not vertex.shape.log_partitions:
        return ()
    found = []
    for stream in vertex.shape.outputs:
        reader = stream.reader
        if reader is None:
            found.append(0)
            continue
        seqs = [ref.inputs[reader.index] for ref in job.tracker.refs(reader.vertex)]
        live = job.vertices[reader.vertex].instances
        found.append(max(*seqs, *(i.consumed[reader.index] for i in live), 0))
    return tuple(found)


def restart(job: JobState, lost: Iterable[str], *, is_fault: bool = True) -> None:
    """Restart vertices without instances, and those upstream that must recompute for them.

    ``is_fault``: it counts against the limits of restarts in vain.
    """
    moved: dict[int, int] = {}
    chosen = plan_restarts(lost, job.topology, job.tracker, job, job.may_begin_anew)
    _forget_what_rests_on_lost_items(job, chosen)
    job.lost.clear()
    for name, ref in chosen.items():
        vertex = job.vertices[name]
        if ref not in job.tracker.refs(name):
            job.tracker.begin_anew(name)
            job.has_fallen_back = True
        if not vertex.is_new:
            vertex.restarts += 1
            if is_fault and not job.waiting:
                vertex.fruitless_restarts.append(job.now_us)
        if (restarts := _recent_restarts(job, vertex)) > job.config.vertex_restarts_max:
            last = f"; last, {job.trouble}" if job.trouble else ""
            within = f"{restarts - 1} times in vain within {job.config.restart_window_s:g} s"
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
    """Vertices read more of their live logs: each instance gives way to one that does, too.

    It begins as after a failure, from a checkpoint, and puts out the same: what is new takes part
    above all that was put out (ADR 36). One that has ended reads nothing more, and one that waits
    for its next try begins with them.
    """
    told = ((row.vertex, row.partitions) for row in notice.vertices)
    wider = [job.vertices[vertex] for vertex, parts in told if job.add_partitions(vertex, parts)]
    at_work = [v.shape.id for v in wider if v.instances and not v.is_finished]
    if at_work:
        restart(job, at_work, is_fault=False)


def _forget_what_rests_on_lost_items(job: JobState, chosen: Iterable[str]) -> None:
    """Checkpoints whose durable outputs are no longer there; those that restart write them again.

    A later restart must not begin from one, nor the marks go by it.
    """
    for stream, seq in job.lost.items():
        writer = job.topology.streams[stream].writer
        if writer.vertex in chosen:
            job.has_fallen_back |= job.tracker.discard_beyond(writer.vertex, writer.index, seq)


def _recompute(job: JobState, vertex: VertexState, ref: CheckpointRef) -> None:
    """Have one instance write again what was lost, but no twin that a drain ends at once."""
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
    order(job, vertex, new)  # its host closes the former one


# ---- closing


def remove(vertex: VertexState, instance: InstanceState) -> None:
    """Forget an instance; what rested on it is undone."""
    vertex.instances.remove(instance)
    vertex.joins = [j for j in vertex.joins if j.replaces != instance.epoch]
    for join in vertex.joins:
        if join.source == instance.epoch:
            join.source, join.frozen = None, ()
    for twin in vertex.instances:
        if twin.replaces == instance.epoch:
            twin.replaces, twin.reason = None, ""


def stop(job: JobState, vertex: VertexState, instance: InstanceState, *, flush: bool) -> None:
    """Order an instance to be closed, and forget it."""
    if job.is_live(instance):
        name = vertex.shape.id
        job.tell(instance.host, StopVertex(instance.host, name, instance.epoch, flush))
    remove(vertex, instance)
    _say_that_it_has_finished(job, vertex)


def lose_slot(job: JobState, slot: int) -> None:
    """Every instance of a slot is gone: restart what has no other, say where the others are."""
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
            _say_that_it_has_finished(job, vertex)


def _say_that_it_has_finished(job: JobState, vertex: VertexState) -> None:
    """The instance that was to write again what was lost is gone, and all others had finished.

    Nobody else would say so, and nobody can join them. A successor learns it from the log. What a
    reader still lacks it asks for again.
    """
    is_over = bool(vertex.instances) and all(i.state == "finished" for i in vertex.instances)
    if is_over and not vertex.is_finished:
        name, one = vertex.shape.id, vertex.instances[0]
        counts, digests = vertex.counts, vertex.digests
        end = VertexFinished(name, one.epoch, one.consumed, one.outputs, digests, counts)
        job.out.append(Feed(end))


def stop_obsolete(job: JobState) -> None:
    """Of each retired vertex, close every instance but the one that finished first."""
    for vertex in job.vertices.values():
        if len(vertex.instances) < 2 or not job.is_retired(vertex.shape.id):
            continue
        for instance in [i for i in vertex.instances if i.epoch != vertex.finisher]:
            stop(job, vertex, instance, flush=False)  # its outputs are durable to the end
        publish(job, vertex)


# ---- where they are


def location(job: JobState, vertex: VertexState) -> Locate | None:
    """Where its streams can be read now; None while that is nowhere."""
    serving = [i for i in vertex.instances if i.state in ("running", "finished") and job.is_live(i)]
    if not serving and not job.is_retired(vertex.shape.id):
        return None
    serving.sort(key=lambda i: job.hosts[i.slot].is_draining)  # stable: the primary comes first
    endpoints = (Endpoint(i.epoch, i.host, job.hosts[i.slot].address) for i in serving)
    job.locations += 1
    return Locate(vertex.shape.id, job.locations, tuple(endpoints))


def publish(job: JobState, vertex: VertexState) -> None:
    """Tell the hosts that read ``vertex`` where its streams are; others when they are to read it.

    Where a sink is, is told to one host: thereby the shell hears of it, for subscribers.
    """
    found = location(job, vertex)
    if found is None:
        return
    readers = dict.fromkeys(s.reader.vertex for s in vertex.shape.outputs if s.reader is not None)
    slots = {i.slot for name in readers for i in job.vertices[name].instances}
    ready = [job.hosts[slot] for slot in sorted(slots) if job.hosts[slot].state == "ready"]
    if vertex.shape.is_sink and not ready:
        ready = [host for host in job.hosts if host.state == "ready"][:1]
    for host in ready:
        job.tell(host.name, found)


def _locate_inputs(job: JobState, vertex: VertexState, host: HostState) -> None:
    """Tell a host where all that a vertex reads is."""
    for writer in dict.fromkeys(s.writer.vertex for s in vertex.shape.inputs):
        found = location(job, job.vertices[writer])
        if found is not None:
            job.tell(host.name, found)


# ---- what they say


def started(job: JobState, notice: VertexStarted) -> None:
    """An instance can be read."""
    instance = job.instance(notice.vertex, notice.epoch)
    if instance is None or instance.state != "starting":
        return
    instance.state = "running"
    publish(job, job.vertices[notice.vertex])
    tell_end(job, job.vertices[notice.vertex], instance)


def finished(job: JobState, notice: VertexFinished) -> bool:
    """An instance came to the end of its inputs: so has the vertex. False: a stale one says so."""
    instance = job.instance(notice.vertex, notice.epoch)
    if instance is None:
        return False
    vertex, digests = job.vertices[notice.vertex], notice.digests
    if vertex.digests and vertex.digests != digests:
        one, other = (f"outputs {[d.hex() for d in rows]}" for rows in (vertex.digests, digests))
        raise NotDeterministicError(notice.vertex, one, other)
    is_new = instance.state == "starting"
    vertex.finish(instance, notice)
    if is_new:  # that it had started has yet to arrive
        publish(job, vertex)
    job.advanced_us = job.now_us
    if not all(v.is_finished for v in job.vertices.values()):
        stop_obsolete(job)
    return True


def failed(job: JobState, notice: VertexFailed) -> None:
    """An instance cannot go on: another one must, or the job fails."""
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
        may_begin_anew = job.may_begin_anew(name)
        job.tracker.discard(name, instance.checkpoint, may_begin_anew=may_begin_anew)
        job.has_fallen_back = True
    publish(job, vertex)
    if vertex.instances:
        vertex.join_failures += 1
        vertex.due_us = job.now_us + _pause_us(job, vertex.join_failures)
        _say_that_it_has_finished(job, vertex)
    elif not job.is_retired(name) and notice.family == "store":
        _wait_for_store(job, vertex, notice.message)
    elif not job.is_retired(name):
        _restart_failed(job, vertex, notice.message, at_once=is_unreadable)


def _wait_for_store(job: JobState, vertex: VertexState, message: str) -> None:
    """A store failed the only instance: restart it later each time, and give up after a while.

    That is no fault of the vertex, so these restarts do not count against its limits.
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
    """The only instance failed by itself: restart it, later each time, or give up."""
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
    """How many fruitless restarts count: a job that waits for days may lose a host each day."""
    window_us = job.config.restart_window_s * US_PER_S
    return count_recent(vertex.fruitless_restarts, job.now_us, window_us)


def _pause_us(job: JobState, failures: int) -> int:
    """How long nothing is started after so many failures: growing, and bounded."""
    pause_s = job.config.restart_pause_s * 2.0 ** min(failures - 1, 30)
    return int(min(pause_s, job.config.restart_pause_max_s) * US_PER_S)


def due(job: JobState, name: str) -> None:
    """The pause of a vertex is over."""
    vertex = job.vertices[name]
    if vertex.due_us is None:
        return
    vertex.due_us = None
    if not vertex.instances and not job.is_retired(name):
        restart(job, [name])
