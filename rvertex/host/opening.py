"""What an instance needs before its first turn, got ready away from the host's thread.

A store may be slow and a state large: the checkpoint is read and loaded and the output streams are
opened in the background, while the other vertices of the host go on.

Invariant: what was opened is closed by exactly one: the runner that takes it over, or
:meth:`Opened.close`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rstream.items.batch import VS, int64_column
from rvertex.checkpoint.checkpointer import read_checkpoint
from rvertex.checkpoint.productions import open_history
from rvertex.checkpoint.value_log import World, open_values
from rvertex.host.pacing import Pace
from rvertex.sources.readers import open_reader
from rvertex.vertex.rvertex import RVertex

if TYPE_CHECKING:
    from rstream import RStream
    from rvertex.checkpoint.codec import LoadedCheckpoint
    from rvertex.checkpoint.productions import History
    from rvertex.checkpoint.value_log import ValueLog
    from rvertex.host.environment import HostEnvironment
    from rvertex.vertex.spec import VertexSpec


@dataclass(frozen=True, slots=True)
class Opened:
    """A vertex at its checkpoint, its output streams, and the pace of its source."""

    spec: VertexSpec
    vertex: RVertex
    outputs: list[RStream]
    loaded: LoadedCheckpoint | None
    pace: Pace
    values: ValueLog | None
    #: Of a strong vertex.
    history: History | None

    def close(self) -> None:
        """Nobody wants it any more."""
        for stream in self.outputs:
            stream.close(flush=False)


def open_instance(spec: VertexSpec, checkpoint: str, env: HostEnvironment) -> Opened:
    """Open an instance at a checkpoint; an empty name means the initial snapshot.

    A strong vertex goes on from its newest production, at or after that checkpoint.

    Raises:
        CorruptCheckpointError, CheckpointFormatError, SnapshotSchemaError: the checkpoint cannot be
            used.
        CorruptJournalError: what its instances wrote down is damaged or gone.
        StreamEngineError: the store, an output stream or the source cannot be opened.
    """
    history = None
    if spec.recovery.strategy == "strong":
        history = open_history(spec, checkpoint, env.store)
        loaded = history.loaded
    else:
        loaded = read_checkpoint(env.store, checkpoint, spec) if checkpoint else None
    snapshot = None if loaded is None else loaded.snapshot
    values = open_values(spec, snapshot, env.store, World(env.clock))
    vertex = RVertex(
        spec,
        pending_rows_max=env.limits.pending_rows_max,
        pending_bytes_max=env.limits.pending_bytes_max,
        values=values,
    )
    if snapshot is not None:
        vertex.load(snapshot)
    pace = _open_pace(spec, env)
    seqs = vertex.output_seqs if history is None else history.output_seqs
    return Opened(spec, vertex, env.open_outputs(spec, seqs), loaded, pace, values, history)


def _open_pace(spec: VertexSpec, env: HostEnvironment) -> Pace:
    """A restarted source is as late as it is: pace counts from the partition's first row."""
    limits, partition = env.limits, spec.source
    origin_us = None
    if limits.pace and limits.pace_started_us and partition is not None:
        reader = open_reader(partition, 0)
        first = reader.read_next(1)
        reader.close()
        origin_us = None if first is None else int(int64_column(first, VS)[0])
    started_us = 0 if origin_us is None else limits.pace_started_us
    return Pace(limits.pace, env.clock, started_us=started_us, origin_us=origin_us)
