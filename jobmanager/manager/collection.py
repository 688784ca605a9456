"""Collection: moves low-water marks and deletes obsolete items and files. Pure.

Reports of readers release the memory of volatile streams. Checkpoints move the low-water marks,
which collect durable streams and make older checkpoints obsolete. A checkpoint consists of its own
file and of *parts*, which other checkpoints of the vertex may share.

Invariants: (1) a checkpoint is deleted only when the marks show that no recovery can need it; (2) a
part is deleted only when no remaining checkpoint names it, nor the newest checkpoint of a present
instance, whose next one may name it without storing it again; (3) a mark never moves back: a
checkpoint that would read below a mark is not used.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from jobmanager.config import KEEP_ALL
from jobmanager.manager import instances, live, saving
from jobmanager.manager.joining import answered
from jobmanager.state.job_state import US_PER_S
from jobmanager.state.low_water_marks import LowWaterMarks, low_water_marks
from jobmanager.state.messages import CheckpointsKept, DeleteFiles, KeptOfVertex
from jobmanager.state.tracker import CheckpointRef
from rvertex.checkpoint.journal import is_shared
from rvertex.messages import Collect, Mark

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobmanager.state.job_state import JobState
    from jobmanager.state.records import VertexState
    from rvertex.messages import CheckpointTaken, Progress


#: In a plan with at most this number of vertices, every checkpoint moves the low-water marks. In a
#: larger plan they move only after as many checkpoints as the plan has vertices, or at the first
#: checkpoint that is taken ``COLLECT_WAIT_S`` after the last move.
SMALL_PLAN = 16
COLLECT_WAIT_S = 5


def progress(job: JobState, notice: Progress) -> None:
    """Apply a host's report, and free the memory that no reader needs any more."""
    host = job.current(notice.host)
    if host is None:
        return
    host.heard_us, host.busy = job.now_us, ""
    host.memory = next(iter(notice.memory), host.memory)
    for report in notice.vertices:
        instance = job.instance(report.vertex, report.epoch)
        if instance is None or instance.state not in ("starting", "running"):
            continue
        vertex = job.vertices[report.vertex]
        newest = max(i.epoch for i in vertex.instances)
        if instance.epoch == newest and any(map(operator.gt, report.inputs, instance.consumed)):
            vertex.join_failures = 0
        if vertex.advance(instance, report):
            host.losses.clear()
            job.advanced_us = job.now_us
        if vertex.store_failing_us is not None:
            vertex.store_answers(job.now_us)
    release_volatile(job, [report.vertex for report in notice.vertices])
    live.confirm(job, notice)


def release_volatile(job: JobState, vertices: Iterable[str]) -> None:
    """Let writers drop items of volatile streams that all readers have consumed.

    ``vertices``: the reporting ones. A stream is checked when its writer or its reader reports,
    which both do regularly.
    """
    marks: dict[str, int] = {}
    for shape in (job.topology.vertices[v] for v in vertices if v in job.topology.vertices):
        for stream in (*shape.inputs, *shape.outputs):
            is_volatile = not stream.is_durable and stream.reader is not None
            if is_volatile and not saving.is_frozen(job, stream):
                assert stream.reader is not None
                marks[stream.id] = job.held(stream.reader.vertex, stream.reader.index)
    _send_marks(job, marks)


def output_obsolete(job: JobState, marks: Iterable[Mark]) -> None:
    """Let the writers of the result and of side outputs delete items below these seqs."""
    _send_marks(job, {mark.stream: mark.seq for mark in marks if mark.seq})


def _send_marks(job: JobState, marks: dict[str, int]) -> None:
    """Send each mark once to every instance that has the stream in memory."""
    new_marks: dict[int, list[Mark]] = {}
    for stream, seq in marks.items():
        for instance in job.live(job.topology.writer(stream)):
            if seq > instance.released.get(stream, 0):
                instance.released[stream] = seq
                new_marks.setdefault(instance.slot, []).append(Mark(stream, seq))
    for slot, rows in sorted(new_marks.items()):
        host = job.hosts[slot].name
        job.tell(host, Collect(host, tuple(rows)))


def checkpoint_taken(job: JobState, notice: CheckpointTaken) -> None:
    """Apply a durable checkpoint.

    It may start new instances, and make older checkpoints obsolete.
    """
    vertex = job.vertices[notice.vertex]
    instance = job.instance(notice.vertex, notice.epoch)
    if instance is None:  # the sender was replaced: delete what no present instance has announced
        unknown = [p for p in notice.parts if p not in vertex.parts]
        own = tuple(p for p in (notice.name, *unknown) if not is_shared(p))
        if own:
            job.out.append(DeleteFiles(own))
        return
    instance.reached(notice.inputs, notice.outputs)
    instance.parts = notice.parts
    vertex.store_answers(job.now_us, has_stored=True)
    ref = record_checkpoint(job, notice)
    if ref is None:
        _delete(job, vertex, [notice.name])
    elif notice.asked:
        answered(job, vertex, notice.epoch, ref)
    saving.note(job, notice, ref)
    collect_now_and_then(job)


def record_checkpoint(job: JobState, notice: CheckpointTaken) -> CheckpointRef | None:
    """Add a checkpoint to the tracker. Return None if its inputs may be deleted already.

    In that case its own parts are deleted with it. The journal entries that it names stay, because
    restarts from earlier checkpoints need them.
    """
    job.checkpointed_us = max(job.checkpointed_us, notice.taken_us)
    job.vertices[notice.vertex].state_bytes = notice.state_bytes or notice.size_bytes
    ref = CheckpointRef.announced(notice)
    is_kept = job.tracker.add(notice.vertex, ref)
    parts = (part for part in notice.parts if is_kept or not is_shared(part))
    job.vertices[notice.vertex].parts.update(dict.fromkeys(parts))
    return ref if is_kept else None


def collect_now_and_then(job: JobState) -> None:
    """Move the low-water marks after a checkpoint or the end of a vertex.

    In a large plan this is done less often, because the cost grows with the size of the plan. The
    logged notices alone decide when it happens. So a successor moves the marks after the same
    notices, at least as far, and rejects the same checkpoints.
    """
    job.uncollected += 1
    is_over = all(v.is_finished for v in job.vertices.values())
    is_late = job.checkpointed_us - job.collected_us > COLLECT_WAIT_S * US_PER_S
    vertices = len(job.vertices)
    if is_over or is_late or vertices <= SMALL_PLAN or job.uncollected >= vertices:
        collect_durable(job)


def collect_durable(job: JobState) -> None:
    """Move the low-water marks: delete old checkpoints and obsolete items of durable streams."""
    job.uncollected, job.collected_us = 0, job.checkpointed_us
    low = _low_water_marks(job)
    for name, ref in low.keep.items():
        dropped = [] if ref is None else job.tracker.drop_before(name, ref)
        if dropped:
            _delete(job, job.vertices[name], [r.name for r in dropped])
    durable = {s: seq for s, seq in low.marks.items() if job.topology.streams[s].is_durable}
    marks = {s: seq for s, seq in durable.items() if seq}
    job.collected |= {s: max(seq, job.collected.get(s, 0)) for s, seq in marks.items()}
    _send_marks(job, marks)


def savepoint_ended(job: JobState) -> None:
    """Stop protecting the checkpoints of a savepoint. The next checkpoint lets them be deleted."""
    job.saving = None
    release_volatile(job, job.vertices)


def _low_water_marks(job: JobState) -> LowWaterMarks:
    return low_water_marks(
        job.topology,
        job.tracker,
        job.is_retired,
        lambda vertex: _passed(job, vertex),
        lambda vertex, ref: _held(job, vertex, ref),
        job.may_start_over,
    )


def _passed(job: JobState, vertex: str) -> tuple[int, ...]:
    """Return the input seqs that all living instances have consumed; no bound if none lives."""
    return job.consumed(vertex) if job.positions(vertex) else job.tracker.newest(vertex).inputs


def _held(job: JobState, vertex: str, needed: CheckpointRef) -> CheckpointRef:
    """Return the checkpoint to keep: ``needed``, or an older one.

    An older one is kept by retention, for a savepoint, or because an instance will load it.
    """
    retain_us = job.retain_us
    age_us = job.checkpointed_us if retain_us == KEEP_ALL else retain_us
    before_us = job.checkpointed_us - age_us if retain_us else None
    rows = job.vertices[vertex].instances
    names = [i.checkpoint for i in rows if i.state in ("waiting", "starting")]
    if job.saving is not None and vertex in job.saving.names:
        names.append(job.saving.names[vertex])
    return job.tracker.held(vertex, needed, before_us=before_us, names=names)


def kept_marks(job: JobState) -> dict[str, int | None]:
    """Forget obsolete checkpoints of a job without a job manager. Return its low-water marks.

    A finished vertex that cannot restart keeps only checkpoints that retention keeps. A mark of
    None: no item of the stream is needed.
    """
    job.retain_us = job.config.retain_us
    low = _low_water_marks(job)
    marks = dict(low.marks)
    for name, needed in low.keep.items():
        ref = needed
        if needed is None and job.retain_us:
            ref = _held(job, name, job.tracker.newest(name))
            for k, stream in enumerate(job.topology.vertices[name].inputs):
                marks[stream.id] = ref.reads[k]
        if ref is None:
            job.tracker.forget(name)
        else:
            job.tracker.drop_before(name, ref)
    return marks


def checkpoints_kept(job: JobState) -> CheckpointsKept:
    """Return the remaining checkpoints for the log, if a successor cannot derive them."""
    tracker = job.tracker
    refs = tuple(KeptOfVertex(v, tuple(tracker.refs(v))) for v in job.topology.vertices)
    collected = tuple(Mark(stream, seq) for stream, seq in sorted(job.collected.items()))
    return CheckpointsKept(refs, collected, job.is_damaged)


def take_up(job: JobState, notice: CheckpointsKept) -> None:
    """Replace the known checkpoints by the remaining ones that a predecessor has logged."""
    for kept in notice.vertices:
        job.tracker.restore(kept.vertex, kept.refs)
        parts = job.vertices[kept.vertex].parts
        parts.update((part, None) for ref in kept.refs for part in ref.parts)
    job.collected = {mark.stream: mark.seq for mark in notice.collected}
    job.is_damaged = notice.is_damaged


def _delete(job: JobState, vertex: VertexState, names: list[str]) -> None:
    """Delete checkpoints, and parts of the vertex that no remaining checkpoint names."""
    named = instances.named_files(job, vertex)
    obsolete = [p for p in vertex.parts if p not in named]
    for part in obsolete:
        del vertex.parts[part]
    job.out.append(DeleteFiles((*names, *obsolete)))
