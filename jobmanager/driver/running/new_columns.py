"""Reports columns that later files of a growing folder have and its first file lacks.

The job does not read such columns. Its readers do not notice them, because they request only the
columns of the plan. So a thread of the driver reads the headers of new files.
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

#: Seconds between two listings of the folders.
LOOK_EVERY_S = 2.0


class NewColumns:
    """Watches the growing folders of one job. The driver's thread calls it."""

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
        """Messages on new columns, without those that are already notes of the plan."""
        return [note for note in self._found if note not in self._known]

    def note(self, manager: JobManager) -> None:
        """Take the result of a finished check of the folders, or start the next due check."""
        del manager
        if self._looking is not None and self._looking.done():
            looking, self._looking = self._looking, None
            self._found = looking.result()
        if self._folders and self._looking is None and self._clock.monotonic_s() >= self._due_s:
            self._due_s = self._clock.monotonic_s() + LOOK_EVERY_S
            self._looking = self._background.submit(self._look)

    def start(self) -> None:
        """Do nothing, because the driver's first tick starts a check."""

    def stop(self, state: str) -> None:
        """Check the folders a last time, with the newest files. Idempotent."""
        del state
        self._background.close()
        self._found = self._look(is_last=True)

    def _look(self, *, is_last: bool = False) -> list[str]:
        return [note for folder in self._folders for note in folder.look(is_last=is_last)]


class _Folder:
    """A growing folder, and the columns of its files so far."""

    def __init__(self, spec: SourceSpec) -> None:
        self._spec, self._columns = spec, FileColumns(spec)
        self._noted: set[str] = set()
        self._listed: dict[str, FileVersion] = {}

    def look(self, *, is_last: bool) -> tuple[str, ...]:
        """Return messages on all complete files: those that two listings show unchanged."""
        files: dict[str, FileVersion] = {}
        # The readers report an error if a folder is empty or unreadable.
        with contextlib.suppress(StreamEngineError):
            files = list_files(self._spec.format, *self._spec.paths)
        for path, version in files.items():
            before = self._listed.get(path)
            is_complete = before is not None and before.is_same(version)
            if path not in self._noted and (is_complete or is_last):
                self._noted.add(path)
                with contextlib.suppress(StreamEngineError):  # the readers report the error
                    self._columns.add(path)
        self._listed = files
        return self._columns.notes


def _growing(plan: PhysicalPlan) -> dict[tuple[str, tuple[str, ...]], SourceSpec]:
    sources = (vertex.source.spec for vertex in plan.vertices if vertex.source is not None)
    return {
        (spec.format, spec.paths): spec
        for spec in sources
        if spec.live is not None and spec.kind.suffixes
    }
