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


#: A store works again if it has not failed for this time, us.
STORE_CALM_US = 30_000_000


def count_recent(times: list[int], now_us: int, window_us: float) -> int:
    """Remove times older than a window that ends now, us. Return the number of remaining ones."""
    times[:] = [at for at in times if now_us - at <= window_us]
    return len(times)


@dataclass(slots=True)
class HostState:
    """The host that holds a slot now.

    ``generation``: number of earlier hosts of the slot under this job manager. ``takeovers``: the
    number of this job manager.
    """

    slot: int
    generation: int = 0
    takeovers: int = 0
    state: str = "starting"
    address: str = ""
    machine: str = ""
    pid: int = 0
    #: Time of its last message, us UTC. At first: of the order to start it.
    heard_us: int = 0
    #: Times of losses of this slot's hosts since the last progress of one of them, us UTC.
    losses: list[int] = field(default_factory=list)
    #: The vertex of its last reported long call; empty after a report of progress.
    busy: str = ""
    #: The host's last report of memory.
    memory: Memory | None = None
    #: Whether a user wants to remove the host. Then it gets no new instance.
    is_draining: bool = False

    @property
    def name(self) -> str:
        """The host's name. Unique in the job: a takeover is durable before it starts a host."""
        manager = f"{self.takeovers}." if self.takeovers else ""
        return f"h{self.slot}.{manager}{self.generation}"

    @property
    def former(self) -> str:
        """Name of the host that this one replaces; empty if it is its job manager's first."""
        if not self.generation:
            return ""
        return HostState(self.slot, self.generation - 1, self.takeovers).name

    def following(self) -> HostState:
        """Return the host that takes the slot after the loss of this one."""
        next_ = HostState(self.slot, self.generation + 1, self.takeovers)
        next_.losses = self.losses.copy()
        return next_

    @staticmethod
    def slot_of(name: str) -> int:
        """Return the slot in a host's name; -1 if the text is no such name."""
        slot = name[1:].partition(".")[0]
        return int(slot) if slot.isdecimal() else -1

    @property
    def condition(self) -> str:
        """Its state, as shown to users."""
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
    #: The number of this instance in its vertex, whose instances take checkpoints in turn.
    checkpoint_slot: int
    #: The checkpoint that it started from, and the parts that its next one may share.
    checkpoint: str
    parts: tuple[str, ...]
    consumed: tuple[int, ...]
    outputs: tuple[int, ...]
    #: Per output stream the seq below which the instance has no items in memory.
    released: dict[str, int]
    state: str = "waiting"
    #: Name of the host that was ordered to start it.
    host: str = ""
    #: If it is a twin: the epoch of the instance that it may replace, and why.
    replaces: int | None = None
    reason: str = ""
    #: Input seqs that a twin must have consumed to count as caught up; set at its first report.
    goal: tuple[int, ...] = ()
    #: Time of the order to start it, us UTC.
    opened_us: int = 0
    is_level_reported: bool = False
    durable: tuple[int, ...] = ()
    cti: int = MIN_TIME
    max_vs: int = MIN_TIME
    tail_bytes: int = 0
    #: For a live source: the progress of its partitions; why it waits, other than for rows; and the
    #: number of partitions of the whole log, 0 if unknown.
    logs: tuple[LogProgress, ...] = ()
    waiting: str = ""
    log_partitions: int = 0
    #: Operators that hold its event time back.
    holds: tuple[Hold, ...] = ()
    timing: Timing = field(default_factory=Timing)
    is_blocked: bool = False
    #: Counts of its calls to outside services.
    calls: tuple[CallCounts, ...] = ()

    @property
    def position(self) -> tuple[int, ...]:
        """All its sequence numbers: consumed inputs, then outputs."""
        return (*self.consumed, *self.outputs)

    def reached(self, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> None:
        """Raise the positions of the instance to at least these seqs."""
        self.consumed = tuple(map(max, inputs, self.consumed))
        self.outputs = tuple(map(max, outputs, self.outputs))

    def advance(self, report: VertexProgress) -> None:
        """Apply a report. It may be older than notices that were already handled."""
        self.reached(report.inputs, report.outputs)
        self.durable, self.cti, self.max_vs = report.durable, report.cti, report.max_vs
        self.tail_bytes = report.tail_bytes
        self.logs, self.waiting = report.logs, report.waiting
        self.log_partitions, self.holds = report.log_partitions, report.holds
        self.timing, self.is_blocked = report.timing, report.is_blocked
        self.calls = report.calls


@dataclass(slots=True)
class Join:
    """A planned instance. It starts on ``slot`` from a checkpoint of a live instance."""

    slot: int
    #: If it will be a twin: the epoch of the instance that it may replace, and why.
    replaces: int | None = None
    reason: str = ""
    #: Epoch of the instance whose checkpoint was requested (None: not yet), and when, us UTC.
    source: int | None = None
    requested_us: int = 0
    #: The input seqs that this instance had consumed then. The checkpoint is not before them.
    frozen: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Saving:
    """A savepoint that is being taken while the job runs."""

    #: When the job manager began, us UTC.
    since_us: int
    #: Per vertex, the epoch of the instance with a request; and its checkpoint in the savepoint.
    epochs: dict[str, int] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class VertexState:
    """The instances of a vertex, and the facts that remain when instances end."""

    shape: VertexShape
    #: The slots that a restart prefers.
    homes: list[int] = field(default_factory=list)
    #: The first one is the primary.
    instances: list[InstanceState] = field(default_factory=list)
    joins: list[Join] = field(default_factory=list)
    #: Whether no instance of the vertex was ever started.
    is_new: bool = True
    is_finished: bool = False
    #: The epoch of the instance that finished first, and the digests of its outputs.
    finisher: int = 0
    digests: tuple[bytes, ...] = ()
    #: Number of items of each output; known once the vertex has finished.
    ends: tuple[int, ...] = ()
    cti: int = MIN_TIME
    max_vs: int = MIN_TIME
    #: Counts of the furthest instance, or of the finished one.
    counts: Counts = field(default_factory=Counts)
    restarts: int = 0
    #: Times of restarts since the vertex last went beyond its furthest position, us UTC.
    fruitless_restarts: list[int] = field(default_factory=list)
    #: Failures of a store: the time of the first, us UTC (None: the store works), their number, the
    #: time of the last, and the vertex's durable outputs at that time.
    store_failing_us: int | None = None
    store_failures: int = 0
    store_failed_us: int = 0
    store_durable: tuple[int, ...] = ()
    #: The number of errors of new instances since one of them last went beyond its checkpoint.
    join_failures: int = 0
    #: The furthest position of any instance, and the number of durable items per durable output.
    best: tuple[int, ...] = ()
    durable: tuple[int, ...] = ()
    #: No instance starts before this time (us UTC), nor before the notice ``RestartDue``.
    due_us: int | None = None
    #: Size of its last checkpoint including all parts, bytes.
    state_bytes: int = 0
    #: The parts of its checkpoints that were announced and not deleted.
    parts: dict[str, None] = field(default_factory=dict)

    def widen(self, shape: VertexShape) -> None:
        """Let the vertex read more log partitions. Its positions get a zero for each new one."""
        had, count = self.shape.input_count, shape.log_partitions
        self.shape = shape
        for instance in self.instances:
            instance.consumed = padded(instance.consumed, count)
        if self.best:
            self.best = (*padded(self.best[:had], count), *self.best[had:])

    def replaced(self) -> list[int]:
        """Epochs of the instances that have, or will have, a twin."""
        epochs = [i.replaces for i in self.instances] + [j.replaces for j in self.joins]
        return [epoch for epoch in epochs if epoch is not None]

    @property
    def leader(self) -> InstanceState | None:
        """The furthest instance; ties return the first."""
        return max(self.instances, key=lambda i: sum(i.position), default=None)

    @property
    def state(self) -> str:
        """The state of the vertex: that of its best instance."""
        if self.is_finished:
            return "finished"
        states = {i.state for i in self.instances}
        return next((s for s in ("running", "starting") if s in states), "waiting")

    def advance(self, instance: InstanceState, report: VertexProgress) -> bool:
        """Apply a report. Return whether the vertex exceeded its furthest position."""
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
        """Record a failure of a store that ended the vertex's only instance."""
        if self.store_failing_us is None:
            self.store_failing_us = now_us
        self.store_failures, self.store_failed_us = self.store_failures + 1, now_us
        self.store_durable = self.durable

    def store_answers(self, now_us: int, *, has_stored: bool = False) -> None:
        """Record progress of the vertex, which can show that its store works again.

        It does not if the progress is only in memory, or in streams of other stores.

        ``has_stored``: a checkpoint became durable.
        """
        is_calm = now_us - self.store_failed_us >= STORE_CALM_US
        has_stored |= is_calm or sum(self.durable) > sum(self.store_durable)
        if has_stored and not self._is_stuck():
            self.store_failing_us, self.store_failures = None, 0

    def _is_stuck(self) -> bool:
        """Return whether items of a durable output wait to be stored since the last failure."""
        written = self.best[len(self.best) - len(self.durable) :]
        rows = zip(self.shape.outputs, self.durable, self.store_durable, written, strict=False)
        return any(
            stream.is_durable and durable <= failed < items
            for stream, durable, failed, items in rows
        )

    def finish(self, instance: InstanceState, notice: VertexFinished) -> None:
        """Record that an instance has finished, and so the vertex has."""
        instance.state = "finished"
        instance.consumed, instance.outputs = notice.inputs, notice.outputs
        instance.durable, instance.cti = notice.outputs, INF_TIME
        instance.tail_bytes = 0
        if not self.is_finished:
            self.record_end(notice)

    def record_end(self, notice: VertexFinished) -> None:
        """Record the end of the vertex, and cancel planned instances."""
        self.is_finished, self.finisher, self.due_us = True, notice.epoch, None
        self.joins.clear()
        self.is_new = False
        self.digests, self.ends, self.cti = notice.digests, notice.outputs, INF_TIME
        self.counts = notice.counts
