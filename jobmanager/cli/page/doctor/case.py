"""The evidence that the doctor examines, and its findings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from jobmanager.state.job_state import OPEN_STATES

if TYPE_CHECKING:
    from jobmanager.state.messages import Notice

Status = dict[str, Any]
Gravity = Literal["degraded", "waiting", "note"]
US_PER_S = 1_000_000


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong, or that explains an observation."""

    gravity: Gravity
    kind: str
    #: The subject: the name of a vertex, delivery, source or host, or "job".
    about: str
    #: A sentence without the full stop.
    what: str
    advice: str = ""
    since_us: int | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """The evidence: two statuses of a job, its log, and the local disks that it writes to."""

    before: Status
    status: Status
    now_us: int
    notices: list[tuple[int, Notice]] = field(default_factory=list)
    #: Free bytes and total bytes of the disks of the root and of the outputs, by folder.
    disks: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Whether the job should be running."""
        return self.status["state"] in OPEN_STATES


def mebibytes(size_bytes: int) -> str:
    """Format a size for people."""
    return f"{size_bytes / 2**20:,.0f} MiB"
