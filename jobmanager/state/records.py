"""Records of hosts, vertices and instances in the job manager. Pure.

A host is "starting", "ready", "lost" or "drained" (it left as requested, and its slot stays empty).
An instance is "waiting" for its host, "starting" (ordered, but not reported yet), "running" or
"finished".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jobmanager.state.tracker import padded
from rstream.types import INF_TIME, MIN_TIME
from rvertex.messages import Counts, Timing

if TYPE_CHECKING:
    from jobmanager.state.topology import VertexShape
    from rvertex.events.call_counts import CallCounts
    from rvertex.messages import (
        Hold,
        LogProgress,
        Memory,
        VertexFinished,
        VertexProgress,
    )


#: A store works again if it has not failed for 30 s.
STORE_CALM_US = 30_000_000


def count_recent(times: list[int], now_us: int, window_us: float) -> int:
    """How many of these times are in the window that ends now; the others are forgotten."""
    times[:] = [at for at in times if now_us - at <= window_us]
    return len(times)


@dataclass(slots=True)
class HostState:
    """The host that holds a slot now.

    ``generation`` counts the hosts that the slot has had under one job manager, of which
    ``takeovers`` is the number.
    """

    slot: int
    generation: int = 0
    takeovers: int = 0
    state: str = "starting"
    address: str = ""
    machine: str = ""
    pid: int = 0
    #: When it was ordered, then when it was last heard of; us UTC.
    heard_us: int = 0
    #: When hosts of this slot were lost, us UTC, since one last reported progress.
    losses: list[int] = field(default_factory=list)
    #: The long poll of a vertex that it last reported; empty after a report of progress.
    busy: str = ""
    #: What it last reported of its memory.
    memory: Memory | None = None
    #: A user wants it empty; nothing new is placed on it.
    is_draining: bool = False

    @property
    def name(self) -> str:
        """Unique for the life of the job: a takeover is durable before it orders a host."""
        manager = f"{self.takeovers}." if self.takeovers else ""
        return f"h{self.slot}.{manager}{self.generation}"

    @property
    def former(self) -> str:
        """The host that this one replaces; empty if it is the first of its job manager."""
        if not self.generation:
            return ""
        return HostState(self.slot, self.generation - 1, self.takeovers).name

    def following(self) -> HostState:
        """The one that takes its slot after its loss."""
        next_ = HostState(self.slot, self.generation + 1, self.takeovers)
        next_.losses = self.losses.copy()
        return next_

    @staticmethod
    def slot_of(name: str) -> int:
        """The slot in a host's name; -1 if it is no such name."""
        slot = name[1:].partition(".")[0]
        return int(slot) if slot.isdecimal() else -1

    @property
    def condition(self) -> str:
        """Its state as users see it."""
        return "draining" if self.is_draining and self.state != "drained" else self.state

    @property
    def is_open(self) -> bool:
        """Whether instances may be placed on its slot."""
        return self.state != "drained" and not self.is_draining


@dataclass(slots=True)
class InstanceState:
    """One running copy of a vertex."""

    epoch: int
    slot: int
    #: Its number among the instances that take checkpoints one after the other.
    checkpoint_slot: int
    #: The checkpoint it began from, and the blobs that its next one may name without storing them.
    checkpoint: str
    parts: tuple[str, ...]
    consumed: tuple[int, ...]
    outputs: tuple[int, ...]
    #: Per output stream: below this seq it has or keeps nothing in memory.
    released: dict[str, int]
    state: str = "waiting"
    #: Name of the host it was ordered to.
    host: str = ""
    #: A twin: the instance that is retired when this one is level with it, and why.
    replaces: int | None = None
    reason: str = ""
    #: What a twin must have consumed to count as level; known from its first report on.
    goal: tuple[int, ...] = ()
    #: When it was ordered; us UTC.
    opened_us: int = 0
    is_level_reported: bool = False
    durable: tuple[int, ...] = ()
    cti: int = MIN_TIME
    max_vs: int = MIN_TIME
    tail_bytes: int = 0
    #: Of a live source: its partitions; the reason it waits, besides rows; and the number of
    #: partitions of the whole log, 0 if unknown.
    logs: tuple[LogProgress, ...] = ()
    waiting: str = ""
    log_partitions: int = 0
    #: What holds its time back.
    holds: tuple[Hold, ...] = ()
    timing: Timing = field(default_factory=Timing)
    is_blocked: bool = False
    #: What its calls of the outside have done.
    calls: tuple[CallCounts, ...] = ()

    @property
    def position(self) -> tuple[int, ...]:
        """How far it is, in all its sequence numbers."""
        return (*self.consumed, *self.outputs)

    def reached(self, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> None:
        """It came at least this far."""
        self.consumed = tuple(map(max, inputs, self.consumed))
        self.outputs = tuple(map(max, outputs, self.outputs))

    def advance(self, report: VertexProgress) -> None:
        """Take over a report, perhaps replayed after notices that it preceded."""
        self.reached(report.inputs, report.outputs)
        self.durable, self.cti, self.max_vs = report.durable, report.cti, report.max_vs
        self.tail_bytes = report.tail_bytes
        self.logs, self.waiting = report.logs, report.waiting
        self.log_partitions, self.holds = report.log_partitions, report.holds
        self.timing, self.is_blocked = report.timing, report.is_blocked
        self.calls = report.calls


@dataclass(slots=True)
class Join:
    """An instance that is to start on ``slot`` from a checkpoint that a live one is asked for."""

    slot: int
    #: The instance it is a twin of, if it is one, and why.
    replaces: int | None = None
    reason: str = ""
    #: Whose checkpoint it waits for (None: not asked yet) and since when, us UTC.
    source: int | None = None
    asked_us: int = 0
    #: What the source had consumed when it was asked; its checkpoint is at or past it.
    frozen: tuple[int, ...] = ()


@dataclass(slots=True)
class VertexState:
    """The instances of a vertex, and what outlives them."""

    shape: VertexShape
    #: Slots on which it restarts if it can.
    homes: list[int] = field(default_factory=list)
    #: The first is the primary.
    instances: list[InstanceState] = field(default_factory=list)
    joins: list[Join] = field(default_factory=list)
    #: No instance of it was ever opened.
    is_new: bool = True
    is_finished: bool = False
    #: The instance that finished first, and the digests of its outputs.
    finisher: int = 0
    digests: tuple[bytes, ...] = ()
    #: How many items each output has; known once it has finished.
    ends: tuple[int, ...] = ()
    cti: int = MIN_TIME
    max_vs: int = MIN_TIME
    #: Those of the furthest instance, or of the one that finished.
    counts: Counts = field(default_factory=Counts)
    restarts: int = 0
    #: When it was restarted, us UTC, since it last got further than ever before.
    fruitless_restarts: list[int] = field(default_factory=list)
    #: Since when a store fails it, us UTC (None: the store works), the number of failures, the time
    #: of the last one, and its durable outputs at that time.
    store_failing_us: int | None = None
    store_failures: int = 0
    store_failed_us: int = 0
    store_durable: tuple[int, ...] = ()
    #: Operating errors of newcomers since one of them last got further than its checkpoint.
    join_failures: int = 0
    #: The furthest position of any instance, and the ends of durable outputs.
    best: tuple[int, ...] = ()
    durable: tuple[int, ...] = ()
    #: Nothing is started before this time (us UTC), or the notice that says that it has come.
    due_us: int | None = None
    #: Of all that its last checkpoint consists of.
    state_bytes: int = 0
    #: All blobs of its checkpoints that were announced and not deleted.
    parts: dict[str, None] = field(default_factory=dict)

    def widen(self, shape: VertexShape) -> None:
        """It reads more live logs from now on: of the new ones nobody has read anything."""
        had, count = self.shape.input_count, shape.log_partitions
        self.shape = shape
        for instance in self.instances:
            instance.consumed = padded(instance.consumed, count)
        if self.best:
            self.best = (*padded(self.best[:had], count), *self.best[had:])

    def replaced(self) -> list[int]:
        """The instances that have, or are to have, a twin."""
        mine = [i.replaces for i in self.instances] + [j.replaces for j in self.joins]
        return [epoch for epoch in mine if epoch is not None]

    @property
    def leader(self) -> InstanceState | None:
        """The instance that is furthest; the first of equals."""
        return max(self.instances, key=lambda i: sum(i.position), default=None)

    @property
    def state(self) -> str:
        """The state of the vertex: that of its best instance."""
        if self.is_finished:
            return "finished"
        states = {i.state for i in self.instances}
        return next((s for s in ("running", "starting") if s in states), "waiting")

    def advance(self, instance: InstanceState, report: VertexProgress) -> bool:
        """Take over a report; whether the vertex got further than any instance before."""
        instance.advance(report)
        if instance is self.leader and not self.is_finished:
            self.cti, self.max_vs, self.counts = report.cti, report.max_vs, report.counts
        self.durable = tuple(map(max, report.durable, self.durable or report.durable))
        position = (*report.inputs, *report.outputs)
        if not self.best or any(a > b for a, b in zip(position, self.best, strict=True)):
            self.best = tuple(map(max, position, self.best)) if self.best else position
            self.fruitless_restarts.clear()
            return True
        return False

    def store_failed(self, now_us: int) -> None:
        """A store failed its only instance."""
        if self.store_failing_us is None:
            self.store_failing_us = now_us
        self.store_failures, self.store_failed_us = self.store_failures + 1, now_us
        self.store_durable = self.durable

    def store_answers(self, now_us: int) -> None:
        """The vertex got further: if only in memory, the disk may still be full."""
        is_calm = now_us - self.store_failed_us >= STORE_CALM_US
        if is_calm or sum(self.durable) > sum(self.store_durable):
            self.store_took()

    def store_took(self) -> None:
        """The store took something: it does not fail any more."""
        self.store_failing_us, self.store_failures = None, 0

    def finish(self, instance: InstanceState, notice: VertexFinished) -> None:
        """One of its instances came to the end, and so did the vertex."""
        instance.state = "finished"
        instance.consumed, instance.outputs = notice.inputs, notice.outputs
        instance.durable, instance.cti = notice.outputs, INF_TIME
        instance.tail_bytes = 0
        if not self.is_finished:
            self.record_end(notice)

    def record_end(self, notice: VertexFinished) -> None:
        """The vertex came to its end: nobody joins it any more."""
        self.is_finished, self.finisher, self.due_us = True, notice.epoch, None
        self.joins.clear()
        self.is_new = False
        self.digests, self.ends, self.cti = notice.digests, notice.outputs, INF_TIME
        self.counts = notice.counts
