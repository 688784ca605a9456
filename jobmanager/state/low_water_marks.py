"""Low-water marks: the seed's recursive GC(o, m), as one pass in reverse topological order. Pure.

The oldest checkpoint that a vertex can still need is its newest one with two properties: its
outputs are at or below the marks of its output streams, and all its living instances have passed
its reads. The reads of that checkpoint are in turn the marks of its input streams. (An instance
that was restarted from an older checkpoint than the newest reads its inputs once more from there;
replay reads from before its checkpoint's positions.) A durable stream does not bind its writer,
because a checkpoint is announced only when its durable outputs are durable; a volatile stream does.
Retention keeps an older checkpoint. Source: StreamScope NSDI'16, "garbage collection".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobmanager.errors import NoCheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobmanager.state.topology import StreamShape, Topology
    from jobmanager.state.tracker import CheckpointRef, SnapshotTracker


@dataclass(frozen=True, slots=True)
class LowWaterMarks:
    """``keep``: the oldest checkpoint a vertex can need (None: retired, it needs nothing).

    ``marks``: least seq still needed of each stream that is not a sink (None: nothing is).
    """

    keep: dict[str, CheckpointRef | None]
    marks: dict[str, int | None]


def low_water_marks(
    topology: Topology,
    tracker: SnapshotTracker,
    is_retired: Callable[[str], bool],
    consumed: Callable[[str], tuple[int, ...]],
    hold: Callable[[str, CheckpointRef], CheckpointRef] = lambda vertex, ref: ref,
    may_begin_anew: Callable[[str], bool] = lambda vertex: False,
) -> LowWaterMarks:
    """The marks that follow from the checkpoints known now; linear in the plan.

    ``consumed``: input seqs that all living instances of a vertex have consumed.
    ``hold``: the checkpoint to keep, where recovery needs a given one; the same or an older.
    ``may_begin_anew``: whether a vertex without a usable one starts from the initial snapshot.

    Raises:
        NoCheckpointError: one that is needed turned out to be corrupt or gone before.
    """
    keep: dict[str, CheckpointRef | None] = {}
    marks: dict[str, int | None] = {}
    for vertex in reversed(topology.vertices.values()):
        for stream in vertex.outputs:
            if stream.reader is not None:
                ref = keep[stream.reader.vertex]
                marks[stream.id] = None if ref is None else ref.reads[stream.reader.index]
        if is_retired(vertex.id):
            keep[vertex.id] = None
            continue
        limits = [_limit(stream, marks) for stream in vertex.outputs]
        ref = tracker.usable(vertex.id, limits, consumed(vertex.id))
        if ref is None and may_begin_anew(vertex.id):
            ref = tracker.begin_anew(vertex.id)
        if ref is None:
            raise NoCheckpointError(vertex.id, f"no checkpoint at or below {limits} is left")
        keep[vertex.id] = hold(vertex.id, ref)
    return LowWaterMarks(keep, marks)


def _limit(stream: StreamShape, marks: dict[str, int | None]) -> int | None:
    """What bounds the writer's choice of checkpoint: the mark of a volatile stream."""
    return None if stream.is_durable else marks[stream.id]
