"""Notes on steps that emit a row when it ends, if the end may never come.

Over sources without an end such a step may wait for ever, and delay all rows that begin later. The
note names the step, the reader that needs whole rows, and possible remedies.
:mod:`planner.optimizer.rules.open_rows` has already changed the steps whose readers accept rows
when they begin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.logical.event_time import never_ends
from planner.logical.nodes import (
    Clip,
    DataWindowAgg,
    Exchange,
    Filter,
    Join,
    Match,
    Project,
    Sink,
    Stitch,
)
from planner.logical.nodes.user_step import UserStep
from planner.logical.table_form import fixed_length_us
from planner.logical.traversal import NodeMap, is_live, topological
from planner.logical.windows import SessionWindow, SnapshotWindow
from rstream.items.batch import VE
from rstream.types import INF_TIME

if TYPE_CHECKING:
    from planner.logical.nodes import LogicalNode

_WHY = "rows are emitted when they end, and over a source without an end some may never end. "
_OUTPUT = (
    "To get them when they begin, deliver to a destination that keeps rows by key "
    "(to_postgres(mode='upsert'), to_kafka(upsert=True)) or takes changes (changes=True), "
    "join events with them, or ask for windows"
)
_CODE = (
    "call the function in an expression (ss.udf), write a KeyedProcess with on_end, or cut the "
    "rows first with chop('1m'): pieces come within that time"
)
_WAYS_OUT = {
    "ve": 'leave ve() out: the answer has the column "end"; or cut the rows first '
    "with chop('1m')",
    "session": "ask for session(..., running=True), in SQL EMIT CHANGES, or for sessions of "
    "begins with set_duration",
    "other": "cut the rows first with chop('1m'): pieces come within that time; or read their "
    "begins with set_duration",
}
_SESSION = (
    "a session ends when all of its rows have ended, and rows here live for ever: ask for "
    "session(..., running=True), in SQL EMIT CHANGES, or for sessions of begins with set_duration"
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
    """Return a note for each step of ``plan`` that waits for rows to end, which may never end."""
    is_endless: NodeMap[bool] = NodeMap()
    #: Per node: itself, or the first node above it, that needs a row's end together with its start.
    reader: NodeMap[LogicalNode] = NodeMap()
    order = topological(plan)
    reader[plan] = plan
    for node in reversed(order):
        above = reader[node] if _passes(node) else node
        for child in node.inputs:
            if child not in reader or isinstance(reader[child], Sink):
                reader[child] = above
    notes = []
    for node in order:
        is_endless[node] = is_live(node) or any(is_endless[child] for child in node.inputs)
        if is_endless[node]:
            notes += [f"{node.describe()}: {why}" for why in _reasons(node, reader[node])]
    return notes


def _passes(node: LogicalNode) -> bool:
    """Return whether the node accepts each row before its end is known."""
    match node:
        case Filter() | Project():
            return not _reads_ends(node)
        case DataWindowAgg(window=SnapshotWindow()) | Join() | Clip() | Exchange():
            return True
        case _:
            return node.keeps_lifetimes and not isinstance(node, UserStep)


def _reads_ends(node: LogicalNode) -> bool:
    match node:
        case Filter(predicate=predicate):
            return VE in predicate.columns()
        case Project(columns=columns):
            return any(VE in expr.columns() for _, expr in columns)
        case _:
            return False


def _reasons(node: LogicalNode, reader: LogicalNode) -> list[str]:
    match node:
        case Match(spec=spec):
            reasons = [] if spec.within_us < INF_TIME else [_MATCH]
            return reasons if spec.context[1] == 0 else [*reasons, _NEXT]
        case DataWindowAgg(window=SessionWindow()) if never_ends(node.input):
            return [_SESSION]
        case _ if not _waits(node):
            return []
    match reader:
        case Sink():
            return [_WHY + _OUTPUT]
        case UserStep():
            way_out = _CODE
        case DataWindowAgg(window=SessionWindow()):
            way_out = _WAYS_OUT["session"]
        case Filter() | Project():
            way_out = _WAYS_OUT["ve"]
        case _:
            way_out = _WAYS_OUT["other"]
    return [f"{_WHY}{reader.describe()} reads them whole: {way_out}"]


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
