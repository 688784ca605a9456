"""What a host offers to the vertices placed on it: stores, streams, locations, a clock.

It knows where the writer of every stream is (``Locate`` messages keep that current) and opens the
right reader: by reference on the same host, over Flight on another, from Parquet where all of it is
durable.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rstream import RStream, StreamLimits, open_reader
from rstream.errors import SequenceLostError
from rvertex.state import INLINE_BYTES_MAX
from rvertex.wiring import DistantReader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rstream import StreamReader
    from rvertex.messages import HostNotice, Locate
    from rvertex.types import InputChannel, VertexSpec
    from rvertex.wiring import StreamService, Wiring


@dataclass(frozen=True, slots=True)
class HostLimits:
    """Limits of one host; each has a unit in its name."""

    #: Rows one read or one source chunk hands to a vertex.
    step_rows_max: int = 65_536
    #: Read-ahead of MERGE per channel.
    pending_rows_max: int = 262_144
    #: Least time between two checkpoints of an instance; None: time alone makes none due.
    checkpoint_interval_s: float | None = 5.0
    #: Bytes of input after which a checkpoint is due before that; None: input makes none due.
    checkpoint_bytes_max: int | None = None
    #: A piece of a state that is at most this large lies in the checkpoint's manifest.
    checkpoint_inline_bytes_max: int = INLINE_BYTES_MAX
    #: Longest wait for the last flush when a host is told to stop.
    flush_wait_s: float = 60.0
    report_interval_s: float = 0.1
    #: Longest sleep of an idle host between two looks at its inputs.
    idle_wait_s: float = 0.05
    #: Least time between two attempts to attach to an unreachable writer.
    reconnect_s: float = 0.2
    #: Event seconds per wall second; 0: as fast as possible.
    pace: float = 0.0
    #: Wall time at which the first row was due, us UTC; 0: when an instance first looks.
    pace_started_us: int = 0
    #: Digest comparison of writes that come twice.
    verify: bool = False
    stream: StreamLimits = field(default_factory=StreamLimits)


@dataclass(slots=True)
class Attachment:
    """A reader, and the instance of the writer it was attached to."""

    reader: StreamReader
    writer_epoch: int
    opened_s: float


class HostEnvironment:
    """The surroundings of a vertex runner; owned by the host's thread."""

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
        self.store = wiring.open_store(root)
        self._server = server
        self._secret = secret
        self._wiring = wiring
        self.background = wiring.background
        self.clock = wiring.clock
        self.limits = limits
        self.notify = notify
        self._wake = wake
        self._locations: dict[str, Locate] = {}
        self._local: dict[tuple[str, int], RStream] = {}

    def locate(self, location: Locate) -> None:
        """Remember where the streams of a vertex are written; older versions are ignored."""
        known = self._locations.get(location.vertex)
        if known is None or known.version <= location.version:
            self._locations[location.vertex] = location

    def writer_epoch(self, stream: str) -> int:
        """Epoch of the instance that writes ``stream``; 0: all durable, -1 while unknown."""
        location = self._locations.get(self._writers[stream])
        return -1 if location is None else location.sites[0].epoch if location.sites else 0

    def open_outputs(self, spec: VertexSpec, epoch: int, seqs: list[int]) -> list[RStream]:
        """Open and publish the output streams of an instance at its output seqs."""
        streams: list[RStream] = []
        for edge in spec.outputs:
            for stream_id, uri in zip(edge.streams, edge.uris, strict=True):
                stream = RStream.open(
                    self._wiring.open_store(uri),
                    spec.payload_of(edge),
                    stream_id=stream_id,
                    start_seq=seqs[len(streams)],
                    durability=edge.durability,
                    limits=self.limits.stream,
                    background=self.background,
                    clock=self.clock,
                    verify=self.limits.verify,
                    on_change=self._wake,
                )
                self._local[stream_id, epoch] = stream
                self._server.publish(stream_id, epoch, stream)
                streams.append(stream)
        return streams

    def withdraw(self, stream: RStream, epoch: int) -> None:
        """Take a stream of a closed instance out of service."""
        self._server.withdraw(stream.stream_id, epoch)
        self._local.pop((stream.stream_id, epoch), None)

    def is_stale(self, attachment: Attachment, stream: str) -> bool:
        """Whether the reader must be attached anew: its writer moved, or the line broke.

        Raises:
            SequenceLostError: the writer no longer has what the reader needs.
        """
        if attachment.writer_epoch != self.writer_epoch(stream):
            return True
        reader = attachment.reader
        if not isinstance(reader, DistantReader) or not reader.is_broken:
            return False
        if isinstance(reader.failure, SequenceLostError):
            raise reader.failure
        return self.clock.monotonic_s() - attachment.opened_s >= self.limits.reconnect_s

    def attach(self, channel: InputChannel, seq: int) -> Attachment | None:
        """A reader of ``channel`` from ``seq``; None while its writer is nowhere.

        Raises:
            SequenceNotReadyError: a restarted writer on this host has not come this far.
            SequenceLostError: ``seq`` must be recomputed.
        """
        location = self._locations.get(self._writers[channel.stream])
        if location is None:
            return None
        reader: StreamReader
        if not location.sites:
            reader = open_reader(self._wiring.open_store(channel.uri), seq)
            return Attachment(reader, 0, self.clock.monotonic_s())
        site = location.sites[0]
        if site.host == self.host:
            local = self._local.get((channel.stream, site.epoch))
            if local is None:
                return None
            reader = local.register(seq)
        else:
            reader = self._wiring.read_remote(
                site.address,
                self._secret,
                channel.stream,
                site.epoch,
                seq,
                self._wiring.open_store(channel.uri),
                self._wake,
            )
        return Attachment(reader, site.epoch, self.clock.monotonic_s())
