"""A file that has to stay as it is while a job reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rstream.errors import StoreError
from rvertex.errors import SourceChangedError, SourceVanishedError
from rvertex.sources.files import first_line
from rvertex.sources.versions import local_path, version_of

if TYPE_CHECKING:
    from rvertex.sources.versions import FileVersion


class Watched:
    """A file while it is read. ``version``: the one that is meant; None: whatever is there."""

    def __init__(self, path: str, version: FileVersion | None) -> None:
        self.path, self._version = path, version
        self._is_local = local_path(path) is not None

    def check(self) -> None:
        """The file is the one that is meant.

        Raises:
            SourceChangedError: it is another. SourceVanishedError: it is gone, or cannot be asked.
        """
        if self._version is None:
            return
        try:
            found = version_of(self.path)
        except (OSError, StoreError) as error:
            raise SourceVanishedError(self.path, first_line(error)) from error
        if found is None:
            raise SourceVanishedError(self.path, "No such file or directory")
        if not found.is_same(self._version):
            raise SourceChangedError(self.path, None, str(self._version), str(found))

    def check_often(self) -> None:
        """Check the version where that costs next to nothing."""
        if self._is_local:
            self.check()
