"""What a stage costs, how many vertices it should have, and whether its output is flushed.

Numbers follow from statistics and hints alone, never from the machine, so the same query over the
same files gives the same plan everywhere. ``parallelism="auto"`` takes the recommended number of
vertices per stage; otherwise it is only shown.
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
    from planner.physical.drafts import StageBuilder

#: A vertex is given at most this share of a core at the rate of event time, ...
UTILISATION_MAX = 0.7
#: ... this much work for the whole input, but not less than is worth a vertex, ...
WORK_S_MAX, WORK_S_MIN = 30.0, 1.0
#: ... and this much state.
STATE_BYTES_MAX = 512 * 2**20
RECOMMENDED_MAX = 64
#: Share of a stream that failures cause to be computed again.
RECOMPUTED_SHARE = 0.01


def add_costs(drafts: Sequence[StageBuilder], found: NodeMap[Estimate]) -> None:
    """Give every stage its cost; ``drafts``: upstream first."""
    for draft in drafts:
        draft.cost = _cost(draft, found)
    for draft in drafts:
        draft.flush_is_cheaper = draft.is_cheap and _flush_is_cheaper(draft)


def widths(drafts: Sequence[StageBuilder]) -> dict[int, int]:
    """By number of stage how many vertices it should have.

    Stages that read each other vertex by vertex must agree on where a key lies, so they get the
    greatest number that one of them needs.
    """
    group = {draft.number: draft.number for draft in drafts}
    for draft in drafts:
        for feed in draft.feeds:
            if feed.routing == "forward" and not feed.upstream.partitions:
                old, new = group[feed.upstream.number], group[draft.number]
                group = {n: new if g == old else g for n, g in group.items()}
    wanted: dict[int, int] = {}
    for draft in drafts:
        assert draft.cost is not None, draft.name
        g = group[draft.number]
        wanted[g] = max(wanted.get(g, 1), draft.cost.recommended_parallelism)
    return {draft.number: wanted[group[draft.number]] for draft in drafts}


def _cost(draft: StageBuilder, found: NodeMap[Estimate]) -> StageCost:
    of_nodes = [found[node] for node in draft.nodes]
    upstream = [feed.upstream.cost for feed in draft.feeds]
    inputs = [cost for cost in upstream if cost is not None]
    rows_in = of_nodes[0].rows_in if draft.partitions else sum(c.rows_out for c in inputs)
    span_s = of_nodes[-1].span_s if of_nodes else max(c.span_s for c in inputs)
    rows_out = of_nodes[-1].rows if of_nodes else rows_in
    bytes_out = of_nodes[-1].bytes if of_nodes else sum(c.bytes_out for c in inputs)
    core_s = sum(e.core_s for e in of_nodes)
    core_s += 0.0 if draft.partitions else rows_in * MERGE_US / 1e6
    core_s += rows_out * EXCHANGE_US / 1e6 * len(draft.exits)
    state_bytes = sum(e.state_bytes for e in of_nodes)
    number, why = _recommended(draft, found, core_s, span_s, state_bytes, rows_in)
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
    draft: StageBuilder,
    found: NodeMap[Estimate],
    core_s: float,
    span_s: float,
    state_bytes: float,
    rows_in: float,
) -> tuple[int, str]:
    """How many vertices, and why not fewer (or not more)."""
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
    limit, reason = _limit(draft, found)
    return (limit, reason) if limit < number else (number, why)


def _limit(draft: StageBuilder, found: NodeMap[Estimate]) -> tuple[int, str]:
    """The greatest number of vertices that would have work, and why."""
    if draft.partitions:
        units = sum(len(partition.units) for partition in draft.partitions)
        if draft.is_fixed:
            return draft.parallelism, "the query says so"
        return max(1, units), f"there are {units} pieces to read"
    if any(feed.routing == "gather" for feed in draft.feeds):
        return 1, "all rows meet in one vertex"
    hashed = [feed for feed in draft.feeds if feed.routing == "hash"]
    keys = [
        found[feed.upstream.nodes[-1]].groups(feed.keys) for feed in hashed if feed.upstream.nodes
    ]
    if keys and max(keys) < RECOMMENDED_MAX:
        return max(1, int(max(keys))), f"there are about {format_count(max(keys))} keys"
    return RECOMMENDED_MAX, f"no more than {RECOMMENDED_MAX} are recommended"


def _flush_is_cheaper(draft: StageBuilder) -> bool:
    """Whether flushing costs less than what failures would make it compute again."""
    assert draft.cost is not None, draft.name
    channels = sum(feed.channel_count for feed in draft.exits)
    segments = channels * max(1.0, draft.cost.core_s / draft.parallelism / FLUSH_INTERVAL_S)
    flush_s = draft.cost.bytes_out / FLUSH_BYTES_PER_S + segments * FLUSH_S_PER_SEGMENT
    return flush_s < RECOMPUTED_SHARE * draft.cost.core_s
