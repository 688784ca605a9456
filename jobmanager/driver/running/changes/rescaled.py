"""Builds a generation with other numbers of vertices, from a savepoint.

A new vertex continues the work of old ones as *shards*: of each old state it gets the part with its
own keys (:mod:`rvertex.checkpoint.ranges`). Unconsumed items of channels become extra inputs
("lanes") of MERGE (:mod:`rvertex.vertex.merge`), at the vertex that now owns a row's key. Sources,
and stages that read all rows, keep their vertices.

The number of partitions of the result never decreases. A vertex continues a partition if all rows
that it will emit are later than the partition's rows; otherwise it starts a new partition. The
vertices of unused partitions own no keys. They forward CTIs (watermarks) until a later change uses
them again.

Invariants: (1) each row of a state and of a channel goes to exactly one vertex; (2) every stream
stays in order of time; (3) no file that the former generation needs is changed or deleted.
"""

from __future__ import annotations

from dataclasses import replace
from operator import le
from typing import TYPE_CHECKING

import pyarrow as pa

from jobmanager.driver.running.changes.copies import (
    Shard,
    Slots,
    channels_folder,
    digest_of,
    end_of_stream,
    finished,
    going_on,
    state_copied,
    with_own_journal,
)
from jobmanager.driver.running.changes.cut import Rest
from jobmanager.driver.running.changes.errors import ChangeRefusedError
from jobmanager.driver.running.changes.generation import Generation
from jobmanager.driver.running.changes.snapshots import (
    last_time,
    reached_by,
    read_snapshot,
    rest_items,
    time_of_input,
)
from jobmanager.state.job_state import EPOCHS_PER_TAKEOVER
from planner.physical.layout import Stages, chain_of, laid_out, sealed
from planner.physical.slot_ranges import laid, overlaps, ranges_of
from rstream.items.batch import item_schema
from rstream.items.hashing import SLOTS
from rstream.log.durable import DurableLog
from rstream.types import MIN_TIME
from rvertex.checkpoint.codec import checkpoint_path, encode_snapshot
from rvertex.checkpoint.ranges.items import items_of_slots, lane_of, merge_state
from rvertex.checkpoint.ranges.restrict import restricted
from rvertex.checkpoint.ranges.sharded import Sharded, shards_in
from rvertex.vertex.rvertex import RVertex
from rvertex.vertex.spec import Lane

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jobmanager.state.messages import VertexCopy
    from jobmanager.storage.root import JobRoot
    from jobmanager.storage.savepoints import SavedVertex, Savepoint
    from planner.physical.plan import PhysicalPlan
    from planner.physical.slot_ranges import Layout
    from rvertex.operators.protocol import OperatorState
    from rvertex.vertex.spec import InputChannel, Snapshot, VertexSpec


class Rescaler:
    """Builds the generation ``number``. ``bounds``: per stage, the bounds of its new ranges."""

    def __init__(
        self,
        root: JobRoot,
        savepoint: Savepoint,
        plan: PhysicalPlan,
        bounds: Mapping[str, Sequence[int]],
        number: int,
    ) -> None:
        self._store, self._saved, self._number = root.store, savepoint, number
        self._open_store, self._epoch_of_root = root.open_store, root.epoch
        self._old, self._stages = plan, Stages(plan)
        self._rows = {row.vertex: row for row in savepoint.vertices}
        self._rests = {rest.stream: rest for rest in savepoint.rests}
        self._snapshots: dict[str, Snapshot] = {}
        self._last_times: dict[str, int] = {}
        self._items: dict[str, list[pa.RecordBatch]] = {}
        self._epoch = savepoint.epoch + EPOCHS_PER_TAKEOVER
        self._layouts = self._chosen(bounds)
        #: The writer of each stream; of the old plan, and of the new plan.
        self._writers = self._new = plan.writers()

    def build(self) -> Generation:
        """Write the first checkpoints and the ends of finished writers.

        Raises:
            ChangeRefusedError, NotByKeyError: a stage cannot have this number of vertices.
        """
        plan = self._placed(laid_out(self._old, self._layouts))
        self._new = plan.writers()
        readers = {c.stream: v for v in plan.vertices for c in v.inputs}
        vertices, copies, files = [], [], []
        for at, vertex in enumerate(plan.vertices):
            row = None if vertex.stage in self._layouts else self._rows[vertex.id]
            if row is not None and row.is_finished:
                copies.append(self._ended(vertex, row, readers))
                vertices.append(vertex)
                continue
            vertex, snapshot = self._continued(vertex)
            name = checkpoint_path(f"checkpoints/{vertex.id}", self._epoch + at, 0)
            self._store.put(name, encode_snapshot(snapshot))
            files.append(name)
            vertices.append(vertex)
            copies.append(going_on(self._saved, vertex, snapshot, name))
        copy = state_copied(self._saved, self._epoch + len(plan.vertices), copies)
        return Generation(replace(plan, vertices=tuple(vertices)), copy, tuple(files))

    # ---- the plan

    def _chosen(self, bounds: Mapping[str, Sequence[int]]) -> dict[str, Layout]:
        """Return the new layouts of all stages that change."""
        layouts: dict[str, Layout] = {}
        for stage, of_stage in bounds.items():
            if stage in layouts:
                continue
            self._stages.check(stage)
            members = self._stages.members(stage)
            if any(self._rows[v.id].is_finished for m in members for v in self._vertices(m)):
                raise ChangeRefusedError(self._old.root, f"stage {stage} has finished")
            layout = self._with_partitions(members, of_stage)
            layouts |= dict.fromkeys(members, layout)
        return layouts

    def _vertices(self, stage: str) -> list[VertexSpec]:
        return self._stages.vertices[stage]

    def _with_partitions(self, members: Sequence[str], bounds: Sequence[int]) -> Layout:
        """Return the layout of a group: which vertex, and so which partition, owns each range."""
        sinks = [m for m in members if self._stages.stages[m].is_sink]
        width = len(bounds) + 1
        if not sinks:
            return laid(width, range(width), bounds)
        written = [{v.index: self._last_time(v) for v in self._vertices(m)} for m in sinks]
        #: Per vertex, the last time in its partition of each output.
        ends = {v: tuple(times[v] for times in written) for v in written[0]}
        former, firsts = self._stages.layout(sinks[0]), []
        for slots in ranges_of(bounds):
            times = [ends[v] for v in ends if overlaps(former, v, slots)]
            firsts.append(tuple(map(min, *times, times[0])))
        owners, free, count = [0] * width, set(ends), len(ends)
        for k in sorted(range(width), key=lambda k: (firsts[k], k)):
            fits = (v for v in free if all(map(le, ends[v], firsts[k])))
            fit = sorted(fits, key=lambda v: (v != k, v))
            owners[k] = fit[0] if fit else count
            count += not fit
            free.discard(owners[k])
        return laid(count, owners, bounds)

    def _last_time(self, vertex: VertexSpec) -> int:
        if vertex.id not in self._last_times:
            self._last_times[vertex.id] = self._read_last_time(vertex)
        return self._last_times[vertex.id]

    def _read_last_time(self, vertex: VertexSpec) -> int:
        """Return the time of the last item in the vertex's partition of an output.

        New rows of the partition must not be earlier. All outputs of a vertex have the same items.
        """
        edge = next(edge for edge in vertex.outputs if edge.is_sink)
        log = DurableLog(self._open_store(edge.uris[0]), edge.streams[0])
        if (time := last_time(log)) is not None:
            return time
        if log.mark == 0:
            return int(MIN_TIME)
        header = self._of(vertex.id).states[0].header
        return int(max([*header.get("times", ()), header.get("last_cti", MIN_TIME)]))

    def _placed(self, plan: PhysicalPlan) -> PhysicalPlan:
        """Return the plan with the channels and new side outputs of this generation."""
        folder = channels_folder(self._store, plan, self._number, self._epoch_of_root)
        known = {uri for v in self._old.vertices for e in v.outputs if e.side for uri in e.uris}
        vertices, ended = [], self._ended_streams(plan)
        for vertex in plan.vertices:
            inputs = tuple(
                replace(c, uri=f"{folder}/{c.stream}", durability="async")
                if c.stream in ended
                else replace(c, uri=f"{folder}/{c.stream}")
                for c in vertex.inputs
            )
            outputs = []
            for edge in vertex.outputs:
                if edge.side and edge.uris[0] not in known:
                    mark = f"/{edge.side}/"
                    uris = tuple(u.replace(mark, f"{mark}g{self._number}-") for u in edge.uris)
                    outputs.append(replace(edge, uris=uris))
                elif edge.is_sink or edge.side:
                    outputs.append(edge)
                else:
                    uris = tuple(f"{folder}/{s}" for s in edge.streams)
                    kind = "async" if ended.intersection(edge.streams) else edge.durability
                    outputs.append(replace(edge, uris=uris, durability=kind))
            source = vertex.source
            if source is not None and source.spec.live is not None:
                units = tuple(replace(u, settles_at=None) for u in source.log_units)
                source = replace(source, units=units, added=())
            vertices.append(replace(vertex, inputs=inputs, outputs=tuple(outputs), source=source))
        return replace(plan, vertices=tuple(vertices))

    def _ended_streams(self, plan: PhysicalPlan) -> set[str]:
        """Return the streams of finished writers. Their ends are durable, and stay."""
        kept = [v for v in plan.vertices if v.stage not in self._layouts]
        return {s for v in kept if self._rows[v.id].is_finished for s in v.output_streams}

    # ---- the vertices

    def _of(self, vertex: str) -> Snapshot:
        if vertex not in self._snapshots:
            spec = self._old.vertex(vertex)
            name = self._rows[vertex].checkpoint
            self._snapshots[vertex] = read_snapshot(self._store, spec, name)
        return self._snapshots[vertex]

    def _continued(self, vertex: VertexSpec) -> tuple[VertexSpec, Snapshot]:
        """Return an unchanged vertex, with its new inputs, and its first checkpoint."""
        if vertex.stage in self._layouts:
            return self._of_shards(vertex)
        vertex = sealed(replace(vertex, operators=self._old.vertex(vertex.id).operators))
        old = self._of(vertex.id)
        fresh = RVertex(vertex, pending_rows_max=1).get_snapshot(whole=True)
        state, inputs = old.states[0], old.inputs
        if vertex.source is None:
            lanes = self._lanes(vertex, [self._old.vertex(vertex.id)], None)
            time, reached = time_of_input(old), reached_by(old)
            state, inputs = merge_state(len(vertex.inputs), time, reached, lanes)
        elif vertex.source.spec.live is not None:
            state, inputs = with_own_journal(self._store, vertex, state, inputs)
        made = replace(fresh, inputs=inputs, states=(state, *old.states[1:]))
        counts = replace(made, events_in=old.events_in, events_out=old.events_out)
        return vertex, self._with_outputs(vertex, counts)

    def _of_shards(self, vertex: VertexSpec) -> tuple[VertexSpec, Snapshot]:
        """Return a vertex of a stage whose layout changes, and its first checkpoint."""
        layout = self._layouts[vertex.stage]
        slots = layout.slots_of_vertex(vertex.index)
        shards = [shard for one in slots for shard in self._shards(vertex.stage, one)]
        if self._stages.keys[vertex.stage][0] is None:
            shards.sort(key=lambda shard: shard.reached)  # the first shard gets all new rows
        old = self._vertices(vertex.stage)
        after = self._last_time(old[vertex.index]) if self._continues(vertex) else int(MIN_TIME)
        time = min((s.reached for s in shards), default=after)
        ports = self._stages.ports(vertex.stage)
        if len(shards) == 1 and shards[0].pending is None:
            states = shards[0].states
        else:
            keys = self._stages.shard_keys(vertex.stage)
            spec = Sharded(chain_of(vertex), keys, tuple(s.slots for s in shards))
            recovery = replace(vertex.recovery, horizon_us=None)
            if recovery.strategy == "replay":
                recovery = replace(recovery, strategy="checkpoint")
            vertex = sealed(replace(vertex, operators=(spec,), recovery=recovery))
            ctis, pending = [s.reached for s in shards], [s.pending for s in shards]
            states = (spec.beginning(ports, [s.states for s in shards], ctis, after, pending),)
        fresh = RVertex(vertex, pending_rows_max=1).get_snapshot(whole=True)
        lanes = self._lanes(vertex, old, slots)
        reached = max(reached_by(self._of(one.id)) for one in old)
        state, inputs = merge_state(len(vertex.inputs), time, reached, lanes)
        made = replace(fresh, inputs=inputs, states=(state, *states))
        if vertex.index < len(old):
            was = self._of(old[vertex.index].id)
            made = replace(made, events_in=was.events_in, events_out=was.events_out)
        return vertex, self._with_outputs(vertex, made)

    def _continues(self, vertex: VertexSpec) -> bool:
        """Return whether the vertex writes an existing partition of the result."""
        is_sink = any(edge.is_sink for edge in vertex.outputs)
        return is_sink and vertex.index < len(self._vertices(vertex.stage))

    def _shards(self, stage: str, slots: Slots) -> list[Shard]:
        """Return the shards of old vertices that belong to a range of key slots."""
        former = self._stages.layout(stage)
        shards = []
        for old in self._vertices(stage):
            for part in overlaps(former, old.index, slots):
                shards += self._shards_of(old, part, former)
        return shards

    def _shards_of(self, old: VertexSpec, slots: Slots, former: Layout) -> list[Shard]:
        snapshot = self._of(old.id)
        spec = old.operators[0] if old.operators else None
        if not isinstance(spec, Sharded):
            (whole,) = former.slots_of_vertex(old.index)
            own_states = self._restricted(old.stage, snapshot.states[1:], slots, whole)
            return [Shard(old, slots, own_states, time_of_input(snapshot), None)]
        shards = []
        parts = shards_in(spec, len(spec.chain), snapshot.states[1])
        for own, (states, reached, pending) in zip(spec.ranges, parts, strict=True):
            lo, hi = max(own[0], slots[0]), min(own[1], slots[1])
            if lo >= hi:
                continue
            if pending is not None and (lo, hi) != own:
                keys = self._stages.keys[old.stage][-1]
                names = () if keys is None else keys[0]
                pending = items_of_slots(pending, names, own[0], [(lo, hi)])
            divided = self._restricted(old.stage, states, (lo, hi), own)
            shards.append(Shard(old, (lo, hi), divided, reached, pending))
        return shards

    def _restricted(
        self, stage: str, states: Sequence[OperatorState], slots: Slots, whole: Slots
    ) -> tuple[OperatorState, ...]:
        every = zip(self._stages.places(stage), self._stages.keys[stage], states, strict=False)
        return tuple(restricted(p, keys, slots, state, whole) for p, keys, state in every)

    def _with_outputs(self, vertex: VertexSpec, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with output positions: the result continues, channels start at 0."""
        former: dict[str, tuple[int, bytes]] = {}
        for old in self._old.vertices:
            row = self._rows[old.id]
            if not row.is_finished:
                was = self._of(old.id)
                uris = [uri for edge in old.outputs for uri in edge.uris]
                places = zip(was.outputs, was.digests, strict=True)
                former |= dict(zip(uris, places, strict=True))
        pairs = [
            former.get(uri, (0, digest_of([]))) if edge.is_sink or edge.side else (0, digest_of([]))
            for edge in vertex.outputs
            for uri in edge.uris
        ]
        outputs, digests = zip(*pairs, strict=True) if pairs else ((), ())
        return replace(snapshot, outputs=outputs, digests=digests, is_final=False)

    def _ended(
        self, vertex: VertexSpec, row: SavedVertex, readers: Mapping[str, VertexSpec]
    ) -> VertexCopy:
        """Return the state of a finished vertex. Its new channels contain only their end."""
        ends, digests, at = [], [], 0
        old = self._old.vertex(vertex.id)
        former = [uri for edge in old.outputs for uri in edge.uris]
        for edge in vertex.outputs:
            for stream, uri in zip(edge.streams, edge.uris, strict=True):
                if edge.is_sink or edge.side:
                    at = former.index(uri)
                    ends.append(row.outputs[at])
                    digests.append(bytes.fromhex(row.digests[at]))
                    continue
                payload = next(c.payload for c in readers[stream].inputs if c.stream == stream)
                end = end_of_stream(payload)
                log = DurableLog(self._open_store(uri), stream, schema=item_schema(payload))
                log.write(end)
                ends.append(1)
                digests.append(digest_of([end]))
        return finished(vertex, self._epoch, ends, digests)

    # ---- items between vertices

    def _lanes(
        self, vertex: VertexSpec, old: Sequence[VertexSpec], slots: Sequence[Slots] | None
    ) -> dict[str, pa.Table]:
        """Return, per lane, the vertex's unconsumed items. ``slots``: None: of all keys."""
        tables_of: dict[Lane, list[pa.Table]] = {}
        keys = self._stages.shard_keys(vertex.stage) if slots is not None else ()
        for was in old:
            waiting = self._of(was.id).states[0].tables
            given = [(Lane.named(name), table) for name, table in waiting.items()]
            for number, channel in enumerate(was.inputs):
                if channel.stream in self._rests:
                    table = pa.Table.from_batches(self._rest(channel), item_schema(channel.payload))
                    given.append((Lane(channel.port, number), table))
            for lane, table in given:
                if slots is not None:
                    own = self._stages.layout(was.stage).slots_of_vertex(was.index)
                    first = own[0][0] if own else SLOTS
                    table = items_of_slots(table, keys[lane.port], first, slots)
                tables_of.setdefault(self._lane_now(lane, was, vertex), []).append(table)
        lanes = {lane: lane_of(pa.concat_tables(tables)) for lane, tables in tables_of.items()}
        return {lane.name: table for lane, table in lanes.items() if table.num_rows}

    def _lane_now(self, lane: Lane, was: VertexSpec, vertex: VertexSpec) -> Lane:
        """Return the lane of the same writer; of the port if the writer's stage changed."""
        if lane.channel is None:
            return lane
        writer, readers = self._writers[was.inputs[lane.channel].stream], enumerate(vertex.inputs)
        if self._old.vertex(writer).stage in self._layouts:
            return Lane(lane.port)
        same = (k for k, c in readers if c.port == lane.port and self._new[c.stream] == writer)
        return Lane(lane.port, next(same))

    def _rest(self, channel: InputChannel) -> list[pa.RecordBatch]:
        """Return the unconsumed items of an old channel."""
        if channel.stream not in self._items:
            rest = self._rests[channel.stream]
            place = self._store.child(f"{self._saved.folder}/{channel.stream}")
            own = Rest(channel.stream, place.uri, rest.lo, rest.hi, channel.payload, is_ended=False)
            self._items[channel.stream] = [items.batch for items in rest_items(place, own)]
        return self._items[channel.stream]
