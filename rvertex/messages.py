"""Messages between a host and the job manager.

A host sends notices (past tense), the job manager sends instructions (imperative), both encoded by
:mod:`rstream.format.message_codec`. A host stops if it cannot decode a message.
"""

from __future__ import annotations

import typing
from dataclasses import dataclass, field

from rstream.format.message_codec import MessageCodec
from rstream.types import MIN_TIME
from rvertex.events.call_counts import CallCounts  # noqa: TC001 - the codec reads the hints


@dataclass(frozen=True, slots=True)
class HostReady:
    """A host has opened its Flight service and accepts vertices."""

    host: str
    #: Attempt number of the Spark task, from 0; a second attempt of a task is rejected.
    attempt: int
    pid: int
    machine: str
    address: str


@dataclass(frozen=True, slots=True)
class Counts:
    """Totals of an instance since its vertex started, including earlier instances."""

    events_in: int = 0
    events_out: int = 0
    late_events: int = 0
    #: Calls of user code that raised an exception and were skipped.
    poisoned_events: int = field(default=0, repr=False)
    #: Histogram of how late source rows were (:mod:`rvertex.vertex.lateness_counts`), encoded.
    lateness: bytes = field(default=b"", repr=False)
    #: Source rows that could not be decoded and were skipped; events dropped as duplicates.
    bad_rows: int = field(default=0, repr=False)
    duplicates: int = field(default=0, repr=False)


@dataclass(frozen=True, slots=True)
class Timing:
    """CPU samples and state size of an instance since it started."""

    #: Time in polls of the vertex, us, and how much of it was spent in the user's functions.
    busy_us: int = 0
    user_us: int = 0
    #: The user's function with the most time; empty: no sample was in one.
    function: str = ""
    #: Bytes of state in memory that can be spilled; number of files and bytes written to scratch.
    memory_bytes: int = 0
    spills: int = 0
    spilled_bytes: int = 0
    #: The key of most rows sent to the next stage, and its share of a sample of these rows.
    hot_key: str = field(default="", repr=False)
    hot_share: float = field(default=0.0, repr=False)
    #: Keys in memory and on scratch; bytes and number of files on scratch that are in use.
    state_keys: int = 0
    scratch_bytes: int = 0
    scratch_files: int = 0
    #: Per set of key columns: the slots of the rows sent (:mod:`rvertex.keys.hot_keys`).
    sent_slots: tuple[tuple[tuple[str, ...], tuple[int, ...]], ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class LogProgress:
    """Progress of a source vertex in one partition of a live log."""

    partition: int
    #: Next position (offset) to read; number of rows from it to the log's end, -1: unknown.
    position: int
    lag: int
    #: No later row has a smaller event time; greatest event time of rows so far, us (MIN_TIME).
    frontier: int
    max_vs: int
    #: "active", "idle" (the vertex does not wait for its frontier), or "ended".
    state: str
    #: Number of positions that the log deleted unread; number of rows that failed to decode.
    lost: int
    dead: int
    #: Whether this instance has read up to the log's last known end.
    at_end: bool = False
    #: The frontier from this instance's rows alone; idle partitions follow it.
    rows_frontier: int = MIN_TIME


@dataclass(frozen=True, slots=True)
class Hold:
    """The operator that holds back the watermark of a vertex."""

    #: Name of the operator, for people.
    operator: str
    #: Key of the row for whose end the operator waits; empty: unknown.
    row: str
    #: Start of that row, or the time up to which the operator has emitted, us.
    since_us: int
    #: Whether the operator waits for a window, which ends without another row.
    is_window: bool


@dataclass(frozen=True, slots=True)
class VertexProgress:
    """Progress of an instance: the next seqs to consume, to write and to flush."""

    vertex: str
    epoch: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    durable: tuple[int, ...]
    #: Last CTI (watermark) written; MIN_TIME before the first.
    cti: int
    #: Greatest event time read from the vertex's source, us; MIN_TIME without a source.
    max_vs: int
    counts: Counts
    tail_bytes: int
    #: One entry per partition of a live log that the vertex reads.
    logs: tuple[LogProgress, ...] = field(default=(), repr=False)
    #: What the instance waits for besides input, as text; empty: nothing.
    waiting: str = field(default="", repr=False)
    #: Number of partitions that the live log has now; 0: unknown or no log.
    log_partitions: int = field(default=0, repr=False)
    #: The operator that holds back the watermark; at most one entry.
    holds: tuple[Hold, ...] = field(default=(), repr=False)
    timing: Timing = field(default=Timing(), repr=False)
    #: Whether back-pressure stops it: it may not emit until its readers have consumed more.
    is_blocked: bool = field(default=False, repr=False)
    #: One per operator with asynchronous calls.
    calls: tuple[CallCounts, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of a host's process in bytes: used, available, and the limit of the process."""

    used_bytes: int
    free_bytes: int
    limit_bytes: int
    #: Bytes of state that can be spilled, in memory; and their budget (0: no spilling).
    state_bytes: int = 0
    state_budget_bytes: int = 0
    spilled_bytes: int = 0
    spilled_files: int = 0
    #: Requests of the process to stores, by kind (:mod:`rstream.store.requests`).
    store_requests: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Progress:
    """A host's periodic report. If reports stop, the job manager considers the host lost."""

    host: str
    vertices: tuple[VertexProgress, ...]
    #: When the report was made, us of the host's monotonic clock.
    sent_us: int = field(default=0, repr=False)
    #: At most one entry; none if the operating system does not report memory.
    memory: tuple[Memory, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class HostBusy:
    """Reports a long poll of a vertex. Until it ends, the host sends no :class:`Progress`."""

    host: str
    vertex: str
    epoch: int
    #: The operator and the function that it evaluates, as text for users.
    doing: str
    lasted_s: int
    #: Peak memory of the host's process, bytes.
    memory_bytes: int
    timing: Timing = field(default=Timing(), repr=False)


@dataclass(frozen=True, slots=True)
class VertexStarted:
    """An instance has loaded its snapshot, and its outputs can be read.

    ``inputs`` are the next seqs to consume. An instance that rebuilds its state by replay starts at
    the ``reads`` of its checkpoint; its progress reports how far it has replayed.
    """

    host: str
    vertex: str
    epoch: int
    inputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CheckpointTaken:
    """A snapshot is durable, and so is all output of durable streams before its positions.

    ``reads``: input seqs from which a restart must read: ``inputs``, or lower for a replay.
    ``parts``: paths of its blobs, maybe shared. ``asked``: made after a ``TakeCheckpoint`` arrived.
    """

    vertex: str
    epoch: int
    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    size_bytes: int
    reads: tuple[int, ...]
    parts: tuple[str, ...]
    #: Wall time of the snapshot, us UTC.
    taken_us: int
    asked: bool
    #: Bytes of the whole state; ``size_bytes``: of new files only. 0: older release.
    state_bytes: int = field(default=0, repr=False)
    #: Whether it answers a ``TakeCheckpoint`` with ``whole``, or with ``holds``.
    is_whole: bool = field(default=False, repr=False)
    is_last: bool = field(default=False, repr=False)


@dataclass(frozen=True, slots=True)
class VertexFinished:
    """An instance wrote ``CTI(INF_TIME)`` and its durable outputs are durable to the end."""

    vertex: str
    epoch: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    digests: tuple[bytes, ...]
    counts: Counts


@dataclass(frozen=True, slots=True)
class VertexFailed:
    """An instance has failed. ``family``: usage, operating, store, integrity, memory or bug."""

    vertex: str
    epoch: int
    family: str
    message: str
    detail: str


@dataclass(frozen=True, slots=True)
class ItemsLost:
    """A reader needs ``seq`` of ``stream``, which is neither in memory nor durable.

    ``writer_epochs``: the writer's instances that the reader tried; empty: it tried only files.
    """

    vertex: str
    epoch: int
    stream: str
    seq: int
    writer_epochs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OutputLost:
    """An instance cannot start: a durable output has lost the items from ``seq`` on."""

    vertex: str
    epoch: int
    stream: str
    seq: int
    reason: str


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An instance that serves the streams of its vertex, and its address."""

    epoch: int
    host: str
    address: str


@dataclass(frozen=True, slots=True)
class Locate:
    """Where the streams of ``vertex`` can be read. A greater ``version`` replaces a smaller one.

    A reader tries its own host first. Without endpoints, all items are in durable files.
    """

    vertex: str
    version: int
    endpoints: tuple[Endpoint, ...]


@dataclass(frozen=True, slots=True)
class StartVertex:
    """Open an instance from ``checkpoint``; empty: from the initial snapshot.

    ``checkpoint_slots`` replicas take checkpoints in turn, each one every ``checkpoint_slots``
    intervals; this one starts after ``checkpoint_slot + 1`` intervals.
    """

    host: str
    vertex: str
    epoch: int
    checkpoint: str
    checkpoint_slot: int
    checkpoint_slots: int
    #: Per output, the seq up to which its reader has consumed it; these items must be reproduced.
    consumed: tuple[int, ...] = ()
    #: Partitions of a live log for this vertex that were created after the job was planned.
    added: tuple[int, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class TakeCheckpoint:
    """Store a snapshot, because another instance will start from it or because the job stops.

    The host replies with a ``CheckpointTaken`` with ``asked``, for a checkpoint that was started
    later. ``holds``: stop reading; a vertex without a source first reads its channels up to
    ``inputs``. The snapshot then contains the whole state, even if the vertex recovers by replay.
    ``whole``: for a savepoint of a running job. The snapshot contains the whole state, and all
    output before it is durable, also of volatile streams.
    """

    host: str
    vertex: str
    epoch: int
    holds: bool = False
    inputs: tuple[int, ...] = ()
    whole: bool = field(default=False, repr=False)


@dataclass(frozen=True, slots=True)
class Reached:
    """Sent to a source vertex: the event time of its stage's active partitions elsewhere."""

    vertex: str
    time_us: int


@dataclass(frozen=True, slots=True)
class Confirm:
    """The host's report made at ``sent_us`` has arrived, and the host still owns its slot.

    Each ``Confirm`` renews the host's lease. Without a lease its sources use no rows of live logs.
    """

    host: str
    sent_us: int
    reached: tuple[Reached, ...]


@dataclass(frozen=True, slots=True)
class EndSource:
    """End the live logs of a source vertex at the logs' current ends."""

    host: str
    vertex: str
    epoch: int


@dataclass(frozen=True, slots=True)
class StopVertex:
    """Close an instance. ``flush``: first make its output durable; else discard the output."""

    host: str
    vertex: str
    epoch: int
    flush: bool


@dataclass(frozen=True, slots=True)
class Mark:
    """A low-water mark: no reader needs items of ``stream`` below ``seq`` any more."""

    stream: str
    seq: int


@dataclass(frozen=True, slots=True)
class Collect:
    """Delete the items below these low-water marks from streams that this host writes."""

    host: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class StopHost:
    """Stop all instances and exit; ``flush``: first make all output durable."""

    host: str
    flush: bool
    stays_at: str = field(default="", repr=False)  # where to wait for a host


HostNotice = (
    HostReady
    | Progress
    | HostBusy
    | VertexStarted
    | CheckpointTaken
    | VertexFinished
    | VertexFailed
    | ItemsLost
    | OutputLost
)
HostInstruction = (
    Locate | StartVertex | TakeCheckpoint | Confirm | EndSource | StopVertex | Collect | StopHost
)
HOST_NOTICES: tuple[type, ...] = typing.get_args(HostNotice)
NOTICE_CODEC = MessageCodec[HostNotice](HOST_NOTICES)
INSTRUCTION_CODEC: MessageCodec[HostInstruction] = MessageCodec(typing.get_args(HostInstruction))
