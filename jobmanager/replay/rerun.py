"""Runs vertices again in this thread: each reads what is retained, or runs its writers first.

Theory of operation. A vertex is a deterministic function of its snapshot and its inputs. So a
:class:`VertexRun` starts from a retained checkpoint, or from the beginning, and reads its channels.
A channel whose items are durable is read from its files. The writer of any other one is run as far
as its reader needs; its output is kept until it is read. Nothing is written anywhere.

Invariants: (1) a run's outputs equal the job's, number for number, if the code is
deterministic; (2) only items that a reader may still ask for are kept.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from jobmanager.replay.errors import CannotReplayError
from jobmanager.replay.feeds import STEP_ROWS, SourceFeed, StreamFeed
from rstream.items.batch import Items, item_schema
from rvertex.checkpoint.value_log import open_values
from rvertex.errors import CorruptJournalError
from rvertex.user_code.context import ValueShell
from rvertex.vertex.rvertex import RVertex

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jobmanager.replay.feeds import Feed
    from jobmanager.replay.recorded import Recorded, Retained
    from planner.physical.plan import PhysicalPlan
    from rvertex.checkpoint.value_log import ValueLog
    from rvertex.events.run import Run
    from rvertex.vertex.rvertex import StepResult
    from rvertex.vertex.spec import InputChannel, Snapshot, VertexSpec

_PENDING_ROWS_MAX = 262_144
_LOGGED = "Replay a vertex downstream, whose inputs are retained"


class VertexRun:
    """One vertex that runs again."""

    def __init__(self, spec: VertexSpec, vertex: RVertex, feeds: Sequence[Feed]) -> None:
        self.spec, self.vertex = spec, vertex
        self._feeds = feeds
        #: The greatest number of items of an input at a time.
        self.rows_max = STEP_ROWS
        #: The output of the last turn.
        self.result: StepResult | None = None
        self._has_ended = False
        self._queues: dict[str, deque[Items]] = {}

    def keep(self, stream: str) -> Feed:
        """Have items of this stream kept until they are read."""
        self._queues[stream] = deque()
        return _QueueFeed(self, stream)

    def queue(self, stream: str) -> deque[Items]:
        """The items of a stream that were kept and not read."""
        return self._queues[stream]

    def turn(self) -> bool:
        """Read once and execute; whether anything was done. ``result`` is the output."""
        self.result = None
        if self.vertex.is_finished:
            return False
        has_read = self._read()
        self.result = self.vertex.execute()
        if self.result is not None:
            self._keep(self.result)
        return has_read or self.result is not None

    def close(self) -> None:
        """Release files."""
        for feed in self._feeds:
            feed.close()

    def offered(self, channel: int, items: Items) -> Items:
        """What to offer of items that were read; a subclass may cut them."""
        del channel
        return items

    def _read(self) -> bool:
        vertex, has_read = self.vertex, False
        for k, feed in enumerate(self._feeds):
            rows_max = min(vertex.rows_wanted(k, self.rows_max), self.rows_max)
            if not vertex.wants(k) or rows_max == 0:
                continue
            items = feed.read(vertex.read_positions[k], rows_max)
            if items is not None:
                vertex.offer(k, self.offered(k, items))
                has_read = True
            elif self.spec.source is not None and not self._has_ended:
                vertex.end_source()
                has_read = self._has_ended = True
        return has_read

    def _keep(self, result: StepResult) -> None:
        for stream, items in zip(self.spec.output_streams, result.outputs, strict=True):
            if items is not None and stream in self._queues:
                self._queues[stream].append(items)


class _QueueFeed:
    """The output of another run, which runs when its reader needs more."""

    def __init__(self, writer: VertexRun, stream: str) -> None:
        self._writer, self._stream = writer, stream

    def read(self, seq: int, rows_max: int) -> Items | None:
        """See :class:`Feed`."""
        queue = self._writer.queue(self._stream)
        while True:
            while queue and queue[0].next_seq <= seq:
                queue.popleft()
            if queue:
                return queue[0].from_seq(seq).head(rows_max)
            if not self._writer.turn():
                return None

    def close(self) -> None:
        """Its writer is closed with the rerun."""


class Rerun:
    """The vertices that have to run again so that one of them can."""

    def __init__(
        self,
        plan: PhysicalPlan,
        recorded: Recorded | None,
        *,
        is_recorded: Callable[[VertexSpec], bool] = lambda _: True,
        open_source: Callable[[VertexSpec], Feed] | None = None,
    ) -> None:
        """``is_recorded``: whether the retained files of a vertex equal its output now.

        ``open_source``: the rows of a source vertex, if not from its files.
        """
        self._plan, self._recorded = plan, recorded
        self._is_recorded = is_recorded if recorded is not None else lambda _: False
        self._open_source = open_source
        self._writers = plan.writers()
        self.runs: dict[str, VertexRun] = {}

    def open(
        self,
        spec: VertexSpec,
        start: Retained | None,
        make: Callable[[VertexSpec, RVertex, Sequence[Feed]], VertexRun] = VertexRun,
        before_step: Callable[[list[Run]], None] | None = None,
    ) -> VertexRun:
        """A run of one vertex from a checkpoint, or from the beginning.

        Raises:
            CannotReplayError: something that it needs is not retained.
        """
        starts = self._starts(spec, start)
        order = [self._plan.vertex(v) for v in self._plan.topological_order() if v in starts]
        for one in order:
            made = make if one.id == spec.id else VertexRun
            hook = before_step if one.id == spec.id else None
            vertex = self._vertex(one, starts[one.id], hook)
            feeds = self._feeds(one, starts[one.id])
            self.runs[one.id] = made(one, vertex, feeds)
        return self.runs[spec.id]

    def close(self) -> None:
        """Release all files."""
        for run in self.runs.values():
            run.close()

    def _starts(self, spec: VertexSpec, start: Retained | None) -> dict[str, Retained | None]:
        """The vertices that have to run, each with the checkpoint that it starts from."""
        starts: dict[str, Retained | None] = {spec.id: start}
        needs: dict[str, dict[str, int]] = {}
        for vertex_id in reversed(self._plan.topological_order()):
            one = self._plan.vertex(vertex_id)
            if vertex_id != spec.id:
                if vertex_id not in needs:
                    continue
                starts[vertex_id] = self._start_for(one, needs[vertex_id])
            begin = starts[vertex_id]
            for k, channel in enumerate(one.inputs):
                seq = 0 if begin is None else begin.reads[k]
                if not self._is_durable(channel, seq):
                    needs.setdefault(self._writers[channel.stream], {})[channel.stream] = seq
        return starts

    def _is_durable(self, channel: InputChannel, seq: int) -> bool:
        """Whether the recorded items of a channel can be read from ``seq`` on."""
        writer = self._plan.vertex(self._writers[channel.stream])
        if channel.durability == "volatile" or not self._is_recorded(writer):
            return False
        assert self._recorded is not None
        return self._recorded.log(channel.stream, channel.uri).contiguous_end(seq) > seq

    def _start_for(self, spec: VertexSpec, needed: Mapping[str, int]) -> Retained | None:
        """The newest checkpoint from which all needed items are emitted again."""
        if self._recorded is None or not self._is_recorded(spec):
            return None
        places = {stream: k for k, stream in enumerate(spec.output_streams)}
        for checkpoint in self._recorded.checkpoints(spec.id):
            if all(checkpoint.outputs[places[s]] <= seq for s, seq in needed.items()):
                return checkpoint
        return None

    def _vertex(
        self,
        spec: VertexSpec,
        start: Retained | None,
        before_step: Callable[[list[Run]], None] | None,
    ) -> RVertex:
        if spec.recovery.strategy == "strong":
            reason = "its code is declared not deterministic, so a second run may differ"
            raise CannotReplayError(spec.id, reason, _LOGGED)
        snapshot = self._snapshot(spec, start)
        vertex = RVertex(
            spec,
            pending_rows_max=_PENDING_ROWS_MAX,
            values=self._values(spec, snapshot),
            before_step=before_step,
        )
        if snapshot is not None:
            vertex.load(snapshot)
        return vertex

    def _snapshot(self, spec: VertexSpec, start: Retained | None) -> Snapshot | None:
        if start is None or self._recorded is None:
            return None
        return self._recorded.snapshot(start, spec)

    def _values(self, spec: VertexSpec, snapshot: Snapshot | None) -> ValueLog | None:
        if self._recorded is None:
            return None
        shell = _NothingNew(spec.id)
        try:
            return open_values(spec, snapshot, self._recorded.store, shell)
        except CorruptJournalError as error:
            raise CannotReplayError(
                spec.id, f"logged values are gone ({error})", _LOGGED
            ) from error

    def _feeds(self, spec: VertexSpec, start: Retained | None) -> list[Feed]:
        if spec.source is not None:
            return [self._source(spec)]
        feeds: list[Feed] = []
        for channel in spec.inputs:
            writer = self.runs.get(self._writers[channel.stream])
            seq = 0 if start is None else start.reads[len(feeds)]
            if self._is_durable(channel, seq):
                assert self._recorded is not None
                log = self._recorded.log(channel.stream, channel.uri)
                feeds.append(StreamFeed(log, item_schema(channel.payload)))
            else:
                assert writer is not None, channel
                feeds.append(writer.keep(channel.stream))
        return feeds

    def _source(self, spec: VertexSpec) -> Feed:
        assert spec.source is not None
        if self._open_source is not None:
            return self._open_source(spec)
        if spec.source.spec.log is not None:
            reason = "it reads a live log, whose rows a replay does not read again"
            raise CannotReplayError(spec.id, reason, _LOGGED)
        return SourceFeed(spec.source)


class _NothingNew(ValueShell):
    """The outside during a replay: only recorded values may be drawn."""

    def __init__(self, vertex: str) -> None:
        self._vertex = vertex

    def now_us(self) -> int:
        """See :class:`ValueShell`."""
        raise self._error("ctx.now()")

    def random(self) -> float:
        """See :class:`ValueShell`."""
        raise self._error("ctx.random()")

    def _error(self, what: str) -> CannotReplayError:
        reason = f"its code calls {what} more often than the job had recorded"
        return CannotReplayError(self._vertex, reason, _LOGGED)
