"""Chooses the recovery of each stage, with the reason.

A choice in the query is applied, or is an error if it is not possible: *replay* needs a state that
reaches back a bounded time (:mod:`rvertex.operators.horizon`). Code that is declared as not
deterministic can be neither replayed nor replicated; its results are logged (*strong*). Without a
choice, a stage is replayed if its state reaches back a bounded time and rebuilding it is little
work: its checkpoints are then only a few numbers. All other stages load the state from checkpoints.
Replication runs the stage a second time, so it is used only if the query chooses it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.durations import format_us
from planner.errors import InvalidPlanError
from planner.logical.nodes import DataWindowAgg, WindowAgg
from planner.physical.recovery import (
    checked,
    durations_of,
    further,
    unbounded,
    with_horizons,
    with_recovery,
    with_strong_flushed,
)
from planner.quantities import format_bytes, format_seconds
from rvertex.aggregates.user_defined import Custom

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.logical.nodes.recover import RecoveryChoice
    from planner.physical.plan import PhysicalPlan, Stage
    from planner.physical.stage_builder import StageBuilder
    from rvertex.operators.horizon import Durations
    from rvertex.vertex.spec import Recovery, VertexSpec

#: The most work to rebuild a state by replay, s of one core; with more, use checkpoints.
REBUILD_S_MAX = 1.0
#: The most input to keep for a replay; with more, use checkpoints.
HELD_BYTES_MAX = 64 * 2**20


def with_choices(
    plan: PhysicalPlan, builders: Sequence[StageBuilder], default: RecoveryChoice | None
) -> PhysicalPlan:
    """Return the plan with a recovery for every stage; ``default``: the query's choice for all.

    Raises:
        InvalidPlanError: a choice is not possible.
    """
    plan = with_horizons(plan)
    durations = durations_of(plan)
    of_stage = {builder.name: builder for builder in builders}
    decided: dict[str, Recovery] = {}
    why: dict[str, str] = {}
    for vertex in plan.vertices:  # sources of one stage may differ in their longest lifetimes
        builder = of_stage[vertex.stage]
        recovery, reason = _decided(plan, vertex, builder, default, durations[vertex.id])
        if vertex.stage not in decided or further(recovery, decided[vertex.stage]) is recovery:
            decided[vertex.stage], why[vertex.stage] = recovery, reason
    return with_strong_flushed(with_recovery(plan, decided, why))


def _decided(
    plan: PhysicalPlan,
    vertex: VertexSpec,
    builder: StageBuilder,
    default: RecoveryChoice | None,
    durations: Durations,
) -> tuple[Recovery, str]:
    strange = _not_repeatable(builder)
    if strange:
        strategy = builder.recovery.strategy if builder.recovery is not None else "strong"
        if strategy not in ("checkpoint", "strong"):
            raise InvalidPlanError(
                f'stage {builder.name}: recover_with("{strategy}") needs deterministic code, '
                f"and {strange[0]} is declared deterministic=False; leave out "
                "recover_with(...): its results are logged"
            )
        return replace(vertex.recovery, strategy="strong"), f"{strange[0]} is not deterministic"
    if vertex.source is not None and vertex.source.spec.live is not None:
        recovery = checked(plan, vertex, durations, "checkpoint", 1)
        return recovery, "it records its decisions about its logs"
    choice = builder.recovery or default
    if choice is None:
        return _cheapest(plan, vertex, durations)
    recovery = checked(plan, vertex, durations, choice.strategy, choice.replicas)
    return recovery, "set by the query"


def _not_repeatable(builder: StageBuilder) -> list[str]:
    """Return the names of code in a stage that is declared as not deterministic."""
    names = [c.name for node in builder.nodes for c in node.codes if not c.is_deterministic]
    for node in builder.nodes:
        if isinstance(node, WindowAgg | DataWindowAgg):
            users = [a.argument for a in node.aggregates if isinstance(a.argument, Custom)]
            names += [str(user) for user in users if not user.is_deterministic]
    return names


def _cheapest(plan: PhysicalPlan, vertex: VertexSpec, durations: Durations) -> tuple[Recovery, str]:
    """Choose replay where it is little work, otherwise checkpoints."""
    checkpoint = replace(vertex.recovery, strategy="checkpoint")
    horizon_us = vertex.recovery.horizon_us
    if horizon_us is None:
        return checkpoint, unbounded(plan, vertex, durations)
    stage = plan.stage(vertex.stage)
    assert stage.cost is not None, stage.name
    share = min(1.0, horizon_us / 1e6 / stage.cost.span_s)
    work_s = stage.cost.core_s * share / stage.parallelism
    if work_s > REBUILD_S_MAX:
        return checkpoint, f"{format_us(horizon_us)} again is {format_seconds(work_s)} of work"
    held_bytes = sum(_bytes_out(plan.stage(edge.upstream)) for edge in stage.inputs) * share
    if held_bytes > HELD_BYTES_MAX:
        return checkpoint, f"{format_us(horizon_us)} of input is {format_bytes(held_bytes)}"
    back = f"its state reaches back {format_us(horizon_us)}" if horizon_us else "it has no state"
    return replace(vertex.recovery, strategy="replay"), f"{back}, so positions suffice"


def _bytes_out(stage: Stage) -> float:
    return 0.0 if stage.cost is None else stage.cost.bytes_out
