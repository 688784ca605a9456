"""Jobs that run day by day: the checks of ``run(continue_=True)`` before it continues a job.

Theory of operation. On the first day the input folders of the query become logs of files
(:mod:`planner.logical.growing_files`), and ``job.json`` gets the setting ``continued``. After that,
every run of the root, by ``resume`` too, reads the logs up to their present ends, processes all
rows and stops. So a day is a live job that stops by itself. If it ends early, ``resume`` continues
it like any other job. Source: ADR 39.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from jobmanager.errors import (
    DaysOverError,
    NoJobError,
    NotContinuedError,
    QueryChangedError,
    TypesChangedError,
)
from jobmanager.storage.root import JobRoot, display_uri
from planner.physical.stages import with_hashes_of
from rstream.errors import UsageError
from rvertex.sources.spec import LiveFolder

if TYPE_CHECKING:
    from jobmanager.config import JobConfig
    from planner import Query
    from planner.physical.plan import PhysicalPlan
    from rvertex.sources.spec import SourceSpec

#: Field of ``job.json``: whether the job stops after the last row of its present files.
SETTING = "continued"


@dataclass(frozen=True, slots=True)
class Day:
    """One run of a continued job. ``query``: the query of this call, or None."""

    query: Query | None
    finish: bool


def is_begun(root: str | None, *, continue_: bool, finish: bool, has_query: bool) -> bool:
    """Return whether the root has a job that ``continue_=True`` continues.

    Raises:
        UsageError: the root is missing, or ``finish`` is given without ``continue_``.
        NoJobError: the root has no job, and there is no query to start one.
    """
    if not continue_:
        if finish:
            raise UsageError("finish=True needs continue_=True")
        return False
    if root is None:
        raise UsageError("continue_=True needs root=, the folder of the job")
    try:
        JobRoot(root).settings()
    except NoJobError:
        if not has_query:
            raise
        return False
    return True


def check_continued(
    settings: dict[str, Any], root: JobRoot, day: Day | None, *, is_over: bool
) -> None:
    """Check that the job can be continued by another day.

    Raises:
        NotContinuedError: the job did not start with ``continue_=True``.
        DaysOverError: the job has finished, because an earlier day had ``finish=True``.
    """
    if day is None:
        return
    if not settings.get(SETTING):
        raise NotContinuedError(display_uri(root.uri))
    if is_over and not day.finish:
        raise DaysOverError(display_uri(root.uri))


def configured_for(config: JobConfig, settings: dict[str, Any], day: Day | None) -> JobConfig:
    """Return the configuration of the next run of a job with these settings."""
    if not settings.get(SETTING):
        return config
    return config.until_end("finish" if day is not None and day.finish else "stop")


def check_query(root: JobRoot, then: PhysicalPlan, now: PhysicalPlan) -> None:
    """Check that the query of today is equivalent to the query of the first day.

    Raises:
        TypesChangedError: columns of the files have other types than on the first day.
        QueryChangedError: the queries differ.
    """
    what = ""
    types = _other_types(then, now)
    if types:
        raise TypesChangedError(display_uri(root.uri), *types)
    if _folders(then) != _folders(now):
        what = (
            f"it now reads {', '.join(_folders(now))}, but before it read "
            f"{', '.join(_folders(then))}"
        )
    elif then.output != now.output:
        what = f"its answer now goes to {now.output}, but before it went to {then.output}"
    elif then.plan_hash != with_hashes_of(now, then).plan_hash:
        what = "it computes something else"
    if what:
        raise QueryChangedError(display_uri(root.uri), what)


def accepting_changes(plan: PhysicalPlan) -> PhysicalPlan:
    """Return the plan for a run that accepts changes of files which were already read."""
    vertices = []
    for vertex in plan.vertices:
        source = vertex.source
        if source is None or source.spec.live is None:
            vertices.append(vertex)
            continue
        live = source.spec.live
        if isinstance(live, LiveFolder):
            live = replace(live, taken_files="any")
        spec = replace(source.spec, live=live)
        vertices.append(replace(vertex, source=replace(source, spec=spec)))
    return replace(plan, vertices=tuple(vertices))


def _other_types(then: PhysicalPlan, now: PhysicalPlan) -> tuple[str, str, str, str] | None:
    """Return a column whose type has changed: folder, column, type now, former type; or None."""
    types = {spec.paths: {f.name: f.type for f in spec.columns} for spec in _growing(then).values()}
    for paths, spec in _growing(now).items():
        for field in spec.columns:
            was = types.get(paths, {}).get(field.name, field.type)
            if was != field.type and field.name not in spec.files.casts:
                return spec.shown or spec.path, field.name, str(field.type), str(was)
    return None


def _growing(plan: PhysicalPlan) -> dict[tuple[str, ...], SourceSpec]:
    """Return the sources that read growing folders, by paths."""
    specs = (v.source.spec for v in plan.vertices if v.source is not None)
    return {spec.paths: spec for spec in specs if spec.live is not None}


def _folders(plan: PhysicalPlan) -> list[str]:
    """Return the paths of growing folders, and the names of in-memory tables of the caller."""
    specs: list[SourceSpec] = [v.source.spec for v in plan.vertices if v.source is not None]
    tables = {spec.path.rpartition("/")[2] for spec in specs if spec.files.given != "no"}
    growing = {path for spec in specs if spec.live is not None for path in spec.paths}
    return sorted(growing | tables)
