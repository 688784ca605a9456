"""Trust in a root: its pickles are programs, so only a trusted user may have written them.

On a local disk, owner and mode decide. On an object store this code cannot know the writers:
granting write access there grants the right to run code (SECURITY.md).
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from jobmanager.errors import UntrustedRootError

_LOCAL = "file://"


def check_trusted(uri: str, files: tuple[str, ...]) -> None:
    """Check that no other user may have written the ``files`` of a local root, or may replace them.

    Raises:
        UntrustedRootError: the folder or a file belongs to another user, or others may write it.
    """
    if not uri.startswith(_LOCAL) or not hasattr(os, "geteuid"):
        return
    folder = Path(uri.removeprefix(_LOCAL))
    for path in (folder, *(folder / name for name in files)):
        reason = _reason(path, os.geteuid())
        if reason:
            raise UntrustedRootError(str(folder), f"{path} {reason}")


def _reason(path: Path, user: int) -> str:
    """Return why the file at ``path`` is not trusted; empty if it is, or does not exist."""
    try:
        info = path.stat()
    except OSError:
        return ""
    if info.st_uid != user:
        return f"belongs to user {info.st_uid}, not to you ({user})"
    if info.st_mode & stat.S_IWOTH:
        return f"may be written by all users (mode {stat.S_IMODE(info.st_mode):o})"
    return ""
