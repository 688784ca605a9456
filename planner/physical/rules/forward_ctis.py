"""Decides which operators forward every CTI (watermark) of their input.

Some operators, such as sessions, hold a watermark back while they buffer rows before it. Then the
last watermark of their output depends on which keys share a vertex. A timer of a keyed process can
see it (``ctx.at_end``), so its result would depend on the parallelism. Therefore such an operator
forwards each watermark later, once its rows are emitted (:mod:`rvertex.operators.cti_hold`). Only
operators in front of a keyed process with timers do so, because more watermarks cost time.

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
    """Make the operators in front of a process with timers forward all CTIs."""
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
