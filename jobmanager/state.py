"""What the job manager knows of its hosts and vertices. Pure records, changed only by the manager.

States of a vertex: "waiting" for its host, "starting" (ordered, not yet heard of), "running",
"finished". States of a host: "starting", "ready", "lost".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rstream.types import MIN_TIME

if TYPE_CHECKING:
    from jobmanager.topology import VertexShape
    from rvertex.messages import VertexProgress


@dataclass(slots=True)
class HostState:
    """The host that holds a slot now. ``generation`` counts the hosts the slot has had."""

    slot: int
    generation: int = 0
    state: str = "starting"
    address: str = ""
    machine: str = ""
    pid: int = 0
    #: When it was ordered, then when it was last heard of; us UTC.
    heard_us: int = 0
    #: Losses since a host of this slot last reported progress.
    losses: int = 0

    @property
    def name(self) -> str:
        """Unique for the life of the job."""
        return f"h{self.slot}.{self.generation}"


@dataclass(slots=True)
class VertexState:
    """The current instance of a vertex, and what outlives instances."""

    shape: VertexShape
    slot: int
    state: str = "waiting"
    #: Name of the host its current instance was ordered to.
    host: str = ""
    epoch: int = 0
    checkpoint: str = ""
    consumed: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    durable: tuple[int, ...] = ()
    digests: tuple[bytes, ...] = ()
    cti: int = MIN_TIME
    max_vs: int = MIN_TIME
    events_in: int = 0
    events_out: int = 0
    late_events: int = 0
    tail_bytes: int = 0
    restarts: int = 0
    #: Restarts since it last got further than ever before.
    fruitless_restarts: int = 0
    #: The furthest any instance has come.
    best: tuple[int, ...] = ()
    #: Per output stream: below this seq the current instance has or keeps nothing in memory.
    released: dict[str, int] = field(default_factory=dict)
    poisoned_events: int = 0

    def reached(self, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> None:
        """The instance came at least this far."""
        self.consumed = tuple(map(max, inputs, self.consumed)) if self.consumed else inputs
        self.outputs = tuple(map(max, outputs, self.outputs)) if self.outputs else outputs

    def advance(self, report: VertexProgress) -> bool:
        """Take over a report; whether the vertex got further than any instance before.

        A report may be replayed after notices that it preceded, so positions never go back.
        """
        self.reached(report.inputs, report.outputs)
        self.durable, self.cti, self.max_vs = report.durable, report.cti, report.max_vs
        self.events_in, self.events_out = report.events_in, report.events_out
        self.late_events, self.tail_bytes = report.late_events, report.tail_bytes
        self.poisoned_events = report.poisoned_events
        position = (*report.inputs, *report.outputs)
        if not self.best or any(a > b for a, b in zip(position, self.best, strict=True)):
            self.best = tuple(map(max, position, self.best)) if self.best else position
            self.fruitless_restarts = 0
            return True
        return False
