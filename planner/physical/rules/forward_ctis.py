"""Decides which operators pass all CTIs (watermarks) on, so that all vertices get the last one.

``ctx.at_end`` of a timer depends on the last finite CTI that its vertex gets. Some operators hold
back CTIs because of their rows, so the last CTI would depend on which rows share a vertex. In front
of a keyed process with timers they therefore pass every CTI in the end
(:mod:`rvertex.operators.cti_hold`). Elsewhere they are unchanged, as more CTIs would be useless.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rvertex.operators.cti_forwarding import ForwardCtis
from rvertex.operators.user.keyed_process import KeyedProcessing
from rvertex.operators.user.transform import UserOperator
from rvertex.user_code.keyed.process import KeyedProcess

if TYPE_CHECKING:
    from planner.physical.stage_builder import StageBuilder
    from rvertex.operators.protocol import OperatorSpec


def forward_ctis(builder: StageBuilder) -> None:
    """Make the operators of a stage that are in front of timers pass all CTIs."""
    is_before = _has_timers_after(builder)
    operators: list[OperatorSpec] = []
    for operator in reversed(builder.operators):
        operators.append(_passing(operator) if is_before else operator)
        is_before = is_before or _has_timers(operator)
    builder.operators[:] = reversed(operators)


def _passing(operator: OperatorSpec) -> OperatorSpec:
    if isinstance(operator, UserOperator):
        return replace(operator, passes_ctis=True)
    return ForwardCtis(operator) if operator.holds_ctis else operator


def _has_timers(operator: OperatorSpec) -> bool:
    if not isinstance(operator, KeyedProcessing):
        return False
    return operator.process.target.on_timer is not KeyedProcess.on_timer


def _has_timers_after(builder: StageBuilder) -> bool:
    visited: set[str] = set()
    waiting: list[StageBuilder] = [feed.downstream for feed in builder.exits]
    while waiting:  # terminates: no stage is visited twice
        one = waiting.pop()
        if one.name not in visited:
            visited.add(one.name)
            if any(map(_has_timers, one.operators)):
                return True
            waiting += [feed.downstream for feed in one.exits]
    return False
