"""The physical plan: vertices joined by channels, and the properties of their stages.

A stage is a chain of operators; its vertices are the partitions. Ids depend on the query only, so
the same query gives the same plan in every process: ``s02-join.1`` is vertex 1 of the second stage,
``s02-join.1--s03-agg.0`` the channel from it to vertex 0 of the third.

Invariants (``validate``): every channel has one writer and one reader that agree on URI, durability
and columns; the graph has no cycle; one stage writes all sink streams of an output.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Literal

from planner.errors import InvalidPlanError, UnknownOutputError
from planner.fingerprint import fingerprint
from planner.logical.nodes.partitioning import UNKNOWN, Partitioning
from planner.logical.query import OUTPUT

if TYPE_CHECKING:
    import pyarrow as pa

    from planner.logical.query import Publishing
    from planner.optimizer.trace import RuleStep
    from planner.physical.slot_ranges import Layout
    from rstream.format.table import TableForm
    from rvertex.sinks.spec import SinkSpec
    from rvertex.vertex.spec import (
        Durability,
        InputChannel,
        OutputEdge,
        Recovery,
        VertexId,
        VertexSpec,
    )

VERTICES_MAX = 4096
CHANNELS_MAX = 65_536

Routing = Literal["hash", "forward", "gather"]


@dataclass(frozen=True, slots=True)
class StageInput:
    """An edge between two stages."""

    upstream: str
    port: int
    routing: Routing
    keys: tuple[str, ...]
    durability: Durability
    #: Why the channels are flushed or not.
    reason: str


@dataclass(frozen=True, slots=True)
class StageCost:
    """Estimates for a whole stage. Per-second figures are per second of event time."""

    rows_in: float
    rows_out: float
    #: The span of event time of the input, s.
    span_s: float
    bytes_out: float
    #: State of all vertices together at an instant, bytes.
    state_bytes: float
    #: Work for the whole input, seconds of one core.
    core_s: float
    recommended_parallelism: int
    #: Why this number of vertices is recommended.
    why: str
    #: Whether a source that it depends on has no statistics.
    is_assumed: bool = False

    @property
    def rows_in_per_s(self) -> float:
        return self.rows_in / self.span_s

    @property
    def cores(self) -> float:
        """Cores that are needed to keep up with event time."""
        return self.core_s / self.span_s


@dataclass(frozen=True, slots=True)
class PlanTrace:
    """The steps from the logical plan to the plan that runs."""

    #: The logical plan as written, and as it was lowered.
    before: str
    after: str
    steps: tuple[RuleStep, ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage as ``explain`` and progress reports show it."""

    name: str
    parallelism: int
    #: One line per operator, in the order of the data.
    operators: tuple[str, ...]
    inputs: tuple[StageInput, ...]
    #: Columns read from the source; empty for stages without one.
    reads: tuple[str, ...]
    schema: pa.Schema
    is_sink: bool = False
    cost: StageCost | None = None
    #: How its vertices are recovered, and the reason.
    recovery: Recovery | None = None
    why_recovery: str = ""


@dataclass(frozen=True, slots=True)
class PhysicalPlan:
    """Everything that the job manager needs to run a query. Picklable."""

    stages: tuple[Stage, ...]
    vertices: tuple[VertexSpec, ...]
    #: The folder of the sink's streams.
    output: str
    root: str
    #: The number of vertices of keyed stages; the greatest one if stages differ.
    parallelism: int
    cti_every_us: int
    #: For explain only: plans with different traces are equal.
    plan_trace: PlanTrace | None = field(default=None, compare=False)
    #: Notes for the user, a line each.
    notes: tuple[str, ...] = field(default=(), compare=False)
    #: Where rows of the result are delivered while the job runs; does not change the result.
    deliveries: tuple[SinkSpec, ...] = field(default=(), compare=False)
    #: A further folder that gets the complete result when the job has finished.
    publishing: Publishing | None = None
    #: The output has a row for every item, start and end edges among them, and its rows are
    #: delivered in this form; None: every row of the output is whole.
    changes: TableForm | None = None
    #: Which rows of the result are in one partition.
    partitioning: Partitioning = UNKNOWN
    #: By stage, if a rescale has left vertices with other than one range of keys.
    layouts: tuple[tuple[str, Layout], ...] = ()

    @property
    def schema(self) -> pa.Schema:
        """The payload columns of the result."""
        return self.stages[-1].schema

    @property
    def of_outputs(self) -> tuple[PhysicalPlan, ...]:
        """Return a plan per output: each with the sink streams of that output only."""
        return (self,)

    @property
    def name(self) -> str:
        """The name of the output."""
        return OUTPUT

    @property
    def partitions(self) -> tuple[int, ...]:
        """The number of each of its sink streams among the sink streams of the job."""
        return tuple(range(len(self.sink_streams())))

    def output_named(self, name: str | None) -> PhysicalPlan:
        """Return the plan of one output; None: of the only one.

        Raises:
            UnknownOutputError: there is no such output, or there are several and none is named.
        """
        plans = {plan.name: plan for plan in self.of_outputs}
        if name is None and len(plans) == 1:
            return self
        if name not in plans:
            raise UnknownOutputError(name, tuple(plans))
        return plans[name]

    @property
    def plan_hash(self) -> str:
        """A hash that is equal for plans with the same result in the same order, in any folder."""
        return fingerprint(tuple(v.state_schema for v in self.vertices))

    def vertex(self, vertex_id: str) -> VertexSpec:
        """Return the vertex with an id.

        Raises:
            InvalidPlanError: there is no such vertex.
        """
        for vertex in self.vertices:
            if vertex.id == vertex_id:
                return vertex
        raise InvalidPlanError(f"the plan has no vertex {vertex_id!r}")

    def stage(self, name: str) -> Stage:
        """Return the stage with a name.

        Raises:
            InvalidPlanError: there is no such stage.
        """
        for stage in self.stages:
            if stage.name == name:
                return stage
        raise InvalidPlanError(f"the plan has no stage {name!r}")

    def writers(self) -> dict[str, VertexId]:
        """Return the vertex that writes each stream, sink streams included."""
        return {s: v.id for v in self.vertices for s in v.output_streams}

    def readers(self) -> dict[str, VertexId]:
        """Return the vertex that reads each stream."""
        return {channel.stream: v.id for v in self.vertices for channel in v.inputs}

    def upstream(self, vertex_id: str) -> tuple[VertexId, ...]:
        """Return the vertices that this one reads from, in the order of its channels."""
        writers = self.writers()
        channels = self.vertex(vertex_id).inputs
        return tuple(dict.fromkeys(writers[channel.stream] for channel in channels))

    def downstream(self, vertex_id: str) -> tuple[VertexId, ...]:
        """Return the vertices that read from this one."""
        readers = self.readers()
        streams = self.vertex(vertex_id).output_streams
        return tuple(dict.fromkeys(readers[s] for s in streams if s in readers))

    def sink_streams(self) -> tuple[tuple[str, str], ...]:
        """Stream id and URI of every stream of the result, by partition."""
        return tuple(
            pair
            for vertex in self.vertices
            for edge in vertex.outputs
            if edge.is_sink
            for pair in zip(edge.streams, edge.uris, strict=True)
        )

    def side_streams(self) -> dict[str, tuple[tuple[str, str], ...]]:
        """Stream id and URI of every side stream, by the name of the side output."""
        streams: dict[str, tuple[tuple[str, str], ...]] = {}
        for vertex in self.vertices:
            for edge in vertex.outputs:
                if edge.side:
                    pairs = zip(edge.streams, edge.uris, strict=True)
                    streams[edge.side] = (*streams.get(edge.side, ()), *pairs)
        return streams

    def _graph(self) -> dict[VertexId, list[VertexId]]:
        """Return, for each vertex, the vertices that it reads from."""
        writers = self.writers()
        return {v.id: [writers[channel.stream] for channel in v.inputs] for v in self.vertices}

    def topological_order(self) -> tuple[VertexId, ...]:
        """Return the vertices, upstream before downstream, otherwise in the order of the plan."""
        places = {vertex.id: k for k, vertex in enumerate(self.vertices)}
        sorter = TopologicalSorter(self._graph())
        ready: list[int] = []
        order: list[VertexId] = []
        sorter.prepare()
        while sorter.is_active():
            for vertex_id in sorter.get_ready():
                heappush(ready, places[vertex_id])
            order.append(self.vertices[heappop(ready)].id)
            sorter.done(order[-1])
        return tuple(order)

    def ancestors(self, vertex_id: str) -> frozenset[VertexId]:
        """Return all vertices that this one depends on."""
        upstream, ids = self._graph(), {self.vertex(vertex_id).id}
        for vertex in reversed(self.topological_order()):
            ids.update(upstream[vertex] if vertex in ids else ())
        return frozenset(ids - {vertex_id})

    def validate(self) -> None:
        """Assert the invariants of the module.

        Raises:
            graphlib.CycleError: the plan has a cycle.
        """
        outputs = [(edge, k) for v in self.vertices for edge in v.outputs for k in _places(edge)]
        ids = [vertex.id for vertex in self.vertices]
        assert len(set(ids)) == len(ids), "a vertex id occurs twice"
        streams = [edge.streams[k] for edge, k in outputs]
        assert len(set(streams)) == len(streams), "a stream has two writers"
        uris = [edge.uris[k] for edge, k in outputs]
        assert len(set(uris)) == len(uris), "two streams share one folder"
        self._check_channels()
        TopologicalSorter(self._graph()).prepare()
        for plan in self.of_outputs:
            sinks = {v.stage for v in plan.vertices for edge in v.outputs if edge.is_sink}
            assert len(sinks) == 1, sinks

    def _check_channels(self) -> None:
        read: dict[str, InputChannel] = {}
        for vertex in self.vertices:
            assert bool(vertex.inputs) != (vertex.source is not None), vertex.id
            for channel in vertex.inputs:
                assert channel.stream not in read, f"{channel.stream} has two readers"
                read[channel.stream] = channel
        for vertex in self.vertices:
            for edge in vertex.outputs:
                for k in _places(edge):
                    if edge.is_sink or edge.side:
                        assert edge.streams[k] not in read, edge.streams[k]
                        continue
                    channel = read.pop(edge.streams[k])
                    assert channel.uri == edge.uris[k], channel
                    assert channel.durability == edge.durability, channel
                    assert channel.payload.equals(vertex.output_payload), channel
        assert not read, f"no vertex writes {sorted(read)}"


def check_size(vertices: int, channels: int) -> None:
    """Refuse plans beyond the limits before they are built.

    Raises:
        InvalidPlanError: there are too many vertices or channels.
    """
    for count, what, limit in (
        (vertices, "vertices", VERTICES_MAX),
        (channels, "channels", CHANNELS_MAX),
    ):
        if count > limit:
            raise InvalidPlanError(f"the plan has {count} {what}; the limit is {limit}")


def _places(edge: OutputEdge) -> range:
    assert len(edge.streams) == len(edge.uris), edge
    return range(len(edge.streams))
