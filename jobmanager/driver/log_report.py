"""What a status says of live logs: how far each partition is, and which holds time back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rstream.types import MIN_TIME

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobmanager.state.records import VertexState

_US_PER_S = 1_000_000


def held_back_by(vertices: Iterable[VertexState]) -> list[tuple[str, int]]:
    """The vertices and log partitions with the least frontier; only those that are not idle."""
    active = [
        (log.frontier, vertex.shape.id, log.partition)
        for vertex in vertices
        if not vertex.is_finished and vertex.leader is not None
        for log in vertex.leader.logs
        if log.state == "active"
    ]
    least = min((frontier for frontier, *_ in active), default=None)
    return [(vertex, partition) for frontier, vertex, partition in active if frontier == least]


def logs_of(
    vertex: VertexState, holding: list[tuple[str, int]], *, now_us: int
) -> list[dict[str, Any]]:
    """The log partitions of a source vertex; only JSON types.

    ``lag_rows``: None if the log has not said where it ends. ``lag_s``: from the newest event that
    was read to now; None before the first.
    """
    leader = vertex.leader
    return [
        {
            "partition": log.partition,
            "state": log.state,
            "position": log.position,
            "lag_rows": None if log.lag < 0 else log.lag,
            "lag_s": None if log.max_vs == MIN_TIME else (now_us - log.max_vs) / _US_PER_S,
            "frontier_us": log.frontier,
            "holds_back": (vertex.shape.id, log.partition) in holding,
            "lost": log.lost,
            "dead": log.dead,
        }
        for log in (leader.logs if leader is not None else ())
    ]
