"""Walking plans as the DAGs they are: every shared node is visited once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

from planner.fingerprint import canonical, fingerprint
from planner.logical import LogicalNode

Change = Callable[[LogicalNode, set[int]], LogicalNode]


def topological(root: LogicalNode) -> list[LogicalNode]:
    """All nodes, inputs first, in the order in which a reader of the query meets them."""
    order: list[LogicalNode] = []
    seen: set[int] = set()

    def visit(node: LogicalNode) -> None:
        if id(node) in seen:
            return
        seen.add(id(node))
        for child in node.inputs:
            visit(child)
        order.append(node)

    visit(root)
    return order


def transform(root: LogicalNode, change: Change) -> LogicalNode:
    """``change`` applied to every node, inputs first; shared nodes stay shared.

    ``change`` also gets the ids of the nodes that several others read, as they are by now.
    """
    shared = {node_id for node_id, count in parents(root).items() if count > 1}
    done: dict[int, LogicalNode] = {}
    for node in topological(root):
        inputs = tuple(done[id(child)] for child in node.inputs)
        same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
        changed = change(node if same else node.with_inputs(inputs), shared)
        done[id(node)] = changed
        if id(node) in shared:
            shared.add(id(changed))
    return done[id(root)]


def parents(root: LogicalNode) -> dict[int, int]:
    """How many edges leave each node, by ``id``."""
    counts: dict[int, int] = {id(root): 0}
    for node in topological(root):
        for child in node.inputs:
            counts[id(child)] = counts.get(id(child), 0) + 1
    return counts


def share(root: LogicalNode) -> LogicalNode:
    """The plan with equal subplans made one."""
    names: dict[int, str] = {}
    first: dict[str, LogicalNode] = {}
    mine: dict[int, LogicalNode] = {}
    for node in topological(root):
        inputs = tuple(mine[id(child)] for child in node.inputs)
        children = [names[id(child)] for child in inputs]
        name = fingerprint((children, _alone(node)))
        if name not in first:
            same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
            first[name] = node if same else node.with_inputs(inputs)
        mine[id(node)] = first[name]
        names[id(first[name])] = name
    return mine[id(root)]


def plan_fingerprint(root: LogicalNode) -> str:
    """The same for equal plans, in every process."""
    names: dict[int, str] = {}
    for node in topological(root):
        names[id(node)] = fingerprint(([names[id(c)] for c in node.inputs], _alone(node)))
    return names[id(root)]


def _alone(node: LogicalNode) -> str:
    """The node's own content, without what is below it."""
    below = ("input", "left", "right", "branches")
    own = [(f.name, getattr(node, f.name)) for f in fields(node) if f.name not in below]
    return type(node).__name__ + canonical(own)
