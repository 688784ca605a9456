"""The cost of checkpoints and durable streams: one vertex with a large state, one stream, no job.

The last line is one JSON object. Ratios are medians over rounds that alternate the order of the two
variants, so that a drift of the machine cancels.

- ``state``: three vertices with about 200 MB of state of which little changes from one checkpoint
  to the next: what a snapshot costs the host's thread, what a checkpoint uploads, and what it
  would upload without parts.
- ``checkpoint_cost``: rows per second of the join with checkpoints every second against none.
- ``flush_cost``: of the same join into an asynchronous stream against a volatile one, when every
  row of its result is written (the dearest there is: one row out for one cheap row in), and when
  one in ten is. ``cpu_cost`` is the share of processor time; on a machine with a spare core
  the share of throughput is smaller.
- ``sync``: latency of a write and rows per second over the rows of a write, synchronous beside
  asynchronous, on a store that takes some milliseconds for each put.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rstream import (
    Items,
    MemoryBlobs,
    RStream,
    StreamLimits,
    ThreadBackground,
    item_schema,
    open_store,
)
from rstream.clock import SystemClock
from rstream.items.batch import CTI, EVENT
from rvertex.aggregates.spec import AggregateSpec
from rvertex.checkpoint.checkpointer import Checkpointer, CheckpointSlot
from rvertex.checkpoint.codec import CheckpointWriter, encode_snapshot
from rvertex.host.environment import HostLimits
from rvertex.operators.joins.inner import TemporalJoin
from rvertex.operators.windows.hopping import WindowAggregate
from rvertex.vertex.rvertex import RVertex
from rvertex.vertex.spec import InputChannel, OutputEdge, VertexId, VertexSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rstream.store.protocol import BlobStore
    from rvertex.messages import HostNotice

BATCH_ROWS = 65_536
LEFT = pa.schema([("key", pa.int64()), ("price", pa.int64())])
RIGHT = pa.schema([("key", pa.int64()), ("name", pa.int64()), ("budget", pa.int64())])
OUTPUT = (("left", "key"), ("left", "price"), ("right", "name"), ("right", "budget"))
#: Bytes of a stored row of the right side: its columns, its end and its number.
RIGHT_ROW_BYTES = 40
#: Lifetime of rows of the left side, us; one row arrives each microsecond.
LEFT_LIFE_US = 200_000
FAR_US = 10**15
HOUR_US = 3_600_000_000
WRITES = 40


def batch_of(schema: pa.Schema, vs: np.ndarray, ve: np.ndarray, *payload: Any) -> pa.RecordBatch:
    kind = np.full(len(vs), EVENT, np.int8)
    arrays = [pa.array(kind), pa.array(vs), pa.array(ve), *map(pa.array, payload)]
    return pa.RecordBatch.from_arrays(arrays, schema=item_schema(schema))


def spec_of(name: str, operator: Any, *payloads: pa.Schema) -> VertexSpec:
    inputs = tuple(
        InputChannel(f"in{port}", f"unused/in{port}", port, payload, "async")
        for port, payload in enumerate(payloads)
    )
    outputs = (OutputEdge(("out",), ("unused/out",), (), "async"),)
    payload = operator.output_schema(payloads)
    vertex = VertexId(f"{name}.0")
    return VertexSpec(vertex, name, 0, inputs, None, (operator,), outputs, payload, "schema")


class Feed:
    """A vertex and its endless input: the next rows of its first input port."""

    def __init__(self, spec: VertexSpec, keys: int, life_us: int) -> None:
        self.vertex = RVertex(spec, pending_rows_max=1 << 30)
        self._keys, self._life_us = keys, life_us
        self._random = np.random.default_rng(7)
        self._pool = [self._random.integers(0, keys, BATCH_ROWS) for _ in range(32)]
        self._time = 1
        self.turns = 0

    def step(self, rows: int = BATCH_ROWS) -> Items | None:
        """Offer the next ``rows`` rows, one per microsecond, and return the output."""
        vs = np.arange(self._time, self._time + rows)
        key = self._pool[self.turns % len(self._pool)][:rows]
        batch = batch_of(LEFT, vs, vs + self._life_us, key, key)
        self.vertex.offer(0, Items(self.vertex.read_positions[0], batch))
        self._time += rows
        self.turns += 1
        result = self.vertex.execute()
        return None if result is None else result.outputs[0]


def join(state_bytes: int) -> Feed:
    """Return a join of passing rows with ``state_bytes`` of stored rows.

    Each row has one partner.
    """
    columns = tuple((side, column, column) for side, column in OUTPUT)
    spec = spec_of("join", TemporalJoin(("key",), ("key",), columns), LEFT, RIGHT)
    keys = state_bytes // RIGHT_ROW_BYTES
    feed = Feed(spec, keys, LEFT_LIFE_US)
    seq = 0
    for lo in range(0, keys, BATCH_ROWS):
        key = np.arange(lo, min(lo + BATCH_ROWS, keys))
        zeros = np.zeros(len(key), np.int64)
        batch = batch_of(RIGHT, zeros, zeros + FAR_US, key, key * 3, key * 7)
        feed.vertex.offer(1, Items(seq, batch))
        seq += len(key)
    feed.vertex.offer(1, Items(seq, ctis(RIGHT, FAR_US - 1)))
    feed.step()
    return feed


def windows(state_bytes: int) -> Feed:
    """Return a hopping aggregate of intervals, which stores rows until their last window ends."""
    counts = (AggregateSpec("sum", "price", "total"),)
    spec = spec_of("windows", WindowAggregate(("key",), HOUR_US, HOUR_US, counts, False), LEFT)
    feed = Feed(spec, 1_000, 100)
    for _ in range(state_bytes // 32 // BATCH_ROWS):
        feed.step()
    return feed


def groups(state_bytes: int) -> Feed:
    """Return a tumbling aggregate of points with very many keys in one open window."""
    sums = (AggregateSpec("sum", "price", "total"),)
    spec = spec_of("groups", WindowAggregate(("key",), HOUR_US, HOUR_US, sums, True), LEFT)
    keys = state_bytes // 25
    feed = Feed(spec, keys, 1)
    for lo in range(0, keys, BATCH_ROWS):
        feed._pool[feed.turns % 32] = np.arange(lo, lo + BATCH_ROWS)
        feed.step()
    feed._pool = [feed._random.integers(0, keys, BATCH_ROWS) for _ in range(32)]
    return feed


def ctis(payload: pa.Schema, time_us: int) -> pa.RecordBatch:
    schema = item_schema(payload)
    columns = [pa.array([CTI], pa.int8()), pa.array([time_us]), pa.array([time_us])]
    columns += [pa.nulls(1, f.type) for f in list(schema)[3:]]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def finish(steps: Iterator[None]) -> Any:
    while True:  # ends with the checkpoint
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def measure_state(feed: Feed, changes_rows: int, rounds: int = 5) -> dict[str, float]:
    """Return medians over ``rounds`` checkpoints, with ``changes_rows`` new rows between them."""
    writer = CheckpointWriter("c", 1)
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(folder)
        finish(writer.write(feed.vertex.get_snapshot(), 1, store.put))
        for count in range(2, rounds + 2):
            plain_s = timed(lambda: feed.step(changes_rows))
            begin_s = time.perf_counter()
            snapshot = feed.vertex.get_snapshot()
            snapshot_s = time.perf_counter() - begin_s
            begin_s = time.perf_counter()
            written = finish(writer.write(snapshot, count, store.put))
            background_s = time.perf_counter() - begin_s
            begin_s = time.perf_counter()
            whole = len(encode_snapshot(snapshot))
            for name, value in {
                "snapshot_ms": snapshot_s * 1e3,
                "next_step_ms": (timed(lambda: feed.step(changes_rows)) - plain_s) * 1e3,
                "background_ms": background_s * 1e3,
                "whole_ms": (time.perf_counter() - begin_s) * 1e3,
                "uploaded_bytes": written.uploaded_bytes,
                "whole_bytes": whole,
            }.items():
                found.setdefault(name, []).append(value)
    return {name: round(statistics.median(values), 2) for name, values in found.items()}


def timed(action: Callable[[], object]) -> float:
    begin_s = time.perf_counter()
    action()
    return time.perf_counter() - begin_s


@dataclass
class Host:
    """A stand-in for the host that a checkpointer needs."""

    store: BlobStore
    background: ThreadBackground
    limits: HostLimits
    notices: list[HostNotice]
    clock: SystemClock

    def notify(self, notice: HostNotice) -> None:
        self.notices.append(notice)

    def wake(self) -> None:
        pass


@dataclass(frozen=True)
class Setting:
    """The settings: seconds between checkpoints, whether output is flushed, share of kept rows."""

    checkpoint_s: float | None = None
    flushed: bool = True
    one_in: int = 1


@dataclass(frozen=True)
class Rate:
    """Input rows per second, and processor microseconds per row."""

    rows_per_s: float
    cpu_us: float


def rate(feed: Feed, folder: str, seconds: float, setting: Setting) -> Rate:
    """Run the join for ``seconds``; its output is written to a stream and read at once."""
    background = ThreadBackground("bench", 2)
    limits = replace(HostLimits(), checkpoint_interval_s=setting.checkpoint_s)
    host = Host(open_store(folder), background, limits, [], SystemClock())
    out = RStream.open(
        tempfile.mkdtemp(dir=folder),
        feed.vertex.spec.output_payload,
        durability="async" if setting.flushed else "volatile",
        background=background,
    )
    checkpoints = Checkpointer(
        feed.vertex.spec,
        1,
        host,
        get_snapshot=lambda is_whole: feed.vertex.get_snapshot(whole=is_whole),
        is_durable=lambda seqs, at_once, is_whole: True,
        slot=CheckpointSlot(),
        loaded=None,
        positions=feed.vertex.consumed,
    )
    # the first checkpoint uploads the whole state, so it is reported separately
    if setting.checkpoint_s is not None:
        checkpoints.request()
        checkpoints.poll(feed.vertex.consumed)
        while not host.notices:
            time.sleep(0.01)
            checkpoints.poll(feed.vertex.consumed)
    rows = collected = 0
    begin_s, begin_cpu_s = time.perf_counter(), time.process_time()
    while time.perf_counter() - begin_s < seconds:
        checkpoints.poll(feed.vertex.consumed)
        items = feed.step()
        rows += BATCH_ROWS
        if items is not None:
            kept = np.arange(0, items.batch.num_rows, setting.one_in)
            out.append(items.batch if setting.one_in == 1 else items.batch.take(pa.array(kept)))
        if (time.perf_counter() - begin_s) // limits.report_interval_s > collected:
            collected += 1  # as a job manager does after each report of consumed items
            out.garbage_collect(out.next_seq)
    took_s, cpu_s = time.perf_counter() - begin_s, time.process_time() - begin_cpu_s
    checkpoints.close()
    out.close(flush=False)
    background.close()
    return Rate(rows / took_s, cpu_s / rows * 1e6)


def compare(
    feed: Feed, seconds: float, rounds: int, dear: Setting, plain: Setting
) -> dict[str, float]:
    """Return the median cost of ``dear`` relative to ``plain``."""
    pairs: list[tuple[Rate, Rate]] = []
    for k in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            order = [dear, plain] if k % 2 else [plain, dear]
            found = {setting: rate(feed, folder, seconds, setting) for setting in order}
            pairs.append((found[dear], found[plain]))
    median = statistics.median
    return {
        "rows_per_s": round(median(a.rows_per_s for a, _ in pairs)),
        "rows_per_s_without": round(median(b.rows_per_s for _, b in pairs)),
        "cost": round(median(1 - a.rows_per_s / b.rows_per_s for a, b in pairs), 3),
        "cpu_cost": round(median(1 - b.cpu_us / a.cpu_us for a, b in pairs), 3),
    }


class SlowBlobs(MemoryBlobs):
    """A store with a delay in each put, like an object store."""

    delay_s = 0.02

    def put(self, path: str, data: bytes | pa.Buffer) -> None:
        time.sleep(self.delay_s)
        super().put(path, data)


def sync_beside_async(sizes: Sequence[int]) -> list[dict[str, float]]:
    """Return latency and rate of synchronous and asynchronous writes, by their number of rows."""
    rows: list[dict[str, float]] = []
    schema = item_schema(LEFT)
    for size in sizes:
        row: dict[str, float] = {"rows_per_write": size}
        for durability in ("sync", "async"):
            background = ThreadBackground("bench")
            stream = RStream.open(
                SlowBlobs(),
                LEFT,
                durability=durability,  # type: ignore[arg-type]
                limits=StreamLimits(),
                background=background,
            )
            writes = WRITES if size < 100_000 else WRITES // 8
            writes = writes if durability == "sync" or size >= 100_000 else 10 * writes
            at = np.arange(size)
            batch = batch_of(LEFT, at, at + 1, at, at)
            assert batch.schema == schema
            begin_s = time.perf_counter()
            latencies = [timed(partial(stream.append, batch)) for _ in range(writes)]
            stream.flush()
            took_s = time.perf_counter() - begin_s
            stream.close()
            background.close()
            row[f"{durability}_p50_ms"] = round(statistics.median(latencies) * 1e3, 3)
            row[f"{durability}_rows_per_s"] = round(size * writes / took_s)
        rows.append(row)
    return rows


def main() -> None:
    """Measure everything and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--state-mb", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    state_bytes = args.state_mb * 1_000_000
    result: dict[str, Any] = {"state": {}}
    for make in (windows, groups, join):
        feed = make(state_bytes)
        result["state"][make.__name__] = found = measure_state(feed, 1_000)
        print(f"state of {make.__name__}: {found}", flush=True)
    compared = {
        "checkpoint_cost": (Setting(checkpoint_s=1.0), Setting()),
        "flush_cost": (Setting(), Setting(flushed=False)),
        "flush_cost_one_in_ten": (Setting(one_in=10), Setting(flushed=False, one_in=10)),
    }
    for name, (dear, plain) in compared.items():
        result[name] = compare(feed, args.seconds, args.rounds, dear, plain)
        print(f"{name}: {result[name]}", flush=True)
    result["sync"] = sync_beside_async([1, 10, 100, 1_000, 10_000, 100_000, 1_000_000])
    for row in result["sync"]:
        print(f"sync beside async: {row}", flush=True)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
