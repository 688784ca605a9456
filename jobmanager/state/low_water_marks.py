"""Low-water marks: the paper's recursive GC(o, m), as one pass in reverse topological order. Pure.

The oldest checkpoint that a vertex can still need is its newest one with two properties: its
outputs are at or below the marks of its output streams, and all its living instances have passed
its reads. The reads of that checkpoint are in turn the marks of its input streams. (An instance
that was restarted from an older checkpoint than the newest reads its inputs once more from there.
Replay reads from before its checkpoint's positions.) Only volatile streams limit their writer's
checkpoint. A durable stream does not, because a checkpoint is announced only after its durable
outputs are durable. Retention may keep an older checkpoint. Source: StreamScope NSDI'16, "garbage
collection".
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
    """The result of :func:`low_water_marks`.

    ``keep``: per vertex the oldest checkpoint that it can need; None: it can never restart.
    ``marks``: per stream, except sinks, the smallest seq still needed; None: no item is needed.
    """

    keep: dict[str, CheckpointRef | None]
    marks: dict[str, int | None]


def low_water_marks(
    topology: Topology,
    tracker: SnapshotTracker,
    is_retired: Callable[[str], bool],
    consumed: Callable[[str], tuple[int, ...]],
    hold: Callable[[str, CheckpointRef], CheckpointRef] = lambda vertex, ref: ref,
    may_start_over: Callable[[str], bool] = lambda vertex: False,
) -> LowWaterMarks:
    """Compute the marks from the present checkpoints. Takes time linear in the plan.

    ``consumed``: returns the input seqs that all living instances of a vertex have consumed.
    ``hold``: returns the checkpoint to keep, given the one that recovery needs: that or an older.
    ``may_start_over``: whether a vertex without a usable checkpoint starts from the initial one.

    Raises:
        NoCheckpointError: a necessary checkpoint was found corrupt or missing before.
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
        if ref is None and may_start_over(vertex.id):
            ref = tracker.start_over(vertex.id)
        if ref is None:
            raise NoCheckpointError(vertex.id, f"no checkpoint at or below {limits} is left")
        keep[vertex.id] = hold(vertex.id, ref)
    return LowWaterMarks(keep, marks)


def _limit(stream: StreamShape, marks: dict[str, int | None]) -> int | None:
    """Return the seq that a writer's checkpoint must not exceed in a stream; None: no limit."""
    return None if stream.is_durable else marks[stream.id]
