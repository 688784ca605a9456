"""A vertex runner: the one place where streams and vertex meet.

One turn reads what the vertex wants, lets it execute, writes what follows and looks after its
checkpoint. It belongs to the host's thread and never blocks: where a reader has nothing or a tail
is full, the turn ends. Uploads of checkpoints run in the background.

Invariants: (1) a checkpoint is announced only when it is stored and the outputs of its durable
streams are durable up to it; (2) an instance is announced as finished only when all its durable
outputs are durable.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rstream.batch import VS, Items, int64_column
from rstream.errors import SequenceDiscardedError, SequenceLostError, SequenceNotReadyError
from rvertex.checkpointing import Checkpointer
from rvertex.messages import ItemsLost, VertexFinished, VertexProgress
from rvertex.pace import Pace
from rvertex.sources.readers import open_reader
from rvertex.vertex import RVertex

if TYPE_CHECKING:
    from rstream import RStream, StreamReader
    from rvertex.checkpointing import Turn
    from rvertex.environment import Attachment, HostEnvironment
    from rvertex.sources.readers import SourceReader
    from rvertex.state import LoadedCheckpoint
    from rvertex.types import VertexSpec


class VertexRunner:
    """One instance: a vertex, the readers of its inputs and the streams it writes."""

    def __init__(
        self,
        spec: VertexSpec,
        epoch: int,
        loaded: LoadedCheckpoint | None,
        env: HostEnvironment,
        turn: Turn,
    ) -> None:
        self.spec = spec
        self.epoch = epoch
        self._env = env
        self.vertex = RVertex(spec, pending_rows_max=env.limits.pending_rows_max)
        if loaded is not None:
            self.vertex.load(loaded.snapshot)
        self.outputs: list[RStream] = env.open_outputs(spec, epoch, self.vertex.output_seqs)
        self._durable = [
            edge.durability != "volatile" for edge in spec.outputs for _ in edge.streams
        ]
        self._attachments: list[Attachment | None] = [None] * len(spec.inputs)
        self._source: SourceReader | None = None
        self._source_ended = False
        self._ahead: Items | None = None
        self._pace = self._open_pace()
        self.checkpoints = Checkpointer(
            spec,
            epoch,
            env,
            get_snapshot=self.vertex.get_snapshot,
            is_durable=self.is_durable,
            turn=turn,
            loaded=loaded,
            positions=self.vertex.consumed,
        )
        self._announced_finish = False
        self._reported_lost: set[tuple[str, int]] = set()

    def turn(self) -> bool:
        """Do what can be done now; whether anything was."""
        if self.vertex.is_finished:
            return self._finish()
        self.checkpoints.turn(self.vertex.consumed)
        if not all(stream.has_room() for stream in self.outputs):
            return False
        worked = self._read_source() if self.spec.source is not None else self._read_channels()
        return self._execute() or worked

    def wait_s(self) -> float:
        """How long a turn will do nothing if nothing arrives; infinite if only news can help."""
        if self._ahead is None or not all(stream.has_room() for stream in self.outputs):
            return math.inf
        return self._pace.wait_s(self._ahead.batch, VS)

    def _execute(self) -> bool:
        result = self.vertex.execute()
        if result is None:
            return False
        for stream, items in zip(self.outputs, result.outputs, strict=True):
            if items is not None:
                stream.write(items.first_seq, items.batch)
        return True

    def _read_channels(self) -> bool:
        worked = False
        for k in range(len(self._attachments)):
            if not self.vertex.wants(k):
                continue
            reader = self._reader(k)
            if reader is None:
                continue
            try:
                items = reader.read_next(self._env.limits.step_rows_max)
            except (SequenceLostError, SequenceDiscardedError):
                self._report_lost(k)
                continue
            if items is not None:
                self._offer(k, items)
                worked = True
        return worked

    def _offer(self, k: int, items: Items) -> None:
        self.checkpoints.note_input(items.batch.nbytes)
        self.vertex.offer(k, items)

    def _reader(self, k: int) -> StreamReader | None:
        """The reader of channel ``k``, attached to where its writer is now."""
        attachment = self._attachments[k]
        channel = self.spec.inputs[k]
        try:
            if attachment is not None and not self._env.is_stale(attachment, channel.stream):
                return attachment.reader
            if attachment is not None:
                attachment.reader.close()
                self._attachments[k] = None
            attachment = self._env.attach(channel, self.vertex.read_positions[k])
        except SequenceNotReadyError:
            return None  # a restarted writer has not come this far yet
        except (SequenceLostError, SequenceDiscardedError):
            self._report_lost(k)
            return None
        self._attachments[k] = attachment
        return None if attachment is None else attachment.reader

    def _report_lost(self, k: int) -> None:
        """Say once per instance of the writer that it must be recomputed, then wait for it."""
        stream = self.spec.inputs[k].stream
        seq = self.vertex.read_positions[k]
        key = (stream, self._env.writer_epoch(stream))
        if key not in self._reported_lost:
            self._reported_lost.add(key)
            epoch = self._env.writer_epoch(stream)
            tried = (epoch,) if epoch > 0 else ()
            self._env.notify(ItemsLost(self.spec.id, self.epoch, stream, seq, tried))

    def _read_source(self) -> bool:
        if self._source_ended:
            return False
        if self._ahead is None:
            self._ahead = self._next_rows()
            if self._ahead is None:
                self._source_ended = True
                self.vertex.end_source()
                return True
        ready = self._pace.ready_rows(self._ahead.batch, VS)
        if ready == 0:
            return False
        self._offer(0, self._ahead.head(ready))
        rest = self._ahead.from_seq(self._ahead.first_seq + ready)
        self._ahead = rest if rest.batch.num_rows else None
        return True

    def _open_pace(self) -> Pace:
        """A restarted source is as late as it is: pace counts from the partition's first row."""
        limits, partition = self._env.limits, self.spec.source
        origin_us = None
        if limits.pace and limits.pace_started_us and partition is not None:
            reader = open_reader(partition, 0)
            first = reader.read_next(1)
            reader.close()
            origin_us = None if first is None else int(int64_column(first, VS)[0])
        started_us = 0 if origin_us is None else limits.pace_started_us
        return Pace(limits.pace, self._env.clock, started_us=started_us, origin_us=origin_us)

    def _next_rows(self) -> Items | None:
        assert self.spec.source is not None
        first_row = self.vertex.read_positions[0]
        if self._source is None:
            self._source = open_reader(self.spec.source, first_row)
        batch = self._source.read_next(self._env.limits.step_rows_max)
        return None if batch is None else Items(first_row, batch)

    def _finish(self) -> bool:
        if self._announced_finish:
            return False
        for stream, durable in zip(self.outputs, self._durable, strict=True):
            if durable and stream.durable_seq < stream.next_seq:
                stream.request_flush()
                return False
        self._announced_finish = True
        v = self.vertex
        self._env.notify(
            VertexFinished(
                self.spec.id,
                self.epoch,
                v.consumed,
                tuple(v.output_seqs),
                v.digests(),
                v.events_in,
                v.events_out,
                v.late_events,
            )
        )
        return True

    def progress(self) -> VertexProgress:
        """Where this instance stands."""
        v = self.vertex
        return VertexProgress(
            vertex=self.spec.id,
            epoch=self.epoch,
            inputs=v.consumed,
            outputs=tuple(v.output_seqs),
            durable=tuple(s.durable_seq for s in self.outputs),
            cti=v.output_cti,
            max_vs=v.max_vs,
            events_in=v.events_in,
            events_out=v.events_out,
            late_events=v.late_events,
            tail_bytes=sum(s.tail_bytes for s in self.outputs),
        )

    def is_durable(self, output_seqs: tuple[int, ...]) -> bool:
        """Whether the durable outputs are durable up to ``output_seqs``."""
        rows = zip(self.outputs, self._durable, output_seqs, strict=True)
        return all(stream.durable_seq >= seq for stream, durable, seq in rows if durable)

    def close(self, *, flush: bool) -> None:
        """Close readers and streams. With ``flush``, durable outputs are made durable first."""
        self.checkpoints.close()
        for attachment in self._attachments:
            if attachment is not None:
                attachment.reader.close()
        if self._source is not None:
            self._source.close()
        for stream, durable in zip(self.outputs, self._durable, strict=True):
            if flush and durable:
                stream.flush(self._env.limits.flush_wait_s)
            self._env.withdraw(stream, self.epoch)
            stream.close(flush=flush)
