"""Decides where the physical plan keeps text as dictionaries, and where it decodes them.

The logical plan has only plain text. If dictionaries save work on a source's files
(:mod:`rvertex.sources.formats.carried`), its columns are dictionaries in the payloads of the
physical plan. They stay so through filters, projections, lifetimes, exchanges and joins up to the
sink, which writes plain text. Windows and user code get plain text.
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
    """Return the sources below unions; branches of a union need equal types."""
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
    """Return a projection that decodes columns to the types ``wanted``; None: none is needed."""
    if payload.equals(wanted):
        return None
    assert payload.names == wanted.names, (payload, wanted)
    columns = [
        (f.name, f.name if f.type.equals(kind) else Column(f.name, kind))
        for f, kind in zip(payload, wanted.types, strict=True)
    ]
    return Project(tuple(columns))


def display_text(decode: Project) -> str:
    """Return the projection as ``explain`` prints it."""
    return "decode " + ", ".join(name for name, source in decode.columns if source != name)
