"""Steps that emit a row when it ends, where the input may never bring that end.

Over sources that do not end such a step may wait for ever, and hold back all that begins later. The
plan says so, with the step and the ways out; :mod:`planner.optimizer.rules.open_rows` has changed
all steps whose readers take rows when they begin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.logical.event_time import never_ends
from planner.logical.nodes import Clip, DataWindowAgg, Join, Match, Source, Stitch
from planner.logical.table_form import fixed_length_us
from planner.logical.traversal import NodeMap, topological
from planner.logical.windows import SnapshotWindow
from rstream.types import INF_TIME

if TYPE_CHECKING:
    from planner.logical.nodes import LogicalNode

_WAYS_OUT = (
    "rows come when they end, and over a source without an end some may never come. To have them "
    "when they begin, deliver to a destination that keeps rows by key (to_postgres(mode='upsert'), "
    "to_kafka(upsert=True)) or takes changes (changes=True), join events with them, or ask for "
    "windows"
)
_MATCH = (
    "without WITHIN a match may stay open for ever over a source without an end, keep its rows and "
    "hold back later results; write WITHIN INTERVAL '1' HOUR, or within='1h'"
)
_NEXT = (
    "NEXT waits for the next row of its key, which may never come over a source without an end, "
    "and holds back later results; write PREV in the later row"
)


def waiting_notes(plan: LogicalNode) -> list[str]:
    """A line for each step of ``plan`` that may wait for ends for ever."""
    is_endless: NodeMap[bool] = NodeMap()
    notes = []
    for node in topological(plan):
        is_endless[node] = _is_live(node) or any(is_endless[child] for child in node.inputs)
        if is_endless[node]:
            notes += [f"{node.describe()}: {reason}" for reason in _reasons(node)]
    return notes


def _is_live(node: LogicalNode) -> bool:
    return isinstance(node, Source) and node.spec.log is not None and not node.spec.log.is_bounded


def _reasons(node: LogicalNode) -> list[str]:
    if not isinstance(node, Match):
        return [_WAYS_OUT] if _waits(node) else []
    reasons = [] if node.spec.within_us < INF_TIME else [_MATCH]
    return reasons if node.spec.context[1] == 0 else [*reasons, _NEXT]


def _waits(node: LogicalNode) -> bool:
    match node:
        case DataWindowAgg(window=SnapshotWindow(), edges=False, endless=endless):
            return endless
        case Clip(edges=False, left=left) if not left.is_point:
            return fixed_length_us(left) is None
        case Join(edges=False, left=left) if node.how != "inner":
            return never_ends(left)
        case Stitch(edges=False):
            return never_ends(node.input)
        case _:
            return False
