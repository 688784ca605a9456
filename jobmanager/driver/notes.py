"""What a user has to know of a job beside how it goes: in its status, and said by the command."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

FINISHED = "the job has already finished; its output is unchanged"


class NoteWarning(UserWarning):
    """What a user of Python has to know of a job; the command prints it."""


def warn_of(lines: Iterable[str]) -> None:
    """A warning for each note, where nobody shows the status."""
    for line in lines:
        warnings.warn(line, NoteWarning, stacklevel=4)


@dataclass(frozen=True, slots=True)
class Notes:
    """``lines``: one a note. ``file_note``: that the query's file has changed; None: nobody knows.

    Without a change it is empty.
    """

    lines: tuple[str, ...] = ()
    file_note: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The fields of a status."""
        changed = [self.file_note] if self.file_note else []
        is_changed = None if self.file_note is None else bool(self.file_note)
        return {"notes": [*changed, *self.lines], "query_changed": is_changed}
