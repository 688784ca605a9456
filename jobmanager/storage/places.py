"""Makes a stored plan independent of the path of its root, so that a root can be moved.

In a stored plan, a mark replaces the root in all paths below it. The reader of the plan replaces
the mark by the present path of the root. So ``mv ROOT NEW`` is enough. All other paths stay.
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

#: The placeholder for the root. It is not a scheme, so no other uri begins with it.
ROOT_MARK = "{root}"


def unplaced(uri: str, root: str) -> str:
    """Replace the root in ``uri`` by a placeholder, if ``uri`` is the root or is below it."""
    return ROOT_MARK + uri[len(root) :] if uri == root or uri.startswith(f"{root}/") else uri


def placed(uri: str, root: str) -> str:
    """Replace the placeholder in ``uri`` by ``root``: the inverse of :func:`unplaced`."""
    return root + uri[len(ROOT_MARK) :] if uri.startswith(ROOT_MARK) else uri


def plan_at_absolute_paths(plan: PhysicalPlan) -> PhysicalPlan:
    """Return the plan with absolute paths, so any working folder can resume the job."""
    return with_uris(plan, lambda uri: uri if "://" in uri else os.path.abspath(uri))


def plan_without_place(plan: PhysicalPlan) -> PhysicalPlan:
    """Return the plan in its stored form, with placeholders for the root."""
    return with_uris(plan, lambda uri: unplaced(uri, plan.root))


def plan_in(plan: PhysicalPlan, root: str) -> PhysicalPlan:
    """Return a stored plan with ``root`` in place of the placeholders."""
    root = root.rstrip("/")
    return with_uris(plan, lambda uri: placed(uri, root))


def with_uris(plan: PhysicalPlan, change: Callable[[str], str]) -> PhysicalPlan:
    """Return the plan with all its paths changed."""
    # Imported here, because ``status`` needs no plan.
    from planner.physical.outputs import PlanOfOutputs

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
    """Change the paths of a source that are below the root: copies of in-memory tables."""
    if source.spec.files.given != "copy":
        return source
    units = tuple(replace(unit, path=change(unit.path)) for unit in source.units)
    spec = replace(source.spec, path=change(source.spec.path))
    return replace(source, spec=spec, units=units)
