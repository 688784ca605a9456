"""Order inner joins so that the estimated number of intermediate rows is smallest.

Inner temporal joins may be done in any order: a result row is alive while all its events are.
Neighbouring joins, with only selections of columns in between, are split into the streams that they
read (*leaves*) and the columns that they compare. Then they are joined again: first the pair with
the fewest rows, then repeatedly the stream that adds the fewest. The order affects the row order of
the result, not its rows, and is part of the plan. Both sides of an inner join cost the same, so
sides are not swapped.

Joins are left unchanged if other nodes read them, if they have a name, if files and hints do not
allow an estimate, or if the gain is small.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.cost.model import Estimate, estimate_of, estimates
from planner.expressions.nodes import Column
from planner.logical.nodes import Join, LogicalNode, Project, Side
from planner.logical.traversal import NodeMap, Shared, transform

if TYPE_CHECKING:
    from planner.cost.options import PlanOptions

#: The least share of the joins' output rows that a new order must save. A smaller gain is
#: within the error of the estimates.
GAIN_MIN = 0.2
#: The most streams in a group; larger groups keep the written order.
LEAVES_MAX = 8

#: The number of a leaf, and one of its columns.
Origin = tuple[int, str]


def order_joins(root: LogicalNode, options: PlanOptions) -> LogicalNode:
    """Put every group of neighbouring inner joins into its best order."""

    def change(node: LogicalNode, shared: Shared) -> LogicalNode:
        if not isinstance(node, Join) or node.how != "inner":
            return node
        group = _Group(shared)
        outputs = group.add_join(node)
        if not 2 < len(group.leaves) <= LEAVES_MAX or not group.is_simple:
            return node
        estimated = estimates(node, options.statistics)
        if estimated[node].is_assumed:
            return node
        best = _best(group, outputs, node, estimated)
        return node if best is None else best

    return transform(root, change)


class _Group:
    """A group of neighbouring inner joins, split into leaves and compared columns."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self.leaves: list[LogicalNode] = []
        self.joins: list[Join] = []
        #: Sets of origins; the origins of one set are equal in every row.
        self.classes: list[set[Origin]] = []

    @property
    def is_simple(self) -> bool:
        """Whether no leaf has two columns that must be equal because of other leaves."""
        return all(len({leaf for leaf, _ in c}) == len(c) for c in self.classes)

    def add_join(self, node: Join) -> dict[str, Origin]:
        """Split a join into its leaves; return the origin of each output column."""
        self.joins.append(node)
        sides: dict[Side, dict[str, Origin]] = {
            "left": self._add(node.left),
            "right": self._add(node.right),
        }
        for left_key, right_key in zip(node.left_on, node.right_on, strict=True):
            self._equal(sides["left"][left_key], sides["right"][right_key])
        return {name: sides[side][column] for side, column, name in node.columns}

    def _add(self, node: LogicalNode) -> dict[str, Origin]:
        if node not in self._shared and not node.label:
            if isinstance(node, Join) and node.how == "inner":
                return self.add_join(node)
            if isinstance(node, Project) and isinstance(node.input, Join):
                picked = {name: e.name for name, e in node.columns if isinstance(e, Column)}
                if len(picked) == len(node.columns) and node.input.how == "inner":
                    below = self._add(node.input)
                    return {name: below[column] for name, column in picked.items()}
        self.leaves.append(node)
        return {name: (len(self.leaves) - 1, name) for name in node.schema.names}

    def _equal(self, a: Origin, b: Origin) -> None:
        touched = [c for c in self.classes if a in c or b in c]
        self.classes = [c for c in self.classes if c not in touched]
        self.classes.append({a, b}.union(*touched))


@dataclass(frozen=True, slots=True)
class _Tree:
    """A join of some of the leaves."""

    node: LogicalNode
    estimate: Estimate
    leaves: frozenset[int]
    #: The name of each origin among its columns.
    names: dict[Origin, str]
    #: The estimated number of rows that its joins emit.
    rows_made: float


def _best(
    group: _Group, outputs: dict[str, Origin], top: Join, estimated: NodeMap[Estimate]
) -> Join | None:
    """Return the joins in a better order, None if there is none."""
    leaves = [
        _Tree(leaf, estimated[leaf], frozenset([k]), {(k, n): n for n in leaf.schema.names}, 0.0)
        for k, leaf in enumerate(group.leaves)
    ]
    pairs = [(a, b) for k, a in enumerate(leaves) for b in leaves[k + 1 :]]
    tree = _cheapest([_joined(group, outputs, a, b) for a, b in pairs])
    while tree is not None and len(tree.leaves) < len(leaves):  # terminates: each pass adds a leaf
        rest = [leaf for leaf in leaves if not leaf.leaves <= tree.leaves]
        tree = _cheapest([_joined(group, outputs, tree, leaf) for leaf in rest])
    written = sum(estimated[join].rows for join in group.joins)
    if tree is None or tree.rows_made > written * (1 - GAIN_MIN):
        return None
    assert isinstance(tree.node, Join), tree.node
    sides = {
        origin: (side, column)
        for side, column, name in tree.node.columns
        for origin, made in tree.names.items()
        if made == name
    }
    columns = tuple((*sides[outputs[name]], name) for _, _, name in top.columns)
    last = tree.node
    return Join(last.left, last.right, last.left_on, last.right_on, columns, label=top.label)


def _cheapest(trees: list[_Tree | None]) -> _Tree | None:
    """Return the tree whose joins emit the fewest rows; on ties the first."""
    made = [tree for tree in trees if tree is not None]
    return min(made, key=lambda tree: tree.rows_made, default=None)


def _joined(group: _Group, outputs: dict[str, Origin], left: _Tree, right: _Tree) -> _Tree | None:
    """Join both trees on all equal origins; None if there are none."""
    keys: list[tuple[str, str]] = []
    for c in group.classes:
        left_origins = sorted(origin for origin in c if origin in left.names)
        right_origins = sorted(origin for origin in c if origin in right.names)
        if left_origins and right_origins:
            keys.append((left.names[left_origins[0]], right.names[right_origins[0]]))
    if not keys:
        return None
    together = left.leaves | right.leaves
    open_classes = [c for c in group.classes if any(leaf not in together for leaf, _ in c)]
    needed = {*outputs.values()}.union(*open_classes)
    columns: list[tuple[Side, str, str]] = []
    names: dict[Origin, str] = {}
    sides: tuple[tuple[Side, _Tree], ...] = (("left", left), ("right", right))
    for side, tree in sides:
        for origin, column in tree.names.items():
            if origin in needed:
                leaf, name = origin
                while name in names.values():  # terminates: ``names`` is finite
                    name = f"{name}.{leaf}"
                names[origin] = name
                columns.append((side, column, names[origin]))
    left_on, right_on = zip(*keys, strict=True)
    node = Join(left.node, right.node, left_on, right_on, tuple(columns))
    estimate = estimate_of(node, [left.estimate, right.estimate])
    rows_made = left.rows_made + right.rows_made + estimate.rows
    return _Tree(node, estimate, together, names, rows_made)
