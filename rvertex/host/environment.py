"""Services that a host offers to its vertices: stores, streams, locations, a clock.

It knows the endpoints of every stream (``Locate`` messages keep them current) and opens readers: by
reference on the same host, over the network or a Unix socket on another, from Parquet if all items
are durable.
"""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rstream import RStream, StreamLimits, open_reader
from rstream.errors import SequenceGapError
from rstream.log.damage import first_hole, set_aside_damaged
from rstream.store.blobs import unsynced
from rvertex.checkpoint.codec import INLINE_BYTES_MAX
from rvertex.errors import OutputLostError
from rvertex.host.allocator import LargeSteps, memory_now
from rvertex.state.memory import StateMemory
from rvertex.state.scratch import Scratch
from rvertex.vertex.merge import PENDING_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rstream import BlobStore, StreamReader
    from rstream.limits import Durability
    from rvertex.host.wiring import StreamService, Wiring
    from rvertex.messages import Confirm, Endpoint, HostNotice, Locate, Memory
    from rvertex.sources.logs.protocol import LogReader
    from rvertex.sources.spec import SourcePartition
    from rvertex.vertex.spec import InputChannel, OutputEdge, VertexSpec

#: State may use this fraction of a machine's memory: 1 / 2.
_STATE_PART = 2


@dataclass(frozen=True, slots=True)
class HostLimits:
    """Limits of one host; each has a unit in its name."""

    #: Rows one read or one source chunk hands to a vertex.
    step_rows_max: int = 65_536
    #: A source chunk is so many times as long while it is narrow: at most ``narrow_bytes_max``.
    narrow_steps: int = 2
    narrow_bytes_max: int = 8 << 20
    #: Read-ahead of MERGE per channel; whichever is reached first. One read may overshoot.
    pending_rows_max: int = 262_144
    pending_bytes_max: int = PENDING_BYTES_MAX
    #: A volatile channel keeps at most this much in memory, and no more than ``stream`` says.
    channel_bytes_max: int = 32 << 20
    #: Least time between two checkpoints of an instance; None: time alone makes none due.
    checkpoint_interval_s: float | None = 5.0
    #: Bytes of input after which a checkpoint is due before that; None: input makes none due.
    checkpoint_bytes_max: int | None = None
    #: A piece of a state that is at most this large lies in the checkpoint's manifest.
    checkpoint_inline_bytes_max: int = INLINE_BYTES_MAX
    #: What state may take in memory before it is spilled; None: half of the machine's memory, or of
    #: the container's, divided by the hosts of the job.
    state_memory_bytes: int | None = None
    job_hosts: int = 1
    #: Where it is spilled to, on a local disk (empty: the folder for temporary files), and at most
    #: how much of it (None: as much as the disk takes).
    scratch_folder: str = ""
    scratch_bytes_max: int | None = None
    #: So many adjacent small segments of a channel or a side output are merged into one; 0: none.
    compact_segments_min: int = 16
    #: Also segments of the answer.
    compact_output: bool = False
    #: Longest wait for the last flush when a host is told to stop.
    flush_wait_s: float = 60.0
    report_interval_s: float = 0.1
    #: The host reports a poll of a vertex that lasts longer, and again after each such time.
    busy_after_s: float = 2.0
    #: So long after a report that the job manager has confirmed, rows of live logs may be used.
    lease_s: float = 1.0
    #: Partitions of live logs are read up to the end that they have, and no further.
    until_end: bool = False
    #: Longest sleep of an idle host between two looks at its inputs.
    idle_wait_s: float = 0.05
    #: Least time between two attempts to attach to an unreachable writer.
    reconnect_s: float = 0.2
    #: Event seconds per wall second; 0: as fast as possible.
    pace: float = 0.0
    #: Wall time at which the first row was due, us UTC; 0: when an instance first looks.
    pace_started_us: int = 0
    #: Digest comparison of writes that come twice; whatever is written is checked to be items.
    verify: bool = False
    #: What is announced as durable is synced, where the store is a local disk.
    fsync: bool = True
    stream: StreamLimits = field(default_factory=StreamLimits)

    def stream_limits(self, durability: Durability, *, is_sink: bool = False) -> StreamLimits:
        """Those of a stream of that durability.

        ``is_sink``: other systems may take its new files for new rows, so none are merged unless
        ``compact_output``.
        """
        stream = self.stream
        if durability != "volatile" and (self.compact_output or not is_sink):
            stream = replace(stream, compact_segments_min=self.compact_segments_min)
        if durability != "volatile" or stream.tail_bytes_max <= self.channel_bytes_max:
            return stream
        return replace(stream, tail_bytes_max=self.channel_bytes_max)


class HostEnvironment:
    """The services that a host gives to its vertex runners; its thread owns them."""

    def __init__(
        self,
        *,
        host: str,
        writers: Mapping[str, str],
        root: str,
        server: StreamService,
        secret: str,
        wiring: Wiring,
        limits: HostLimits,
        notify: Callable[[HostNotice], None],
        wake: Callable[[], None],
    ) -> None:
        self.host = host
        #: Stream id -> the vertex that writes it.
        self._writers = writers
        self.limits = limits
        self._wiring = wiring
        self.store = self._open_store(root)
        self._server = server
        self._secret = secret
        self.background = wiring.background
        self.clock = wiring.clock
        self.large_steps = LargeSteps(wiring.clock)
        scratch = Scratch(limits.scratch_folder or None, limits.scratch_bytes_max)
        self.state_memory = StateMemory(_state_memory_bytes(limits), scratch)
        self.notify = notify
        self.wake = wake
        #: When the newest report was made that the job manager has confirmed; monotonic seconds.
        self.confirmed_s = -math.inf
        #: By source vertex, what the live logs of its stage have reached elsewhere.
        self.reached: dict[str, int] = {}
        #: By source vertex of live logs, from when on no other instance uses rows; monotonic
        #: seconds. Only while it is known who ran before the one that runs, or is being opened.
        self.alone_s: dict[str, float] = {}
        self._locations: dict[str, Locate] = {}
        self._local: dict[tuple[str, int], RStream] = {}

    def memory_now(self) -> tuple[Memory, ...]:
        """The memory of this process and its state; empty if the system does not report it."""
        return tuple(self.state_memory.added_to(memory) for memory in memory_now())

    def _open_store(self, uri: str) -> BlobStore:
        store = self._wiring.open_store(uri)
        return store if self.limits.fsync else unsynced(store)

    def confirm(self, confirmed: Confirm) -> None:
        """The job manager still counts on this host."""
        self.confirmed_s = max(self.confirmed_s, confirmed.sent_us / 1e6)
        self.reached = {found.vertex: found.time_us for found in confirmed.reached}

    def locate(self, location: Locate) -> None:
        """Remember where the streams of a vertex are written; older versions are ignored."""
        known = self._locations.get(location.vertex)
        if known is None or known.version <= location.version:
            self._locations[location.vertex] = location

    def location(self, stream: str) -> Locate | None:
        """Where ``stream`` is written; None while unknown."""
        return self._locations.get(self._writers[stream])

    def nearest_first(self, stream: str, seq: int) -> list[Endpoint]:
        """The endpoints of ``stream``, one on this host first (last while it is behind ``seq``)."""
        location = self.location(stream)
        endpoints = [] if location is None else list(location.endpoints)
        for endpoint in endpoints:
            if endpoint.host == self.host:
                endpoints.remove(endpoint)
                local = self._local.get((stream, endpoint.epoch))
                is_there = local is not None and local.next_seq >= seq
                return [endpoint, *endpoints] if is_there else [*endpoints, endpoint]
        return endpoints

    def is_there(self, stream: str, endpoint: Endpoint) -> bool:
        """Whether the endpoint is on another host, or an open instance on this one."""
        return endpoint.host != self.host or (stream, endpoint.epoch) in self._local

    def open_outputs(self, spec: VertexSpec, seqs: Sequence[int]) -> list[RStream]:
        """Open the output streams of an instance at its output seqs. May run in any thread.

        Raises:
            OutputLostError: files that it wrote before are missing.
            StreamEngineError: one could not be opened; then none is.
        """
        streams: list[RStream] = []
        with ExitStack() as undo:
            for edge in spec.outputs:
                for stream_id, uri in zip(edge.streams, edge.uris, strict=True):
                    stream = self._open_output(spec, edge, stream_id, uri, seqs[len(streams)])
                    undo.callback(stream.close, flush=False)
                    streams.append(stream)
            undo.pop_all()
        return streams

    def _open_output(
        self, spec: VertexSpec, edge: OutputEdge, stream_id: str, uri: str, seq: int
    ) -> RStream:
        """One stream at ``seq``; an output for users is verified from its beginning."""
        store = self._open_store(uri)
        if edge.is_sink or edge.side:
            lost = first_hole(store, stream_id, seq)
            if lost is not None:
                raise OutputLostError(stream_id, lost.seqs.lo, str(lost))
        try:
            return RStream.open(
                store,
                spec.payload_of(edge),
                stream_id=stream_id,
                start_seq=seq,
                durability=edge.durability,
                limits=self.limits.stream_limits(edge.durability, is_sink=edge.is_sink),
                background=self.background,
                clock=self.clock,
                verify=self.limits.verify,
                shared=spec.recovery.replicas > 1 or self.limits.verify,
                form=edge.form,
                keeps_digest=edge.is_sink or bool(edge.side),
                on_change=self.wake,
            )
        except SequenceGapError as error:
            lost = first_hole(store, stream_id, seq)
            reason = f"{uri} ends at {error.next_seq}" if lost is None else str(lost)
            raise OutputLostError(stream_id, error.next_seq, reason) from error

    def set_aside_damaged(self, channel: InputChannel, seq: int) -> None:
        """A segment of a channel could not be read: its writer must write it again."""
        set_aside_damaged(self._open_store(channel.uri), channel.stream, seq)

    def open_log(self, source: SourcePartition, positions: Sequence[int]) -> LogReader:
        """A reader of the live log of a source."""
        return self._wiring.open_log(source, positions, self.wake)

    def publish(self, streams: Sequence[RStream], epoch: int) -> None:
        """Let readers have the streams of an instance."""
        for stream in streams:
            self._local[stream.stream_id, epoch] = stream
            self._server.publish(stream.stream_id, epoch, stream)

    def withdraw(self, stream: RStream, epoch: int) -> None:
        """Take a stream of a closed instance out of service."""
        self._server.withdraw(stream.stream_id, epoch)
        self._local.pop((stream.stream_id, epoch), None)

    def open_reader(
        self, channel: InputChannel, endpoint: Endpoint | None, seq: int, *, durable_first: bool
    ) -> StreamReader | None:
        """A reader of ``channel`` from ``seq`` at an endpoint (None: a reader of durable items).

        Returns None if the endpoint is on this host and is not open (yet). ``seq`` may be ahead of
        the endpoint: the reader waits for it.

        Raises:
            SequenceDiscardedError, SequenceLostError: the endpoint does not have ``seq``.
        """
        if endpoint is None:
            return open_reader(self._wiring.open_store(channel.uri), seq)
        if endpoint.host == self.host:
            local = self._local.get((channel.stream, endpoint.epoch))
            return None if local is None else local.register(seq, ahead=True)
        return self._wiring.read_remote(
            endpoint.address,
            self._secret,
            channel.stream,
            endpoint.epoch,
            seq,
            self._wiring.open_store(channel.uri),
            self.wake,
            durable_first=durable_first,
        )


def _state_memory_bytes(limits: HostLimits) -> int | None:
    """The budget of a host; None if the system does not report its memory."""
    if limits.state_memory_bytes is not None:
        return limits.state_memory_bytes
    return next((m.limit_bytes // _STATE_PART // limits.job_hosts for m in memory_now()), None)
