"""The receive queue: bounded, joined, and drained after a failure."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from rstream import Items, MemoryBlobs, OperatingError
from rstream.transport.receive import DurablePart, PushedReader, ReceiveQueue, RemoteStream
from tests.support.content import items, open_inline

if TYPE_CHECKING:
    from collections.abc import Callable

    from rstream import BlobStore


def test_batches_keep_their_order_and_limits() -> None:
    queue = ReceiveQueue(10**6)
    for lo in range(0, 30, 10):
        assert queue.put(Items(lo, items(lo, lo + 10)))
        queue.check()
    got = queue.take(25)
    assert got is not None
    assert (got.first_seq, got.next_seq) == (0, 25)
    assert got.batch.equals(items(0, 25))
    queue.check()
    queue.fail(OperatingError("gone"))
    assert queue.wait(0)
    got = queue.take(100)
    assert got is not None
    assert got.next_seq == 30
    assert queue.take(1) is None
    assert not queue.wait(60)
    assert str(queue.failure) == "gone"


def test_put_blocks_until_a_batch_is_taken_or_the_queue_closes() -> None:
    queue = ReceiveQueue(1)
    results: list[bool] = []
    queue.put(Items(0, items(0, 5)))

    def put() -> None:
        results.append(queue.put(Items(5, items(5, 10))))
        results.append(queue.put(Items(10, items(10, 15))))

    thread = threading.Thread(target=put)
    thread.start()
    assert not results
    assert queue.take(5) is not None
    assert queue.wait(60)
    queue.close()
    thread.join(60)
    assert results == [True, False]


def test_the_durable_part_is_read() -> None:
    store = MemoryBlobs()
    assert not DurablePart(None, "s", 0).is_open
    stream = open_inline(store)
    part = DurablePart(store, "s", 0)
    assert not part.is_open
    stream.append(items(0, 20))
    stream.flush()
    assert part.read(0, 100) is None
    part.reopen()
    got = part.read(0, 100)
    assert got is not None
    assert part.read(20, 100) is None
    assert not part.is_open
    part.close()


class Pushed(PushedReader):
    """A reader that gets the test's batches."""

    def __init__(self, from_seq: int, store: BlobStore | None = None) -> None:
        super().__init__("s", from_seq, store=store, queue_bytes_max=10**6, on_change=None)

    def _connect(self) -> None:
        pass

    def push(self, lo: int, hi: int) -> bool:
        return self._take(Items(lo, items(lo, hi)))


def test_a_copy_of_a_batch_is_ignored() -> None:
    reader = Pushed(10)
    assert all(reader.push(lo, hi) for lo, hi in [(10, 20), (10, 20), (20, 25), (10, 20)])
    assert not reader.is_broken
    got = reader.read_next(100)
    assert got is not None
    assert (got.first_seq, got.next_seq) == (10, 25)
    assert reader.push(10, 20)
    assert reader.read_next(100) is None


def test_a_gap_between_batches_breaks_the_connection() -> None:
    reader = Pushed(10)
    assert reader.push(10, 20)
    assert not reader.push(30, 40)
    assert not reader.push(20, 30)
    assert str(reader.failure) == "s: received seq 30, expected seq 20"
    got = reader.read_next(100)
    assert got is not None
    assert (got.first_seq, got.next_seq) == (10, 20)
    assert reader.read_next(100) is None
    assert reader.next_seq == 20


class Interrupted(ReceiveQueue):
    """Runs a callback after its first check."""

    def __init__(self, happen: Callable[[], None]) -> None:
        super().__init__(10**6)
        self._happen: Callable[[], None] | None = happen

    def take(self, items_max: int) -> Items | None:
        items = super().take(items_max)
        happen, self._happen = self._happen, None
        if happen is not None:
            happen()
        return items


def test_items_arrive_and_a_break_is_noticed_without_items() -> None:
    """The last received items are read before later durable ones."""

    def happen() -> None:
        stream.append(items(0, 20))
        stream.flush()
        assert reader.push(0, 10)
        reader._break(OperatingError("gone"))

    store = MemoryBlobs()
    stream = open_inline(store)
    reader = Pushed(0, store)
    reader._queue = Interrupted(happen)
    parts = [got for _ in range(4) if (got := reader.read_next(100)) is not None]
    assert [(part.first_seq, part.next_seq) for part in parts] == [(0, 10), (10, 16), (16, 20)]
    assert all(part.batch.equals(items(part.first_seq, part.next_seq)) for part in parts)


def test_the_text_of_a_remote_stream_hides_its_secret() -> None:
    assert "hush" not in repr(RemoteStream("host:1", "hush", "s", 0))
