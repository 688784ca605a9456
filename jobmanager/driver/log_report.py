"""Status rows of live logs: the lag of each partition, and whether it holds time back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rstream.types import MIN_TIME

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobmanager.state.records import VertexState

_US_PER_S = 1_000_000


def held_back_by(vertices: Iterable[VertexState]) -> list[tuple[str, int]]:
    """Return vertex and log partition of each active partition with the smallest frontier.

    The output's watermark cannot pass this frontier, so these partitions delay event time.
    """
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
    """Return a row per log partition of a source vertex, in JSON types.

    ``lag_rows``: rows of the log that are not read yet; None if the log's end is unknown.
    ``lag_s``: seconds from the newest read event's time to now; None before the first event.
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
