"""Decides how an autoscaled job is rescaled: from measured loads of stages to numbers of vertices.

A stage gets ``ceil(n * busy / target_busy)`` vertices, where ``busy`` is the share of the time in
which its ``n`` vertices work. To add vertices, the mean of ``busy`` over ``settle`` decides, so
that bursts of load count. To remove vertices, each reading within ``settle`` must allow it: the
remaining vertices would stay below ``IDLE_SHARE * target_busy``, and neither lag nor memory exceeds
its target. After each change of the job nothing changes for ``cooldown``.

Invariants: (1) every new width (number of vertices) is within ``min`` and ``max`` and at most
``step`` away, unless the present width is out of bounds; (2) under constant work the widths change
in one direction, then stay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planner.cost.policy import Policy

#: After a stage has lost vertices, their busy share is at most this part of the target.
IDLE_SHARE = 0.8
#: A tolerance, so that rounding errors do not add a vertex.
_EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class StageLoad:
    """``busy``: share of the time in which its vertices work; ``state_bytes``: of all vertices."""

    width: int
    busy: float
    state_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Reading:
    """The load of a job at a time. ``memory``: the used share of the fullest host's limit."""

    at_s: float
    stages: Mapping[str, StageLoad]
    lag_s: float = 0.0
    memory: float = 0.0


@dataclass(frozen=True, slots=True)
class Decision:
    """The new numbers of vertices by stage, and the reasons."""

    widths: dict[str, int]
    reason: str


def decide(policy: Policy, readings: Sequence[Reading], changed_s: float) -> Decision | None:
    """Return what to change now; None: nothing. ``changed_s``: the time of the last change.

    ``readings``: in order of time; those before the last change are ignored.
    """
    if not readings:
        return None
    now_s = readings[-1].at_s
    recent = [r for r in readings if changed_s <= r.at_s and r.at_s >= now_s - policy.settle_s]
    settled = readings[0].at_s <= now_s - policy.settle_s and changed_s <= now_s - policy.settle_s
    if now_s - changed_s < policy.cooldown_s or not settled or not recent:
        return None
    widths, reasons, mean = {}, [], _mean(recent)
    for stage, load in readings[-1].stages.items():
        wished = [_wished(policy, reading, stage) for reading in recent if stage in reading.stages]
        most = _wished(policy, mean, stage)
        low, high = policy.limits(stage)
        width, why = load.width, ""
        if most[0] > load.width:
            width, why = min(most[0], load.width + policy.step), most[1]
        elif (least := max(wished, key=lambda pair: pair[0]))[0] < load.width:
            width, why = max(least[0], load.width - policy.step), least[1]
        if not low <= load.width <= high:
            width, why = load.width, f"{stage} must have {low} to {high} vertices"
        width = min(max(width, low), high)
        if width != load.width:
            widths[stage] = width
            reasons.append(f"{stage} {load.width} -> {width}: {why}")
    return Decision(widths, "; ".join(reasons)) if widths else None


def _mean(readings: Sequence[Reading]) -> Reading:
    """Return the last reading, with busy shares, lag and memory averaged over all readings."""
    last = readings[-1]
    stages = {}
    for stage, load in last.stages.items():
        shares = [r.stages[stage].busy for r in readings if stage in r.stages]
        stages[stage] = replace(load, busy=fmean(shares))
    lag_s, memory = fmean(r.lag_s for r in readings), fmean(r.memory for r in readings)
    return Reading(last.at_s, stages, lag_s, memory)


def _wished(policy: Policy, reading: Reading, stage: str) -> tuple[int, str]:
    """Return the number of vertices that a stage needs according to one reading, and why."""
    load = reading.stages[stage]
    why = f"its vertices are {load.busy:.0%} busy (target {policy.target_busy:.0%})"
    needed = ceil(load.width * load.busy / policy.target_busy - _EPSILON)
    is_late = policy.target_lag_s is not None and reading.lag_s > policy.target_lag_s
    is_full = reading.memory > policy.target_memory
    if is_late and stage == max(reading.stages, key=lambda s: (reading.stages[s].busy, s)):
        lag = f"the job lags {reading.lag_s:.0f} s behind (target {policy.target_lag_s:.0f} s)"
        return max(needed, load.width + 1), f"{lag}, and {why}"
    if is_full and stage == max(reading.stages, key=lambda s: (reading.stages[s].state_bytes, s)):
        used = f"a host uses {reading.memory:.0%} of its memory (target {policy.target_memory:.0%})"
        return max(needed, load.width + 1), f"{used}, and its state is the largest"
    if needed > load.width:
        return needed, why
    if is_late or is_full:
        return load.width, ""
    spare = ceil(load.width * load.busy / (IDLE_SHARE * policy.target_busy) - _EPSILON)
    return min(spare, load.width), why
