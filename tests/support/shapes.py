"""Small plans without operators, for tests of the job manager's pure parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from jobmanager.state.topology import Topology
from jobmanager.state.tracker import CheckpointRef
from rvertex.sources.spec import PlanItems, SourcePartition, SourceSpec, Unit
from rvertex.vertex.spec import (
    Durability,
    InputChannel,
    OutputEdge,
    Recovery,
    VertexId,
    VertexSpec,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

PAYLOAD = pa.schema([("x", pa.int64())])


def vertex(
    name: str,
    *,
    reads: Sequence[str] = (),
    writes: Sequence[str] = (),
    durability: Durability = "async",
    is_sink: bool = False,
    stage: str = "",
    recovery: Recovery | None = None,
) -> VertexSpec:
    """A vertex with one stream per edge; without inputs it is a source."""
    source = None
    if not reads:
        spec = SourceSpec(
            PlanItems(pa.RecordBatch.from_pylist([], schema=PAYLOAD)),
            "",
            PAYLOAD,
            pa.schema([]),
            None,
        )
        source = SourcePartition(spec, (Unit("", None, 0),), 0)
    return VertexSpec(
        id=VertexId(name),
        stage=stage or name,
        index=0,
        inputs=tuple(InputChannel(s, f"mem/{s}", 0, PAYLOAD, durability) for s in reads),
        source=source,
        operators=(),
        outputs=tuple(OutputEdge((s,), (f"mem/{s}",), (), durability, is_sink) for s in writes),
        output_payload=PAYLOAD,
        state_schema="test",
        recovery=recovery or Recovery(),
    )


def snapshot_at(
    name: str,
    inputs: tuple[int, ...],
    outputs: tuple[int, ...],
    *,
    reads: tuple[int, ...] | None = None,
) -> CheckpointRef:
    """Return a checkpoint that reads on from its own positions, or from ``reads``."""
    return CheckpointRef(name, inputs, outputs, inputs if reads is None else reads)


def chain(durability: Durability = "volatile", **recoveries: Recovery) -> Topology:
    """``a -> b -> c``: a source, a vertex, a sink.

    The two channels have this durability; the sink is durable.
    """
    how = recoveries.get
    return Topology(
        [
            vertex("a", writes=["ab"], durability=durability, recovery=how("a")),
            vertex("b", reads=["ab"], writes=["bc"], durability=durability, recovery=how("b")),
            vertex("c", reads=["bc"], writes=["out"], is_sink=True, recovery=how("c")),
        ]
    )


def siblings(count: int, durability: Durability = "async") -> Topology:
    """A source ``a`` and, in one stage, the sinks ``b0``, ``b1``..., which share its work."""
    streams = [f"ab{k}" for k in range(count)]
    sinks = [
        vertex(f"b{k}", reads=[s], writes=[f"out{k}"], is_sink=True, stage="b")
        for k, s in enumerate(streams)
    ]
    return Topology([vertex("a", writes=streams, durability=durability), *sinks])


def diamond() -> Topology:
    """The plan of figure 7: sources a and b feed t, whose output o a sink makes durable."""
    return Topology(
        [
            vertex("a", writes=["i1"], durability="volatile"),
            vertex("b", writes=["i2"], durability="volatile"),
            vertex("t", reads=["i1", "i2"], writes=["o"], durability="volatile"),
            vertex("sink", reads=["o"], writes=["out"], is_sink=True),
        ]
    )
