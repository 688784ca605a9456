"""RVertex: a deterministic step over streams. Pure: no I/O, no clock, no thread.

Theory of operation. The runner *offers* items of the inputs. The input side (MERGE, or the reorder
buffer of a source) *releases* the items whose order is final, as one run per port. The operators
turn it into an output run. The vertex splits the run over the output edges, into batches of items
with dense sequence numbers. Rows for side outputs go to side streams
(:mod:`rvertex.events.side_output`), which are the last of the output edges.

Invariants: (1) the output sequences depend only on the loaded snapshot and the input sequences,
never on how these were divided into offers or executes; (2) items that were offered but not
released are not state; (3) ``get_snapshot`` is O(1) by reference; (4) a snapshot of positions
describes the last ``execute``, and a vertex that loaded it emits nothing before it has reached
these positions again. Source: StreamScope NSDI'16, "rVertex"; "replay-based recovery".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rstream.items.batch import Items, item_schema
from rstream.items.digest import StreamDigest
from rstream.types import INF_TIME, MIN_TIME, implements
from rvertex.errors import ReplayDifferenceError
from rvertex.events.lifetime import frontier_after
from rvertex.events.side_output import HasSideOutputs, side_outputs_of
from rvertex.keys.hot_keys import HotKeys
from rvertex.messages import Counts, Hold
from rvertex.operators.protocol import Pieces, counted, held_tables, in_pieces
from rvertex.state.array_spill import ArraySpill
from rvertex.state.memory import UNLIMITED
from rvertex.user_code.context import DrawsValues, Values, calls_outside
from rvertex.vertex.holding import holding
from rvertex.vertex.log_input import LogInput
from rvertex.vertex.merge import PENDING_BYTES_MAX, Merge
from rvertex.vertex.partitioner import SideEvents, side_batches, split
from rvertex.vertex.replay import ReplayPoints
from rvertex.vertex.source_input import SourceInput, own_sides
from rvertex.vertex.spec import ReplayFrom, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from rvertex.events.run import Run
    from rvertex.operators.protocol import OperatorState
    from rvertex.state.memory import StateMemory
    from rvertex.vertex.spec import VertexSpec


@dataclass(frozen=True, slots=True)
class StepResult:
    """The next items of each output stream after one step; None: no items."""

    outputs: tuple[Items | None, ...]


class RVertex:
    """One vertex: ``load(snapshot)``, then any number of ``offer`` and ``execute``."""

    def __init__(
        self,
        spec: VertexSpec,
        *,
        pending_rows_max: int,
        pending_bytes_max: int = PENDING_BYTES_MAX,
        values: Values | None = None,
        before_step: Callable[[list[Run]], None] | None = None,
        memory: StateMemory = UNLIMITED,
    ) -> None:
        """Open the operators; ``values``: for user code. ``before_step`` gets each step's runs."""
        self.spec = spec
        self._values = values
        self._before_step = before_step
        self.memory = memory.of_vertex()
        self._pending_rows_max, self._pending_bytes_max = pending_rows_max, pending_bytes_max
        self._open()

    def _open(self) -> None:
        spec = self.spec
        #: Number of events that the input side has released, and that the vertex has emitted.
        self._events_released = self._events_out = 0
        sides = own_sides(spec)
        self._input: Merge | SourceInput | LogInput
        if spec.source is not None:
            if spec.source.spec.live is not None:
                self._input = LogInput(
                    spec.source, sides=sides, pending_rows_max=self._pending_rows_max
                )
            else:
                self._input = SourceInput(spec.source, sides=sides)
            ports = [self._input.payload]
        else:
            payloads = [c.payload for c in spec.inputs]
            channel_ports = [c.port for c in spec.inputs]
            self._input = Merge(
                payloads,
                channel_ports,
                pending_rows_max=self._pending_rows_max,
                pending_bytes_max=self._pending_bytes_max,
            )
            ports = [payloads[channel_ports.index(p)] for p in range(max(channel_ports) + 1)]
        self._operators = []
        #: Names of the side outputs: first of the input side, then of each operator.
        self._sides = [sides]
        for k, operator in enumerate(spec.operators):
            running = operator.open(ports)
            if self._values is not None and implements(running, DrawsValues):
                self._values.wire(k, running)
            self._operators.append(running)
            self._sides.append([side.name for side in side_outputs_of(operator, ports)])
            ports = [operator.output_schema(ports)]
        self._arrays = ArraySpill(self._operators, self.memory)
        self.calling = [op for op in self._operators if calls_outside(op)]
        #: All that may emit side events: each with its index into ``_sides``.
        self._side_sources: list[tuple[int, HasSideOutputs]] = [
            (k, source)
            for k, source in enumerate([self._input, *self._operators])
            if self._sides[k] and implements(source, HasSideOutputs)
        ]
        assert ports[0].equals(spec.output_payload), (spec.id, ports[0], spec.output_payload)
        self.output_seqs = [0] * len(spec.output_streams)
        self._digests = [StreamDigest() for _ in spec.output_streams]
        self.hot_keys = HotKeys([(e.keys, len(e.streams)) for e in spec.outputs if not e.side])
        self._item_schema = item_schema(spec.output_payload)
        self.output_cti: int = MIN_TIME
        #: Last start or CTI that the input side released, and then that each operator emitted, us.
        self._reached: list[int] = [MIN_TIME] * (len(self._operators) + 1)
        self.pieces = Pieces()  # the remaining output of the last step
        self.is_finished = False
        #: The snapshot that the current replay rebuilds.
        self._target: Snapshot | None = None
        horizon_us = spec.recovery.horizon_us if spec.recovery.strategy == "replay" else None
        self._points = None if horizon_us is None else ReplayPoints(horizon_us)
        if self._points is not None:
            self._points.begin(self.consumed, self._input.scalars())
        self._tracked = (self._input.position, self._input.scalars())

    @property
    def consumed(self) -> tuple[int, ...]:
        """Per input, the next seq to consume. All items below were released."""
        return self._input.consumed

    @property
    def read_positions(self) -> tuple[int, ...]:
        """Per input, the next seq to offer: at or past :attr:`consumed`."""
        return self._input.read_positions

    @property
    def input_cti(self) -> int:
        """The last CTI (watermark) that the input side released."""
        return self._input.position.cti

    @property
    def counts(self) -> Counts:
        """The vertex's counters; a source counts dropped rows as input, but not buffered ones."""
        counts = counted(self._operators)
        released, out, source = self._events_released, self._events_out, self._input
        if isinstance(source, Merge):
            return Counts(released, out, **counts)
        return Counts(
            released + source.passed_over + source.late_dropped,
            out,
            source.late_events,
            lateness=source.lateness,
            bad_rows=source.dead_rows,
            **counts,
        )

    @property
    def max_vs(self) -> int:
        """Greatest event time read from its source, us."""
        return MIN_TIME if isinstance(self._input, Merge) else self._input.max_vs

    @property
    def log(self) -> LogInput | None:
        """The input side if it reads a live log, else None."""
        return self._input if isinstance(self._input, LogInput) else None

    @property
    def holds(self) -> tuple[Hold, ...]:
        """The operator that holds back the watermark, as far as this instance has observed."""
        return holding(self.spec.operators, self._operators, self._reached)

    @property
    def has_more(self) -> bool:
        """Whether ``execute`` must be called again before any other method."""
        return self.pieces.has_more

    @property
    def is_replaying(self) -> bool:
        """Whether it reads old input again to rebuild its state. Meanwhile it emits nothing."""
        return self._target is not None

    def load(self, snapshot: Snapshot) -> None:
        """Restore ``snapshot``, at once or by reading input again.

        Raises:
            ReplayDifferenceError: the snapshot has nothing to read again, but contradicts itself.
        """
        assert snapshot.vertex == self.spec.id, (snapshot.vertex, self.spec.id)
        self._open()
        self.output_seqs, self.is_finished = list(snapshot.outputs), snapshot.is_final
        self._digests = [StreamDigest.from_bytes(d) for d in snapshot.digests]
        self._events_released, self._events_out = snapshot.events_in, snapshot.events_out
        origin = snapshot.replay_from
        if origin is not None:
            self._input.replay(origin.input_state, origin.inputs, snapshot.inputs)
            self._begin_points(origin)
            self._target = snapshot
            self._end_replay()
            return
        self.memory.unverified.verify_tables(snapshot.states[0].tables, self._input)
        self._input.load(snapshot.states[0], snapshot.inputs)
        for operator, state in zip(self._operators, snapshot.states[1:], strict=True):
            self.memory.unverified.verify_tables(state.tables, operator)
            operator.load(state)
        self._begin_points(None)

    def get_snapshot(self, *, whole: bool = False) -> Snapshot:
        """Return ``<input seqs>, <output seqs>, state`` as of now.

        For a vertex recovered by replay, it returns the positions after the last ``execute``, and
        where to start reading to rebuild them. It returns the state as long as that start would be
        before the state from which the vertex was loaded. ``whole``: always return the state.
        """
        if self._target is not None:
            return self._target
        assert not self.has_more, "the output of a step is emitted as a whole"
        position, scalars = self._tracked
        is_whole = whole or self._points is None
        origin = None if is_whole or self._points is None else self._points.find(position.cti)
        if origin is not None:
            inputs: tuple[int, ...] = position.inputs
            states: tuple[OperatorState, ...] = (scalars,)
            origin = ReplayFrom(inputs, scalars) if self.is_finished else origin
        else:
            inputs, states = self.consumed, self.states()
        return Snapshot(
            vertex=self.spec.id,
            state_schema=self.spec.state_schema,
            inputs=inputs,
            outputs=tuple(self.output_seqs),
            digests=self.digests(),
            states=states,
            events_in=self._events_released,
            events_out=self._events_out,
            is_final=self.is_finished,
            replay_from=origin,
        )

    def states(self) -> tuple[OperatorState, ...]:
        """Current states: first of the input side, then of each operator."""
        return (self._input.snapshot(), *(o.snapshot() for o in self._operators))

    def held_tables(self) -> list[dict[str, pa.Table]]:
        """Return the tables that each operator keeps, to show to users."""
        return [held_tables(operator) for operator in self._operators]

    def digests(self) -> tuple[bytes, ...]:
        """Return the running digest of each output over ``[0, output seq)``."""
        return tuple(d.to_bytes() for d in self._digests)

    def wants(self, channel: int) -> bool:
        """Return whether to offer more items of this input now."""
        return not self.is_finished and self._input.wants(channel)

    def rows_wanted(self, channel: int, rows_max: int) -> int:
        """Return how many items to offer, at most ``rows_max``. A replay must stop at its end."""
        stop = self._input.stops[channel]
        rows_max = min([rows_max, *(op.step_rows_max for op in self.calling)])
        return rows_max if stop is None else min(rows_max, stop - self.read_positions[channel])

    def offer(self, channel: int, items: Items) -> None:
        """Process the next items of an input. Their seqs must be consecutive."""
        assert not isinstance(self._input, LogInput), "rows of a log go to its input side"
        self._input.offer(channel, items)

    def end_source(self) -> None:
        """End the source partition."""
        assert not isinstance(self._input, Merge)
        self._input.end()

    def execute(self) -> StepResult | None:
        """Process all input whose order is final, or emit the next piece while ``has_more``.

        Returns None if no order became final, or if a replay emits nothing yet.

        Raises:
            ReplayDifferenceError: a replay read other items than the vertex had read before.
        """
        side_events: SideEvents = {}
        result = None
        if not self.has_more:
            self._drain_side_outputs(side_events, late=True)
            self._begin_step()
        run = self.pieces.take()
        if run is not None:
            self._drain_side_outputs(side_events, late=False)
            if self._target is None:
                result = self._emit(run, side_events)
            elif len(run.ctis):
                self.output_cti = int(run.ctis[-1])
        elif side_events and self._target is None:
            result = self._append(
                side_batches(
                    self.spec.outputs, side_events, self.output_seqs, is_end=self.is_finished
                )
            )
        if self._points is not None:
            self._track(self._points)
        if self._target is not None:
            self._end_replay()
        return result

    def _begin_step(self) -> None:
        """Release the input whose order is final, and process it up to the first output piece."""
        if isinstance(self._input, Merge):
            parts = self._input.release_parts()
        else:
            ports = self._input.release()
            parts = [] if ports is None else [ports]
        if parts:
            is_one = self.spec.recovery.strategy == "strong" or self.is_replaying
            self.pieces.begin(self._processed(parts), as_one=is_one)

    def _processed(self, parts: list[list[Run]]) -> Iterator[Run | None]:
        """Process the parts of a step's input; each is freed before the next."""
        is_counted = self._target is None
        for _ in range(len(parts)):
            ports = parts.pop(0)
            if self._before_step is not None:
                self._before_step(ports)
            if is_counted:
                self._events_released += sum(run.events.num_rows for run in ports)
            self._reached[0] = frontier_after(self._reached[0], ports)
            self._arrays.fit(sum(run.events.nbytes for run in ports))
            yield from in_pieces(self._operators, ports, self._note_emitted)

    def _note_emitted(self, k: int, run: Run) -> None:
        self._reached[k + 1] = frontier_after(self._reached[k + 1], (run,))

    def _begin_points(self, origin: ReplayFrom | None) -> None:
        """Record positions from now on; ``origin``: where reading starts for the present state."""
        if self._points is not None:
            self._points = ReplayPoints(self._points.horizon_us)
            if origin is not None:
                self._points.begin(origin.inputs, origin.input_state)
            self._track(self._points)

    def _track(self, points: ReplayPoints) -> None:
        """Record the current position; all input whose order is final has been released."""
        position, scalars = self._input.position, self._input.scalars()
        self._tracked = (position, scalars)
        points.find(position.cti)
        is_carried = isinstance(self._input, Merge) and bool(scalars.tables)
        if not is_carried and points.is_due(position.time):
            points.add(position.time, position.inputs, scalars)

    def _end_replay(self) -> None:
        """Leave the replay once the positions of the snapshot being rebuilt are reached."""
        target = self._target
        if target is None or self.consumed != target.inputs:
            return
        if self._input.scalars() != target.states[0]:
            raise ReplayDifferenceError(self.spec.id, target.inputs)
        self._input.resume()
        self._target = None

    def _drain_side_outputs(self, side_events: SideEvents, *, late: bool) -> None:
        """Collect the side events of the input side (``late``), or of the operators."""
        for k, source in self._side_sources:
            if (k == 0) == late:
                drained = zip(self._sides[k], source.drain_side_outputs(), strict=True)
                side_events.update({name: events for name, events in drained if events.num_rows})

    def _emit(self, run: Run, side_events: SideEvents) -> StepResult:
        self._events_out += run.events.num_rows
        self.hot_keys.observe(run.events)
        if len(run.ctis):
            self.output_cti = int(run.ctis[-1])
            self.is_finished = self.output_cti == INF_TIME
        seqs, is_end = self.output_seqs, self.is_finished
        sides = side_batches(self.spec.outputs, side_events, seqs, is_end=is_end)
        main = [b for edge in self.spec.outputs if not edge.side for b in split(run, edge)]
        return self._append([*main, *sides[len(main) :]])

    def _append(self, batches: list[pa.RecordBatch | None]) -> StepResult:
        """Assign seqs to the next items of each output stream."""
        outputs: list[Items | None] = []
        for k, batch in enumerate(batches):
            if batch is None:
                outputs.append(None)
                continue
            seq = self.output_seqs[k]
            outputs.append(Items(seq, batch, self._digests[k].update(seq, batch)))
            self.output_seqs[k] = seq + batch.num_rows
        return StepResult(tuple(outputs))
