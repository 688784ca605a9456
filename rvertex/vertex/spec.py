"""Specifications of a vertex: a plan holds them, a host opens them.

A :class:`VertexSpec` is frozen and picklable. Its inputs are either channels (MERGE reads them) or
one source partition, whose rows are numbered from 0 and form an input stream of their own: "next
row to read" takes the place of "next seq to consume".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NewType

if TYPE_CHECKING:
    import pyarrow as pa

    from rstream.format.table import TableForm
    from rvertex.operators.protocol import OperatorSpec, OperatorState
    from rvertex.sources.spec import SourcePartition

VertexId = NewType("VertexId", str)

#: "async": flushed off the critical path. "sync": durable before visible. "volatile": memory only,
#: recomputed when lost, spilled to Parquet when its reader stalls.
Durability = Literal["async", "sync", "volatile"]

#: How a vertex comes back: from its state ("checkpoint"), from the inputs still alive in it
#: ("replay"), from another instance ("replication"), or exactly as it was ("strong").
Strategy = Literal["checkpoint", "replay", "replication", "strong"]


@dataclass(frozen=True, slots=True)
class InputChannel:
    """A channel that MERGE reads. ``port`` is the operator input it belongs to."""

    stream: str
    uri: str
    port: int
    payload: pa.Schema
    durability: Durability


@dataclass(frozen=True, slots=True)
class OutputEdge:
    """One outgoing edge: a stream per downstream vertex (or a single sink stream).

    ``keys`` empty and one stream: everything goes there. ``keys`` given: rows are partitioned by
    :func:`rstream.items.hashing.partition_of` of those columns; CTIs go to all.
    """

    streams: tuple[str, ...]
    uris: tuple[str, ...]
    keys: tuple[str, ...]
    durability: Durability
    is_sink: bool = False
    #: If not empty, the name of a side output (:mod:`rvertex.events.side_output`). No vertex
    #: reads it.
    side: str = ""
    #: Columns of a side output; None: those of the vertex's own output.
    payload: pa.Schema | None = None
    #: How its files are written as tables; None: with a row for every item.
    form: TableForm | None = None
    #: After a rescale: the slots (:func:`rstream.items.hashing.slots_of`) at which ranges begin but
    #: for the first, and of each range the stream. Empty: one range per stream, equally wide.
    bounds: tuple[int, ...] = ()
    owners: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Recovery:
    """How a vertex is recovered.

    ``replicas``: instances at work at any time. ``horizon_us``: how far back its state reaches
    (None: without bound, so it cannot be replayed).
    """

    strategy: Strategy = "checkpoint"
    replicas: int = 1
    horizon_us: int | None = None


@dataclass(frozen=True, slots=True)
class VertexSpec:
    """A vertex of the physical plan. ``operators[0]`` takes the ports, the rest are unary."""

    id: VertexId
    stage: str
    index: int
    inputs: tuple[InputChannel, ...]
    source: SourcePartition | None
    operators: tuple[OperatorSpec, ...]
    outputs: tuple[OutputEdge, ...]
    output_payload: pa.Schema
    #: Hash of everything that gives this vertex's state its meaning; kept in its checkpoints.
    state_schema: str
    recovery: Recovery = Recovery()

    @property
    def output_streams(self) -> tuple[str, ...]:
        return tuple(s for edge in self.outputs for s in edge.streams)

    def payload_of(self, edge: OutputEdge) -> pa.Schema:
        """The payload columns of an outgoing edge."""
        return self.output_payload if edge.payload is None else edge.payload


def with_added(vertex: VertexSpec, partitions: tuple[int, ...]) -> VertexSpec:
    """The vertex with exactly these of the partitions that its live log got later."""
    if vertex.source is None or vertex.source.spec.log is None:
        return vertex
    return replace(vertex, source=vertex.source.with_added(partitions))


@dataclass(frozen=True, slots=True)
class Position:
    """Where an input side stands: ``inputs`` to read next, what lies below was released.

    ``time``: the greatest time of any item below. ``cti``: the last CTI released.
    """

    inputs: tuple[int, ...]
    time: int
    cti: int


@dataclass(frozen=True, slots=True)
class ReplayFrom:
    """Where a state is rebuilt from: input seqs, and the input side's scalars at that point."""

    inputs: tuple[int, ...]
    input_state: OperatorState


@dataclass(frozen=True, slots=True)
class Snapshot:
    """``<input seqs>, <output seqs>, state``: next to consume per input, next to write per output.

    Only what MERGE released counts as consumed. ``digests`` are the running digests of the outputs
    over ``[0, output seq)``. ``states``: input side (MERGE or source reorder) first, then one per
    operator.
    """

    vertex: VertexId
    state_schema: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    digests: tuple[bytes, ...]
    states: tuple[OperatorState, ...]
    #: Events that the input side released, and events written, since the initial snapshot.
    events_in: int = 0
    events_out: int = 0
    is_final: bool = False
    #: Set in a snapshot of positions: feed ``[replay_from.inputs, inputs)`` and drop the outputs.
    replay_from: ReplayFrom | None = None

    @property
    def reads(self) -> tuple[int, ...]:
        """Input seqs from which a restart must read."""
        return self.inputs if self.replay_from is None else self.replay_from.inputs

    def precedes(self, other: Snapshot) -> bool:
        """Whether ``self <= other`` in every sequence number."""
        mine, theirs = (*self.inputs, *self.outputs), (*other.inputs, *other.outputs)
        return all(a <= b for a, b in zip(mine, theirs, strict=True))
