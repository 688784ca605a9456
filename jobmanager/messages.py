"""What the job manager's shell tells it, and what it tells its shell to do.

Notices (past tense) are the only way into :class:`jobmanager.manager.JobManager`, instructions
(imperative) the only way out. All notices but ``Progress`` and ``Tick`` are logged.
"""

from __future__ import annotations

import typing
from dataclasses import dataclass

from rvertex.messages import (
    HOST_NOTICES,
    HostInstruction,
    HostNotice,
    MessageCodec,
    Progress,
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
class DrainRequested:
    """A user wants a host to be empty."""

    host: str


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
class DeleteFiles:
    """Delete checkpoints, and parts of such, that nothing can need; once the reason is durable."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EndJob:
    """Stop the hosts and write the outcome: finished, failed or cancelled."""

    state: str
    error: str


ShellNotice = (
    JobStarted
    | JobResumed
    | HostLost
    | CancelRequested
    | DrainRequested
    | StragglerFound
    | TwinLevel
    | RestartDue
    | Tick
)
Notice = HostNotice | ShellNotice


@dataclass(frozen=True, slots=True)
class Feed:
    """Hand the job manager's own finding back to it as a notice, so that it is logged."""

    notice: ShellNotice


Instruction = StartHost | Tell | Refuse | Feed | DeleteFiles | EndJob

LOG_CODEC: MessageCodec[Notice] = MessageCodec((*HOST_NOTICES, *typing.get_args(ShellNotice)))


def is_logged(notice: Notice) -> bool:
    """Whether a job manager that takes over must see this notice."""
    return not isinstance(notice, Progress | Tick)
