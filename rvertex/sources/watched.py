"""Checks that a file does not change while a job reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rstream.errors import StoreError
from rvertex.errors import SourceChangedError, SourceVanishedError
from rvertex.sources.files import first_line
from rvertex.sources.versions import local_path, version_of

if TYPE_CHECKING:
    from rvertex.sources.versions import FileVersion


class Watched:
    """A file that is being read. ``version``: the version to read; None: any version."""

    def __init__(self, path: str, version: FileVersion | None) -> None:
        self.path, self._version = path, version
        self._is_local = local_path(path) is not None

    def check(self) -> None:
        """Check that the file still has the version to read.

        Raises:
            SourceChangedError: the file has another version.
            SourceVanishedError: the file is gone or not readable.
        """
        if self._version is None:
            return
        try:
            now = version_of(self.path)
        except (OSError, StoreError) as error:
            raise SourceVanishedError(self.path, first_line(error)) from error
        if now is None:
            raise SourceVanishedError(self.path, "No such file or directory")
        if not now.is_same(self._version):
            raise SourceChangedError(self.path, None, str(self._version), str(now))

    def check_often(self) -> None:
        """Check the version, but only where that is cheap."""
        if self._is_local:
            self.check()
