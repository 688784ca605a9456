"""Checks and applies the recovery of vertices: what is possible, and what the user chose.

A vertex can be replayed if its state reaches back a bounded time. This horizon follows from its
operators and from the longest lifetime of its input events, so it is computed from the sources down
(:func:`with_horizons`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from planner.errors import InvalidPlanError
from rstream.items.batch import VE, VS, int64_column, lifetimes, only_events
from rvertex.checkpoint.ranges.sharded import Sharded
from rvertex.checkpoint.value_log import draws_values
from rvertex.operators.horizon import (
    chain_horizon,
    chain_output_duration,
    greatest_us,
    horizon_of,
    output_duration_of,
)
from rvertex.operators.user.call_once import CallOnce

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.physical.plan import PhysicalPlan
    from rvertex.operators.horizon import Durations
    from rvertex.operators.protocol import OperatorSpec
    from rvertex.sources.spec import SourceSpec
    from rvertex.vertex.spec import InputChannel, OutputEdge, Recovery, Strategy, VertexSpec

End = TypeVar("End", "InputChannel", "OutputEdge")

#: Why a channel out of a strong stage is flushed, as ``explain`` prints it.
WHY_STRONG = "the output of its writer cannot be recomputed"
REPLICAS = 2
#: The most instances of a vertex: more would not survive more failures in practice.
REPLICAS_MAX = 8


def recovered_with(
    plan: PhysicalPlan, strategy: Strategy | None, replicas: int | None
) -> PhysicalPlan:
    """Return the plan with one recovery for every vertex; None keeps the plan's.

    Replicas without a strategy mean replication, and replication without a number means two. A
    vertex that is not deterministic stays ``strong``.

    Raises:
        InvalidPlanError: the two contradict each other, or a vertex cannot be replayed.
    """
    plan = with_horizons(plan)
    durations = durations_of(plan)
    if strategy is None and replicas is None:
        for v in plan.vertices:
            checked(plan, v, durations[v.id], v.recovery.strategy, v.recovery.replicas)
        return plan
    count = _replicas(strategy, replicas)
    name: Strategy = strategy or ("replication" if count > 1 else "checkpoint")
    decided: dict[str, Recovery] = {}
    for v in plan.vertices:
        if v.recovery.strategy != "strong":
            recovery = checked(plan, v, durations[v.id], name, count)
            decided[v.stage] = further(recovery, decided.get(v.stage, recovery))
    return with_recovery(plan, decided, dict.fromkeys(decided, "set for this run"))


def with_recovery(
    plan: PhysicalPlan, decided: Mapping[str, Recovery], why: Mapping[str, str]
) -> PhysicalPlan:
    """Return the plan with new recoveries for some stages, and the reason ``why`` of each."""
    vertices = tuple(
        replace(v, recovery=decided[v.stage]) if v.stage in decided else v for v in plan.vertices
    )
    stages = tuple(
        replace(stage, recovery=decided[stage.name], why_recovery=why[stage.name])
        if stage.name in decided
        else stage
        for stage in plan.stages
    )
    return replace(plan, vertices=vertices, stages=stages)


def further(one: Recovery, other: Recovery) -> Recovery:
    """Return the recovery with the longer horizon."""
    if one.horizon_us is None or other.horizon_us is None:
        return one if one.horizon_us is None else other
    return one if one.horizon_us > other.horizon_us else other


def checked(
    plan: PhysicalPlan, vertex: VertexSpec, durations: Durations, strategy: Strategy, replicas: int
) -> Recovery:
    """Return a recovery of a vertex; ``durations``: the longest lifetimes of its input events.

    Raises:
        InvalidPlanError: it cannot be replayed or have replicas, and why.
    """
    if vertex.source is not None and vertex.source.spec.live is not None:
        # A log has one instance with checkpoints, since it records decisions that depend on the
        # clock.
        return replace(vertex.recovery, strategy="checkpoint", replicas=1)
    drawing = any(draws_values(operator) for operator in vertex.operators)
    if drawing and strategy in ("replay", "replication"):
        raise InvalidPlanError(
            f"{vertex.id} cannot be recovered by {strategy}: its code takes values from outside "
            "(ctx.now, ctx.random or ctx.lookup), which one instance at a time records; "
            "choose checkpoint or strong"
        )
    if strategy == "strong" and any(isinstance(op, CallOnce) for op in vertex.operators):
        raise InvalidPlanError(
            f"{vertex.id} cannot be recovered by strong: call_once() records that a call begins "
            "before it is made; choose checkpoint"
        )
    if strategy == "replay" and vertex.recovery.horizon_us is None:
        if any(isinstance(o, Sharded) for v in plan.vertices for o in v.operators):
            # A rescale merged stored states, so this vertex and its readers need checkpoints.
            return replace(vertex.recovery, strategy="checkpoint", replicas=1)
        raise InvalidPlanError(
            f"{vertex.id} cannot be recovered by replay: {unbounded(plan, vertex, durations)}; "
            f"{_remedy(plan, vertex, durations)}"
        )
    return replace(vertex.recovery, strategy=strategy, replicas=replicas)


def with_horizons(plan: PhysicalPlan) -> PhysicalPlan:
    """Return the plan with how far back the state of each vertex reaches."""
    durations = durations_of(plan)
    vertices = []
    for vertex in plan.vertices:
        horizon_us = chain_horizon(vertex.operators, durations[vertex.id])
        vertices.append(replace(vertex, recovery=replace(vertex.recovery, horizon_us=horizon_us)))
    return replace(plan, vertices=tuple(vertices))


def durations_of(plan: PhysicalPlan) -> dict[str, Durations]:
    """Return by vertex the longest lifetimes of the events of its ports."""
    lifetimes: dict[str, int | None] = {}
    durations: dict[str, Durations] = {}
    for vertex in plan.vertices:  # vertices are in topological order: upstream first
        durations[vertex.id] = _durations(vertex, lifetimes)
        longest = chain_output_duration(vertex.operators, durations[vertex.id])
        lifetimes.update(dict.fromkeys(vertex.output_streams, longest))
    return durations


def unbounded(plan: PhysicalPlan, vertex: VertexSpec, durations: Durations) -> str:
    """Return which operator has an unbounded state, as ``explain`` prints it."""
    shows = plan.stage(vertex.stage).operators
    shows = shows[len(shows) - len(vertex.operators) :]
    for operator, show in zip(vertex.operators, shows, strict=True):
        if horizon_of(operator, durations) is None:
            what = show.split(":")[0]
            if _is_bounded_by_lifetimes(operator, durations):
                return f"'{what}' keeps events for their lifetime, which has no bound"
            return f"'{what}' may depend on rows of any age"
        durations = (output_duration_of(operator, durations),)
    raise AssertionError(f"{vertex.id} has a horizon")


def _is_bounded_by_lifetimes(operator: OperatorSpec, durations: Durations) -> bool:
    return horizon_of(operator, tuple(1 for _ in durations)) is not None


def _remedy(plan: PhysicalPlan, vertex: VertexSpec, durations: Durations) -> str:
    """Return advice: a change that would make replay possible."""
    for operator in vertex.operators:
        if horizon_of(operator, durations) is None:
            if not _is_bounded_by_lifetimes(operator, durations):
                break
            above = {vertex.id, *plan.ancestors(vertex.id)}
            sources = [
                v.stage
                for v in plan.vertices
                if v.id in above and v.source is not None and longest_us(v.source.spec) is None
            ]
            where = f" of {sources[0]}" if sources else ""
            return (
                f'promise a bound with .hint(max_duration="1h") at the source{where}, set one with '
                ".set_duration(...) or a window before it, or choose checkpoint or replication"
            )
        durations = (output_duration_of(operator, durations),)
    return "choose checkpoint or replication"


def with_strong_flushed(plan: PhysicalPlan) -> PhysicalPlan:
    """Flush the outputs of strong vertices, since they cannot be computed again."""
    strong = {v.stage for v in plan.vertices if v.recovery.strategy == "strong"}
    if not strong:
        return plan
    written = {s for v in plan.vertices if v.stage in strong for s in v.output_streams}
    vertices = tuple(
        replace(
            v,
            inputs=tuple(_flushed(c) if c.stream in written else c for c in v.inputs),
            outputs=tuple(map(_flushed, v.outputs)) if v.stage in strong else v.outputs,
        )
        for v in plan.vertices
    )
    stages = tuple(
        replace(
            stage,
            inputs=tuple(
                replace(edge, durability="async", reason=WHY_STRONG)
                if edge.upstream in strong and edge.durability == "volatile"
                else edge
                for edge in stage.inputs
            ),
        )
        for stage in plan.stages
    )
    return replace(plan, vertices=vertices, stages=stages)


def with_durable_channels(plan: PhysicalPlan) -> PhysicalPlan:
    """Flush every channel, so that two runs can be compared."""
    return replace(plan, vertices=tuple(_durable(v) for v in plan.vertices))


def _replicas(strategy: Strategy | None, replicas: int | None) -> int:
    if replicas is None:
        return REPLICAS if strategy == "replication" else 1
    if not 1 <= replicas <= REPLICAS_MAX:
        raise InvalidPlanError(f"replicas={replicas}: must be between 1 and {REPLICAS_MAX}")
    if replicas > 1 and strategy not in (None, "replication"):
        raise InvalidPlanError(
            f"recovery={strategy!r} has one instance of each vertex; replicas={replicas} goes with "
            "recovery='replication'"
        )
    if replicas == 1 and strategy == "replication":
        raise InvalidPlanError("recovery='replication' takes replicas=2 or more")
    return replicas


def _durations(vertex: VertexSpec, lifetimes: dict[str, int | None]) -> Durations:
    """Return the longest lifetime of the events of each port."""
    if vertex.source is not None:
        return (longest_us(vertex.source.spec),)
    ports = 1 + max(c.port for c in vertex.inputs)
    return tuple(
        greatest_us(tuple(lifetimes[c.stream] for c in vertex.inputs if c.port == port))
        for port in range(ports)
    )


def longest_us(source: SourceSpec) -> int | None:
    """Return the longest lifetime of a source's events; None: the plan does not know it."""
    if source.items is not None:
        events = only_events(source.items)
        vs, ve = int64_column(events, VS), int64_column(events, VE)
        return int(lifetimes(vs, ve).max()) if len(vs) else 1
    return source.max_duration_us if source.length_us is None else source.length_us


def _durable(vertex: VertexSpec) -> VertexSpec:
    inputs = tuple(map(_flushed, vertex.inputs))
    return replace(vertex, inputs=inputs, outputs=tuple(map(_flushed, vertex.outputs)))


def _flushed(end: End) -> End:
    """Make a stream flushed (asynchronously) that was in memory only."""
    return replace(end, durability="async") if end.durability == "volatile" else end
