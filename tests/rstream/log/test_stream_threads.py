"""Two writers, a local and a remote reader and collection at once, on real threads.

Not covered: races that are too rare for a second; the model test covers the logic.
"""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING

import pytest

from rstream import RStream, SequenceGapError, StreamReader, ThreadBackground
from rstream.transport.flight import RemoteReader, StreamServer
from tests.support.budget import one_in
from tests.support.content import PAYLOAD, items, small_limits

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

END = 1500
CONTENT = items(0, END)


def write(stream: RStream, rng: random.Random) -> None:
    seq = 0
    while seq < END:
        seq = max(min(seq, stream.next_seq) - rng.randint(0, 5), 0)
        count = rng.randint(6, 60)
        try:
            stream.write(seq, CONTENT.slice(seq, count))
        except SequenceGapError:
            continue
        seq += count


def read(reader: StreamReader, rng: random.Random, on_read: Callable[[int], None]) -> None:
    while reader.next_seq < END:
        seq = reader.next_seq
        got = reader.read_next(rng.randint(1, 100))
        if got is None:
            reader.wait(1)
            continue
        assert got.first_seq == seq
        assert got.batch.equals(CONTENT.slice(seq, got.batch.num_rows))
        on_read(got.next_seq)


@pytest.mark.parametrize("durability", ["async", "sync", "volatile"])
@pytest.mark.parametrize("seed", one_in(2, [1, 2]))
def test_all_threads_at_once(durability: str, seed: int, tmp_path: Path) -> None:
    background = ThreadBackground("flush", 2)
    limits = small_limits(
        tail_bytes_max=8000, segment_rows_max=200, flush_interval_ms=5, spill_after_s=0.01
    )
    stream = RStream.open(
        str(tmp_path),
        PAYLOAD,
        stream_id="s",
        durability=durability,  # type: ignore[arg-type]
        limits=limits,
        background=background,
        verify=True,
    )
    server = StreamServer(secret="x")
    server.publish("s", 1, stream)
    remote = RemoteReader(server.address, "x", "s", 1, 0, store=str(tmp_path), queue_bytes_max=3000)
    consumed = [0, 0]
    failures: list[BaseException] = []

    def on_read(at: int, seq: int) -> None:
        consumed[at] = seq
        if seq % 3 == 0:
            stream.garbage_collect(min(consumed))

    def run(body: Callable[..., None], *args: object) -> None:
        try:
            body(*args)
        except BaseException as error:  # shown by the assertion below
            failures.append(error)

    rngs = [random.Random(seed * 10 + k) for k in range(4)]
    jobs: list[tuple[object, ...]] = [(write, stream, rng) for rng in rngs[:2]]
    jobs.append((read, stream.register(0), rngs[2], lambda seq: on_read(0, seq)))
    jobs.append((read, remote, rngs[3], lambda seq: on_read(1, seq)))
    threads = [threading.Thread(target=run, args=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not failures
    assert stream.next_seq == END
    assert consumed == [END, END]
    stream.check()
    remote.close()
    server.close()
    stream.close()
    background.close()
