"""Runs vertices again in this thread: each reads retained items, or runs its writers first.

Theory of operation. A vertex is a deterministic function of its snapshot and its inputs. So a
:class:`VertexRun` starts from a retained checkpoint, or from the start of the input, and reads its
channels. A channel with durable items is read from its files. For any other channel, its writer
runs as far as the reader needs, and the output is kept in memory until it is read. No file is
written.

Invariants: (1) a run's items equal the job's, with the same seqs, if the code is deterministic;
(2) only items that a reader may still need are kept.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from jobmanager.replay.errors import CannotReplayError
from jobmanager.replay.feeds import STEP_ROWS, SourceFeed, StreamFeed
from jobmanager.replay.logs import RecordedLog
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
    from rvertex.user_code.code import UserCode
    from rvertex.user_code.context import CallPolicy, Calls
    from rvertex.vertex.rvertex import StepResult
    from rvertex.vertex.spec import InputChannel, Snapshot, VertexId, VertexSpec

PENDING_ROWS_MAX = 262_144
_LOGGED = "Replay a vertex downstream, whose inputs are retained"


class VertexRun:
    """One vertex that runs again."""

    def __init__(self, spec: VertexSpec, vertex: RVertex, feeds: Sequence[Feed]) -> None:
        self.spec, self.vertex = spec, vertex
        self._feeds = feeds
        #: The most items of an input per turn.
        self.rows_max = STEP_ROWS
        #: The output of the last turn.
        self.result: StepResult | None = None
        #: Whether the run is at its end. Then further turns do nothing.
        self.has_ended = False
        #: The live logs that it reads instead of feeds, if it does.
        self.logs: RecordedLog | None = None
        self._has_read_all = False
        self._queues: dict[str, deque[Items]] = {}

    def keep(self, stream: str) -> Feed:
        """Keep the items of this stream until they are read."""
        self._queues[stream] = deque()
        return _QueueFeed(self, stream)

    def queue(self, stream: str) -> deque[Items]:
        """Return the items of a stream that were kept and not read."""
        return self._queues[stream]

    def turn(self) -> bool:
        """Read and execute once. Return whether anything was done; ``result`` is the output."""
        self.result = None
        if self.vertex.is_finished or self.has_ended:
            self.has_ended = True
            return False
        has_read = self._read()
        self.result = self.vertex.execute()
        if self.result is not None:
            self._keep(self.result)
        self.has_ended = not has_read and self.result is None
        return not self.has_ended

    def close(self) -> None:
        """Release files."""
        for feed in self._feeds:
            feed.close()
        if self.logs is not None:
            self.logs.close()

    def offered(self, channel: int, items: Items) -> Items:
        """Return the items that the vertex gets now. A subclass may return a part of ``items``."""
        del channel
        return items

    def _read(self) -> bool:
        if self.logs is not None:
            return self.logs.offer(self.rows_max)
        vertex, has_read = self.vertex, False
        for k, feed in enumerate(self._feeds):
            rows_max = min(vertex.rows_wanted(k, self.rows_max), self.rows_max)
            if not vertex.wants(k) or rows_max == 0:
                continue
            items = feed.read(vertex.read_positions[k], rows_max)
            if items is not None:
                vertex.offer(k, self.offered(k, items))
                has_read = True
            elif self.spec.source is not None and not self._has_read_all:
                vertex.end_source()
                has_read = self._has_read_all = True
        return has_read

    def _keep(self, result: StepResult) -> None:
        for stream, items in zip(self.spec.output_streams, result.outputs, strict=True):
            if items is not None and stream in self._queues:
                self._queues[stream].append(items)


class _QueueFeed:
    """The items that another run emits. It runs when its reader needs more."""

    def __init__(self, writer: VertexRun, stream: str) -> None:
        self._writer, self._stream = writer, stream

    def read(self, seq: int, rows_max: int) -> Items | None:
        """Implement :class:`Feed`."""
        queue = self._writer.queue(self._stream)
        while True:
            while queue and queue[0].next_seq <= seq:
                queue.popleft()
            if queue:
                return queue[0].from_seq(seq).head(rows_max)
            if not self._writer.turn():
                return None

    def close(self) -> None:
        """Do nothing: the rerun closes the writer."""


class _ThenFeed:
    """The stored items of a channel up to ``end``, then the items that another run emits."""

    def __init__(self, stored: Feed, then: Feed, end: int) -> None:
        self._stored, self._then, self._end = stored, then, end

    def read(self, seq: int, rows_max: int) -> Items | None:
        """Implement :class:`Feed`."""
        if seq < self._end:
            return self._stored.read(seq, min(rows_max, self._end - seq))
        return self._then.read(seq, rows_max)

    def close(self) -> None:
        """Implement :class:`Feed`."""
        self._stored.close()


class Stopping(Protocol):
    """Decides before each step of one vertex's run whether to stop it."""

    vertex: str

    def make(self, spec: VertexSpec, vertex: RVertex, feeds: Sequence[Feed]) -> VertexRun:
        """Return the run to be stopped."""

    def before_step(self, ports: list[Run]) -> None:
        """Do anything before a step, given its rows per port."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A plan's vertices, inputs first, and the writer of each stream."""

    vertices: dict[str, VertexSpec]
    writers: dict[str, VertexId]

    @staticmethod
    def of(plan: PhysicalPlan) -> Shape:
        """Return the shape of a plan."""
        vertices: dict[str, VertexSpec] = {v: plan.vertex(v) for v in plan.topological_order()}
        return Shape(vertices, plan.writers())


class Rerun:
    """The runs of some vertices, and of the writers that they need."""

    def __init__(
        self,
        shape: Shape,
        recorded: Recorded | None,
        *,
        is_recorded: Callable[[VertexSpec], bool] = lambda _: True,
        open_source: Callable[[VertexSpec], Feed] | None = None,
    ) -> None:
        """Plan reruns of vertices of this plan.

        ``recorded``: retained data that may be read besides sources; None: sources only.
        ``is_recorded``: whether the retained files of a vertex equal its output now.
        ``open_source``: the rows of a source vertex, if not from its files.
        """
        self._shape, self._recorded = shape, recorded
        self._is_recorded = is_recorded
        self._open_source = open_source
        self.runs: dict[str, VertexRun] = {}

    def open(
        self,
        begins: Mapping[str, Retained | None],
        stops: Stopping | None = None,
    ) -> list[VertexRun]:
        """Return a run per vertex of ``begins``, each from its checkpoint, or from the beginning.

        Raises:
            CannotReplayError: something that they need is not retained.
        """
        starts = self._starts(begins)
        for spec in self._shape.vertices.values():
            if spec.id not in starts:
                continue
            is_stopped = stops is not None and stops.vertex == spec.id
            vertex = self._vertex(spec, starts[spec.id], stops if is_stopped else None)
            feeds = self._feeds(spec, starts[spec.id])
            make = VertexRun if stops is None or not is_stopped else stops.make
            run = self.runs[spec.id] = make(spec, vertex, feeds)
            if vertex.log is not None and self._open_source is None:
                assert self._recorded is not None, "only recorded logs can be read again"
                run.logs = RecordedLog(vertex, self._recorded.store)
        return [self.runs[vertex] for vertex in begins]

    def close(self) -> None:
        """Release all files."""
        for run in self.runs.values():
            run.close()

    def _starts(self, begins: Mapping[str, Retained | None]) -> dict[str, Retained | None]:
        """Return the vertices that have to run, each with the checkpoint to start from."""
        starts = dict(begins)
        needs: dict[str, dict[str, int]] = {}
        for spec in reversed(self._shape.vertices.values()):
            if spec.id not in starts:
                if spec.id not in needs:
                    continue
                starts[spec.id] = self._start_for(spec, needs[spec.id])
            begin = starts[spec.id]
            for k, channel in enumerate(spec.inputs):
                seq = 0 if begin is None else begin.reads[k]
                if not self._is_durable(channel, seq):
                    writer = needs.setdefault(self._shape.writers[channel.stream], {})
                    writer[channel.stream] = self._stored_end(channel, seq)
        return starts

    def _is_durable(self, channel: InputChannel, seq: int) -> bool:
        """Return whether the recorded items of a channel can be read from ``seq`` on."""
        if self._recorded is None or channel.durability == "volatile":
            return False
        if not self._is_recorded(self._shape.vertices[self._shape.writers[channel.stream]]):
            return False
        return self._recorded.log(channel.stream, channel.uri).contiguous_end(seq) > seq

    def _stored_end(self, channel: InputChannel, seq: int) -> int:
        """Return the end of the items from ``seq`` on that a job change has stored in a channel."""
        if self._recorded is None or not self._recorded.was_changed:
            return seq
        if not self._is_recorded(self._shape.vertices[self._shape.writers[channel.stream]]):
            return seq
        return max(seq, self._recorded.log(channel.stream, channel.uri).contiguous_end(seq))

    def _start_for(self, spec: VertexSpec, needed: Mapping[str, int]) -> Retained | None:
        """Return the newest checkpoint from which all needed items are emitted again."""
        if self._recorded is None or not self._is_recorded(spec):
            return None
        places = {stream: k for k, stream in enumerate(spec.output_streams)}
        for checkpoint in self._recorded.checkpoints(spec.id):
            if all(checkpoint.outputs[places[s]] <= seq for s, seq in needed.items()):
                return checkpoint
        return self._recorded.beginning(spec.id)

    def _vertex(
        self,
        spec: VertexSpec,
        start: Retained | None,
        stops: Stopping | None,
    ) -> RVertex:
        if spec.recovery.strategy == "strong":
            reason = "its code is declared not deterministic, so a second run may differ"
            raise CannotReplayError(spec.id, reason, _LOGGED)
        snapshot = self._snapshot(spec, start)
        vertex = RVertex(
            spec,
            pending_rows_max=PENDING_ROWS_MAX,
            values=self._values(spec, snapshot),
            before_step=None if stops is None else stops.before_step,
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
            is_log = spec.source.spec.live is not None and self._open_source is None
            return [] if is_log else [self._source(spec)]
        feeds: list[Feed] = []
        for channel in spec.inputs:
            seq = 0 if start is None else start.reads[len(feeds)]
            is_durable, end = self._is_durable(channel, seq), self._stored_end(channel, seq)
            parts: list[Feed] = []
            if is_durable or end > seq:
                assert self._recorded is not None
                log = self._recorded.log(channel.stream, channel.uri)
                parts.append(StreamFeed(log, item_schema(channel.payload)))
            if not is_durable:
                parts.append(self.runs[self._shape.writers[channel.stream]].keep(channel.stream))
            feeds.append(parts[0] if len(parts) == 1 else _ThenFeed(parts[0], parts[1], end))
        return feeds

    def _source(self, spec: VertexSpec) -> Feed:
        assert spec.source is not None
        if self._open_source is not None:
            return self._open_source(spec)
        return SourceFeed(spec.source)


class _NothingNew(ValueShell):
    """The clock and other outside values during a replay: only recorded ones may be used."""

    def __init__(self, vertex: str) -> None:
        self._vertex = vertex

    def now_us(self) -> int:
        """Implement :class:`ValueShell`."""
        raise self._error("ctx.now()")

    def random(self) -> float:
        """Implement :class:`ValueShell`."""
        raise self._error("ctx.random()")

    def unknown_calls(self) -> str:
        """Implement :class:`ValueShell`."""
        return ""

    def calls(self, code: UserCode, policy: CallPolicy) -> Calls:
        """Implement :class:`ValueShell`."""
        raise self._error(f"{code.name}()")

    def _error(self, what: str) -> CannotReplayError:
        reason = f"its code calls {what} more often than the job had recorded"
        return CannotReplayError(self._vertex, reason, _LOGGED)
