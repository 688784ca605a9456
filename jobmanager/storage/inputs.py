"""Checks the input files of a resumed job against its plan.

The plan holds the list of files and the version of each (:mod:`rvertex.sources.versions`). A
changed file is refused before the job runs, because it would mix rows of two versions. A user who
only corrected rows that the job could not read may accept it. New files are not read, and missing
files may be obsolete: the user gets a message about both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jobmanager.errors import InputsChangedError
from rstream.errors import StoreError
from rvertex.errors import CorruptSourceError, SourceNotFoundError, SourceVanishedError
from rvertex.sources.files import list_files
from rvertex.sources.formats.parquet import row_groups
from rvertex.sources.formats.row_groups import excluded_by_folders
from rvertex.sources.mixed import listed
from rvertex.sources.versions import version_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planner.physical.plan import PhysicalPlan
    from rvertex.sources.spec import Format, SourcePartition, SourceSpec
    from rvertex.sources.versions import FileVersion


@dataclass(frozen=True, slots=True)
class Inputs:
    """The differences between the input files of a plan and the present files."""

    #: Changed files by path: the version in the plan, and the present one.
    changed: dict[str, tuple[FileVersion, FileVersion]]
    #: Paths of missing files.
    gone: tuple[str, ...]
    #: Paths of new files, by source.
    come: dict[str, tuple[str, ...]]

    def notes(self) -> Iterator[str]:
        """Yield messages for the user, one line each."""
        if self.gone:
            yield (
                f"gone since the job was planned: {listed(self.gone, 'file')}; the job fails if it "
                "has to read them again"
            )
        for source, paths in self.come.items():
            count = f"{len(paths)} file{'s' if len(paths) > 1 else ''}"
            yield (
                f"source {source}: {count} arrived after the job was planned and will not "
                f"be read: {listed(paths, 'file')}; to read all, run the query again with "
                "another root"
            )


def checked_inputs(
    plan: PhysicalPlan, *, accepts_changes: bool
) -> tuple[PhysicalPlan, tuple[str, ...]]:
    """Return the plan with the accepted versions of its input files, and notes for the user.

    Raises:
        InputsChangedError: a file has changed.
    """
    inputs = inputs_of(plan)
    if not inputs.changed:
        return plan, tuple(inputs.notes())
    if not accepts_changes:
        changes = [f"{p} ({then} then, {now} now)" for p, (then, now) in inputs.changed.items()]
        raise InputsChangedError(listed(changes, "file"))
    note = f"accepted, though they have changed: {listed([*inputs.changed], 'file')}"
    return _with_versions(plan, inputs), (note, *inputs.notes())


def inputs_of(plan: PhysicalPlan) -> Inputs:
    """Compare the files of the plan with the present files."""
    planned: dict[tuple[Format, tuple[str, ...]], dict[str, FileVersion]] = {}
    specs: dict[tuple[Format, tuple[str, ...]], list[SourceSpec]] = {}
    for partition in _partitions(plan):
        source = partition.spec.format, partition.spec.paths
        specs.setdefault(source, []).append(partition.spec)
        files = planned.setdefault(source, {})
        files.update({u.path: u.version for u in partition.units if u.version is not None})
    changed: dict[str, tuple[FileVersion, FileVersion]] = {}
    gone: list[str] = []
    come: dict[str, tuple[str, ...]] = {}
    for (format, paths), files in planned.items():
        there = _listing(format, paths)
        for path, then in sorted(files.items()):
            now = there.get(path) or _version(path)
            if now is None:
                gone.append(path)
            elif not now.is_same(then):
                changed[path] = then, now
        more = [p for p in there if p not in files and _is_read(p, specs[format, paths])]
        if more:
            come[paths[0]] = tuple(more)
    return Inputs(changed, tuple(gone), come)


def _partitions(plan: PhysicalPlan) -> Iterator[SourcePartition]:
    for vertex in plan.vertices:
        source = vertex.source
        if source is not None and source.spec.items is None and source.spec.live is None:
            yield source


def _is_read(path: str, specs: Sequence[SourceSpec]) -> bool:
    """Return whether a job that is planned now would read the file."""
    if all(excluded_by_folders(spec, path, spec.files.folders) for spec in specs):
        return False
    return not specs[0].kind.has_row_groups or _has_rows(path)


def _listing(format: Format, paths: Sequence[str]) -> dict[str, FileVersion]:
    """Return the present files of a source; none of a stream or log, which has no new ones."""
    if format in ("rstream", "log"):
        return {}
    try:
        return list_files(format, *paths)
    except SourceNotFoundError:
        return {}


def _version(path: str) -> FileVersion | None:
    try:
        return version_of(path)
    except (OSError, StoreError) as error:
        raise SourceVanishedError(path, str(error)) from error


def _has_rows(path: str) -> bool:
    """Return whether a file has rows. One without rows is in no plan, so it may not be new."""
    try:
        return bool(row_groups(path))
    except (CorruptSourceError, SourceVanishedError):
        return True


def _with_versions(plan: PhysicalPlan, inputs: Inputs) -> PhysicalPlan:
    """Return the plan with the present versions of changed files."""
    vertices = []
    for vertex in plan.vertices:
        source = vertex.source
        if source is not None:
            units = tuple(
                replace(u, version=inputs.changed[u.path][1]) if u.path in inputs.changed else u
                for u in source.units
            )
            vertices.append(replace(vertex, source=replace(source, units=units)))
        else:
            vertices.append(vertex)
    return replace(plan, vertices=tuple(vertices))
