"""One stream alone: writing, flushing, reading back, pushing over Flight, digests; rows per second.

49-byte items (``_kind, _vs, _ve`` and four int64 columns of 10 to 40 random bits), 65,536 a batch.
The last line is one JSON object. The other side of Flight is a thread of the same process.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream import MemoryBlobs, RStream, StreamDigest, StreamLimits, item_schema
from rstream.transport.flight import RemoteReader, StreamServer

if TYPE_CHECKING:
    from collections.abc import Callable

BATCH_ROWS = 65_536
PAYLOAD = pa.schema([(name, pa.int64()) for name in "abcd"])
#: The tail has room for everything, so writes never wait.
ROOMY = StreamLimits(tail_bytes_max=4 << 30)


def make_batches(rows: int) -> list[pa.RecordBatch]:
    rng = np.random.default_rng(1)
    batches = []
    for lo in range(0, rows, BATCH_ROWS):
        vs = np.arange(lo, lo + BATCH_ROWS)
        payload = [rng.integers(0, 1 << bits, BATCH_ROWS) for bits in (10, 20, 30, 40)]
        columns = [np.zeros(BATCH_ROWS, np.int8), vs, vs + 1, *payload]
        arrays = [pa.array(column) for column in columns]
        batches.append(pa.RecordBatch.from_arrays(arrays, schema=item_schema(PAYLOAD)))
    return batches


def write_async(batches: list[pa.RecordBatch]) -> None:
    """Write with the default limits: the tail fills, and the writer waits for the flusher."""
    with tempfile.TemporaryDirectory() as folder:
        stream = RStream.open(folder, PAYLOAD)
        for batch in batches:
            stream.append(batch)
        stream.close()


def write_volatile(batches: list[pa.RecordBatch]) -> RStream:
    stream = RStream.open(
        MemoryBlobs(), PAYLOAD, stream_id="s", durability="volatile", limits=ROOMY
    )
    for batch in batches:
        stream.append(batch)
    return stream


def push(host: str, batches: list[pa.RecordBatch]) -> None:
    stream = write_volatile([])
    server = StreamServer(host, "secret")
    server.publish("s", 1, stream)
    reader = RemoteReader(server.address, "secret", "s", 1, 0)
    writer = threading.Thread(target=lambda: [stream.append(batch) for batch in batches])
    writer.start()
    while reader.next_seq < len(batches) * BATCH_ROWS:
        if reader.read_next() is None:
            reader.wait(10)
    writer.join()
    reader.close()
    server.close()


def digest(batches: list[pa.RecordBatch]) -> None:
    running = StreamDigest()
    for k, batch in enumerate(batches):
        running.update(k * BATCH_ROWS, batch)


def read_back(stream: RStream) -> None:
    reader = stream.register(0)
    while reader.read_next() is not None:
        pass


def best_rate(rows: int, what: Callable[[], object]) -> float:
    """Return the best of three runs, in million rows per second."""
    times = []
    for _ in range(3):
        started_s = time.perf_counter()
        what()
        times.append(time.perf_counter() - started_s)
    return round(rows / min(times) / 1e6, 1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=16_000_000)
    batches = make_batches(parser.parse_args().rows)
    rows = len(batches) * BATCH_ROWS
    with tempfile.TemporaryDirectory() as folder:
        durable = RStream.open(folder, PAYLOAD)
        for batch in batches:
            durable.append(batch)
        durable.flush()
        rates = {
            "write_async_to_durable": best_rate(rows, lambda: write_async(batches)),
            "write_volatile": best_rate(rows, lambda: write_volatile(batches)),
            "read_segments_verified": best_rate(rows, lambda: read_back(durable)),
            "flight_tcp": best_rate(rows, lambda: push("127.0.0.1", batches)),
            "flight_unix": best_rate(rows, lambda: push(f"unix:{folder}/socket", batches)),
            "digest": best_rate(rows, lambda: digest(batches)),
        }
        durable.close()
    print(json.dumps(rates))


if __name__ == "__main__":
    main()
