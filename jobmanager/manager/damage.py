"""Lost durable items: their writer writes them again, if it can. Pure.

A process that opens, reads or checks a stream finds the damage and renames the damaged file. The
writer restarts from a checkpoint at or before the first lost item. Without such a checkpoint it
restarts from its sources, if they reach back that far. It drops the items that are still there and
gives the others the same sequence numbers.

Invariants: (1) a job whose output lacks items does not end as finished; (2) items that cannot be
computed again end the job, and the error names the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobmanager.manager.instances import remove, restart
from jobmanager.state.messages import CheckOutput, OutputRestored

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobmanager.errors import NoCheckpointError
    from jobmanager.state.job_state import JobState
    from jobmanager.state.messages import OutputDamaged
    from jobmanager.state.records import VertexState
    from rvertex.messages import ItemsLost, OutputLost


def output_lost(job: JobState, notice: OutputLost) -> None:
    """Handle lost items that an instance found when it opened its output."""
    instance = job.instance(notice.vertex, notice.epoch)
    if instance is None:
        return
    remove(job.vertices[notice.vertex], instance)
    _note(job, notice.stream, notice.seq, notice.reason)
    restart(job, [notice.vertex])


def output_damaged(job: JobState, notice: OutputDamaged) -> None:
    """Handle lost items that the driver found. Before the job starts, only note them."""
    _note(job, notice.stream, notice.seq, notice.reason)
    writer = _writer(job, notice.stream)
    writer.is_finished = False
    if job.hosts:
        restart(job, [writer.shape.id])


def check_notices(
    job: JobState, damages: Sequence[OutputDamaged]
) -> list[OutputDamaged | OutputRestored]:
    """Return what the check before the job starts has found, as notices: losses and repairs."""
    lost = {damage.stream for damage in damages}
    back = tuple(
        stream
        for stream, end in output_ends(job).items()
        if end is not None and stream not in lost and not _writer(job, stream).is_finished
    )
    return [*damages, *([OutputRestored(back)] if back else ())]


def output_restored(job: JobState, notice: OutputRestored) -> None:
    """Mark the writers of restored streams as finished again."""
    for stream in notice.streams:
        _writer(job, stream).is_finished = True


def items_lost(job: JobState, notice: ItemsLost) -> None:
    """Let the writer write items again that a reader finds neither in memory nor in files.

    If the reader has not yet tried an instance of the writer, wait: it will, when it gets the
    address. A pause before new instances does not delay this, because the reader reports only once.
    """
    if job.instance(notice.vertex, notice.epoch) is None:
        return
    name = job.topology.writer(notice.stream)
    writer = job.vertices[name]
    is_tried = all(i.epoch in notice.writer_epochs for i in writer.instances)
    if is_tried and (writer.instances or writer.due_us is None):
        if job.topology.streams[notice.stream].is_durable:
            where = (
                f"the root's streams/{notice.stream} has lost its items from seq {notice.seq} on"
            )
            _note(job, notice.stream, notice.seq, where)
        restart(job, [name])


def check_output(job: JobState) -> None:
    """Request the check of the output after all vertices have finished. Then the job finishes."""
    job.out.append(CheckOutput(output_ends(job)))


def output_ends(job: JobState) -> dict[str, int | None]:
    """Return the number of items of each stream that users read; None while it is unknown.

    It is known for a vertex that has finished, even if it has restarted because items were lost.
    """
    return {
        stream.id: vertex.ends[stream.writer.index] if vertex.ends else None
        for vertex in job.vertices.values()
        for stream in vertex.shape.outputs
        if stream.reader is None and stream.is_durable
    }


def output_intact(job: JobState) -> None:
    """Finish the job after a check that found no damage, unless other damage was found since."""
    if all(vertex.is_finished for vertex in job.vertices.values()):
        job.end("finished", "")


def explained(job: JobState, error: NoCheckpointError) -> str:
    """Return why the job cannot continue, with advice."""
    if not job.damage:
        return str(error)
    return (
        f"{job.damage}. It cannot be computed again ({error}): put the file back from a copy and "
        "resume, or run the query again with another --root"
    )


def _writer(job: JobState, stream: str) -> VertexState:
    return job.vertices[job.topology.writer(stream)]


def _note(job: JobState, stream: str, seq: int, reason: str) -> None:
    job.is_damaged = True
    job.damage = job.trouble = reason
    job.lost[stream] = min(seq, job.lost.get(stream, seq))
