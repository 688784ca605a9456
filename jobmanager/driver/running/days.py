"""Jobs that are run day by day: what ``run(continue_=True)`` asks before it goes on.

Theory of operation. On the first day the folders of the query become logs of files
(:mod:`planner.logical.growing_files`), and ``job.json`` says that the job is continued. From then
on every run of the root, ``resume`` too, reads the logs up to the ends that they have, lets all of
it be worked up and stops. So a day is a live job that stops by itself, and whatever ends it early
is mended as for any job. Source: ADR 39.
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
from rstream.errors import UsageError

if TYPE_CHECKING:
    from jobmanager.config import JobConfig
    from planner import Query
    from planner.physical.plan import PhysicalPlan
    from rvertex.sources.spec import SourceSpec

#: In ``job.json``: the job stops when it has worked up what is there.
SETTING = "continued"


@dataclass(frozen=True, slots=True)
class Day:
    """One run of a job that is continued. ``query``: as it is today, if it was given."""

    query: Query | None
    finish: bool


def is_begun(root: str | None, *, continue_: bool, finish: bool, has_query: bool) -> bool:
    """Whether a job that is to be continued was begun before.

    Raises:
        UsageError: it is not said which job, or what to begin with.
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
    """The job is one that is continued, and can be.

    Raises:
        NotContinuedError: it read its files to their end.
        DaysOverError: it was told to finish, and has.
    """
    if day is None:
        return
    if not settings.get(SETTING):
        raise NotContinuedError(display_uri(root.uri))
    if is_over and not day.finish:
        raise DaysOverError(display_uri(root.uri))


def configured_for(config: JobConfig, settings: dict[str, Any], day: Day | None) -> JobConfig:
    """The configuration of a run of a job with these settings."""
    if not settings.get(SETTING):
        return config
    return config.until_end("finish" if day is not None and day.finish else "stop")


def check_query(root: JobRoot, then: PhysicalPlan, now: PhysicalPlan) -> None:
    """The query of today means what that of the first day meant.

    Raises:
        TypesChangedError: it would, if the files had the types of then.
        QueryChangedError: it does not.
    """
    what = ""
    types = _other_types(then, now)
    if types:
        raise TypesChangedError(display_uri(root.uri), *types)
    if _folders(then) != _folders(now):
        what = f"it reads {', '.join(_folders(now))}, and read {', '.join(_folders(then))}"
    elif then.output != now.output:
        what = f"its answer goes to {now.output}, and went to {then.output}"
    elif then.plan_hash != now.plan_hash:
        what = "it computes something else"
    if what:
        raise QueryChangedError(display_uri(root.uri), what)


def accepting_changes(plan: PhysicalPlan) -> PhysicalPlan:
    """The plan for a run in which nobody looks what became of files that were taken."""
    vertices = []
    for vertex in plan.vertices:
        source = vertex.source
        if source is None or source.spec.log is None:
            vertices.append(vertex)
            continue
        log = replace(source.spec.log, taken_files="any")
        spec = replace(source.spec, log=log)
        vertices.append(replace(vertex, source=replace(source, spec=spec)))
    return replace(plan, vertices=tuple(vertices))


def _other_types(then: PhysicalPlan, now: PhysicalPlan) -> tuple[str, str, str, str] | None:
    """Of a folder that both read: a column, its type now, and then; None: all types are equal."""
    types = {spec.path: {f.name: f.type for f in spec.columns} for spec in _growing(then).values()}
    for path, spec in _growing(now).items():
        for field in spec.columns:
            was = types.get(path, {}).get(field.name, field.type)
            if was != field.type and field.name not in spec.casts:
                return spec.shown or path, field.name, str(field.type), str(was)
    return None


def _growing(plan: PhysicalPlan) -> dict[str, SourceSpec]:
    """The folders that grow, by path."""
    specs = (v.source.spec for v in plan.vertices if v.source is not None)
    return {spec.path: spec for spec in specs if spec.log is not None}


def _folders(plan: PhysicalPlan) -> list[str]:
    """What is read that grows, and which tables of the caller's."""
    specs: list[SourceSpec] = [v.source.spec for v in plan.vertices if v.source is not None]
    tables = {spec.path.rpartition("/")[2] for spec in specs if spec.given != "no"}
    return sorted({spec.path for spec in specs if spec.log is not None} | tables)
