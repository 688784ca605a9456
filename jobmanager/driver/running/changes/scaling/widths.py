"""Determines which stages a rescale changes, and their new numbers of vertices."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

from planner.cost.parallelism import PARALLELISM_MAX
from planner.physical.layout import Stages
from planner.physical.slot_ranges import equal_bounds
from rstream.errors import UsageError, error_class
from rvertex.checkpoint.ranges.slots import NOT_BY_KEY, NotByKeyError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.cost.policy import Policy
    from planner.physical.plan import PhysicalPlan


@error_class
class RescaleError(UsageError):
    """The stages cannot have these numbers of vertices."""

    reason: str

    message = "{reason}"


def widths_for(
    plan: PhysicalPlan, parallelism: int | None, stages: Mapping[str, int]
) -> dict[str, int]:
    """Return the new number of vertices per stage, for all stages that change.

    Raises:
        RescaleError: a number is out of range, or a stage does not exist.
        NotByKeyError: the state of a stage cannot be divided by key.
    """
    check_plan(plan)
    layout = Stages(plan)
    widths: dict[str, int] = {}
    if parallelism is not None:
        _check(f"--parallelism {parallelism}", parallelism)
        widths = dict.fromkeys(layout.keys, parallelism)
        if not widths:
            names = ", ".join(stage.name for stage in plan.stages)
            reason = (
                f"no stage has rows by key ({names}): run the query in another root with "
                f"--parallelism {parallelism}"
            )
            raise RescaleError(reason)
    for name, width in stages.items():
        _check(f"--stage {name}={width}", width)
        stage = stage_named(plan, name)
        if stage not in layout.keys:
            raise NotByKeyError(stage, NOT_BY_KEY)
        for member in layout.members(stage):
            if widths.setdefault(member, width) != width and parallelism is None:
                reason = f"stages {stage} and {member} are divided alike: give one number"
                raise RescaleError(reason)
            widths[member] = width
    for stage in widths:
        layout.check(stage)
    return {s: w for s, w in widths.items() if layout.layout(s).bounds != equal_bounds(w)}


def check_plan(plan: PhysicalPlan) -> None:
    """Check that stages of the job can be rescaled.

    Raises:
        RescaleError: a stage cannot be rescaled.
    """
    for vertex in plan.vertices:
        if vertex.recovery.strategy == "strong":
            reason = f"stage {vertex.stage} is recovered as 'strong', so it keeps its vertices"
            raise RescaleError(reason)


def scalable(stages: Stages) -> list[str]:
    """Return the first stage of each group whose state can be divided by key."""
    found = []
    for name in stages.keys:
        with contextlib.suppress(NotByKeyError):
            stages.check(name)
            found += [name] if stages.members(name)[0] == name else []
    return found


def fitted(policy: Policy, plan: PhysicalPlan) -> tuple[Policy, list[str]]:
    """Return the policy with limits by the first stages of groups.

    Also return why limits of the policy do not fit the plan.
    """
    stages, errors = Stages(plan), list[str]()
    found: dict[str, tuple[int, int]] = {}
    for name, limits in policy.stages:
        try:
            stage = stage_named(plan, name)
            stages.check(stage)
            first = stages.members(stage)[0]
            if found.setdefault(first, limits) != limits:
                raise RescaleError(
                    f"{stage} and {first} always have the same number of vertices: set equal limits"
                )
        except UsageError as error:
            errors.append(f"[stages.{name}] has no effect: {error}")
    return replace(policy, stages=tuple(found.items())), errors


def check_policy(policy: Policy | None, plan: PhysicalPlan) -> None:
    """Check that the plan has the stages of the policy.

    Raises:
        RescaleError: limits of a stage would have no effect.
    """
    errors = [] if policy is None else fitted(policy, plan)[1]
    if errors:
        raise RescaleError(f"autoscale: {errors[0]}")


def _check(what: str, width: int) -> None:
    if not 1 <= width <= PARALLELISM_MAX:
        raise RescaleError(f"{what}: must be between 1 and {PARALLELISM_MAX}")


def stage_named(plan: PhysicalPlan, name: str) -> str:
    """Return the stage whose name is ``name`` or starts with it.

    Raises:
        RescaleError: there is no such stage.
    """
    names = [stage.name for stage in plan.stages]
    fit = [n for n in names if n == name] or [n for n in names if n.startswith(f"{name}-")]
    if len(fit) != 1:
        raise RescaleError(f"there is no stage {name!r}; the stages are {', '.join(names)}")
    return fit[0]
