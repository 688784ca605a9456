"""A vertex runner: connects one vertex to the streams that it reads and writes.

One poll reads the items that the vertex needs, executes a step, writes its outputs and advances its
checkpoint. The runner runs in the host's thread and never blocks: the poll ends if a reader has no
items or an output buffer is full. Checkpoints are uploaded in the background. If a step depends on
an entry that is not durable yet (a production, recorded values), the step is *held*: until then the
runner does nothing and its outputs are not written.

Invariants: (1) a checkpoint is announced only when it is stored and the durable outputs are durable
up to its positions; (2) an instance is announced as finished only when all its durable outputs are
durable; (3) no checkpoint is taken while a step is held.
"""

from __future__ import annotations

from collections import deque
from contextlib import ExitStack
from typing import TYPE_CHECKING

from rstream.items.batch import VS, Items
from rstream.items.dictionaries import batch_bytes
from rvertex.checkpoint.checkpointer import AllAttached, Checkpointer
from rvertex.checkpoint.last_checkpoint import LastCheckpoint
from rvertex.checkpoint.productions import Productions
from rvertex.errors import LimitExceededError, ReplayDifferenceError
from rvertex.host.input_channel import InputChannelReader
from rvertex.host.log_feed import LogFeed
from rvertex.messages import ItemsLost, TakeCheckpoint, VertexFinished, VertexProgress
from rvertex.sources.readers import open_reader
from rvertex.state.memory import give_back
from rvertex.vertex.rvertex import StepResult

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future

    import pyarrow as pa

    from rstream import RStream
    from rvertex.checkpoint.checkpointer import CheckpointSlot
    from rvertex.checkpoint.productions import Production
    from rvertex.host.environment import HostEnvironment
    from rvertex.host.opening import PreparedInstance
    from rvertex.sources.readers import SourceReader


class VertexRunner:
    """One instance: a vertex, the readers of its inputs and the streams it writes."""

    def __init__(
        self,
        epoch: int,
        prepared: PreparedInstance,
        env: HostEnvironment,
        slot: CheckpointSlot,
        consumed: tuple[int, ...] = (),
    ) -> None:
        """Take over a prepared instance.

        ``consumed``: per output, the seq its reader has consumed.
        """
        spec = prepared.spec
        self.spec, self.epoch = spec, epoch
        self._env = env
        self.vertex = prepared.vertex
        self.outputs: list[RStream] = prepared.outputs
        self._durable = [
            edge.durability != "volatile" for edge in spec.outputs for _ in edge.streams
        ]
        self._input_readers = [
            InputChannelReader(channel, env, self._report_lost) for channel in spec.inputs
        ]
        #: Per output stream: items below this seq are obsolete, even if they must be written again.
        self._obsolete_below = [0] * len(self.outputs)
        #: Reads a source of live logs; other sources are read by ``_source``.
        self._feed = (
            None
            if prepared.intake is None
            else LogFeed(prepared.vertex, prepared.intake, env, consumed)
        )
        self._source: SourceReader | None = None
        #: The next rows of a paced source, which a background thread reads before they are due.
        self._reading: Future[pa.RecordBatch | None] | None = None
        self._ahead: Items | None = None
        self._pace, self._values = prepared.pace, prepared.values
        #: The waiting step: its journal entry that must become durable first, and its outputs.
        self._held: tuple[Future[Production] | Future[str], StepResult] | None = None
        #: Outputs of stored steps (productions) to write again: some items are not durable.
        self._again = deque(prepared.history.again if prepared.history is not None else ())
        self.checkpoints = self._open_checkpoints(epoch, prepared, slot)
        self._announced_finish = self._source_ended = False
        self._has_room, self.last_checkpoint = True, LastCheckpoint(prepared.vertex)
        #: Whether all offered items have been executed; false if the instance was just loaded.
        self._has_executed = False
        self._flush_by_s: float | None = None
        env.publish(self.outputs, epoch)

    def _open_checkpoints(
        self, epoch: int, prepared: PreparedInstance, slot: CheckpointSlot
    ) -> Checkpointer | Productions:
        v = self.vertex
        if prepared.history is not None:
            return Productions(
                self.spec,
                self._env,
                epoch,
                prepared.history,
                get_snapshot=v.get_snapshot,
                is_durable=self.is_durable,
            )
        return Checkpointer(
            self.spec,
            epoch,
            self._env,
            get_snapshot=lambda whole: v.get_snapshot(
                whole=whole or self.last_checkpoint.is_requested
            ),
            is_durable=self.is_durable,
            slot=slot,
            loaded=prepared.loaded,
            positions=v.consumed,
            attached_files=AllAttached(
                *(part for part in (prepared.values, prepared.intake) if part is not None)
            ),
        )

    def poll(self) -> bool:
        """Read, execute and write as far as possible now; return whether there was work."""
        self.vertex.memory.unverified.require_no_damage()
        if self._held is not None:
            return self._release()
        if self._again:
            return self._write_again()
        if self.vertex.is_finished:
            return self._finish()
        is_over = self._has_executed and self.last_checkpoint.poll(self._take_last)
        if not (self.vertex.is_replaying or self.vertex.has_more):
            self.checkpoints.poll(self.vertex.consumed)
            if self._has_executed and self._store_state():
                return True
        self._has_room = not is_over and all(stream.has_room() for stream in self.outputs)
        if not self._has_room:
            return False
        worked = self.vertex.has_more or self._read_inputs()
        if self._has_executed and not worked:
            return False
        self._has_executed = True
        return self._execute() or (worked and not self.vertex.pieces.is_waiting)

    def _execute(self) -> bool:
        result = self.vertex.execute()
        if result is None:
            return False
        put_out = (items.batch for items in result.outputs if items is not None)
        if self._env.large_steps.is_due(put_out, self._env.state_memory.scratch.written_bytes):
            give_back()
        held: Future[Production] | Future[str] | None = None
        if self._values is not None:
            held = self._values.hold(self._env.background)
        if isinstance(self.checkpoints, Productions):
            held = self.checkpoints.hold(result)
        if held is None:
            self._write(result)
        else:
            self._hold(held, result)
        return True

    def _store_state(self) -> bool:
        """Store the state of an idle strong vertex if a checkpoint is requested.

        A stop and a savepoint would wait for its next step.
        """
        if not (isinstance(self.checkpoints, Productions) and self.checkpoints.lacks_entry):
            return False
        nothing = StepResult((None,) * len(self.outputs))
        self._hold(self.checkpoints.hold(nothing), nothing)
        return True

    def _hold(self, stored: Future[Production] | Future[str], result: StepResult) -> None:
        self._held = stored, result
        stored.add_done_callback(lambda _: self._env.wake())

    def _release(self) -> bool:
        """Write the outputs of the waiting step, once its journal entry is durable.

        Raises:
            OvertakenError: another instance has written this step's entry; this one must stop.
            OperatingError: the store failed.
        """
        assert self._held is not None
        durable, result = self._held
        if not durable.done():
            return False
        durable.result()
        self._held = None
        self._write(result)
        return True

    def _write_again(self) -> bool:
        """Write the outputs of one stored step again; streams ignore seqs that are durable."""
        if not all(stream.has_room() for stream in self.outputs):
            return False
        self._write(self._again.popleft(), is_valid=False)
        return True

    def _write(self, result: StepResult, *, is_valid: bool = True) -> None:
        """Write the outputs; if ``is_valid`` (computed here), check them only with ``verify``."""
        is_valid = is_valid and not self._env.limits.verify
        for stream, items in zip(self.outputs, result.outputs, strict=True):
            if items is not None:
                seq, batch, digest = items.first_seq, items.batch, items.digest
                stream.write(seq, batch, is_valid=is_valid, digest=digest)
        self._collect()

    def collect(self, marks: Mapping[str, int]) -> None:
        """Delete items below the low-water marks, including items that would be written again."""
        for k, stream in enumerate(self.outputs):
            mark = marks.get(stream.stream_id, 0)
            self._obsolete_below[k] = max(self._obsolete_below[k], mark)
        self._collect()

    def _collect(self) -> None:
        for stream, mark in zip(self.outputs, self._obsolete_below, strict=True):
            if stream.first_seq < mark:
                stream.garbage_collect(mark)

    def take_checkpoint(self, order: TakeCheckpoint) -> None:
        """Take a checkpoint soon; if the job stops, at the positions that ``order`` requests."""
        self.checkpoints.only_requested = order.holds
        if order.holds:
            self.last_checkpoint.request(order.inputs)
        else:
            self.checkpoints.request(whole=order.whole)

    def _take_last(self) -> None:
        self.checkpoints.request(last=True)

    def end_source(self) -> None:
        """End the live logs at the log's current ends."""
        if self._feed is not None:
            self._feed.finish()

    def _read_inputs(self) -> bool:
        if self._feed is not None:
            return self._feed.poll(self.checkpoints.note_input)
        return self._read_source() if self.spec.source is not None else self._read_channels()

    def _read_channels(self) -> bool:
        worked = False
        for k, reader in enumerate(self._input_readers):
            if not self.vertex.wants(k):
                continue
            rows_max = self.vertex.rows_wanted(k, self._env.limits.step_rows_max)
            items = reader.read(self.vertex.read_positions[k], rows_max)
            if items is not None:
                self._offer(k, items)
                worked = True
        return worked

    def _offer(self, k: int, items: Items) -> None:
        self.checkpoints.note_input(batch_bytes(items.batch))
        self.vertex.offer(k, items)

    def _report_lost(self, stream: str, seq: int, tried: tuple[int, ...]) -> None:
        self._env.notify(ItemsLost(self.spec.id, self.epoch, stream, seq, tried))

    def _read_source(self) -> bool:
        if self._source_ended:
            return False
        if self._ahead is None:
            if self._reading is not None and not self._reading.done():
                return False
            self._ahead = self._next_rows()
            if self._ahead is None:
                if self.vertex.is_replaying:
                    raise ReplayDifferenceError(self.spec.id, self.vertex.consumed)
                self._source_ended = True
                self.vertex.end_source()
                return True
        limits = self._env.limits
        ready = self._pace.ready_rows(self._ahead.batch, VS)
        if (
            ready > limits.step_rows_max
            and batch_bytes(self._ahead.batch) > limits.narrow_bytes_max
        ):
            ready = limits.step_rows_max
        ready = self.vertex.rows_wanted(0, ready)
        if ready == 0:
            return False
        self._offer(0, self._ahead.head(ready))
        rest = self._ahead.from_seq(self._ahead.first_seq + ready)
        self._ahead = rest if rest.batch.num_rows else None
        return True

    def _next_rows(self) -> Items | None:
        assert self.spec.source is not None
        first_row = self.vertex.read_positions[0]
        if self._source is None:
            self._source = open_reader(self.spec.source, first_row)
        reading, self._reading = self._reading, None
        batch = self._read_rows(self._source) if reading is None else reading.result()
        if batch is None:
            return None
        if self._pace.is_live:
            source = self._source
            self._reading = self._env.background.submit(lambda: self._read_rows(source))
            self._reading.add_done_callback(lambda _: self._env.wake())
        return Items(first_row, batch)

    def _read_rows(self, source: SourceReader) -> pa.RecordBatch | None:
        limits = self._env.limits
        return source.read_next(limits.step_rows_max * limits.narrow_steps)

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
                v.counts,
            )
        )
        return True

    def progress(self) -> VertexProgress:
        """Return the progress of this instance."""
        v = self.vertex
        return VertexProgress(
            vertex=self.spec.id,
            epoch=self.epoch,
            inputs=v.consumed,
            outputs=tuple(v.output_seqs),
            durable=tuple(s.durable_seq for s in self.outputs),
            cti=v.output_cti,
            max_vs=v.max_vs,
            counts=v.counts,
            tail_bytes=sum(s.tail_bytes for s in self.outputs),
            logs=() if self._feed is None else self._feed.progress(),
            waiting="" if self._feed is None else self._feed.waiting,
            log_partitions=0 if self._feed is None else self._feed.reader.log_partitions,
            holds=v.holds,
            is_blocked=not self._has_room,
            calls=tuple(op.call_counts() for op in v.calling),
        )

    def is_durable(self, output_seqs: tuple[int, ...], is_urgent: bool, is_whole: bool) -> bool:
        """Return whether durable outputs reach these seqs; if urgent, flush them now.

        ``is_whole``: also volatile outputs.
        """
        rows = zip(self.outputs, self._durable, output_seqs, strict=True)
        waiting = [s for s, durable, seq in rows if (durable or is_whole) and s.durable_seq < seq]
        for stream in waiting if is_urgent else ():
            stream.request_flush()
        return not waiting

    @property
    def wait_s(self) -> float | None:
        """Return the seconds until a row of the source is due. Other work wakes the host itself."""
        if self._feed is not None:
            return self._feed.reader.wait_s
        if self._ahead is None or self.vertex.is_finished or not self._has_room:
            return None
        # called even while a step is held, because it measures the poll
        wait_s = self._pace.wait_s(self._ahead.batch, VS)
        return None if self._held is not None else wait_s

    def begin_flush(self) -> None:
        """Stop reading and stop taking checkpoints. Flush the written items; see ``is_flushed``."""
        self._close_inputs()
        self._flush_by_s = self._env.clock.monotonic_s() + self._env.limits.flush_wait_s

    def is_flushed(self) -> bool:
        """Return whether all durable outputs are durable; if the job stops, all outputs.

        Raises:
            OperatingError: a flush failed, or takes longer than its limit.
        """
        assert self._flush_by_s is not None
        waiting = [
            stream
            for stream, durable in zip(self.outputs, self._durable, strict=True)
            if (durable or self.last_checkpoint.is_requested)
            and stream.durable_seq < stream.next_seq
        ]
        for stream in waiting:
            stream.request_flush()
        if waiting and self._env.clock.monotonic_s() > self._flush_by_s:
            limit_s = self._env.limits.flush_wait_s
            raise LimitExceededError("flush_wait_s", limit_s, f"{self.spec.id}: its last flush")
        return not waiting

    def close(self) -> None:
        """Close readers and streams, even after failures; raise the first. Other items are lost."""
        self.vertex.memory.unverified.close()
        with ExitStack() as closing:
            for stream in self.outputs:
                closing.callback(stream.close, flush=False)
                closing.callback(self._env.withdraw, stream, self.epoch)
            closing.callback(self._close_inputs)

    def _close_inputs(self) -> None:
        self.checkpoints.close()
        with ExitStack() as closing:
            for reader in self._input_readers:
                closing.callback(reader.close)
            if self._feed is not None:
                closing.callback(self._feed.close)
            if self._source is not None:
                closing.callback(self._close_source, self._source)

    def _close_source(self, source: SourceReader) -> None:
        """Close the source once its running read has ended."""
        if self._reading is None:
            source.close()
        else:
            self._reading.add_done_callback(lambda _: source.close())
