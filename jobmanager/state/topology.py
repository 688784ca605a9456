"""The shape of a plan for the job manager: the writer and the reader of each stream. Pure."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rvertex.checkpoint.value_log import draws_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.sources.spec import SourceSpec
    from rvertex.vertex.spec import Recovery, VertexSpec


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """One end of a stream: a vertex, and the stream's index among its inputs or outputs."""

    vertex: str
    index: int


@dataclass(frozen=True, slots=True)
class StreamShape:
    """A stream: its writer, its reader (None: a sink) and whether it is durable at some time.

    ``is_side``: whether it is a side output, which is not part of the result.
    """

    id: str
    writer: StreamEnd
    reader: StreamEnd | None
    is_durable: bool
    is_side: bool = False


@dataclass(frozen=True, slots=True)
class VertexShape:
    """A vertex: its streams in the order of its snapshots' sequence numbers."""

    id: str
    stage: str
    index: int
    is_source: bool
    is_sink: bool
    inputs: tuple[StreamShape, ...]
    outputs: tuple[StreamShape, ...]
    recovery: Recovery
    #: Whether it can have only one instance at a time, because its journal records decisions that
    #: do not follow from its input.
    is_exclusive: bool = False
    #: The source that it reads, if it is a source vertex.
    source: SourceSpec | None = None
    #: The number of log partitions that it reads, and those added after the job was planned.
    log_partitions: int = 0
    added: tuple[int, ...] = ()

    @property
    def input_count(self) -> int:
        """Number of sequence numbers on the input side of its snapshots."""
        if self.is_live:
            return 2 * self.log_partitions  # a position and a number of journal entries for each
        return 1 if self.is_source else len(self.inputs)

    @property
    def is_live(self) -> bool:
        """Whether it reads live logs."""
        return self.log_partitions > 0


class Topology:
    """The vertices in topological order, upstream first."""

    def __init__(self, specs: Sequence[VertexSpec]) -> None:
        self.streams: dict[str, StreamShape] = {}
        readers = {
            c.stream: StreamEnd(spec.id, k) for spec in specs for k, c in enumerate(spec.inputs)
        }
        self.vertices: dict[str, VertexShape] = {}
        for spec in specs:
            outputs: list[StreamShape] = []
            for edge in spec.outputs:
                for stream in edge.streams:
                    writer = StreamEnd(spec.id, len(outputs))
                    durable = edge.durability != "volatile"
                    reader = readers.get(stream)
                    outputs.append(StreamShape(stream, writer, reader, durable, bool(edge.side)))
            for shape in outputs:
                assert shape.id not in self.streams, shape.id
                self.streams[shape.id] = shape
            missing = [c.stream for c in spec.inputs if c.stream not in self.streams]
            assert not missing, f"{spec.id} reads {missing} before they are written"
            self.vertices[spec.id] = VertexShape(
                id=spec.id,
                stage=spec.stage,
                index=spec.index,
                is_source=spec.source is not None,
                is_sink=any(edge.is_sink for edge in spec.outputs),
                inputs=tuple(self.streams[c.stream] for c in spec.inputs),
                outputs=tuple(outputs),
                recovery=spec.recovery,
                source=None if spec.source is None else spec.source.spec,
                log_partitions=_log_partitions(spec),
                added=() if spec.source is None else tuple(u.stream for u in spec.source.added),
                is_exclusive=_log_partitions(spec) > 0
                or spec.recovery.strategy == "strong"
                or any(draws_values(operator) for operator in spec.operators),
            )

    def with_added(self, vertex: str, partitions: tuple[int, ...]) -> Topology:
        """Return a topology in which one vertex reads exactly these added partitions."""
        old = self.vertices[vertex]
        assert old.is_live, vertex
        count = old.log_partitions - len(old.added) + len(partitions)
        topology = copy(self)
        topology.vertices = dict(self.vertices)
        topology.vertices[vertex] = replace(old, log_partitions=count, added=partitions)
        return topology

    def writer(self, stream: str) -> str:
        """Return the vertex that writes ``stream``."""
        return self.streams[stream].writer.vertex


def _log_partitions(spec: VertexSpec) -> int:
    source = spec.source
    return 0 if source is None or source.spec.live is None else len(source.log_units)
