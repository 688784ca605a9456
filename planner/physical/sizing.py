"""Estimates the cost of a stage, its number of vertices, and whether to flush its output.

The numbers depend on statistics and hints only, never on the machine, so the same query over the
same files gives the same plan everywhere. ``parallelism="auto"`` uses the recommended number of
vertices per stage; otherwise ``explain`` only shows it.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from planner.cost.per_row import (
    EXCHANGE_US,
    FLUSH_BYTES_PER_S,
    FLUSH_INTERVAL_S,
    FLUSH_S_PER_SEGMENT,
    MERGE_US,
)
from planner.physical.plan import StageCost
from planner.quantities import format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.cost.model import Estimate
    from planner.logical.traversal import NodeMap
    from planner.physical.stage_builder import StageBuilder

#: The most load of a vertex, as a share of a core at the rate of event time.
UTILISATION_MAX = 0.7
#: The most work of a vertex for the whole input, s of one core.
WORK_S_MAX = 30.0
#: The most state of a vertex, bytes.
STATE_BYTES_MAX = 512 * 2**20
RECOMMENDED_MAX = 64
#: The share of a stream that is computed again because of failures.
RECOMPUTED_SHARE = 0.01


def add_costs(builders: Sequence[StageBuilder], estimates: NodeMap[Estimate]) -> None:
    """Give every stage its cost; ``builders``: upstream first."""
    for builder in builders:
        builder.cost = _cost(builder, estimates)
    for builder in builders:
        builder.flush_is_cheaper = builder.is_cheap and _flush_is_cheaper(builder)


def widths(builders: Sequence[StageBuilder]) -> dict[int, int]:
    """Return the number of vertices for each number of stage.

    If vertex i of a stage reads only vertex i of another one, both stages need the same number of
    vertices: the greater of their numbers.
    """
    group = {builder.number: builder.number for builder in builders}
    for builder in builders:
        for feed in builder.feeds:
            if feed.routing == "forward" and not feed.upstream.partitions:
                old, new = group[feed.upstream.number], group[builder.number]
                group = {n: new if g == old else g for n, g in group.items()}
    wanted: dict[int, int] = {}
    for builder in builders:
        assert builder.cost is not None, builder.name
        g = group[builder.number]
        wanted[g] = max(wanted.get(g, 1), builder.cost.recommended_parallelism)
    return {builder.number: wanted[group[builder.number]] for builder in builders}


def _cost(builder: StageBuilder, estimates: NodeMap[Estimate]) -> StageCost:
    of_nodes = [estimates[node] for node in builder.nodes]
    upstream = [feed.upstream.cost for feed in builder.feeds]
    inputs = [cost for cost in upstream if cost is not None]
    rows_in = of_nodes[0].rows_in if builder.partitions else sum(c.rows_out for c in inputs)
    span_s = of_nodes[-1].span_s if of_nodes else max(c.span_s for c in inputs)
    rows_out = of_nodes[-1].rows if of_nodes else rows_in
    bytes_out = of_nodes[-1].bytes if of_nodes else sum(c.bytes_out for c in inputs)
    core_s = sum(e.core_s for e in of_nodes)
    core_s += 0.0 if builder.partitions else rows_in * MERGE_US / 1e6
    core_s += rows_out * EXCHANGE_US / 1e6 * len(builder.exits)
    state_bytes = sum(e.state_bytes for e in of_nodes)
    number, why = _recommended(builder, estimates, core_s, span_s, state_bytes, rows_in)
    return StageCost(
        rows_in=rows_in,
        rows_out=rows_out,
        span_s=span_s,
        bytes_out=bytes_out,
        state_bytes=state_bytes,
        core_s=core_s,
        recommended_parallelism=number,
        why=why,
        is_assumed=any(e.is_assumed for e in of_nodes) or any(c.is_assumed for c in inputs),
    )


def _recommended(
    builder: StageBuilder,
    estimates: NodeMap[Estimate],
    core_s: float,
    span_s: float,
    state_bytes: float,
    rows_in: float,
) -> tuple[int, str]:
    """Return the number of vertices, and the reason for not fewer (or not more)."""
    needs = [
        (
            ceil(core_s / span_s / UTILISATION_MAX),
            f"to keep up with {format_count(rows_in / span_s)} rows/s",
        ),
        (ceil(core_s / WORK_S_MAX), f"for {format_seconds(core_s)} of work"),
        (ceil(state_bytes / STATE_BYTES_MAX), f"for {format_bytes(state_bytes)} of state"),
    ]
    number, why = max(needs, key=lambda need: need[0])
    if number <= 1:
        number, why = 1, "one vertex does"
    limit, reason = _limit(builder, estimates)
    return (limit, reason) if limit < number else (number, why)


def _limit(builder: StageBuilder, estimates: NodeMap[Estimate]) -> tuple[int, str]:
    """Return the greatest number of vertices that would have work, and the reason."""
    if builder.partitions:
        units = sum(len(partition.units) for partition in builder.partitions)
        if builder.is_fixed:
            return builder.parallelism, "set by the query"
        return max(1, units), f"there are {units} pieces to read"
    if any(feed.routing == "gather" for feed in builder.feeds):
        return 1, "all rows meet in one vertex"
    hashed = [feed for feed in builder.feeds if feed.routing == "hash"]
    keys = [
        estimates[feed.upstream.nodes[-1]].groups(feed.keys)
        for feed in hashed
        if feed.upstream.nodes
    ]
    if keys and max(keys) < RECOMMENDED_MAX:
        return max(1, int(max(keys))), f"there are about {format_count(max(keys))} keys"
    return RECOMMENDED_MAX, f"no more than {RECOMMENDED_MAX} are recommended"


def _flush_is_cheaper(builder: StageBuilder) -> bool:
    """Return whether flushing costs less than computing the output again after failures."""
    assert builder.cost is not None, builder.name
    channels = sum(feed.channel_count for feed in builder.exits)
    segments = channels * max(1.0, builder.cost.core_s / builder.parallelism / FLUSH_INTERVAL_S)
    flush_s = builder.cost.bytes_out / FLUSH_BYTES_PER_S + segments * FLUSH_S_PER_SEGMENT
    return flush_s < RECOMPUTED_SHARE * builder.cost.core_s
