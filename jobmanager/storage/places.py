"""Makes a plan independent of its root's place: paths in the root move with it.

A stored plan replaces its root by a mark in the paths below it. The reader of the plan inserts the
present place of the root, so ``mv ROOT NEW`` needs nothing else. All other paths stay.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.physical.plan import PhysicalPlan
    from rvertex.sources.spec import SourcePartition
    from rvertex.vertex.spec import VertexSpec

#: The folder for roots that the user does not name.
DEFAULT_JOBS_FOLDER = "streamscope-jobs"

#: Stands for the root; no scheme, so no uri of another place begins with it.
ROOT_MARK = "{root}"


def unplaced(uri: str, root: str) -> str:
    """``uri`` relative to ``root`` if it is the root, or lies in it."""
    return ROOT_MARK + uri[len(root) :] if uri == root or uri.startswith(f"{root}/") else uri


def placed(uri: str, root: str) -> str:
    """The opposite of :func:`unplaced`, with the root where it is now."""
    return root + uri[len(ROOT_MARK) :] if uri.startswith(ROOT_MARK) else uri


def plan_at_absolute_paths(plan: PhysicalPlan) -> PhysicalPlan:
    """The plan with relative paths made absolute: a job may be resumed from another folder."""
    return _with_uris(plan, lambda uri: uri if "://" in uri else os.path.abspath(uri))


def plan_without_place(plan: PhysicalPlan) -> PhysicalPlan:
    """The plan as it is stored."""
    return _with_uris(plan, lambda uri: unplaced(uri, plan.root))


def plan_in(plan: PhysicalPlan, root: str) -> PhysicalPlan:
    """A stored plan whose root is at ``root``."""
    root = root.rstrip("/")
    return _with_uris(plan, lambda uri: placed(uri, root))


def _with_uris(plan: PhysicalPlan, change: Callable[[str], str]) -> PhysicalPlan:
    from planner.physical.plan import PlanOfOutputs  # ``status`` needs no plan

    vertices = tuple(_vertex(vertex, change) for vertex in plan.vertices)
    moved = replace(plan, vertices=vertices, root=change(plan.root), output=change(plan.output))
    if not isinstance(moved, PlanOfOutputs):
        return moved
    parts = tuple(replace(part, output=change(part.output)) for part in moved.parts)
    return replace(moved, parts=parts)


def _vertex(vertex: VertexSpec, change: Callable[[str], str]) -> VertexSpec:
    return replace(
        vertex,
        inputs=tuple(replace(channel, uri=change(channel.uri)) for channel in vertex.inputs),
        outputs=tuple(replace(e, uris=tuple(map(change, e.uris))) for e in vertex.outputs),
        source=None if vertex.source is None else _source(vertex.source, change),
    )


def _source(source: SourcePartition, change: Callable[[str], str]) -> SourcePartition:
    """Tables of the caller's, of which the root has a copy, move with it."""
    if source.spec.given != "copy":
        return source
    units = tuple(replace(unit, path=change(unit.path)) for unit in source.units)
    spec = replace(source.spec, path=change(source.spec.path))
    return replace(source, spec=spec, units=units)
