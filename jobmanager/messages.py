"""What the job manager's shell tells it, and what it tells its shell to do.

Notices (past tense) are the only way into :class:`jobmanager.manager.JobManager`, instructions
(imperative) the only way out. All notices but ``Progress`` and ``Tick`` are logged; the last
``Progress`` of each host is when a decision rests on it.
"""

from __future__ import annotations

import typing
from dataclasses import dataclass

from rvertex.messages import (
    HOST_NOTICES,
    HostInstruction,
    HostNotice,
    HostReady,
    ItemsLost,
    MessageCodec,
    Progress,
    VertexFailed,
    VertexFinished,
    VertexStarted,
)


@dataclass(frozen=True, slots=True)
class JobStarted:
    """A new job on ``hosts`` hosts. ``now_us`` is wall time, us UTC."""

    hosts: int
    now_us: int


@dataclass(frozen=True, slots=True)
class JobResumed:
    """A new job manager took over; every host of the old one is gone."""

    hosts: int
    now_us: int


@dataclass(frozen=True, slots=True)
class HostLost:
    """A host's link broke, or the executor saw it end."""

    host: str
    reason: str


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """A user asked for the end of the job."""


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
class DeleteCheckpoint:
    """Delete a checkpoint that nothing can need; only after the notices so far are durable.

    ``parts``: the blobs of it that no other checkpoint of its vertex names.
    """

    name: str
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EndJob:
    """Stop the hosts and write the outcome: finished, failed or cancelled."""

    state: str
    error: str


ShellNotice = JobStarted | JobResumed | HostLost | CancelRequested | Tick
Notice = HostNotice | ShellNotice


@dataclass(frozen=True, slots=True)
class Feed:
    """Hand the job manager's own finding back to it as a notice, so that it is logged."""

    notice: ShellNotice


Instruction = StartHost | Tell | Refuse | Feed | DeleteCheckpoint | EndJob

LOG_CODEC: MessageCodec[Notice] = MessageCodec((*HOST_NOTICES, *typing.get_args(ShellNotice)))


def is_logged(notice: Notice) -> bool:
    """Whether a job manager that takes over must see this notice."""
    return not isinstance(notice, Progress | Tick)


def rests_on_progress(notice: Notice) -> bool:
    """Whether what follows from this notice or a later report depends on the reports so far.

    Those are then logged before it: one that takes over must come to the same decision, or it would
    not know the instances that were started, nor believe their checkpoints. A host that is ready or
    a vertex that starts or ends changes what a report means: which memory it releases.
    """
    decides = HostLost | VertexFailed | ItemsLost
    return isinstance(notice, decides | HostReady | VertexStarted | VertexFinished)
