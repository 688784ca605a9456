"""Text as dictionaries in the physical plan: where it may stay so, and where it is decoded.

The logical plan knows only plain text. Where a source's files pay for it
(:mod:`rvertex.sources.formats.carried`), its columns are dictionaries in the payloads of the
physical plan, and stay so through filters, projections, lifetimes, exchanges and joins up to the
sink, whose files say plain text again. Windows and user code get what the logical plan says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.expressions.nodes import Column
from planner.logical.nodes import LogicalNode, Source, Union
from planner.logical.traversal import NodeMap, topological
from rvertex.operators.project import Project

if TYPE_CHECKING:
    import pyarrow as pa


def sources_of_unions(plan: LogicalNode) -> NodeMap[bool]:
    """The sources whose rows are mixed with those of others: all branches must look the same."""
    mixed: NodeMap[bool] = NodeMap()
    order = topological(plan)
    below: NodeMap[bool] = NodeMap()
    for node in reversed(order):
        is_mixed = isinstance(node, Union) or node in below
        if is_mixed and isinstance(node, Source):
            mixed[node] = True
        if is_mixed:
            for child in node.inputs:
                below[child] = True
    return mixed


def decoding(payload: pa.Schema, wanted: pa.Schema) -> Project | None:
    """The projection that gives columns as ``wanted`` has them; None if they are so."""
    if payload.equals(wanted):
        return None
    assert payload.names == wanted.names, (payload, wanted)
    columns = [
        (f.name, f.name if f.type.equals(kind) else Column(f.name, kind))
        for f, kind in zip(payload, wanted.types, strict=True)
    ]
    return Project(tuple(columns))


def display_text(decode: Project) -> str:
    """The projection as ``explain`` says it."""
    return "decode " + ", ".join(name for name, source in decode.columns if source != name)
