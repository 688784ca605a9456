"""Services that a host offers to its vertices: stores, streams, locations, a clock.

It keeps the endpoints of every stream, which ``Locate`` messages update, and opens readers. A
stream on the same host is read by reference, on another host over the network or a Unix socket, and
from Parquet if all its items are durable.
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
from rstream.store.requests import requests_sent
from rstream.transport.receive import RemoteStream
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

#: Spilled state may not use more than this share of the machine's memory: 1 / 2.
_STATE_PART = 2


@dataclass(frozen=True, slots=True)
class HostLimits:
    """Limits of one host; each has a unit in its name."""

    #: Most rows that one read of a channel or of a source returns.
    step_rows_max: int = 65_536
    #: A read of a source may have this many times ``step_rows_max`` rows if they are narrow, up to
    #: ``narrow_bytes_max`` bytes.
    narrow_steps: int = 2
    narrow_bytes_max: int = 8 << 20
    #: Limits of the items that MERGE buffers per channel, in rows and bytes. One read may exceed
    #: them.
    pending_rows_max: int = 262_144
    pending_bytes_max: int = PENDING_BYTES_MAX
    #: Most memory of a volatile channel, in bytes, if ``stream`` does not limit it further.
    channel_bytes_max: int = 32 << 20
    #: Time between two checkpoints of an instance; None: no checkpoints by time.
    checkpoint_interval_s: float | None = 5.0
    #: Bytes of input after which a checkpoint is due earlier; None: no checkpoints by input.
    checkpoint_bytes_max: int | None = None
    #: State pieces up to this size, in bytes, are stored inside the checkpoint's manifest.
    checkpoint_inline_bytes_max: int = INLINE_BYTES_MAX
    #: Memory for state before it is spilled; None: half of the machine's or container's memory,
    #: divided by the hosts of the job.
    state_memory_bytes: int | None = None
    job_hosts: int = 1
    #: Local folder for spilled state (empty: the folder for temporary files), and the most bytes in
    #: it (None: until the disk is full).
    scratch_folder: str = ""
    scratch_bytes_max: int | None = None
    #: Number of adjacent small segments of a channel or side output that are merged into one; 0:
    #: never.
    compact_segments_min: int = 16
    #: Whether segments of the result are merged as well.
    compact_output: bool = False
    #: Longest wait for the last flush when a host stops.
    flush_wait_s: float = 60.0
    report_interval_s: float = 0.1
    #: A poll of a vertex that takes longer than this is reported, and again after each such
    #: interval.
    busy_after_s: float = 2.0
    #: After this time a report of a long poll has the thread's stack. The stack is read again
    #: whenever the poll has lasted twice as long.
    stack_after_s: float = 10.0
    #: Rows of live logs may be used for this time after a report that the job manager confirmed.
    lease_s: float = 1.0
    #: Whether live logs are read only up to the ends that they had at the start.
    until_end: bool = False
    #: Longest sleep of an idle host before it polls its inputs again.
    idle_wait_s: float = 0.05
    #: Least time between two attempts to attach to an unreachable writer.
    reconnect_s: float = 0.2
    #: Event seconds to replay per wall second; 0: as fast as possible.
    pace: float = 0.0
    #: Wall time at which the first row is due, us UTC; 0: the time of an instance's first poll.
    pace_started_us: int = 0
    #: Whether to compare digests of items that are written twice, and to check all written items.
    verify: bool = False
    #: Whether to sync files before they are announced as durable, if the store is a local disk.
    fsync: bool = True
    stream: StreamLimits = field(default_factory=StreamLimits)

    def stream_limits(self, durability: Durability, *, is_sink: bool = False) -> StreamLimits:
        """Return the limits of a stream of that durability.

        Segments of a sink are merged only with ``compact_output``: other systems that read the
        folder may take rewritten files for new rows.
        """
        stream = self.stream
        if durability != "volatile" and (self.compact_output or not is_sink):
            stream = replace(stream, compact_segments_min=self.compact_segments_min)
        if durability != "volatile" or stream.tail_bytes_max <= self.channel_bytes_max:
            return stream
        return replace(stream, tail_bytes_max=self.channel_bytes_max)


class HostEnvironment:
    """The services that a host offers to its vertex runners; used by the host's thread only."""

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
        #: When the job manager last confirmed a report: the time at which that report was made,
        #: monotonic seconds.
        self.confirmed_s = -math.inf
        #: Per source vertex: the event time, in us, that the active partitions of its stage on
        #: other hosts have reached.
        self.reached: dict[str, int] = {}
        #: Per source vertex of live logs: the monotonic time, in s, from which the previous
        #: instance uses no more rows. An entry is removed when the previous instance ran on another
        #: host.
        self.alone_s: dict[str, float] = {}
        self._locations: dict[str, Locate] = {}
        self._local: dict[tuple[str, int], RStream] = {}

    def memory_now(self) -> tuple[Memory, ...]:
        """Return the memory of this process and its state, and its requests to stores.

        Empty if the system does not report memory.
        """
        sent = requests_sent()
        return tuple(
            replace(self.state_memory.added_to(memory), store_requests=sent)
            for memory in memory_now()
        )

    def _open_store(self, uri: str) -> BlobStore:
        store = self._wiring.open_store(uri)
        return store if self.limits.fsync else unsynced(store)

    def confirm(self, confirmed: Confirm) -> None:
        """Record a confirmed report, which renews the lease."""
        self.confirmed_s = max(self.confirmed_s, confirmed.sent_us / 1e6)
        self.reached = {entry.vertex: entry.time_us for entry in confirmed.reached}

    def locate(self, location: Locate) -> None:
        """Record where the streams of a vertex are written; older versions are ignored."""
        known = self._locations.get(location.vertex)
        if known is None or known.version <= location.version:
            self._locations[location.vertex] = location

    def location(self, stream: str) -> Locate | None:
        """Return where ``stream`` is written; None: unknown yet."""
        return self._locations.get(self._writers[stream])

    def nearest_first(self, stream: str, seq: int) -> list[Endpoint]:
        """Return the endpoints of ``stream``: one on this host first, or last if behind ``seq``."""
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
        """Return whether to try the endpoint: it is elsewhere, or open on this host."""
        return endpoint.host != self.host or (stream, endpoint.epoch) in self._local

    def open_outputs(self, spec: VertexSpec, seqs: Sequence[int]) -> list[RStream]:
        """Open the output streams of an instance at its output seqs. May run in any thread.

        Raises:
            OutputLostError: files of an earlier instance are missing.
            StreamEngineError: a stream could not be opened; the others are closed again.
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
        """Open one stream at ``seq``. A stream for users is verified from its first item on."""
        store = self._open_store(uri)
        is_shared = edge.is_sink or bool(edge.side)
        if is_shared:
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
                generation=edge.generation,
                keeps_digest=is_shared,
                on_change=self.wake,
            )
        except SequenceGapError as error:
            lost = first_hole(store, stream_id, seq)
            reason = f"{uri} ends at {error.next_seq}" if lost is None else str(lost)
            raise OutputLostError(stream_id, error.next_seq, reason) from error

    def set_aside_damaged(self, channel: InputChannel, seq: int) -> None:
        """Rename a channel's damaged segment, so that its writer writes these items again."""
        set_aside_damaged(self._open_store(channel.uri), channel.stream, seq)

    def open_log(self, source: SourcePartition, positions: Sequence[int]) -> LogReader:
        """Open a reader of the live log of a source."""
        return self._wiring.open_log(source, positions, self.wake)

    def publish(self, streams: Sequence[RStream], epoch: int) -> None:
        """Make the streams of an instance readable for other vertices."""
        for stream in streams:
            self._local[stream.stream_id, epoch] = stream
            self._server.publish(stream.stream_id, epoch, stream)

    def withdraw(self, stream: RStream, epoch: int) -> None:
        """Stop serving a stream of a closed instance."""
        self._server.withdraw(stream.stream_id, epoch)
        self._local.pop((stream.stream_id, epoch), None)

    def open_reader(
        self, channel: InputChannel, endpoint: Endpoint | None, seq: int, *, durable_first: bool
    ) -> StreamReader | None:
        """Open a reader of ``channel`` from ``seq`` at an endpoint (None: of durable items).

        Returns None if the endpoint is on this host and is not open yet. ``seq`` may be ahead of
        the endpoint: the reader then waits for it.

        Raises:
            SequenceDiscardedError, SequenceLostError: the endpoint does not have ``seq``.
        """
        if endpoint is None:
            return open_reader(self._wiring.open_store(channel.uri), seq)
        if endpoint.host == self.host:
            local = self._local.get((channel.stream, endpoint.epoch))
            return None if local is None else local.register(seq, ahead=True)
        stream = RemoteStream(endpoint.address, self._secret, channel.stream, endpoint.epoch)
        store = self._wiring.open_store(channel.uri)
        return self._wiring.read_remote(stream, seq, store, self.wake, durable_first=durable_first)


def _state_memory_bytes(limits: HostLimits) -> int | None:
    """Return how many bytes of state a host keeps in memory; None if the limit is unknown."""
    if limits.state_memory_bytes is not None:
        return limits.state_memory_bytes
    return next((m.limit_bytes // _STATE_PART // limits.job_hosts for m in memory_now()), None)
