"""Plans another query over the recorded input of a job, to try new code on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobmanager.replay.errors import CannotReplayError
from jobmanager.storage.places import plan_at_absolute_paths
from planner.physical.lower import lower
from planner.physical.stages import with_hashes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jobmanager.replay.recorded import Recorded
    from planner import Query
    from planner.physical.plan import PhysicalPlan
    from rvertex.vertex.spec import VertexSpec

_RUN_IT = "Give both queries the same input files, or run the new query with its own root"


def planned_again(recorded: Recorded, query: Query, output: str | None = None) -> PhysicalPlan:
    """Return a plan of ``query`` with the job's settings, over the files that the job has read.

    ``output``: the output to plan, if ``query`` has several.

    Raises:
        CannotReplayError: the query reads other files.
        UnknownOutputError: the query has several outputs, and not this one.
    """
    settings = recorded.settings
    plan = lower(
        query,
        root=recorded.uri,
        parallelism=settings["parallelism"],
        is_paced=bool(settings["paced"]),
    )
    plan = plan_at_absolute_paths(plan)
    before, now = _files(recorded.plan), _files(plan)
    for path in sorted(now):
        if path not in before:
            raise CannotReplayError(path, "the job has not read it", _RUN_IT)
        if before[path] != now[path]:
            raise CannotReplayError(path, "it has changed since the job was planned", _RUN_IT)
    _check_logs(recorded.plan, plan)
    plan = with_hashes_of(plan, recorded.plan)
    return plan.output_named(output) if len(plan.of_outputs) > 1 else plan


def _check_logs(old: PhysicalPlan, new: PhysicalPlan) -> None:
    """Check that each live log is read by the vertex of the same name in both plans.

    Recorded decisions about a log belong to the vertex that has read it.
    """
    known = {v.id: v.source for v in old.vertices}
    for vertex in new.vertices:
        source, before = vertex.source, known.get(vertex.id)
        if source is None or source.spec.live is None:
            continue
        if before is None or (before.spec.paths, before.units) != (source.spec.paths, source.units):
            reason = f"the job has not read {source.spec.shown or source.spec.path} there"
            raise CannotReplayError(
                vertex.id, reason, "Keep the live sources of the query in the same order"
            )


def same_meaning(old: PhysicalPlan, new: PhysicalPlan) -> Callable[[VertexSpec], bool]:
    """Return a function: does a vertex of ``new`` compute the same as in ``old``?"""
    if new is old:
        return lambda _: True
    known = {v.id: (v.state_schema, v.output_streams) for v in old.vertices}

    def is_same(spec: VertexSpec) -> bool:
        cone = [spec, *(new.vertex(v) for v in new.ancestors(spec.id))]
        return all(known.get(v.id) == (v.state_schema, v.output_streams) for v in cone)

    return is_same


def _files(plan: PhysicalPlan) -> Mapping[str, object]:
    """Return the files that a plan reads, each with its version."""
    sources = [v.source for v in plan.vertices if v.source is not None]
    return {unit.path: unit.version for s in sources for unit in s.units if unit.path}
