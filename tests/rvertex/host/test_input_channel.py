"""One input channel with changing writers: no item is missed or read twice.

Streams, servers and the connections between them are real; the clock is moved by hand. Cannot
catch: reactions of the job manager to a loss (tests/jobmanager), a host that hangs (tests/sim).
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from rstream import MemoryBlobs, RStream
from rstream.clock import ManualClock
from rstream.items.batch import VS, Items, int64_column
from rstream.log.durable import DurableLog
from rstream.transport.flight import StreamServer
from rstream.transport.receive import PushedReader
from rvertex.host.environment import HostEnvironment, HostLimits
from rvertex.host.input_channel import SILENCE_S, InputChannelReader
from rvertex.host.wiring import FlightWiring
from rvertex.messages import Endpoint, Locate
from rvertex.vertex.spec import InputChannel
from tests.support.builders import cti, ev, make_items

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rstream.store.protocol import BlobStore

PAYLOAD = pa.schema([("n", pa.int64())])
CHANNEL = InputChannel("s", "store", 0, PAYLOAD, "volatile")
SECRET = "x"
WAIT_S = 120.0
HERE = "reader"


class Wiring(FlightWiring):
    """The real wiring, with a manual clock and a store in memory."""

    def __init__(self) -> None:
        super().__init__(HERE)
        self.clock = self.manual = ManualClock(1)
        self.store = MemoryBlobs()

    def open_store(self, uri: str) -> BlobStore:
        return self.store


class Scene:
    """A reading host, and writers of the stream on other hosts."""

    def __init__(self) -> None:
        self.wiring = Wiring()
        self.server = StreamServer("127.0.0.1", SECRET)
        self.lost: list[tuple[str, int, tuple[int, ...]]] = []
        self.env = HostEnvironment(
            host=HERE,
            writers={"s": "v.0"},
            root="root",
            server=self.server,
            secret=SECRET,
            wiring=self.wiring,
            limits=HostLimits(reconnect_s=0.5),
            notify=lambda notice: None,
            wake=lambda: None,
        )
        self.reader = InputChannelReader(CHANNEL, self.env, lambda *loss: self.lost.append(loss))
        self.servers: dict[int, StreamServer] = {}
        self.seen: list[int] = []
        self._version = 0

    @property
    def clock(self) -> ManualClock:
        return self.wiring.manual

    def stream(self, epoch: int, *, first: int = 0, is_here: bool = False) -> RStream:
        """An instance that writes from ``first``, on its own host or on this one."""
        stream = RStream.open(
            MemoryBlobs(), PAYLOAD, stream_id="s", start_seq=first, durability="volatile"
        )
        if is_here:
            self.env.publish([stream], epoch)
        else:
            server = self.servers[epoch] = StreamServer("127.0.0.1", SECRET)
            server.publish("s", epoch, stream)
        return stream

    def endpoint(self, epoch: int) -> Endpoint:
        if epoch in self.servers:
            return Endpoint(epoch, f"host{epoch}", self.servers[epoch].address)
        return Endpoint(epoch, HERE, self.server.address)

    def locate(self, *epochs: int) -> None:
        self._version += 1
        self.env.locate(Locate("v.0", self._version, tuple(self.endpoint(e) for e in epochs)))

    def read(self, rows_max: int = 100) -> Items | None:
        items = self.reader.read(len(self.seen), rows_max)
        if items is not None:
            assert items.first_seq == len(self.seen)
            self.seen += int64_column(items.batch, VS).tolist()
        return items

    def read_until(self, count: int, rows_max: int = 100) -> None:
        deadline_s = time.monotonic() + WAIT_S
        while len(self.seen) < count:
            self.read(rows_max)
            assert time.monotonic() < deadline_s, (self.seen, self.lost)
        assert self.seen == list(range(count))

    def read_nothing_at(self, epoch: int | None) -> None:
        """Read from this instance (None: from a folder); there is nothing to read or in transit."""
        self._read_nothing_until(lambda: self.reader._attached is not None and self.epoch == epoch)
        for _ in range(20):
            assert self.read() is None
            assert self.epoch == epoch

    def read_until_left(self) -> None:
        self._read_nothing_until(lambda: self.reader._attached is None)

    def wait_at_none(self) -> None:
        """Check that the channel reads from no instance, on repeated tries."""
        for _ in range(20):
            assert self.read() is None
            assert self.reader._attached is None

    @property
    def epoch(self) -> int | None:
        """Return the instance that is read; None: a folder, or none."""
        attached = self.reader._attached
        return None if attached is None or attached.endpoint is None else attached.endpoint.epoch

    def receive_until(self, count: int) -> None:
        """Wait until this number of items has arrived, read or not."""
        attached, deadline_s = self.reader._attached, time.monotonic() + WAIT_S
        assert attached is not None
        assert isinstance(attached.reader, PushedReader)
        queue = attached.reader._queue._queue
        while len(self.seen) + sum(items.batch.num_rows for items in list(queue)) < count:
            assert time.monotonic() < deadline_s
            threading.Event().wait(0.001)

    def _read_nothing_until(self, is_so: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + WAIT_S
        while not is_so():
            assert self.read() is None
            assert time.monotonic() < deadline_s, (self.epoch, self.lost)

    def read_until_lost(self) -> None:
        self._read_nothing_until(lambda: bool(self.lost))

    def close(self) -> None:
        self.reader.close()
        for server in (self.server, *self.servers.values()):
            server.close()
        self.wiring.close()


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    scene.close()


def items(lo: int, hi: int) -> pa.RecordBatch:
    """Items whose time is their seq."""
    return make_items([ev(t, n=t) if t % 3 else cti(t) for t in range(lo, hi)], PAYLOAD)


def test_the_next_address_continues_where_the_first_one_broke(scene: Scene) -> None:
    one, two = scene.stream(1), scene.stream(2)
    scene.locate(1, 2)
    one.append(items(0, 10))
    two.append(items(0, 7))
    scene.read_until(10)
    scene.servers[1].withdraw("s", 1)
    scene.read_nothing_at(2)
    two.append(items(7, 20))
    scene.read_until(20)
    assert not scene.lost


def test_items_received_before_a_break_are_read_first(scene: Scene) -> None:
    one, two = scene.stream(1), scene.stream(2)
    one.append(items(0, 50))
    scene.locate(1, 2)
    scene.read_until(1, rows_max=1)
    scene.receive_until(50)
    scene.servers[1].withdraw("s", 1)
    two.append(items(0, 60))
    two.garbage_collect(50)
    scene.read_until(60)
    assert not scene.lost


def test_an_address_without_the_seq_is_skipped(scene: Scene) -> None:
    one, two = scene.stream(1), scene.stream(2)
    one.append(items(0, 10))
    one.garbage_collect(5)
    two.append(items(0, 10))
    scene.locate(1, 2)
    scene.read_until(10)
    assert not scene.lost


def test_a_loss_is_reported_once_after_every_address_was_tried(scene: Scene) -> None:
    for epoch in (1, 2):
        stream = scene.stream(epoch)
        stream.append(items(0, 10))
        stream.garbage_collect(5)
    scene.locate(2, 1)
    scene.read_until_lost()
    scene.clock.advance(100_000_000)
    scene.wait_at_none()
    assert scene.lost == [("s", 0, (2, 1))]
    scene.stream(3).append(items(0, 3))
    scene.locate(2, 1, 3)
    scene.read_until(3)
    assert len(scene.lost) == 1
    four = scene.stream(4)
    four.append(items(0, 10))
    four.garbage_collect(9)
    scene.locate(4)
    scene._read_nothing_until(lambda: len(scene.lost) > 1)
    scene.wait_at_none()
    assert scene.lost[1:] == [("s", 3, (4,))], "another loss is another report"


def test_an_address_that_is_listed_again_is_used_at_once(scene: Scene) -> None:
    """The channel left it because it was not listed, not because its connection broke."""
    one = scene.stream(1)
    one.append(items(0, 3))
    scene.stream(2)
    scene.locate(1)
    scene.read_until(3)
    scene.locate(2)
    scene.read_nothing_at(2)
    one.append(items(3, 6))
    scene.locate(1)
    scene.read_until(6)


def test_the_wait_for_silent_addresses_grows_and_is_reset(scene: Scene) -> None:
    one, _ = scene.stream(1), scene.stream(2)
    scene.locate(1, 2)
    scene.read_nothing_at(1)
    for patience_s, epoch in ((SILENCE_S, 2), (2 * SILENCE_S, 1)):
        scene.clock.advance(int(patience_s * 0.9e6))
        scene.read_nothing_at(3 - epoch)
        scene.clock.advance(int(patience_s * 0.2e6))
        scene.read_nothing_at(epoch)
    assert scene.reader._silence_s == 4 * SILENCE_S
    one.append(items(0, 3))
    scene.read_until(3)
    assert scene.reader._silence_s == SILENCE_S


def test_a_broken_connection_is_no_loss_and_is_given_time(scene: Scene) -> None:
    one, two = scene.stream(1), scene.stream(2)
    one.append(items(0, 4))
    two.append(items(0, 9))
    two.garbage_collect(9)
    scene.locate(1, 2)
    scene.read_until(4)
    scene.servers[1].withdraw("s", 1)
    scene.read_until_left()
    assert not scene.lost
    scene.servers[1].publish("s", 1, one)
    one.append(items(4, 6))
    scene.wait_at_none()
    scene.clock.advance(501_000)
    scene.read_until(6)


def test_the_address_on_this_host_is_first(scene: Scene) -> None:
    far, here = scene.stream(1), scene.stream(2, is_here=True)
    here.append(items(0, 5))
    scene.locate(1, 2)
    assert scene.read() is not None, "it is read by reference, at once"
    far.append(items(0, 9))
    scene.read_nothing_at(2)
    scene.env.withdraw(here, 2)
    scene.read_until(9)


def test_the_address_on_this_host_is_not_first_if_it_is_behind(scene: Scene) -> None:
    far, here = scene.stream(1), scene.stream(2, is_here=True)
    far.append(items(0, 5))
    scene.locate(1)
    scene.read_until(5)
    scene.servers[1].withdraw("s", 1)
    other = scene.stream(3)
    other.append(items(0, 6))
    scene.locate(2, 3)
    scene.read_until(6)
    scene.servers[3].withdraw("s", 3)
    scene.read_nothing_at(2)
    here.append(items(0, 8))
    scene.read_until(8)


def test_an_address_that_is_no_longer_listed_is_read_to_its_end(scene: Scene) -> None:
    old = scene.stream(1, is_here=True)
    old.append(items(0, 8))
    scene.locate(1)
    assert scene.read(3) is not None
    new = scene.stream(2)
    new.append(items(0, 12))
    new.garbage_collect(8)
    scene.locate(2)
    scene.read_until(12)
    assert not scene.lost


def test_without_addresses_the_folder_is_read(scene: Scene) -> None:
    writer = RStream.open(scene.wiring.store, PAYLOAD, stream_id="s")
    writer.append(items(0, 9))
    writer.close()
    scene.locate()
    scene.read_until(9)
    scene.read_nothing_at(None)


def test_a_folder_with_a_hole_is_a_loss_of_no_address(scene: Scene) -> None:
    DurableLog(scene.wiring.store, "s").write(Items(4, items(4, 9)))
    scene.locate()
    scene.read_until_lost()
    assert scene.lost == [("s", 0, ())]


def test_a_reader_leaves_an_address_without_items_for_another(scene: Scene) -> None:
    scene.stream(1)
    two = scene.stream(2)
    two.append(items(0, 5))
    scene.locate(1, 2)
    scene.read_nothing_at(1)
    scene.clock.advance(int(SILENCE_S * 1e6) + 1000)
    scene.read_until(5)


def test_a_channel_is_unknown_until_it_is_located(scene: Scene) -> None:
    assert scene.read() is None
    assert not scene.lost


def test_a_switch_does_not_wait_for_the_clock(scene: Scene) -> None:
    """Retries would wait for the clock, which is stopped here."""
    one, two = scene.stream(1), scene.stream(2)
    scene.locate(1, 2)
    for stream in (one, two):
        stream.append(items(0, 10))
    scene.read_until(10)
    two.append(items(10, 11))
    scene.servers[1].withdraw("s", 1)
    scene.read_until(11)
