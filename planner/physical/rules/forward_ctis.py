"""Which operators let the CTIs pass that they hold back, so that the end is known alike everywhere.

What ``ctx.at_end`` tells a timer follows from the last finite CTI that its vertex gets. Operators
that hold CTIs back on account of rows would make that a matter of which rows share a vertex; in
front of a keyed process with timers they let every CTI pass in the end
(:mod:`rvertex.operators.cti_hold`). Elsewhere they stay as they are, as more CTIs would be of no
use.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rvertex.operators.cti_forwarding import ForwardCtis
from rvertex.operators.joins.anti import AntiJoin
from rvertex.operators.joins.conditional import ConditionalJoin
from rvertex.operators.joins.left import LeftJoin
from rvertex.operators.lifetimes.clip import Clip
from rvertex.operators.lifetimes.stitch import Stitch
from rvertex.operators.user.keyed_process import KeyedProcessing
from rvertex.operators.user.transform import UserOperator
from rvertex.operators.windows.count import CountWindowAggregate
from rvertex.operators.windows.session import SessionAggregate
from rvertex.operators.windows.session_phases import FinalSession, PartialSession
from rvertex.operators.windows.snapshots.window import SnapshotAggregate
from rvertex.user_code.keyed.process import KeyedProcess

if TYPE_CHECKING:
    from planner.physical.drafts import Draft
    from rvertex.operators.protocol import OperatorSpec

#: Their CTIs follow from rows too. All others make of CTIs what their times alone say.
_HOLDING = (
    AntiJoin, Clip, ConditionalJoin, CountWindowAggregate, FinalSession, LeftJoin, PartialSession,
    SessionAggregate, SnapshotAggregate, Stitch,
)  # fmt: skip


def caught_up(draft: Draft) -> tuple[OperatorSpec, ...]:
    """The operators of a stage, those in front of timers as they have to be there."""
    is_before = _has_timers_after(draft)
    found: list[OperatorSpec] = []
    for operator in reversed(draft.operators):
        found.append(_passing(operator) if is_before else operator)
        is_before = is_before or _has_timers(operator)
    return tuple(reversed(found))


def holds_ctis(operator: OperatorSpec) -> bool:
    """Whether the CTIs that an operator puts out follow from its rows too, as far as is known here.

    User operators say for themselves which they let pass.
    """
    return isinstance(operator, _HOLDING)


def _passing(operator: OperatorSpec) -> OperatorSpec:
    if isinstance(operator, UserOperator):
        return replace(operator, passes_ctis=True)
    return ForwardCtis(operator) if holds_ctis(operator) else operator


def _has_timers(operator: OperatorSpec) -> bool:
    if not isinstance(operator, KeyedProcessing):
        return False
    return operator.process.target.on_timer is not KeyedProcess.on_timer


def _has_timers_after(draft: Draft) -> bool:
    seen: set[str] = set()
    left: list[Draft] = [feed.downstream for feed in draft.exits]
    while left:  # ends: no stage is looked at twice
        one = left.pop()
        if one.name not in seen:
            seen.add(one.name)
            if any(map(_has_timers, one.operators)):
                return True
            left += [feed.downstream for feed in one.exits]
    return False
