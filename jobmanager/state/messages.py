"""Notices to the job manager and instructions from it.

Notices (past tense) are the only way into :class:`jobmanager.manager.manager.JobManager`,
instructions (imperative) the only way out. All notices but ``Progress``, ``HostBusy``,
``OutputObsolete``, ``SavepointRequested``, ``SavepointEnded`` and ``Tick`` are logged.
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
    """A new job started on ``hosts`` hosts. ``now_us``: wall time, us UTC.

    ``retain_us``: the minimum age at which this job manager deletes obsolete checkpoints, us.
    """

    hosts: int
    now_us: int
    retain_us: int = 0


@dataclass(frozen=True, slots=True)
class JobResumed:
    """A new job manager took over. All hosts of the old one count as lost."""

    hosts: int
    now_us: int
    retain_us: int = 0


@dataclass(frozen=True, slots=True)
class HostLost:
    """The connection to a host broke, or the executor saw the host end."""

    host: str
    reason: str


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """A user requested to end the job without a result."""


@dataclass(frozen=True, slots=True)
class FinishRequested:
    """A user requested live sources to end at their present positions, so the job finishes."""


@dataclass(frozen=True, slots=True)
class StopRequested:
    """A user requested the job to stop and keep its state."""


@dataclass(frozen=True, slots=True)
class SavepointRequested:
    """A user requested a savepoint, and the job must not stop for it."""


@dataclass(frozen=True, slots=True)
class SavepointEnded:
    """The savepoint is complete or given up, so its checkpoints need no protection any more."""


@dataclass(frozen=True, slots=True)
class DrainRequested:
    """A user requested to move all instances off a host."""

    host: str


@dataclass(frozen=True, slots=True)
class AddedTo:
    """The partitions of a vertex that its log got after the job was planned."""

    vertex: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PartitionsAdded:
    """A live log got new partitions. The plan in which these vertices read them is durable."""

    vertices: tuple[AddedTo, ...]


@dataclass(frozen=True, slots=True)
class StragglerFound:
    """An instance has been behind the other instances of its stage for too long."""

    vertex: str
    epoch: int


@dataclass(frozen=True, slots=True)
class TwinLevel:
    """A twin has caught up with the old instance or cannot, so one of the two may retire."""

    vertex: str
    old_epoch: int
    new_epoch: int


@dataclass(frozen=True, slots=True)
class RestartDue:
    """The pause before the restart of a vertex that failed is over."""

    vertex: str


@dataclass(frozen=True, slots=True)
class OutputDamaged:
    """A stream that users read has lost durable items, from ``seq`` on."""

    stream: str
    seq: int
    reason: str


@dataclass(frozen=True, slots=True)
class OutputWhole:
    """The check of all streams that users read found no missing item."""


@dataclass(frozen=True, slots=True)
class OutputRestored:
    """Damaged streams of finished writers are complete again, because files were restored."""

    streams: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeptOfVertex:
    """The remaining checkpoints of a vertex, oldest first."""

    vertex: str
    refs: tuple[CheckpointRef, ...]


@dataclass(frozen=True, slots=True)
class CheckpointsKept:
    """The remaining checkpoints, if they do not follow from the notices before (ADR 22).

    ``collected``: per durable stream a seq; items below it may be deleted. A mark with the name of
    a vertex means that entries of its journal are deleted. ``is_damaged``: whether a checkpoint
    could not be read.
    """

    vertices: tuple[KeptOfVertex, ...]
    collected: tuple[Mark, ...]
    is_damaged: bool


@dataclass(frozen=True, slots=True)
class VertexCopy:
    """The durable facts about a vertex: its checkpoints, their parts, how it ended."""

    vertex: str
    #: The oldest first.
    refs: tuple[CheckpointRef, ...]
    parts: tuple[str, ...]
    is_finished: bool
    finisher: int
    digests: tuple[bytes, ...]
    ends: tuple[int, ...]
    counts: Counts
    #: Numbers of added partitions, as in :class:`AddedTo`.
    added: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class StateCopied:
    """A copy of the state, which replaces all notices before this one (ADR 34).

    A successor that reads it discards all notices that it has read before. ``epoch``: the epoch of
    the newest instance. ``collected``, ``is_damaged``: as in :class:`CheckpointsKept`. Times are us
    UTC.
    """

    epoch: int
    takeovers: int
    retain_us: int
    checkpointed_us: int
    uncollected: int
    collected_us: int
    collected: tuple[Mark, ...]
    is_damaged: bool
    #: Whether live sources must end at their present positions.
    is_finishing: bool
    vertices: tuple[VertexCopy, ...]


@dataclass(frozen=True, slots=True)
class OutputObsolete:
    """Items below these seqs, of streams that users read, may be deleted."""

    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""

    now_us: int


@dataclass(frozen=True, slots=True)
class StartHost:
    """Let the executor start a host."""

    host: str


@dataclass(frozen=True, slots=True)
class Tell:
    """Send an instruction to a host."""

    host: str
    instruction: HostInstruction


@dataclass(frozen=True, slots=True)
class Refuse:
    """Reject a host that must not take part: a replaced one, or a second attempt of its task."""

    host: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Record:
    """Log a notice after the present one, and make it durable before any further instruction."""

    notice: CheckpointsKept


@dataclass(frozen=True, slots=True)
class DeleteFiles:
    """Delete checkpoints or parts of them that no recovery needs. Before that, flush the log."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeleteLeftovers:
    """Delete files that dead instances of a vertex have stored for checkpoints they never reported.

    Instances below epoch ``before`` are dead, except the ``present`` ones. The ``needed`` files
    stay. No other file of a dead instance can become necessary, so there is no deadline.
    """

    vertex: str
    before: int
    present: tuple[int, ...]
    needed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CheckOutput:
    """Check that the output is complete after all vertices have finished, and send a notice.

    ``ends``: per stream, its number of items; None if unknown.
    """

    ends: dict[str, int | None]


@dataclass(frozen=True, slots=True)
class EndJob:
    """Stop the hosts and write how the job ended: finished, failed, cancelled or stopped."""

    state: str
    error: str


ShellNotice = (
    JobStarted
    | JobResumed
    | HostLost
    | CancelRequested
    | FinishRequested
    | StopRequested
    | SavepointRequested
    | SavepointEnded
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

#: Version of stored notices. Raise it when the meaning of one changes. A new field with a default
#: is no such change.
LOG_VERSION = 1
#: The oldest readable version: that of two minor releases ago.
LOG_OLDEST = 1
LOG_CODEC: MessageCodec[Notice] = MessageCodec(
    (*HOST_NOTICES, *typing.get_args(ShellNotice)), version=LOG_VERSION, oldest=LOG_OLDEST
)


def is_logged(notice: Notice) -> bool:
    """Return whether a job manager that takes over must see this notice."""
    short_lived = Progress | HostBusy | OutputObsolete | SavepointRequested | SavepointEnded | Tick
    return not isinstance(notice, short_lived)
