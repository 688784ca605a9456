"""What a host and the job manager say to each other.

Notices go up (past tense), instructions come down (imperative);
:mod:`rstream.format.message_codec` has their bytes. A host that gets a message that it cannot read
stops.
"""

from __future__ import annotations

import typing
from dataclasses import dataclass, field

from rstream.format.message_codec import MessageCodec
from rstream.types import MIN_TIME
from rvertex.events.call_counts import CallCounts  # noqa: TC001 - the codec reads the hints


@dataclass(frozen=True, slots=True)
class HostReady:
    """A host has opened its Flight service and can take vertices."""

    host: str
    #: Which try of the same Spark task this is; a second one is refused.
    attempt: int
    pid: int
    machine: str
    address: str


@dataclass(frozen=True, slots=True)
class Counts:
    """What an instance has counted since its vertex began."""

    events_in: int = 0
    events_out: int = 0
    late_events: int = 0
    #: Calls of user code that raised and were passed over.
    poisoned_events: int = field(default=0, repr=False)
    #: How late rows of its source came (:mod:`rvertex.vertex.lateness_counts`).
    lateness: bytes = field(default=b"", repr=False)
    #: Rows of its source that could not become events and were passed over.
    bad_rows: int = field(default=0, repr=False)
    #: Events that deduplication dropped.
    duplicates: int = field(default=0, repr=False)


@dataclass(frozen=True, slots=True)
class Timing:
    """Where the time of an instance went since it started, by samples, and what its state takes."""

    #: In polls of the vertex, and of that in functions of the user.
    busy_us: int = 0
    user_us: int = 0
    #: The user's function that took most of it; empty: none was sampled.
    function: str = ""
    #: State in memory that can be spilled; files and bytes that it has written to scratch.
    memory_bytes: int = 0
    spills: int = 0
    spilled_bytes: int = 0


@dataclass(frozen=True, slots=True)
class LogProgress:
    """Where a source vertex stands in one partition of a live log."""

    #: The log's own number of the partition.
    partition: int
    #: Next position to read.
    position: int
    #: Rows between that and the end of the log; -1: unknown.
    lag: int
    #: No later row is below it; MIN_TIME before the first.
    frontier: int
    #: Greatest event time of its rows.
    max_vs: int
    #: "active", "idle" (it holds nothing back), "ended".
    state: str
    #: Positions that the log no longer had, and rows that could not be decoded.
    lost: int
    dead: int
    #: All was taken that the log held when this instance looked for its end.
    at_end: bool = False
    #: The frontier as its rows alone moved it in this instance: those that are idle follow it.
    rows_frontier: int = MIN_TIME


@dataclass(frozen=True, slots=True)
class Hold:
    """What holds the time of a vertex back."""

    #: The operator, in words.
    operator: str
    #: The key of the row for whose end it waits; empty: it names none.
    row: str
    #: The start of that row, or how far the operator has put out.
    since_us: int
    #: A window that ends by itself as time goes on.
    is_window: bool


@dataclass(frozen=True, slots=True)
class VertexProgress:
    """Where an instance stands. Sequence numbers are "next": consumed, written, durable."""

    vertex: str
    epoch: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    durable: tuple[int, ...]
    #: Time of the last CTI it wrote (MIN_TIME before the first).
    cti: int
    #: Greatest event time it has read from its source (MIN_TIME elsewhere).
    max_vs: int
    counts: Counts
    tail_bytes: int
    #: Of a source of live logs.
    logs: tuple[LogProgress, ...] = field(default=(), repr=False)
    #: What it waits for besides input; empty if for nothing.
    waiting: str = field(default="", repr=False)
    #: Of a source of live logs: how many partitions the log has by now; 0: that is not known.
    log_partitions: int = field(default=0, repr=False)
    #: What holds its time back; one at most.
    holds: tuple[Hold, ...] = field(default=(), repr=False)
    timing: Timing = field(default=Timing(), repr=False)
    #: Its readers are too slow: it may not emit more.
    is_blocked: bool = field(default=False, repr=False)
    #: Of each operator whose calls wait for answers.
    calls: tuple[CallCounts, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Memory:
    """Of a host's process, in bytes: what it has, what is free for it, and the limit of both."""

    used_bytes: int
    free_bytes: int
    limit_bytes: int
    #: What operators that can spill keep in memory, and how much they may (0: they never spill).
    state_bytes: int = 0
    state_budget_bytes: int = 0
    #: What they have on scratch: bytes and files.
    spilled_bytes: int = 0
    spilled_files: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """A host's periodic report; its absence is a failure signal."""

    host: str
    vertices: tuple[VertexProgress, ...]
    #: When it was made, by the host's monotonic clock, us.
    sent_us: int = field(default=0, repr=False)
    #: One at most; none: the system does not tell.
    memory: tuple[Memory, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class HostBusy:
    """One poll of a vertex lasts long; until it ends, the host reports no progress."""

    host: str
    vertex: str
    epoch: int
    #: The operator and what it evaluates, in words.
    doing: str
    lasted_s: int
    #: The most memory that the host's process has had.
    memory_bytes: int
    #: Of the instance, until now.
    timing: Timing = field(default=Timing(), repr=False)


@dataclass(frozen=True, slots=True)
class VertexStarted:
    """An instance has loaded its snapshot and its outputs can be read.

    ``inputs``: where it reads on; one that rebuilds its state by replay begins at the reads of its
    checkpoint and reports, in its progress, how far it has read again.
    """

    host: str
    vertex: str
    epoch: int
    inputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CheckpointTaken:
    """A snapshot is durable, and so are the outputs of durable streams below it.

    ``reads``: where a restart from it must begin to read (``inputs``, or before them for replay).
    ``parts``: the blobs it names, as paths below the job's root; others of the vertex may name them
    too. ``asked``: the snapshot was made after a ``TakeCheckpoint`` had arrived.
    """

    vertex: str
    epoch: int
    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    size_bytes: int
    reads: tuple[int, ...]
    parts: tuple[str, ...]
    #: Wall time, us UTC.
    taken_us: int
    asked: bool
    #: The whole state; ``size_bytes`` counts new files alone. 0: an older release wrote it.
    state_bytes: int = field(default=0, repr=False)


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
    """An instance cannot go on. ``family``: usage, operating, store, integrity, memory or bug."""

    vertex: str
    epoch: int
    family: str
    message: str
    detail: str


@dataclass(frozen=True, slots=True)
class ItemsLost:
    """A reader needs ``seq`` of ``stream``, which is neither in memory nor durable.

    ``writer_epochs``: the instances of the writer that it has tried (none: Parquet alone).
    """

    vertex: str
    epoch: int
    stream: str
    seq: int
    writer_epochs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OutputLost:
    """An instance cannot begin: a durable output lacks what was there, from ``seq`` on."""

    vertex: str
    epoch: int
    stream: str
    seq: int
    reason: str


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An instance that serves the streams of its vertex, and where."""

    epoch: int
    host: str
    address: str


@dataclass(frozen=True, slots=True)
class Locate:
    """Where the streams of ``vertex`` can be read; of two the greater ``version`` holds.

    A reader takes the endpoint on its own host if there is one, else the first. It goes on to the
    next by itself if its connection breaks or the endpoint lacks items. Without endpoints,
    all items are durable: the reader reads Parquet.
    """

    vertex: str
    version: int
    endpoints: tuple[Endpoint, ...]


@dataclass(frozen=True, slots=True)
class StartVertex:
    """Open an instance. An empty checkpoint means the initial snapshot.

    ``checkpoint_slots`` instances take checkpoints one after the other: this one every interval x
    ``checkpoint_slots``, the first after interval x (``checkpoint_slot`` + 1).
    """

    host: str
    vertex: str
    epoch: int
    checkpoint: str
    checkpoint_slot: int
    checkpoint_slots: int
    #: By output, what its reader is known to have consumed: these items come again as they were.
    consumed: tuple[int, ...] = ()
    #: Of a source of live logs: the partitions it reads that were added since the job was planned.
    added: tuple[int, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class TakeCheckpoint:
    """Make a snapshot and store it: for an instance that is to join, or because the job stops.

    The answer is a ``CheckpointTaken`` with ``asked``; one that is under way does not count.
    ``holds``: a source reads nothing more; a reader first reads its channels up to ``inputs``. The
    snapshot then contains the whole state, also of a replayed vertex.
    """

    host: str
    vertex: str
    epoch: int
    holds: bool = False
    inputs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Reached:
    """For a source vertex, what the logs of its stage have reached elsewhere that are not idle."""

    vertex: str
    time_us: int


@dataclass(frozen=True, slots=True)
class Confirm:
    """The report that the host made at ``sent_us`` has come, and the host still holds its slot.

    From then on the host has a lease: so long its sources may use rows of live logs.
    """

    host: str
    sent_us: int
    reached: tuple[Reached, ...]


@dataclass(frozen=True, slots=True)
class EndSource:
    """End the live logs of a source vertex at what was read of them."""

    host: str
    vertex: str
    epoch: int


@dataclass(frozen=True, slots=True)
class StopVertex:
    """Close an instance. With ``flush``, what it wrote is made durable first, else forgotten."""

    host: str
    vertex: str
    epoch: int
    flush: bool


@dataclass(frozen=True, slots=True)
class Mark:
    """Below ``seq`` no one needs ``stream`` any more."""

    stream: str
    seq: int


@dataclass(frozen=True, slots=True)
class Collect:
    """Garbage collect streams that this host writes."""

    host: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class StopHost:
    """Close everything and leave. With ``flush``, what was written is made durable first."""

    host: str
    flush: bool


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


NOTICE_CODEC: MessageCodec[HostNotice] = MessageCodec(HOST_NOTICES)
INSTRUCTION_CODEC: MessageCodec[HostInstruction] = MessageCodec(typing.get_args(HostInstruction))
