"""Walks plans as DAGs: every shared node is visited once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Generic, TypeVar

from planner.errors import InvalidPlanError
from planner.fingerprint import canonical, fingerprint
from planner.logical.nodes import LogicalNode, Source

T = TypeVar("T")


class NodeMap(Generic[T]):
    """Values by node, compared by identity; keeps its nodes alive and never orders by it."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[LogicalNode, T]] = {}

    def __getitem__(self, node: LogicalNode) -> T:
        return self._entries[id(node)][1]

    def __setitem__(self, node: LogicalNode, value: T) -> None:
        self._entries[id(node)] = (node, value)

    def __contains__(self, node: LogicalNode) -> bool:
        return id(node) in self._entries

    def __len__(self) -> int:
        return len(self._entries)


#: The nodes that have several readers.
Shared = NodeMap[bool]
Change = Callable[[LogicalNode, Shared], LogicalNode]


def topological(root: LogicalNode) -> list[LogicalNode]:
    """Return all nodes, inputs first, otherwise in the order of the query."""
    order: list[LogicalNode] = []
    seen: NodeMap[bool] = NodeMap()

    def visit(node: LogicalNode) -> None:
        if node in seen:
            return
        seen[node] = True
        for child in node.inputs:
            visit(child)
        order.append(node)

    visit(root)
    return order


def transform(root: LogicalNode, change: Change) -> LogicalNode:
    """Apply ``change`` to every node, inputs first; shared nodes stay shared.

    ``change`` also gets the nodes with several readers, in their already changed form.
    """
    shared = shared_nodes(root)
    done: NodeMap[LogicalNode] = NodeMap()
    for node in topological(root):
        done[node] = change(rebuilt(node, [done[child] for child in node.inputs]), shared)
        if node in shared:
            shared[done[node]] = True
    return done[root]


def rebuilt(node: LogicalNode, inputs: Sequence[LogicalNode]) -> LogicalNode:
    """Return ``node`` over ``inputs``; the node itself if it already has these inputs."""
    same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
    return node if same else node.with_inputs(tuple(inputs))


def readers(root: LogicalNode) -> NodeMap[int]:
    """Return the number of edges that leave each node."""
    counts: NodeMap[int] = NodeMap()
    for node in topological(root):
        counts[node] = 0
        for child in node.inputs:
            counts[child] += 1
    return counts


def shared_nodes(root: LogicalNode) -> Shared:
    """Return the nodes that have several readers."""
    counts = readers(root)
    shared: Shared = NodeMap()
    for node in topological(root):
        if counts[node] > 1:
            shared[node] = True
    return shared


def share(root: LogicalNode, contents: NodeMap[str] | None = None) -> LogicalNode:
    """Return the plan with equal subplans merged into one.

    ``contents`` caches the text of each node between calls.
    """
    contents = NodeMap() if contents is None else contents
    names: NodeMap[str] = NodeMap()
    mine: NodeMap[LogicalNode] = NodeMap()
    first: dict[str, LogicalNode] = {}
    for node in topological(root):
        inputs = [mine[child] for child in node.inputs]
        if node not in contents:
            contents[node] = _alone(node)
        name = fingerprint(([names[child] for child in inputs], contents[node]))
        if name not in first:
            first[name] = rebuilt(node, inputs)
            contents[first[name]] = contents[node]
        mine[node] = first[name]
        names[first[name]] = name
    return mine[root]


def _alone(node: LogicalNode) -> str:
    """Return the text of the node itself, without its inputs."""
    below = ("input", "left", "right", "branches")
    own = [(f.name, getattr(node, f.name)) for f in fields(node) if f.name not in below]
    return type(node).__name__ + canonical(own)


def is_live(node: LogicalNode) -> bool:
    """Whether the node is a source without an end."""
    return isinstance(node, Source) and node.spec.log is not None and not node.spec.log.is_bounded


def refuse_endless(plan: LogicalNode, what: str) -> None:
    """Raise if a plan has a source without an end.

    Raises:
        InvalidPlanError: naming the source.
    """
    for node in topological(plan):
        if is_live(node):
            assert isinstance(node, Source)
            raise InvalidPlanError(
                f"{what} needs sources with an end, and {node.spec.shown or node.spec.path} grows "
                "while it is read; set until=..., or leave out follow=True"
            )
