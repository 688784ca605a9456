"""Emit rows when they begin, before their end is known, if their reader accepts a later end.

A running aggregate, a version of a key (``clip``) or a left row without a match would otherwise
wait for an end that may never come. With this rule such a node emits start edges and end edges
(:mod:`rstream.items.edges`), and nodes in between pass them on.

Two kinds of readers accept edges. One is the sink, if its destinations store rows by key. The other
are steps whose output depends only on starts, or on the rows alive in a window: joins with points,
interval joins, as-of joins, changes of lifetimes, windows. For any other reader the nodes emit
whole lifetimes.

An aggregate with edges emits net changes: if the result stays equal, its row continues. With whole
lifetimes the row would end and a new one begin. Some readers depend on when a row began: ``clip``,
windows, steps that use the order of rows, and expressions over ``vs()``. For these the aggregate
ends and restarts equal rows too (``renews``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from planner.logical.event_time import never_ends
from planner.logical.nodes import (
    AsOf,
    Clip,
    DataWindowAgg,
    Distinct,
    Exchange,
    Explode,
    Filter,
    IntervalJoin,
    Join,
    Lifetime,
    Limited,
    LogicalNode,
    Match,
    Over,
    Project,
    Recover,
    Sink,
    Sorted,
    Stitch,
    Union,
    WindowAgg,
    identity_columns,
)
from planner.logical.nodes.user_step import UserStep
from planner.logical.table_form import fixed_length_us
from planner.logical.traversal import NodeMap, is_live, readers, rebuilt, topological
from planner.logical.windows import CountWindow, RunningSession, SnapshotWindow
from rstream.items.batch import RESERVED, VE
from rstream.types import INF_TIME
from rvertex.operators.lifetimes.begins import Begins
from rvertex.operators.lifetimes.chop import Chop
from rvertex.operators.lifetimes.extend import Extend
from rvertex.operators.lifetimes.extend_by import ExtendBy
from rvertex.operators.lifetimes.point_at_end import PointAtEnd
from rvertex.operators.lifetimes.set_duration import SetDuration
from rvertex.operators.lifetimes.shift import Shift
from rvertex.operators.user.keyed_process import KeyedProcessing

if TYPE_CHECKING:
    from planner.cost.options import PlanOptions
    from planner.logical.nodes.aggregation import Aggregate
    from rvertex.operators.ordered.matching.match import MatchRows

N = TypeVar("N", bound=LogicalNode)
ByBegins = Filter | Project | Distinct | Over | Limited | Lifetime
Opened = NodeMap[LogicalNode | None]
#: Functions that break ties between rows of equal rank by their start.
_RANKED = {"top_rows", "max_by", "min_by"}


def open_rows(plan: LogicalNode, options: PlanOptions) -> LogicalNode:
    """Return the plan whose rows are emitted as early as their readers accept them."""
    del options
    return _Opening(plan).result()


class _Opening:
    """Rewrites one plan. Each node has a form with whole lifetimes and perhaps one with edges.

    Whole lifetimes: a row is emitted with its end. Edges: its start and its end are separate, so it
    is emitted earlier.
    """

    def __init__(self, plan: LogicalNode) -> None:
        self._plan = plan
        self._closed: NodeMap[LogicalNode] = NodeMap()
        #: Per node its form with edges; None: it has no such form, or it would not be earlier.
        self._opened: Opened = NodeMap()
        #: Per node its form with edges for readers that depend on when rows begin: no net changes.
        self._renewed: Opened = NodeMap()
        #: Per node, whether its form with edges emits net changes: an unchanged result is not
        #: renewed.
        self._is_net: NodeMap[bool] = NodeMap()
        #: Projections that read starts only to break ties between rows of equal rank.
        self._orders: NodeMap[bool] = NodeMap()
        self._is_live = any(map(is_live, topological(plan)))
        count = readers(plan)
        for node in topological(plan):
            if isinstance(node, DataWindowAgg):
                below = node.input.input if isinstance(node.input, Exchange) else node.input
                is_only = isinstance(below, Project) and _only_orders(node, below)
                self._orders[below] = is_only and count[below] == 1
        for node in topological(plan):
            self._opened[node] = self._open(node, self._opened)
            self._is_net[node] = self._has_net_changes(node)
            is_net = self._is_net[node]
            self._renewed[node] = self._open(node, self._renewed) if is_net else self._opened[node]
            self._closed[node] = self._close(node)

    def result(self) -> LogicalNode:
        """Return the whole plan."""
        return self._closed[self._plan]

    def _close(self, node: LogicalNode) -> LogicalNode:
        """Return the node with whole lifetimes; its inputs have edges if it accepts them."""
        match node:
            case Join(edges=False) if node.is_point:
                opened = self._with_edges(node, self._opened)
                if opened is not None:
                    return opened
            case Sink(changes=True):
                below = self._opened[node.input]
                if below is not None:
                    return replace(node, input=below)
                return replace(node, input=self._closed[node.input], changes=False)
            case IntervalJoin():
                return node.with_inputs(tuple(map(self._begins, node.inputs)))
            case AsOf(left=left, right=right):
                return node.with_inputs((self._closed[left], self._begins(right)))
            case DataWindowAgg(window=CountWindow()):
                return node.with_inputs((self._begins(node.input),))
            case Lifetime(change=SetDuration()):
                return node.with_inputs((self._begins(node.input),))
            case Lifetime(change=Extend(duration_us=length)) if length == INF_TIME:
                return node.with_inputs((self._begins(node.input),))
            # ``point_at_end`` needs only the end edge of its input
            case Lifetime(change=PointAtEnd()):
                return node.with_inputs((self._of_begins(node.input),))
            case Lifetime(change=Chop(), edges=False):
                below = self._of_begins(node.input)
                edges = below is not self._closed[node.input] or self._lives_on(node.input)
                return replace(node, input=below, edges=edges)
            case Match(spec=spec) if not _reads_ends(spec):
                return node.with_inputs((self._begins(node.input),))
            case UserStep(spec=KeyedProcessing() as spec) if spec.has_ends:
                return node.with_inputs((self._of_begins(node.input),))
            case WindowAgg(points=False):
                return self._windows(node) or rebuilt(node, [self._closed[node.input]])
        return rebuilt(node, [self._closed[child] for child in node.inputs])

    def _open(self, node: LogicalNode, form: Opened) -> LogicalNode | None:
        """Return the node with edges, if that is earlier; its inputs have the form ``form``."""
        match node:
            case Filter() | Project() if VE in _times_of(node):
                return None
            case Project() if _times_of(node) and node in self._orders and self._orders[node]:
                passed = self._passed(node, form)
                return passed and replace(passed, edges=True)
            case Filter() | Project() if _times_of(node):
                return self._by_begins(node)
            case Distinct() | Over() | Limited():
                return self._by_begins(node)
            case AsOf(left=left, right=right):
                below = self._of_begins(left)
                if below is self._closed[left]:
                    return None
                marks = self._begins(right)
                return replace(node, left=below, right=marks, edges=True)
            case Filter() | Project() | Explode() | Exchange() | Recover() | Union():
                return self._passed(node, form)
            case Lifetime(change=Shift()):
                return self._passed(node, form)
            case Lifetime(change=ExtendBy(), edges=False):
                return self._by_begins(node)
            case Lifetime(change=Extend(duration_us=by), edges=False) if 0 <= by < INF_TIME:
                return self._by_begins(node)
            case Sorted():  # sorting is dropped: rows with edges are a table, which has no order
                opened = form[node.input]
                # An exchange or a union that follows may not be directly above an exchange.
                if isinstance(opened, Exchange):
                    return Project(opened, identity_columns(node.schema))
                return opened
            case DataWindowAgg(window=SnapshotWindow(), points=False, edges=False):
                return self._aggregate(node, form)
            case DataWindowAgg(window=RunningSession(), edges=False):
                below = self._of_begins(node.input)
                return replace(node, input=below, edges=True, renews=form is self._renewed)
            case Clip(edges=False) if fixed_length_us(node.left) is None:
                inputs = tuple(self._of_begins(child) for child in node.inputs)
                return replace(node.with_inputs(inputs), edges=True)
            case Join(edges=False) if not node.is_point:
                is_outer = node.how != "inner" and never_ends(node.left)
                if is_outer and not self._any(node, form):
                    return replace(self._either(node, form), edges=True)
                return self._with_edges(node, form)
            case Stitch(on=on, edges=False) if set(on) == set(node.schema.names):
                if self._any(node, form) or never_ends(node.input):
                    return replace(self._either(node, form), edges=True)
                return None
            case _:
                return None

    def _aggregate(self, node: DataWindowAgg, form: Opened) -> LogicalNode | None:
        if any(map(_depends_on_order, node.aggregates)):
            form = self._renewed
        below = form[node.input]
        if below is None and not node.endless:
            return None
        renews = form is self._renewed
        return replace(node, input=below or self._closed[node.input], edges=True, renews=renews)

    def _of_begins(self, node: LogicalNode) -> LogicalNode:
        """Return the form of the node for a reader that depends on when its rows began."""
        return self._renewed[node] or self._closed[node]

    def _windows(self, node: WindowAgg) -> WindowAgg | None:
        """Return windows in one phase over rows with edges, if results are then emitted earlier."""
        exchange: Exchange | None = None
        match node:
            case WindowAgg(phase="complete", input=rows):
                pass
            case WindowAgg(phase="final", input=Exchange(input=WindowAgg(input=rows)) as above):
                exchange = above
            case _:
                return None
        opened = self._of_begins(rows)
        if opened is self._closed[rows] and not self._lives_on(rows):
            return None
        if exchange is not None:
            opened = replace(exchange, input=opened)
        return replace(node, input=opened, phase="complete", edges=True)

    def _lives_on(self, node: LogicalNode) -> bool:
        """Return whether no row of an endless stream ends, so that windows need only valid rows."""
        return self._is_live and never_ends(node)

    def _by_begins(self, node: ByBegins) -> LogicalNode | None:
        """Return the node with edges, if it depends on when the rows of its input began."""
        below = self._of_begins(node.input)
        return None if below is self._closed[node.input] else replace(node, input=below, edges=True)

    def _begins(self, node: LogicalNode) -> LogicalNode:
        """Return the node for a reader that needs only the starts of rows: a point for each row."""
        below = self._of_begins(node)
        if below is self._closed[node]:
            return below
        if isinstance(below, Exchange):
            return replace(below, input=Lifetime(below.input, Begins()))
        return Lifetime(below, Begins())

    def _with_edges(self, node: Join, form: Opened) -> LogicalNode | None:
        return replace(self._either(node, form), edges=True) if self._any(node, form) else None

    def _passed(self, node: N, form: Opened) -> N | None:
        return self._either(node, form) if self._any(node, form) else None

    def _any(self, node: LogicalNode, form: Opened) -> bool:
        return any(form[child] is not None for child in node.inputs)

    def _either(self, node: N, form: Opened) -> N:
        """Return the node above its inputs, with edges where they have that form."""
        inputs = [form[child] or self._closed[child] for child in node.inputs]
        return node.with_inputs(tuple(inputs))

    def _has_net_changes(self, node: LogicalNode) -> bool:
        """Return whether rows with edges continue where whole lifetimes would be renewed."""
        match self._opened[node]:
            case None:
                return False
            case DataWindowAgg(renews=renews):
                return not renews
            case Stitch():  # a stitch merges touching rows in either form
                return False
            case Distinct() | Over() | Limited() | AsOf() | Clip() | Lifetime(edges=True):
                return False
            case Filter() | Project() as opened if _times_of(opened):
                is_order = isinstance(node, Project) and node in self._orders
                return is_order and self._orders[node] and self._is_net[node.inputs[0]]
            case _:
                return any(self._is_net[child] for child in node.inputs)


def _reads_ends(spec: MatchRows) -> bool:
    leaves = (*spec.condition_leaves, *spec.measure_leaves)
    return any(leaf.column == VE for leaf in leaves)


def _depends_on_order(aggregate: Aggregate) -> bool:
    # top_rows breaks ties by starts, even of net changes, so it does not depend on the order
    function = aggregate.spec.definition
    is_top = function.name == "top_rows"
    return not is_top and (function.needs_sequence or function.shows_order)


def _times_of(node: Filter | Project) -> set[str]:
    """Return the times of rows that the expressions read; in an end edge they differ."""
    exprs = [node.predicate] if isinstance(node, Filter) else [expr for _, expr in node.columns]
    return {name for expr in exprs for name in expr.columns()} & set(RESERVED)


def _only_orders(node: DataWindowAgg, below: Project) -> bool:
    """Return whether starts in ``below`` only break ties between rows of equal rank."""
    timed = {name for name, expr in below.columns if set(expr.columns()) & set(RESERVED)}
    readers = {a.function for a in node.aggregates if a.column in timed}
    return not timed & set(node.keys) and readers <= _RANKED
