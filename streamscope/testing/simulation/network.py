"""Connections ("lines") between processes: with delays, breaks, and faults of single frames.

A control line is a pair of pipes. As on a TCP connection, messages are mostly lost when the line
breaks: all from some message on. The two ends notice that at different times. ``fates`` decides on
faults of single frames, which production code handles by its message numbers. A data line pushes
the items of a published stream with the same rules, but loses no item until it breaks; then its
reader opens it again.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rstream.errors import (
    OperatingError,
    SequenceDiscardedError,
    SequenceLostError,
    StreamEngineError,
)
from rstream.transport.control import DisconnectedError
from rstream.transport.receive import PushedReader, error_to_text, loss_from_text
from streamscope.testing.simulation.fates import Fates
from streamscope.testing.simulation.pipe import Pipe
from streamscope.testing.simulation.scheduler import idle_s

if TYPE_CHECKING:
    from collections.abc import Callable

    from rstream import Items, RStream
    from rstream.store.protocol import BlobStore
    from rstream.transport.receive import RemoteStream
    from streamscope.testing.simulation.scheduler import Process, Scheduler

#: A silent connection is closed after this time (like rstream.transport.control.SILENCE_S).
SILENCE_S = 20.0
#: So large that it never limits: queues here are limited by items, as no thread may block.
QUEUE_BYTES_MAX = 1 << 30
WINDOW_ITEMS = 100
PUSH_ROWS_MAX = 40


class Network:
    """Addresses of processes, delays of messages, and blocked pairs of processes."""

    def __init__(self, world: Scheduler) -> None:
        self.world = world
        #: Longest delay of one message, s.
        self.delay_s = 0.002
        self.fates = Fates(world)
        self.controls: dict[str, ControlService] = {}
        self.services: dict[str, StreamService] = {}
        self.links: list[ControlLink] = []
        self.readers: list[SimReader] = []
        self._cut_until_s: dict[tuple[str, str], float] = {}

    def partition(self, one: Process, other: Process, seconds: float) -> None:
        """Block all frames between two processes for ``seconds``."""
        self._cut_until_s[_pair(one, other)] = self.world.now_s + seconds

    def delay(self, one: Process, other: Process) -> float:
        """Return the delay of a message that is sent now, s."""
        cut_s = self._cut_until_s.get(_pair(one, other), 0.0) - self.world.now_s
        return max(cut_s, 0.0) + self.world.between(0.0, self.delay_s)

    def break_lines_of(self, process: Process) -> None:
        """Break the connections of a dead process; its peers notice."""
        for link in list(self.links):
            if process in (link.host, link.manager):
                link.cut()
        for reader in list(self.readers):
            if reader.server is process or reader.process is process:
                reader.cut()


def _pair(one: Process, other: Process) -> tuple[str, str]:
    return (one.name, other.name) if one.name < other.name else (other.name, one.name)


class ControlService:
    """The job manager's end of all control lines (jobmanager.driver.shell_parts.ControlService)."""

    def __init__(
        self,
        network: Network,
        process: Process,
        on_message: Callable[[str, bytes], None],
        on_disconnect: Callable[[str], None],
        wake: Callable[[], None],
    ) -> None:
        self.address = f"control://{process.name}"
        self.process = process
        self.links: dict[str, ControlLink] = {}
        self.is_closed = False
        self._network = network
        self._on_message, self._on_disconnect, self._wake = on_message, on_disconnect, wake
        network.controls[self.address] = self

    def send(self, peer: str, message: bytes) -> None:
        link = self.links.get(peer)
        if link is None:
            raise DisconnectedError(peer)
        link.down(message)

    def close(self) -> None:
        self.is_closed = True
        for link in list(self.links.values()):
            link.cut()

    def receive(self, peer: str, message: bytes) -> None:
        """Handle a message that has arrived."""
        self._on_message(peer, message)
        self._wake()

    def ended(self, link: ControlLink) -> None:
        """Handle the end of a connection; only the end of a peer's newest one is reported."""
        if self.links.get(link.peer) is link:
            del self.links[link.peer]
            if not self.is_closed:
                self._on_disconnect(link.peer)
                self._wake()


class ControlLink:
    """Both ends of a control connection; the host's end is a rvertex.host.wiring.ControlLink."""

    def __init__(
        self,
        network: Network,
        host: Process,
        service: ControlService,
        peer: str,
        on_message: Callable[[bytes], None],
        on_disconnect: Callable[[], None],
    ) -> None:
        self.host, self.manager, self.peer = host, service.process, peer
        self.network, self._service = network, service
        self.world, self.fates = network.world, network.fates
        self._on_message, self._on_disconnect = on_message, on_disconnect
        self._up = Pipe(self, "up", host, self.manager, self._arrive_up, self._broken_up)
        self._down = Pipe(self, "down", self.manager, host, self._arrive_down, self._broken_down)
        self.is_cut = False
        self._host_knows = self._manager_knows = False
        self._is_closed = False
        self._drains = network.world.chance(0.5)
        service.links[peer] = self
        network.links.append(self)

    def send(self, message: bytes) -> None:
        """Send from the host to the job manager."""
        if self._host_knows or self._is_closed:
            raise DisconnectedError(self.peer)
        self._up.send(message)

    def down(self, message: bytes) -> None:
        """Send from the job manager to the host."""
        if self._manager_knows:
            raise DisconnectedError(self.peer)
        self._down.send(message)

    def close(self) -> None:
        """Close from the host; its messages arrive before the job manager sees the end."""
        self._is_closed = True
        at_s = max(self._up.last_s, self.world.now_s) + self.world.between(0, 0.01)
        self.world.at(at_s, self.manager, self._end_up)

    def cut(self, host_notices_s: float | None = None) -> None:
        """Break the connection: frames in transit are lost, and both ends notice later."""
        if self.is_cut:
            return
        self.is_cut = True
        self.network.links.remove(self)
        host_s = self._notice_s() if host_notices_s is None else host_notices_s
        self.world.after(host_s, self.host, self._end_down)
        at_s = self.world.now_s + self._notice_s()
        if self._drains:  # earlier messages are read before the end is noticed
            at_s = max(at_s, self._up.last_s)
        self.world.at(at_s, self.manager, self._end_up)

    def _notice_s(self) -> float:
        """Return the time until an end notices a break: mostly 0, sometimes the silence limit."""
        if self.world.chance(0.1):
            return self.world.between(1.0, SILENCE_S)
        return self.world.between(0.0, 0.1)

    def arrival_s(self, last_s: float) -> float:
        """Return when a frame sent now arrives, after the previous one; may break the line."""
        delay_s = self.network.delay(self.host, self.manager)
        if delay_s > SILENCE_S:
            self.cut()
        return max(self.world.now_s + delay_s, last_s)

    def _arrive_up(self, message: bytes) -> None:
        is_lost = self.is_cut and not self._drains
        if not is_lost and not self._manager_knows and not self._service.is_closed:
            self._service.receive(self.peer, message)

    def _arrive_down(self, message: bytes) -> None:
        if not self.is_cut and not self._is_closed:
            self._on_message(message)

    def _broken_up(self) -> None:
        """Handle a gap at the job manager: close the connection, and inform the host."""
        self._end_up()
        self.cut()

    def _broken_down(self) -> None:
        self._end_down()
        self.cut()

    def _end_up(self) -> None:
        if not self._manager_knows:
            self._manager_knows = True
            self._service.ended(self)

    def _end_down(self) -> None:
        if not self._host_knows and not self._is_closed:
            self._host_knows = True
            self._on_disconnect()


class StreamService:
    """The streams that one host serves (rvertex.host.wiring.StreamService)."""

    def __init__(self, network: Network, process: Process) -> None:
        self.address = f"data://{process.name}"
        self.process = process
        self._streams: dict[tuple[str, int], RStream] = {}
        network.services[self.address] = self

    def publish(self, stream_id: str, epoch: int, stream: RStream) -> None:
        self._streams[stream_id, epoch] = stream

    def withdraw(self, stream_id: str, epoch: int) -> None:
        self._streams.pop((stream_id, epoch), None)

    def find(self, stream_id: str, epoch: int) -> RStream | None:
        """Return the published stream, or None."""
        return self._streams.get((stream_id, epoch))

    def close(self) -> None:
        self._streams.clear()


class SimReader(PushedReader):
    """A reader over a simulated data connection."""

    def __init__(
        self,
        network: Network,
        process: Process,
        stream: RemoteStream,
        from_seq: int,
        *,
        store: BlobStore,
        on_change: Callable[[], None],
        durable_first: bool,
    ) -> None:
        self.process = process
        self._network, self._world = network, network.world
        self._service = network.services[stream.address]
        self.server = self._service.process
        self._stream_id, self._epoch = stream.stream_id, stream.epoch
        self._arrives_at_s = self._all_there_s = 0.0
        self._is_cut = False
        super().__init__(
            stream.stream_id,
            from_seq,
            store=store,
            queue_bytes_max=QUEUE_BYTES_MAX,
            on_change=on_change,
            durable_first=durable_first,
        )

    def close(self) -> None:
        super().close()
        self._is_cut = True
        if self in self._network.readers:
            self._network.readers.remove(self)

    def cut(self) -> None:
        """Break the connection: frames in transit are lost, and the reader notices."""
        if not self._is_cut:
            self._is_cut = True
            self._network.readers.remove(self)
            error = OperatingError(f"{self._service.address}: connection lost")
            delay_s = self._world.between(0, 0.2)
            self._world.after(delay_s, self.process, lambda: self._break(error))

    def _connect(self) -> None:
        self._network.readers.append(self)
        if self.server.is_dead:
            self.cut()
            return
        self._world.after(self._network.delay(self.process, self.server), self.server, self._open)

    def _open(self) -> None:
        """Register the reader at the server, and push items to it."""
        stream = self._service.find(self._stream_id, self._epoch)
        if self._is_cut:
            return
        if stream is None:
            self._fail(OperatingError(f"stream {self._stream_id} is not here"))
            return
        try:
            reader = stream.register(self._seq, ahead=True)
        except (SequenceLostError, SequenceDiscardedError) as error:
            self._fail(_translate(error))
            return

        idle = 0

        def push() -> None:
            nonlocal idle
            if self._is_cut:
                reader.close()
                return
            if self._service.find(self._stream_id, self._epoch) is not stream:
                self._fail(OperatingError(f"stream {self._stream_id} was withdrawn"))
                return
            items: Items | None = None
            if reader.next_seq - self._seq < WINDOW_ITEMS:
                try:
                    items = reader.read_next(self._world.random.randint(1, PUSH_ROWS_MAX))
                except (SequenceLostError, SequenceDiscardedError) as error:
                    self._fail(_translate(error))
                    return
                except StreamEngineError as error:
                    self._fail(OperatingError(str(error)))
                    return
            if items is not None:
                self._send(partial(self._arrive, items))
            idle = idle + 1 if items is None else 0
            pause_s = self._world.between(0, idle_s(idle) if items is None else 0.004)
            self._world.after(pause_s, self.server, push)

        push()

    def _send(self, action: Callable[[], None], *, is_end: bool = False) -> None:
        """Run ``action`` at the reader after a delay; the end arrives after all earlier frames."""
        delay_s = self._network.delay(self.process, self.server)
        if delay_s > SILENCE_S:
            self.cut()
            return
        self._arrives_at_s = max(self._world.now_s + delay_s, self._arrives_at_s)
        if is_end:
            at_s = max(self._arrives_at_s, self._all_there_s)
            self._world.at(at_s, self.process, action)
            return
        for late_s in self._network.fates.late_s("data"):
            at_s = self._arrives_at_s + late_s
            self._all_there_s = max(self._all_there_s, at_s)
            self._world.at(at_s, self.process, action)

    def _arrive(self, items: Items) -> None:
        if not self._is_cut and not self._take(items):
            self._is_cut = True
            self._network.readers.remove(self)

    def _fail(self, error: StreamEngineError) -> None:
        def arrive() -> None:
            if not self._is_cut:
                self._is_cut = True
                self._network.readers.remove(self)
                self._break(error)

        self._send(arrive, is_end=True)


def _translate(error: SequenceLostError | SequenceDiscardedError) -> StreamEngineError:
    """Convert an error to the error that the receiver of a transport makes from its text."""
    loss = loss_from_text(error_to_text(error))
    assert loss is not None
    return loss
