"""Builds the next generation of a job: a plan, and a first checkpoint of each vertex.

Each change starts a new generation. A generation has new channels, in ``streams/g<n>-<id>``. They
start with the unconsumed items of the former channels. The output and the side outputs continue at
their ends, source vertices at their positions.

Invariants: (1) no file that the former generation needs is changed or deleted; (2) the first
checkpoints of a generation fit together: a channel ends exactly at its writer's checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from jobmanager.driver.running.changes.copies import (
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
from jobmanager.driver.running.changes.snapshots import (
    lossy_stages,
    reached_by,
    read_snapshot,
    rest_items,
    time_of_input,
    whole_since,
)
from jobmanager.state.job_state import EPOCHS_PER_TAKEOVER
from planner.physical.layout import Stages, chain_of, sealed
from rstream.items.batch import Items, item_schema
from rstream.log.durable import DurableLog
from rvertex.checkpoint.codec import checkpoint_path, encode_snapshot
from rvertex.checkpoint.conversion import converted_operators, converted_source, reshaped
from rvertex.checkpoint.ranges.converted import converted_shards
from rvertex.checkpoint.ranges.items import merge_state
from rvertex.checkpoint.ranges.sharded import Sharded
from rvertex.vertex.rvertex import RVertex
from rvertex.vertex.spec import Lane

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobmanager.state.messages import StateCopied, VertexCopy
    from jobmanager.storage.root import JobRoot
    from jobmanager.storage.savepoints import SavedVertex, Savepoint
    from planner.physical.plan import PhysicalPlan
    from rstream.store.protocol import BlobStore
    from rvertex.operators.protocol import OperatorState
    from rvertex.vertex.spec import InputChannel, OutputEdge, Snapshot, VertexSpec


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation of a job. ``copy``: the state with which its job manager starts."""

    plan: PhysicalPlan
    copy: StateCopied
    #: Names of the checkpoints that were written for it.
    files: tuple[str, ...]


class Builder:
    """Builds the generation ``number`` from a savepoint of a job."""

    def __init__(
        self,
        root: JobRoot,
        savepoint: Savepoint,
        plans: tuple[PhysicalPlan, PhysicalPlan],
        links: Mapping[str, str],
        number: int,
        target: BlobStore | None = None,
    ) -> None:
        """Build from ``savepoint``. ``plans``: the old and the new plan.

        ``links``: per new stage, the old stage that it continues. ``target``: the store of the
        generation's root, if it is not the job's own root.
        """
        self._store, self._saved, self._number = root.store, savepoint, number
        self._open_store, self._target = root.open_store, target or root.store
        self._folder = channels_folder(self._target, plans[1], number, root.epoch)
        (self._old, new), self._links = plans, dict(links)
        self._is_elsewhere = target is not None
        self._origins = {v.id: self._origin(v) for v in new.vertices}
        self._rests = {rest.stream: rest for rest in savepoint.rests}
        self._rows = {row.vertex: row for row in savepoint.vertices}
        self._plan = self._placed(new)
        self._lossy = lossy_stages(self._old, new, links)
        self._epoch = savepoint.epoch + EPOCHS_PER_TAKEOVER
        self._snapshots: dict[str, Snapshot] = {}

    def build(self) -> Generation:
        """Write the first checkpoints and the first items of channels.

        Raises:
            ChangeRefusedError, CannotConvertError: the new plan cannot continue a state.
        """
        self._check_rests()
        copies, files = [], []
        for at, vertex in enumerate(self._plan.vertices):
            origin = self._origins[vertex.id]
            carried = self._carry(vertex)
            row = None if origin is None else self._rows[origin.id]
            if row is not None and row.is_finished:
                copies.append(self._ended(vertex, row, carried))
                continue
            snapshot = self._snapshot(vertex, origin, carried)
            name = checkpoint_path(f"checkpoints/{vertex.id}", self._epoch + at, 0)
            self._target.put(name, encode_snapshot(snapshot))
            files.append(name)
            copies.append(going_on(self._saved, vertex, snapshot, name))
        copy = state_copied(self._saved, self._epoch + len(self._plan.vertices), copies)
        return Generation(self._plan, copy, tuple(files))

    # ---- the plan

    def _origin(self, vertex: VertexSpec) -> VertexSpec | None:
        stage = self._links.get(vertex.stage)
        if stage is None:
            return None
        return next(v for v in self._old.vertices if (v.stage, v.index) == (stage, vertex.index))

    def _placed(self, plan: PhysicalPlan) -> PhysicalPlan:
        """Return the plan with new channels, and with the log partitions of the old plan."""
        vertices, carrying = [], self._carrying(plan)
        for vertex in plan.vertices:
            inputs = tuple(
                replace(
                    c,
                    uri=f"{self._folder}/{c.stream}",
                    durability="async" if c.stream in carrying else c.durability,
                )
                for c in vertex.inputs
            )
            outputs = tuple(self._edge(vertex, edge) for edge in vertex.outputs)
            outputs = tuple(
                replace(e, durability="async") if carrying.intersection(e.streams) else e
                for e in outputs
            )
            source, origin = vertex.source, self._origins[vertex.id]
            if origin is not None:
                vertex = self._sharded_like(origin, vertex, plan)
            if source is not None and origin is not None and source.spec.live is not None:
                assert origin.source is not None
                units = tuple(replace(u, settles_at=None) for u in origin.source.log_units)
                source = replace(source, units=units, added=(), known=origin.source.known)
            vertices.append(replace(vertex, inputs=inputs, outputs=outputs, source=source))
        return replace(plan, vertices=tuple(vertices))

    def _sharded_like(
        self, origin: VertexSpec, vertex: VertexSpec, plan: PhysicalPlan
    ) -> VertexSpec:
        """Return the vertex with the shards of the vertex that it continues."""
        spec = origin.operators[0] if origin.operators else None
        if not isinstance(spec, Sharded):
            return vertex
        keys = Stages(plan).shard_keys(vertex.stage)
        made = Sharded(chain_of(vertex), keys, spec.ranges)
        return sealed(replace(vertex, operators=(made,), recovery=origin.recovery))

    def _carrying(self, plan: PhysicalPlan) -> set[str]:
        """Return the streams of edges that begin with unconsumed items, or with their writer's end.

        No vertex can compute those again, so these channels are durable.
        """
        writers, waiting = plan.writers(), set()
        for vertex in plan.vertices:
            for channel in vertex.inputs:
                writer = plan.vertex(writers[channel.stream])
                old = self._former_channel(writer, vertex, channel)
                if self._has_finished(writer) or (old and old.stream in self._rests):
                    waiting.add(channel.stream)
        edges = [edge for vertex in plan.vertices for edge in vertex.outputs]
        return {s for edge in edges if waiting.intersection(edge.streams) for s in edge.streams}

    def _has_finished(self, vertex: VertexSpec) -> bool:
        origin = self._origins[vertex.id]
        return origin is not None and self._rows[origin.id].is_finished

    def _edge(self, vertex: VertexSpec, edge: OutputEdge) -> OutputEdge:
        if edge.is_sink:
            return edge
        if not edge.side:
            return replace(edge, uris=tuple(f"{self._folder}/{stream}" for stream in edge.streams))
        if self._former_side(vertex, edge) is not None and not self._is_elsewhere:
            return edge
        mark = f"/{edge.side}/"
        uris = tuple(uri.replace(mark, f"{mark}g{self._number}-") for uri in edge.uris)
        return replace(edge, uris=uris)

    def _former_side(self, vertex: VertexSpec, edge: OutputEdge) -> int | None:
        """Return the number of the old side output that a side output continues, by position."""
        origin = self._origins[vertex.id]
        if origin is None:
            return None
        for at, other, uri in _outputs(origin):
            is_same = other.side == edge.side and other.payload == edge.payload
            if is_same and uri in edge.uris:
                return at
        return None

    # ---- the vertices

    def _snapshot(
        self, vertex: VertexSpec, origin: VertexSpec | None, carried: list[list[Items]]
    ) -> Snapshot:
        fresh = RVertex(vertex, pending_rows_max=1).get_snapshot(whole=True)
        if origin is None:
            since = whole_since(vertex, self._plan, self._read_old)
            states = converted_operators(None, vertex, (), max(since, self._saved.time_us))
            fresh = replace(fresh, states=(fresh.states[0], *states))
            return self._with_outputs(vertex, fresh, None, carried)
        old = self._of(origin)
        operators = self._operators(origin, vertex, old)
        if vertex.source is None:
            inputs: tuple[int, ...]
            times, lanes = (time_of_input(old), reached_by(old)), self._lanes(vertex, old)
            state, inputs = merge_state(len(vertex.inputs), *times, lanes)
        else:
            converted = converted_source(old.states[0], vertex)
            if converted is None:
                reason = f"a column of the rows that wait in {vertex.stage} has another type now"
                raise ChangeRefusedError(self._plan.root, reason)
            state, inputs = converted, old.inputs
            if vertex.source.spec.live is not None:
                state, inputs = with_own_journal(self._target, vertex, converted, inputs)
        snapshot = replace(
            fresh,
            inputs=inputs,
            states=(state, *operators),
            events_in=old.events_in,
            events_out=old.events_out,
        )
        return self._with_outputs(vertex, snapshot, (origin, old.outputs, old.digests), carried)

    def _operators(self, was: VertexSpec, vertex: VertexSpec, old: Snapshot) -> list[OperatorState]:
        """Return the converted states of the operators, or of the operators of all shards."""
        spec = vertex.operators[0] if vertex.operators else None
        since = whole_since(vertex, self._plan, self._read_old)
        lossy = self._lossy.get(vertex.stage, "")
        if not isinstance(spec, Sharded):
            return converted_operators(was, vertex, old.states[1:], since, lossy)
        was = replace(was, operators=chain_of(was))
        reshape = partial(self._reshaped, vertex, payload=vertex.output_payload)
        return [converted_shards(was, vertex, spec, old.states[1], since, lossy, reshape)]

    def _lanes(self, vertex: VertexSpec, old: Snapshot) -> dict[str, pa.Table]:
        """Return items of extra MERGE inputs, left by a rescale, that MERGE has not released."""
        lanes = {}
        for name, table in old.states[0].tables.items():
            port = Lane.named(name).port
            payload = next(c.payload for c in vertex.inputs if c.port == port)
            lanes[name] = self._reshaped(vertex, table, payload)
        return lanes

    def _reshaped(self, reader: VertexSpec, table: pa.Table, payload: pa.Schema) -> pa.Table:
        """Return unconsumed items with the columns that the reader expects now."""
        made = reshaped(table, item_schema(payload))
        if made is None:
            reason = f"rows on their way to {reader.stage} have a column of another type"
            raise ChangeRefusedError(self._plan.root, reason)
        return made.combine_chunks()

    def _of(self, origin: VertexSpec) -> Snapshot:
        if origin.id not in self._snapshots:
            name = self._rows[origin.id].checkpoint
            self._snapshots[origin.id] = read_snapshot(self._store, origin, name)
        return self._snapshots[origin.id]

    def _read_old(self, vertex: VertexSpec) -> tuple[VertexSpec, Snapshot] | None:
        """Return the old vertex that a vertex continues, and its snapshot; or None."""
        origin = self._origins[vertex.id]
        return None if origin is None or self._has_finished(vertex) else (origin, self._of(origin))

    def _with_outputs(
        self,
        vertex: VertexSpec,
        snapshot: Snapshot,
        former: tuple[VertexSpec, tuple[int, ...], tuple[bytes, ...]] | None,
        carried: list[list[Items]],
    ) -> Snapshot:
        outputs, digests = [], []
        for (_, edge, _), items in zip(_outputs(vertex), carried, strict=True):
            at = self._former_output(vertex, edge, former[0] if former else None)
            if at is None or former is None:
                if edge.is_sink and not self._is_elsewhere:
                    reason = (
                        f"no stage of the old query wrote the output that {vertex.stage} continues"
                    )
                    raise ChangeRefusedError(self._plan.root, reason)
                outputs.append(sum(one.batch.num_rows for one in items))
                digests.append(digest_of(items))
            else:
                outputs.append(former[1][at])
                digests.append(former[2][at])
        return replace(snapshot, outputs=tuple(outputs), digests=tuple(digests), is_final=False)

    def _former_output(
        self, vertex: VertexSpec, edge: OutputEdge, origin: VertexSpec | None
    ) -> int | None:
        if origin is None or not (edge.is_sink or edge.side):
            return None
        if edge.side:
            return None if self._is_elsewhere else self._former_side(vertex, edge)
        sinks = {uri: at for at, other, uri in _outputs(origin) if other.is_sink}
        return sinks.get(edge.uris[0], next(iter(sinks.values()), None))

    def _ended(
        self, vertex: VertexSpec, row: SavedVertex, carried: list[list[Items]]
    ) -> VertexCopy:
        """Return a finished vertex, whose channels contain the unconsumed items."""
        ends = [sum(one.batch.num_rows for one in items) for items in carried]
        return finished(vertex, self._epoch, ends, [digest_of(items) for items in carried])

    # ---- items between vertices

    def _carry(self, vertex: VertexSpec) -> list[list[Items]]:
        """Write the first items of each output stream of a vertex durably, and return them."""
        readers = {c.stream: (v, c) for v in self._plan.vertices for c in v.inputs}
        carried = []
        for _, _, uri, stream in _streams(vertex):
            items: list[Items] = []
            if stream in readers:
                items, payload = self._waiting(vertex, *readers[stream]), readers[stream][1].payload
                if not items and self._has_finished(vertex):
                    items = [end_of_stream(payload)]
                log = DurableLog(self._opened(uri), stream, schema=item_schema(payload))
                for one in items:
                    log.write(one)
            carried.append(items)
        return carried

    def _opened(self, uri: str) -> BlobStore:
        root = self._plan.root
        if uri.startswith(root):
            return self._target.child(uri.removeprefix(f"{root}/"))
        return self._open_store(uri)

    def _waiting(
        self, writer: VertexSpec, reader: VertexSpec, channel: InputChannel
    ) -> list[Items]:
        """Return the unconsumed items of the old channel that a channel continues."""
        old = self._former_channel(writer, reader, channel)
        rest = None if old is None else self._rests.get(old.stream)
        if old is None or rest is None:
            return []
        place = self._store.child(f"{self._saved.folder}/{old.stream}")
        was = Rest(old.stream, place.uri, rest.lo, rest.hi, old.payload, False)
        waiting, seq = [], 0
        for items in rest_items(place, was):
            table = pa.Table.from_batches([items.batch])
            for batch in self._reshaped(reader, table, channel.payload).to_batches():
                waiting.append(Items(seq, batch))
                seq += batch.num_rows
        return waiting

    def _former_channel(
        self, writer: VertexSpec, reader: VertexSpec, channel: InputChannel
    ) -> InputChannel | None:
        was_writer, was_reader = self._origins[writer.id], self._origins[reader.id]
        if was_writer is None or was_reader is None:
            return None
        streams = set(was_writer.output_streams)
        own = (c for c in was_reader.inputs if c.stream in streams and c.port == channel.port)
        return next(own, None)

    def _check_rests(self) -> None:
        """Check that no continued vertex waits for rows of a vertex that was replaced."""
        taken = set()
        for vertex in self._plan.vertices:
            for channel in vertex.inputs:
                writer = self._plan.vertex(self._plan.writers()[channel.stream])
                old = self._former_channel(writer, vertex, channel)
                taken.add("" if old is None else old.stream)
        going_on = {v.id for v in self._origins.values() if v is not None}
        for vertex in self._old.vertices:
            for channel in vertex.inputs:
                is_lost = channel.stream in self._rests and channel.stream not in taken
                if is_lost and vertex.id in going_on:
                    reason = (
                        f"rows are on their way to {vertex.stage} from a stage that is replaced"
                    )
                    raise ChangeRefusedError(self._plan.root, reason)


def _streams(vertex: VertexSpec) -> list[tuple[int, OutputEdge, str, str]]:
    """Return the outputs of a vertex: number, edge, uri and stream."""
    pairs = [(e, u, s) for e in vertex.outputs for u, s in zip(e.uris, e.streams, strict=True)]
    return [(at, edge, uri, stream) for at, (edge, uri, stream) in enumerate(pairs)]


def _outputs(vertex: VertexSpec) -> list[tuple[int, OutputEdge, str]]:
    return [(at, edge, uri) for at, edge, uri, _ in _streams(vertex)]
