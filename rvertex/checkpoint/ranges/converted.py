"""Convert the states of shards for a vertex of a changed plan that continues their work."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rvertex.checkpoint.conversion import converted_operators
from rvertex.checkpoint.ranges.sharded import shards_in

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from rvertex.checkpoint.ranges.sharded import Sharded
    from rvertex.operators.protocol import OperatorState
    from rvertex.vertex.spec import VertexSpec


def converted_shards(
    old: VertexSpec,
    new: VertexSpec,
    spec: Sharded,
    state: OperatorState,
    since: int,
    lossy: str,
    reshape: Callable[[pa.Table], pa.Table],
) -> OperatorState:
    """Return the state of ``spec``, an operator of ``new``, made from ``state`` of the old vertex.

    ``old`` is the old vertex with the operators of one shard. ``since`` is passed to
    ``converted_operators`` as ``time``, or the time that a shard has reached if that is later;
    ``lossy`` is passed too.
    ``reshape`` converts rows to the columns of the new output.
    """
    now = replace(new, operators=spec.chain)
    shards = shards_in(spec, len(old.operators), state)
    states = [
        converted_operators(old, now, parts, max(since, at), lossy) for parts, at, _ in shards
    ]
    waiting = [None if rows is None else reshape(rows) for _, _, rows in shards]
    ports = {channel.port: channel.payload for channel in new.inputs}
    inputs = [ports[port] for port in sorted(ports)]
    reached = [reached for _, reached, _ in shards]
    after = state.header["merge"]["last_cti"] if shards else state.header["last_cti"]
    return spec.beginning(inputs, states, reached, after, waiting)
