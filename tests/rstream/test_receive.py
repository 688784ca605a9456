"""The receive queue: bounded, joined, and drained after a failure."""

from __future__ import annotations

import threading

from rstream import Items, MemoryBlobs, OperatingError
from rstream.receive import DurablePart, ReceiveQueue
from tests.rstream.content import items, open_inline


def test_order_limits_and_joining() -> None:
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
    assert not queue.wait(10)
    assert str(queue.failure) == "gone"


def test_put_blocks_until_taken_or_closed() -> None:
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
    assert queue.wait(5)
    queue.close()
    thread.join(5)
    assert results == [True, False]


def test_durable_part() -> None:
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
