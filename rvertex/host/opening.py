"""Opens an instance in the background, before its first poll.

A store may be slow and a state large. So a background thread loads the checkpoint and opens the
output streams, while the other vertices of the host continue.

Invariant: a prepared instance is closed once: by the runner that it is passed to, or by
:meth:`PreparedInstance.close`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rstream.items.batch import VS, int64_column
from rvertex.checkpoint.checkpointer import read_checkpoint
from rvertex.checkpoint.intake import open_intake
from rvertex.checkpoint.productions import open_history
from rvertex.checkpoint.value_log import World, open_values
from rvertex.host.pacing import Pace
from rvertex.sources.formats.rows.bad_rows import without_bad
from rvertex.sources.readers import open_reader
from rvertex.vertex.rvertex import RVertex

if TYPE_CHECKING:
    from concurrent.futures import Future

    import pyarrow as pa

    from rstream import RStream
    from rvertex.checkpoint.codec import LoadedCheckpoint
    from rvertex.checkpoint.intake import Intake
    from rvertex.checkpoint.productions import History
    from rvertex.checkpoint.value_log import ValueLog
    from rvertex.host.environment import HostEnvironment
    from rvertex.messages import StartVertex
    from rvertex.sources.readers import SourceReader
    from rvertex.sources.spec import SourceSpec
    from rvertex.vertex.spec import VertexSpec


@dataclass(frozen=True, slots=True)
class PreparedInstance:
    """A vertex at its checkpoint, its output streams, and the pace of its source."""

    spec: VertexSpec
    vertex: RVertex
    outputs: list[RStream]
    loaded: LoadedCheckpoint | None
    pace: Pace
    values: ValueLog | None
    #: The stored results of earlier steps, for a vertex with recovery ``strong``.
    history: History | None
    #: Set for a source of live logs.
    intake: Intake | None

    def close(self) -> None:
        """Close an instance that was not passed to a runner."""
        self.vertex.memory.unverified.close()
        for stream in self.outputs:
            stream.close(flush=False)


@dataclass(frozen=True, slots=True)
class Starting:
    """An instance that is being opened in the background."""

    order: StartVertex
    opening: Future[PreparedInstance]
    #: Low-water marks of ``Collect`` messages that arrived while the instance was opening.
    marks: dict[str, int] = field(default_factory=dict)

    def abandon(self) -> None:
        """Close all resources, now or once opening has finished."""
        self.opening.add_done_callback(_close_opened)


def _close_opened(opening: Future[PreparedInstance]) -> None:
    if opening.exception() is None:
        opening.result().close()


def prepare_instance(
    spec: VertexSpec, checkpoint: str, epoch: int, env: HostEnvironment
) -> PreparedInstance:
    """Open an instance at a checkpoint; an empty name means the initial snapshot.

    A strong vertex starts from its newest production, at or after that checkpoint.

    Raises:
        CorruptCheckpointError, CheckpointFormatError, SnapshotSchemaError: the checkpoint cannot be
            used.
        CorruptJournalError: an entry of its journal is damaged or gone.
        StreamEngineError: the store, an output stream or the source cannot be opened.
    """
    history = None
    if spec.recovery.strategy == "strong":
        history = open_history(spec, checkpoint, env.store)
        loaded = history.loaded
    else:
        loaded = None
        if checkpoint:
            loaded = read_checkpoint(
                env.store, checkpoint, spec, env.state_memory, verifies_later=True
            )
    snapshot = None if loaded is None else loaded.snapshot
    values = open_values(spec, snapshot, env.store, World(env.clock, env.wake))
    vertex = RVertex(
        spec,
        pending_rows_max=env.limits.pending_rows_max,
        pending_bytes_max=env.limits.pending_bytes_max,
        values=values,
        memory=env.state_memory,
    )
    if loaded is not None:  # verified on reading, and by a background thread
        vertex.memory.unverified = loaded.unverified
        vertex.load(loaded.snapshot)
        loaded.unverified.verify_all(env.background.submit, vertex.memory.drop_pages)
    intake = None if vertex.log is None else open_intake(spec, vertex.log, env.store, epoch)
    pace = _open_pace(spec, env)
    seqs = vertex.output_seqs if history is None else history.output_seqs
    return PreparedInstance(
        spec, vertex, env.open_outputs(spec, seqs), loaded, pace, values, history, intake
    )


def _open_pace(spec: VertexSpec, env: HostEnvironment) -> Pace:
    """Return the pace at which the source is read.

    It counts from the first row of the partition, even if this instance starts reading later.
    """
    limits, partition = env.limits, spec.source
    origin_us = None
    if partition is not None and partition.spec.live is not None:
        return Pace(0, env.clock)
    if limits.pace and limits.pace_started_us and partition is not None:
        reader = open_reader(partition, 0)
        first = _first_good(reader, partition.spec)
        reader.close()
        origin_us = None if first is None else int(int64_column(first, VS)[0])
    started_us = 0 if origin_us is None else limits.pace_started_us
    return Pace(limits.pace, env.clock, started_us=started_us, origin_us=origin_us)


def _first_good(reader: SourceReader, spec: SourceSpec) -> pa.RecordBatch | None:
    """Return the first row that has a time; None if there is none."""
    while (batch := reader.read_next(1)) is not None:  # ends at the end of the files
        if (
            spec.checks.on_bad_row == "fail"
            or without_bad(batch, len(spec.row_schema) + 2).num_rows
        ):
            return batch
    return None
