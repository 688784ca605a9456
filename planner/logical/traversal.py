"""Walks plans as DAGs: every shared node is visited once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cache
from typing import Generic, TypeVar

from planner.errors import InvalidPlanError
from planner.fingerprint import canonical
from planner.logical.nodes import LogicalNode, Source

K = TypeVar("K")
T = TypeVar("T")


class IdentityMap(Generic[K, T]):
    """Values by key, compared by identity; keeps its keys alive and never orders by it."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[K, T]] = {}

    def __getitem__(self, key: K) -> T:
        return self._entries[id(key)][1]

    def __setitem__(self, key: K, value: T) -> None:
        self._entries[id(key)] = (key, value)

    def __contains__(self, key: K) -> bool:
        return id(key) in self._entries

    def __len__(self) -> int:
        return len(self._entries)


class NodeMap(IdentityMap[LogicalNode, T]):
    """Values by node."""


#: The nodes that have several readers.
Shared = NodeMap[bool]
#: Texts of nodes by their class and the ids of their field values. An entry keeps the values alive,
#: so that the ids stay unique. A node with other inputs has the same values.
Contents = dict[tuple[object, ...], tuple[list[object], str]]
Change = Callable[[LogicalNode, Shared], LogicalNode]


def topological(root: LogicalNode) -> list[LogicalNode]:
    """Return all nodes, inputs first, otherwise in the order of the query."""
    order: list[LogicalNode] = []
    # ids of nodes, which stay unique because the plan keeps the nodes alive
    visited: set[int] = set()

    def visit(node: LogicalNode) -> None:
        visited.add(id(node))
        for child in node.inputs:
            if id(child) not in visited:
                visit(child)
        order.append(node)

    visit(root)
    return order


def transform(root: LogicalNode, change: Change) -> LogicalNode:
    """Apply ``change`` to every node, inputs first; shared nodes stay shared.

    ``change`` also gets the nodes with several readers, in their already changed form.
    """
    order = topological(root)
    shared = _shared(order)
    done: NodeMap[LogicalNode] = NodeMap()
    for node in order:
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


def wanted_columns(root: LogicalNode) -> NodeMap[set[str]]:
    """Return the columns of each node that a reader of it needs; of the root, all columns."""
    order = topological(root)
    wanted: NodeMap[set[str]] = NodeMap()
    for node in order:
        wanted[node] = set()
    wanted[root] = set(root.schema.names)
    for node in reversed(order):
        needed = node.columns_needed(wanted[node])
        for child, names in zip(node.inputs, needed, strict=True):
            wanted[child] |= names & set(child.schema.names)
    return wanted


def shared_nodes(root: LogicalNode) -> Shared:
    """Return the nodes that have several readers."""
    return _shared(topological(root))


def _shared(order: Sequence[LogicalNode]) -> Shared:
    shared: Shared = NodeMap()
    once: set[int] = set()
    for node in order:
        for child in node.inputs:
            if id(child) in once:
                shared[child] = True
            once.add(id(child))
    return shared


def share(root: LogicalNode, contents: Contents | None = None) -> LogicalNode:
    """Return the plan with equal subplans merged into one.

    Only nodes of one class over the same inputs can be equal. Their texts are compared.
    ``contents`` caches the texts of nodes between calls.
    """
    contents = {} if contents is None else contents
    merged: NodeMap[LogicalNode] = NodeMap()
    firsts: dict[tuple[object, ...], LogicalNode] = {}
    alike: dict[tuple[object, ...], LogicalNode] = {}
    for node in topological(root):
        made = rebuilt(node, [merged[child] for child in node.inputs])
        place = (type(made), *map(id, made.inputs))
        first = firsts.setdefault(place, made)
        if first is not made:
            alike.setdefault((place, _alone(first, contents)), first)
            made = alike.setdefault((place, _alone(made, contents)), made)
        merged[node] = made
    return merged[root]


def _alone(node: LogicalNode, contents: Contents) -> str:
    """Return the text of the node itself, without its inputs."""
    kind = type(node)
    names = _own_fields(kind)
    own = [getattr(node, name) for name in names]
    key = (kind, *map(id, own))
    if key not in contents:
        contents[key] = own, kind.__name__ + canonical(list(zip(names, own, strict=True)))
    return contents[key][1]


@cache
def _own_fields(kind: type[LogicalNode]) -> tuple[str, ...]:
    below = ("input", "left", "right", "branches")
    return tuple(f.name for f in fields(kind) if f.name not in below)


def is_live(node: LogicalNode) -> bool:
    """Return whether the node is a source without an end."""
    return isinstance(node, Source) and node.spec.is_endless


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
