"""Let rows whose end is not known yet come when they begin, where their reader can take the end.

A running aggregate, a version of a key (``clip``) or a left row without a match so far would
otherwise wait for an end that may never come. Such a node then emits start and end edges
(:mod:`rstream.items.edges`), and so does what passes them on. Two readers can take them: the sink,
if its destinations keep rows by key, and a join whose rows are points all the same. Below any other
reader the nodes emit whole lifetimes, as ever.

Aggregates with edges emit net changes: a result that comes out equal lives on, where one with whole
lifetimes begins anew. So a reader to which it matters when a row began gets whole lifetimes of
them: ``clip``, and functions that go by the order of rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from planner.logical.event_time import never_ends
from planner.logical.nodes import (
    Clip,
    DataWindowAgg,
    Exchange,
    Explode,
    Filter,
    Join,
    LogicalNode,
    Project,
    Recover,
    Sink,
    Sorted,
    Stitch,
    Union,
)
from planner.logical.table_form import fixed_length_us
from planner.logical.traversal import NodeMap, rebuilt, topological
from planner.logical.windows import SnapshotWindow
from rstream.items.batch import RESERVED

if TYPE_CHECKING:
    from planner.cost.options import PlanOptions
    from planner.logical.nodes.aggregation import Aggregate

N = TypeVar("N", bound=LogicalNode)


def open_rows(plan: LogicalNode, options: PlanOptions) -> LogicalNode:
    """The plan whose rows come as soon as their readers can take them."""
    del options
    return _Opening(plan).result()


class _Opening:
    """One plan: each node with whole lifetimes, and with edges where that brings rows earlier."""

    def __init__(self, plan: LogicalNode) -> None:
        self._plan = plan
        self._closed: NodeMap[LogicalNode] = NodeMap()
        #: The node with edges; None: it has none, or cannot.
        self._opened: NodeMap[LogicalNode | None] = NodeMap()
        #: Projections that read starts only to decide between rows of equal rank.
        self._orders: NodeMap[bool] = NodeMap()
        for node in topological(plan):
            if isinstance(node, DataWindowAgg) and all(
                a.function == "top_rows" for a in node.aggregates
            ):
                below = node.input.input if isinstance(node.input, Exchange) else node.input
                self._orders[below] = True
        for node in topological(plan):
            self._opened[node] = self._open(node)
            self._closed[node] = self._close(node)

    def result(self) -> LogicalNode:
        """The whole plan."""
        return self._closed[self._plan]

    def _close(self, node: LogicalNode) -> LogicalNode:
        """The node with whole lifetimes; below joins of points and open sinks there are edges."""
        match node:
            case Join(edges=False) if node.is_point:
                opened = self._with_edges(node)
                if opened is not None:
                    return opened
            case Sink(changes=True):
                below = self._opened[node.input]
                if below is not None:
                    return replace(node, input=below)
                return replace(node, input=self._closed[node.input], changes=False)
        return rebuilt(node, [self._closed[child] for child in node.inputs])

    def _open(self, node: LogicalNode) -> LogicalNode | None:
        """The node with edges, if rows come earlier so."""
        match node:
            case Project() if _reads_times(node) and node in self._orders:
                passed = self._passed(node)
                return passed and replace(passed, edges=True)
            case Filter() | Project() if _reads_times(node):
                return None
            case Filter() | Project() | Explode() | Exchange() | Recover() | Union():
                return self._passed(node)
            case Sorted():  # rows that come when they begin are a table, which has no order
                return self._opened[node.input]
            case DataWindowAgg(window=SnapshotWindow(), points=False, edges=False):
                return self._aggregate(node)
            case Clip(edges=False) if fixed_length_us(node.left) is None:
                inputs = tuple(self._of_begins(child) for child in node.inputs)
                return replace(node.with_inputs(inputs), edges=True)
            case Join(edges=False) if not node.is_point:
                is_outer = node.how != "inner" and never_ends(node.left)
                if is_outer and not self._any(node):
                    return replace(self._either(node), edges=True)
                return self._with_edges(node)
            case Stitch(on=on, edges=False) if set(on) == set(node.schema.names):
                if self._any(node) or never_ends(node.input):
                    return replace(self._either(node), edges=True)
                return None
            case _:
                return None

    def _aggregate(self, node: DataWindowAgg) -> LogicalNode | None:
        below = self._opened[node.input]
        if below is not None and any(map(_goes_by_order, node.aggregates)):
            whole = self._closed[node.input]
            below = None if self._of_begins(node.input) is whole else below
        if below is None and not node.endless:
            return None
        return replace(node, input=below or self._closed[node.input], edges=True)

    def _of_begins(self, node: LogicalNode) -> LogicalNode:
        """The node for a reader to which it matters when its rows began."""
        opened = self._opened[node]
        return self._closed[node] if opened is None or _has_net_changes(opened) else opened

    def _with_edges(self, node: Join) -> LogicalNode | None:
        return replace(self._either(node), edges=True) if self._any(node) else None

    def _passed(self, node: N) -> N | None:
        return self._either(node) if self._any(node) else None

    def _any(self, node: LogicalNode) -> bool:
        return any(self._opened[child] is not None for child in node.inputs)

    def _either(self, node: N) -> N:
        """The node above inputs with edges, where they have them."""
        inputs = [self._opened[child] or self._closed[child] for child in node.inputs]
        return node.with_inputs(tuple(inputs))


def _has_net_changes(node: LogicalNode) -> bool:
    """Whether rows live on that begin anew in the form with whole lifetimes."""
    match node:
        case DataWindowAgg(edges=True):
            return True
        case Stitch():  # it joins them in either form
            return False
        case _:
            return any(map(_has_net_changes, node.inputs))


def _goes_by_order(aggregate: Aggregate) -> bool:
    spec = aggregate.spec  # ties of top_rows go by begins, whatever came of net changes
    is_top = spec.function == "top_rows"
    return not is_top and (spec.definition.needs_sequence or spec.function == "collect")


def _reads_times(node: Filter | Project) -> bool:
    """Whether an expression reads when a row begins or ends: an end edge would give another."""
    exprs = [node.predicate] if isinstance(node, Filter) else [expr for _, expr in node.columns]
    return any(set(expr.columns()) & set(RESERVED) for expr in exprs)
