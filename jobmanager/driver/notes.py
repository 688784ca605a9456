"""Notes for the user of a job, shown in its status and printed by the command."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

FINISHED = "the job has already finished; its output is unchanged"


class NoteWarning(UserWarning):
    """A note on a job, as a warning of the Python API. The command prints it instead."""


def warn_of(lines: Iterable[str]) -> None:
    """Issue a warning for each note, for callers that do not show the status."""
    for line in lines:
        warnings.warn(line, NoteWarning, stacklevel=4)


@dataclass(frozen=True, slots=True)
class Notes:
    """The notes of a job.

    ``lines``: one line per note. ``file_note``: a sentence that the query's file has changed since
    the start; empty if it has not; None if unknown.
    """

    lines: tuple[str, ...] = ()
    file_note: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the notes as fields of a status."""
        changed = [self.file_note] if self.file_note else []
        is_changed = None if self.file_note is None else bool(self.file_note)
        return {"notes": list(dict.fromkeys([*changed, *self.lines])), "query_changed": is_changed}
