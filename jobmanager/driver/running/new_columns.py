"""Says which columns files of a growing folder have that its first file does not have.

They are not read, which the readers do not see: they ask for the columns of the plan. So a thread
of the driver looks at the headers of the files that come.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from rstream.errors import StreamEngineError
from rstream.log.background import ThreadBackground
from rvertex.sources.files import list_files
from rvertex.sources.mixed import FileColumns

if TYPE_CHECKING:
    from concurrent.futures import Future

    from jobmanager.manager.manager import JobManager
    from planner.physical.plan import PhysicalPlan
    from rstream.clock import Clock
    from rstream.log.background import Background
    from rvertex.sources.spec import SourceSpec
    from rvertex.sources.versions import FileVersion

#: How often the folders are listed.
LOOK_EVERY_S = 2.0


class NewColumns:
    """Of one job; the driver's thread calls it."""

    def __init__(
        self, plan: PhysicalPlan, clock: Clock, *, background: Background | None = None
    ) -> None:
        self._clock, self._known = clock, frozenset(plan.notes)
        self._folders = [_Folder(spec) for spec in _growing(plan).values()]
        self._background = background or ThreadBackground("new-columns")
        self._looking: Future[list[str]] | None = None
        self._due_s = 0.0
        self._found: list[str] = []

    @property
    def notes(self) -> list[str]:
        """What users are to know, but for what the plan says."""
        return [note for note in self._found if note not in self._known]

    def note(self, manager: JobManager) -> None:
        """Take over what the last look has found, or begin the next one when it is due."""
        del manager
        if self._looking is not None and self._looking.done():
            looking, self._looking = self._looking, None
            self._found = looking.result()
        if self._folders and self._looking is None and self._clock.monotonic_s() >= self._due_s:
            self._due_s = self._clock.monotonic_s() + LOOK_EVERY_S
            self._looking = self._background.submit(self._look)

    def start(self) -> None:
        """The driver's first tick looks."""

    def stop(self, state: str) -> None:
        """Look once more, at what came last. Idempotent."""
        del state
        self._background.close()
        self._found = self._look(is_last=True)

    def _look(self, *, is_last: bool = False) -> list[str]:
        return [note for folder in self._folders for note in folder.look(is_last=is_last)]


class _Folder:
    """A source that grows, and what is known of its files."""

    def __init__(self, spec: SourceSpec) -> None:
        self._spec, self._columns = spec, FileColumns(spec)
        self._seen: set[str] = set()
        self._listed: dict[str, FileVersion] = {}

    def look(self, *, is_last: bool) -> tuple[str, ...]:
        """What users are to know of all files that are complete: two listings saw them alike."""
        files: dict[str, FileVersion] = {}
        with contextlib.suppress(StreamEngineError):  # it is empty or cannot be seen: readers say
            files = list_files(self._spec.format, self._spec.path)
        for path, version in files.items():
            before = self._listed.get(path)
            is_complete = before is not None and before.is_same(version)
            if path not in self._seen and (is_complete or is_last):
                self._seen.add(path)
                with contextlib.suppress(StreamEngineError):  # as above
                    self._columns.add(path)
        self._listed = files
        return self._columns.notes


def _growing(plan: PhysicalPlan) -> dict[tuple[str, str], SourceSpec]:
    sources = (vertex.source.spec for vertex in plan.vertices if vertex.source is not None)
    return {
        (spec.format, spec.path): spec
        for spec in sources
        if spec.log is not None and spec.traits.suffixes
    }
