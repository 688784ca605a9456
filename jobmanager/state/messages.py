"""Notices to the job manager and instructions from it.

Notices (past tense) are the only way into :class:`jobmanager.manager.manager.JobManager`,
instructions (imperative) the only way out. All notices but ``Progress``, ``HostBusy``,
``OutputObsolete`` and ``Tick`` are logged.
"""

from __future__ import annotations

import typing
from dataclasses import dataclass

from jobmanager.state.tracker import CheckpointRef  # noqa: TC001  (the codec reads the hints)
from rstream.format.message_codec import MessageCodec
from rvertex.messages import (
    HOST_NOTICES,
    Counts,
    HostBusy,
    HostInstruction,
    HostNotice,
    Mark,
    Progress,
)


@dataclass(frozen=True, slots=True)
class JobStarted:
    """A new job on ``hosts`` hosts. ``now_us`` is wall time, us UTC.

    ``retain_us``: the retention by which this job manager deletes checkpoints.
    """

    hosts: int
    now_us: int
    retain_us: int = 0


@dataclass(frozen=True, slots=True)
class JobResumed:
    """A new job manager took over; every host of the old one is gone."""

    hosts: int
    now_us: int
    retain_us: int = 0


@dataclass(frozen=True, slots=True)
class HostLost:
    """A host's link broke, or the executor saw it end."""

    host: str
    reason: str


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """A user asked for the end of the job."""


@dataclass(frozen=True, slots=True)
class FinishRequested:
    """A user wants live sources to end at what they have read, and the job to finish."""


@dataclass(frozen=True, slots=True)
class StopRequested:
    """A user wants the job to stop and its state to be kept."""


@dataclass(frozen=True, slots=True)
class DrainRequested:
    """A user wants a host to be empty."""

    host: str


@dataclass(frozen=True, slots=True)
class AddedTo:
    """All partitions that a vertex reads which its live log got after the job was planned."""

    vertex: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PartitionsAdded:
    """A live log got partitions, and the plan in which these vertices read them is durable."""

    vertices: tuple[AddedTo, ...]


@dataclass(frozen=True, slots=True)
class StragglerFound:
    """An instance has been behind its siblings for too long."""

    vertex: str
    epoch: int


@dataclass(frozen=True, slots=True)
class TwinLevel:
    """Of two instances the new one does what the old one did; the old one may go."""

    vertex: str
    old_epoch: int
    new_epoch: int


@dataclass(frozen=True, slots=True)
class RestartDue:
    """The pause of a vertex that failed by itself is over."""

    vertex: str


@dataclass(frozen=True, slots=True)
class OutputDamaged:
    """A stream that users read lacks what was durable, from ``seq`` on."""

    stream: str
    seq: int
    reason: str


@dataclass(frozen=True, slots=True)
class OutputWhole:
    """All streams that users read are there to their ends, as far as was looked."""


@dataclass(frozen=True, slots=True)
class OutputRestored:
    """Streams that were damaged after their writers had ended are whole: files were put back."""

    streams: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeptOfVertex:
    """The checkpoints of a vertex that are left, oldest first."""

    vertex: str
    refs: tuple[CheckpointRef, ...]


@dataclass(frozen=True, slots=True)
class CheckpointsKept:
    """What is left of all checkpoints, where that does not follow from the notices before (ADR 22).

    ``collected``: below these seqs durable streams may be gone; a mark with the name of a vertex
    says that what it wrote down is gone. ``is_damaged``: a checkpoint could not be read.
    """

    vertices: tuple[KeptOfVertex, ...]
    collected: tuple[Mark, ...]
    is_damaged: bool


@dataclass(frozen=True, slots=True)
class VertexCopy:
    """What outlives every process of a vertex: its checkpoints, their blobs, how it ended."""

    vertex: str
    #: Oldest first.
    refs: tuple[CheckpointRef, ...]
    parts: tuple[str, ...]
    is_finished: bool
    finisher: int
    digests: tuple[bytes, ...]
    ends: tuple[int, ...]
    counts: Counts
    #: As in :class:`AddedTo`.
    added: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class StateCopied:
    """All that a successor must know of the notices before this one (ADR 34).

    A successor that reads it forgets what it has read before. ``epoch``: the last one given to an
    instance. ``collected``, ``is_damaged``: as in :class:`CheckpointsKept`. Times are us UTC.
    """

    epoch: int
    takeovers: int
    retain_us: int
    checkpointed_us: int
    uncollected: int
    collected_us: int
    collected: tuple[Mark, ...]
    is_damaged: bool
    #: Live sources are to end.
    is_finishing: bool
    vertices: tuple[VertexCopy, ...]


@dataclass(frozen=True, slots=True)
class OutputObsolete:
    """Nobody needs what lies below these marks of streams that users read."""

    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""

    now_us: int


@dataclass(frozen=True, slots=True)
class StartHost:
    """Have the executor start a host."""

    host: str


@dataclass(frozen=True, slots=True)
class Tell:
    """Send an instruction to a host."""

    host: str
    instruction: HostInstruction


@dataclass(frozen=True, slots=True)
class Refuse:
    """Send a host away that must not take part: an old one, or a second attempt."""

    host: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Record:
    """Log a notice, behind the one that is handled, and make it durable before anything is done."""

    notice: CheckpointsKept


@dataclass(frozen=True, slots=True)
class DeleteFiles:
    """Delete checkpoints, and parts of such, that nothing can need; once the reason is durable."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeleteLeftovers:
    """Delete what dead instances of a vertex stored of checkpoints that nobody announced.

    Those below epoch ``before`` are dead but for the ``present`` ones. What is ``needed`` stays.
    Nothing else of them can become needed, so this has no time by which it must be done.
    """

    vertex: str
    before: int
    present: tuple[int, ...]
    needed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CheckOutput:
    """All vertices have finished: see whether what they wrote is there, and say so.

    ``ends``: by stream, how many items it has.
    """

    ends: dict[str, int | None]


@dataclass(frozen=True, slots=True)
class EndJob:
    """Stop the hosts and write the outcome: finished, failed, cancelled or stopped."""

    state: str
    error: str


ShellNotice = (
    JobStarted
    | JobResumed
    | HostLost
    | CancelRequested
    | FinishRequested
    | StopRequested
    | DrainRequested
    | PartitionsAdded
    | StragglerFound
    | TwinLevel
    | RestartDue
    | OutputDamaged
    | OutputWhole
    | OutputRestored
    | CheckpointsKept
    | StateCopied
    | OutputObsolete
    | Tick
)
Notice = HostNotice | ShellNotice


@dataclass(frozen=True, slots=True)
class Feed:
    """Hand the job manager's own finding back to it as a notice, so that it is logged."""

    notice: Notice


Instruction = (
    StartHost | Tell | Refuse | Feed | Record | DeleteFiles | DeleteLeftovers | CheckOutput | EndJob
)

#: Raise it when a stored notice changes its meaning. A new field with a default does not count.
LOG_VERSION = 1
#: The oldest that is read: that of two minor releases ago.
LOG_OLDEST = 1
LOG_CODEC: MessageCodec[Notice] = MessageCodec(
    (*HOST_NOTICES, *typing.get_args(ShellNotice)), version=LOG_VERSION, oldest=LOG_OLDEST
)


def is_logged(notice: Notice) -> bool:
    """Whether a job manager that takes over must see this notice."""
    return not isinstance(notice, Progress | HostBusy | OutputObsolete | Tick)
