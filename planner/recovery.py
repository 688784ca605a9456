"""How the vertices of a plan are recovered: what is possible, and what was asked for.

A vertex can be replayed if its state reaches back over a bounded time. That follows from its
operators and from the greatest lifetime of the events it is given, so it is worked out from the
sources on (:func:`with_horizons`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from planner.errors import InvalidPlanError
from rstream.batch import VE, VS, only_events
from rvertex.horizon import chain_horizon, chain_output_duration, greatest_us, horizon_of

if TYPE_CHECKING:
    from planner.physical import PhysicalPlan
    from rvertex.horizon import Durations
    from rvertex.sources.spec import SourceSpec
    from rvertex.types import Recovery, Strategy, VertexSpec

REPLICAS = 2
#: With more, each item would be computed more often than anybody has hosts to lose.
REPLICAS_MAX = 8


def recovered_with(
    plan: PhysicalPlan, strategy: Strategy | None, replicas: int | None
) -> PhysicalPlan:
    """The plan with every vertex recovered as asked; None leaves it to the plan.

    Replicas without a strategy mean replication, and replication without a number two. A vertex
    that is not deterministic stays ``strong``.

    Raises:
        InvalidPlanError: the two contradict each other, or a vertex cannot be replayed.
    """
    plan = with_horizons(plan)
    if strategy is None and replicas is None:
        for vertex in plan.vertices:
            _check_replay(vertex, vertex.recovery.strategy)
        return plan
    count = _replicas(strategy, replicas)
    name: Strategy = strategy or ("replication" if count > 1 else "checkpoint")
    vertices = tuple(
        v if v.recovery.strategy == "strong" else replace(v, recovery=_recovery(v, name, count))
        for v in plan.vertices
    )
    return replace(plan, vertices=vertices)


def with_horizons(plan: PhysicalPlan) -> PhysicalPlan:
    """The plan with how far back the state of each vertex reaches."""
    lifetimes: dict[str, int | None] = {}
    vertices = []
    for vertex in plan.vertices:  # upstream first
        durations = _durations(vertex, lifetimes)
        horizon_us = chain_horizon(vertex.operators, durations)
        vertices.append(replace(vertex, recovery=replace(vertex.recovery, horizon_us=horizon_us)))
        longest = chain_output_duration(vertex.operators, durations)
        lifetimes.update(dict.fromkeys(vertex.output_streams, longest))
    return replace(plan, vertices=tuple(vertices))


def with_durable_channels(plan: PhysicalPlan) -> PhysicalPlan:
    """The plan with every channel flushed, so that what is written twice can be compared."""
    return replace(plan, vertices=tuple(_durable(v) for v in plan.vertices))


def _replicas(strategy: Strategy | None, replicas: int | None) -> int:
    if replicas is None:
        return REPLICAS if strategy == "replication" else 1
    if not 1 <= replicas <= REPLICAS_MAX:
        raise InvalidPlanError(f"replicas={replicas}: it is between 1 and {REPLICAS_MAX}")
    if replicas > 1 and strategy not in (None, "replication"):
        raise InvalidPlanError(
            f"recovery={strategy!r} has one instance of each vertex; replicas={replicas} goes with "
            "recovery='replication'"
        )
    if replicas == 1 and strategy == "replication":
        raise InvalidPlanError("recovery='replication' takes replicas=2 or more")
    return replicas


def _recovery(vertex: VertexSpec, strategy: Strategy, replicas: int) -> Recovery:
    _check_replay(vertex, strategy)
    return replace(vertex.recovery, strategy=strategy, replicas=replicas)


def _check_replay(vertex: VertexSpec, strategy: Strategy) -> None:
    if strategy == "replay" and vertex.recovery.horizon_us is None:
        raise InvalidPlanError(
            f"{vertex.id} cannot be recovered by replay: {_reason(vertex)}; choose checkpoint or "
            "replication"
        )


def _reason(vertex: VertexSpec) -> str:
    """Which operator remembers without bound, as far as the plan knows."""
    durations: Durations = (1,) * max(1, 1 + max((c.port for c in vertex.inputs), default=0))
    for operator in vertex.operators:
        if horizon_of(operator, durations) is None:
            return f"{type(operator).__name__} remembers its input for an unbounded time"
        durations = (chain_output_duration([operator], durations),)
    return "lifetimes of its input have no bound that the plan knows"


def _durations(vertex: VertexSpec, lifetimes: dict[str, int | None]) -> Durations:
    """The greatest lifetime of the events of each port."""
    if vertex.source is not None:
        return (_longest_us(vertex.source.spec),)
    ports = 1 + max(c.port for c in vertex.inputs)
    return tuple(
        greatest_us(tuple(lifetimes[c.stream] for c in vertex.inputs if c.port == port))
        for port in range(ports)
    )


def _longest_us(source: SourceSpec) -> int | None:
    """The greatest lifetime of a source's events; None: the plan does not know."""
    if source.items is not None:
        events = only_events(source.items)
        spans = pc.subtract(events.column(VE), events.column(VS))
        return int(pc.max(spans).as_py() or 1)
    if source.ve is None:
        return 1
    return source.ve if isinstance(source.ve, int) else None


def _durable(vertex: VertexSpec) -> VertexSpec:
    inputs = tuple(
        replace(c, durability="async") if c.durability == "volatile" else c for c in vertex.inputs
    )
    outputs = tuple(
        replace(e, durability="async") if e.durability == "volatile" else e for e in vertex.outputs
    )
    return replace(vertex, inputs=inputs, outputs=outputs)
