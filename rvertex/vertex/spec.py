"""Specification of a vertex: the plan stores it, a host opens it.

A :class:`VertexSpec` is frozen and picklable. Its inputs are either channels, which MERGE reads, or
one source partition, whose rows are numbered from 0. For a source, a position is the next row to
read, instead of the next seq to consume.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, NewType

if TYPE_CHECKING:
    import pyarrow as pa

    from rstream.format.table import TableForm
    from rvertex.operators.protocol import OperatorSpec, OperatorState
    from rvertex.sources.spec import SourcePartition

VertexId = NewType("VertexId", str)

#: When output is written to Parquet. "async": in the background. "sync": before readers get it.
#: "volatile": only when its reader stalls; items lost from memory are recomputed.
Durability = Literal["async", "sync", "volatile"]

#: How a failed vertex is restored. "checkpoint": from its last state. "replay": by reading again
#: the inputs on which its state still depends. "replication": from another instance. "strong":
#: exactly as it was, with identical output.
Strategy = Literal["checkpoint", "replay", "replication", "strong"]

#: Prefix of the names of tables with carried items. The port follows, and the channel, if any.
CARRIED = "carried."


class Lane(NamedTuple):
    """The place of carried items: before channel ``channel`` of ``port``, or before them all."""

    port: int
    channel: int | None = None

    @property
    def name(self) -> str:
        """The name of the lane's table in the state."""
        return f"{CARRIED}{self.port}" + ("" if self.channel is None else f".{self.channel}")

    @staticmethod
    def named(name: str) -> Lane:
        """Return the lane of a table."""
        return Lane(*map(int, name.removeprefix(CARRIED).split(".")))


@dataclass(frozen=True, slots=True)
class InputChannel:
    """A channel that MERGE reads. ``port``: the operator input that gets its items."""

    stream: str
    uri: str
    port: int
    payload: pa.Schema
    durability: Durability


@dataclass(frozen=True, slots=True)
class OutputEdge:
    """One outgoing edge: one stream per downstream vertex (or a single sink stream).

    Without ``keys`` there is one stream, which gets all items. With ``keys``, rows are partitioned
    by :func:`rstream.items.hashing.partition_of` of these columns, and every stream gets all CTIs.
    """

    streams: tuple[str, ...]
    uris: tuple[str, ...]
    keys: tuple[str, ...]
    durability: Durability
    is_sink: bool = False
    #: Name of a side output (:mod:`rvertex.events.side_output`), which no vertex reads. Empty: the
    #: edge is a main output.
    side: str = ""
    #: Payload of a side output; None: payload of the vertex's own output.
    payload: pa.Schema | None = None
    #: Table layout of its files for users. None: files for the job, with one row per item.
    form: TableForm | None = None
    #: Number of changes of the job before it writes this output (:mod:`rstream.store.fences`).
    generation: int = 0
    #: After a rescale: the slots (:func:`rstream.items.hashing.slots_of`) at which the second and
    #: later key ranges begin; and the stream of each range. Empty: equal ranges, one per stream.
    bounds: tuple[int, ...] = ()
    owners: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Recovery:
    """How a vertex is recovered.

    ``replicas``: number of instances that run at the same time. ``horizon_us``: how far before the
    last CTI the state depends on input, us (None: unbounded, so replay is impossible).
    """

    strategy: Strategy = "checkpoint"
    replicas: int = 1
    horizon_us: int | None = None


@dataclass(frozen=True, slots=True)
class VertexSpec:
    """A vertex of the physical plan. ``operators[0]`` has all ports; the rest are unary."""

    id: VertexId
    stage: str
    index: int
    inputs: tuple[InputChannel, ...]
    source: SourcePartition | None
    operators: tuple[OperatorSpec, ...]
    outputs: tuple[OutputEdge, ...]
    output_payload: pa.Schema
    #: Hash of everything that defines the meaning of the state. Stored in each checkpoint.
    state_schema: str
    recovery: Recovery = Recovery()

    @property
    def output_streams(self) -> tuple[str, ...]:
        return tuple(s for edge in self.outputs for s in edge.streams)

    def payload_of(self, edge: OutputEdge) -> pa.Schema:
        """Return the payload columns of an outgoing edge."""
        return self.output_payload if edge.payload is None else edge.payload


def with_added(vertex: VertexSpec, partitions: tuple[int, ...]) -> VertexSpec:
    """Return the vertex with exactly these added partitions of its live log."""
    if vertex.source is None or vertex.source.spec.live is None:
        return vertex
    return replace(vertex, source=vertex.source.with_added(partitions))


@dataclass(frozen=True, slots=True)
class Position:
    """Progress of an input side. ``inputs``: next seqs to read; all items below were released.

    ``time``: greatest time of the items below, us. ``cti``: the last CTI that was released, us.
    """

    inputs: tuple[int, ...]
    time: int
    cti: int


@dataclass(frozen=True, slots=True)
class ReplayFrom:
    """The start of a replay: input seqs, and the scalar state of the input side there."""

    inputs: tuple[int, ...]
    input_state: OperatorState


@dataclass(frozen=True, slots=True)
class Snapshot:
    """``<input seqs>, <output seqs>, state``: next to consume per input, next to write per output.

    Items that MERGE read but did not release are not consumed. ``digests``: running digests of the
    outputs over ``[0, output seq)``. ``states``: first the state of the input side (MERGE or source
    reorder), then one per operator.
    """

    vertex: VertexId
    state_schema: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    digests: tuple[bytes, ...]
    states: tuple[OperatorState, ...]
    #: Number of events that the input side released, and of events emitted, since the initial
    #: snapshot.
    events_in: int = 0
    events_out: int = 0
    is_final: bool = False
    #: If set, the snapshot has no state: replay ``[replay_from.inputs, inputs)`` and discard the
    #: outputs.
    replay_from: ReplayFrom | None = None

    @property
    def reads(self) -> tuple[int, ...]:
        """Input seqs from which a restart must read."""
        return self.inputs if self.replay_from is None else self.replay_from.inputs

    def precedes(self, other: Snapshot) -> bool:
        """Return whether ``self <= other`` in every sequence number."""
        own, others = (*self.inputs, *self.outputs), (*other.inputs, *other.outputs)
        return all(a <= b for a, b in zip(own, others, strict=True))
