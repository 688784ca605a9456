"""How fast a backlog is read: ours, consume and parse alone, peers, and each format.

A topic of two partitions contains the events before the start. A system keeps one event in a
hundred, so that mostly reading and decoding is measured. The rate counts from the first readable
result (so start-up does not count) to the last one, or for ``MEASURED_S``.
"""

from __future__ import annotations

import io
import json
import time
from typing import TYPE_CHECKING, Any

import fastavro
import numpy as np
import pyarrow as pa

from live.events import (
    ALWAYS,
    AVRO,
    EVENT,
    PAD,
    PARTITIONS,
    Step,
    expected,
    judged,
    rows_of,
    value_of,
)
from live.latency import READY_WAIT_S, asked, child
from live.systems import Order, Running, System

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.brokers import Broker

QUERY = "scarce"
#: Number of the step, which is not used by any other step.
NUMBER, RATE = 1_000, 100_000
MEASURED_S = 6.0
ARROW_ROWS = 1_000
_SENT_S = 120.0
_ASKED_S = 0.05


def backlog(broker: Broker, form: str, rows: int) -> tuple[str, Step]:
    """Fill a separate topic; return its name and its contents."""
    topic = broker.create_topic(f"backlog-{form}", PARTITIONS)
    step = Step(NUMBER, 1_800_000_000_000_000, RATE, rows)
    producer = broker.producer(linger_ms=20, queue_buffering_max_messages=2_000_000)
    for partition, value in messages_of(step, form):
        while True:  # ends when there is room, which polling makes
            try:
                producer.produce(topic, value, partition=partition)
            except BufferError:
                producer.poll(0.1)
            else:
                break
    if left := producer.flush(_SENT_S):
        raise TimeoutError(f"{left} messages were not taken within {_SENT_S:g} s")
    return topic, step


def messages_of(step: Step, form: str) -> Iterator[tuple[int, bytes]]:
    """Return partition and value of each message of a step."""
    columns = step.events()
    if form == "arrow":
        for lo in range(0, step.rows, ARROW_ROWS):
            yield lo // ARROW_ROWS % PARTITIONS, _arrow(*(c[lo : lo + ARROW_ROWS] for c in columns))
        return
    schema = fastavro.parse_schema(dict(AVRO)) if form == "avro" else None
    for i, row in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        yield i % PARTITIONS, value_of(*row) if schema is None else _avro(schema, row)


def _avro(schema: Any, row: tuple[int, ...]) -> bytes:
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, schema, dict(zip(EVENT.names, row, strict=True), pad=PAD))
    return sink.getvalue()


def _arrow(*columns: np.ndarray) -> bytes:
    pad = pa.array([PAD] * len(columns[0]))
    batch = pa.record_batch([*map(pa.array, columns), pad], names=[*EVENT.names, "pad"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def parsed_alone(broker: Broker, topic: str, form: str) -> dict[str, Any]:
    """Consume and parse, with one process for each partition."""
    processes = [
        child("live.parsing", broker.servers, topic, form, str(k)) for k in range(PARTITIONS)
    ]
    told = [json.loads(process.communicate()[0]) for process in processes]
    rows = sum(one["rows"] for one in told)
    took_s = max(one["ended_s"] for one in told) - min(one["began_s"] for one in told)
    cpu_us = sum(one["cpu_s"] for one in told) / rows * 1e6
    return {"per_s": int(rows / took_s), "cpu_us_per_event": round(cpu_us, 2)}


def drained(
    system: System,
    broker: Broker,
    backlog: tuple[str, Step],
    form: str,
    folder: Path,
    executor: str = "spark",
) -> dict[str, Any]:
    """Return the events per second that a system reads of a backlog, and the cost of each."""
    topic, step = backlog
    out = broker.create_topic(f"out-{system.name}-{form}", PARTITIONS)
    wanted = expected(QUERY, [step])
    reader = child("live.reading", broker.servers, out)
    order = Order(
        QUERY, broker.servers, topic, out, str(folder), "throughput", form, executor=executor
    )
    running = Running(system, order)
    try:
        if not (first := _first(reader, running)):
            return {"problem": f"no answer in {READY_WAIT_S:g} s", "told": running.told()}
        used_s, until_s = running.cpu_s(), time.time() + MEASURED_S
        while (count := asked(reader, "count")) < len(wanted) and time.time() < until_s:
            time.sleep(_ASKED_S)
        used_s = running.cpu_s() - used_s
        path = folder / "read.npy"
        asked(reader, f"save {path}")
    finally:
        running.stop(at_once=True)
        reader.kill()
        reader.communicate()
    each = step.rows / len(wanted)
    return {
        **_rate_of(path, step, each),
        "cpu_us_per_event": round(used_s / max(1, count - first) / each * 1e6, 2),
        "peak_bytes": running.peak_bytes,
    }


def _first(reader: Any, running: Running) -> int:
    """Wait for the first results; return their number, or 0 if none arrive."""
    until_s = time.time() + READY_WAIT_S
    while not (count := asked(reader, "count")) and time.time() < until_s and not running.ended:
        time.sleep(_ASKED_S)
    return count


def _rate_of(path: Path, step: Step, each: float) -> dict[str, Any]:
    at_us = np.load(path)
    found = rows_of(QUERY, path.with_name(f"{path.name}.values").read_bytes().split(b"\n"))
    verdict = judged(QUERY, found, [step], 0, ALWAYS)
    after, took_us = int((at_us > at_us[0]).sum()), int(at_us[-1] - at_us[0])
    return {
        "per_s": int(after * each / took_us * 1e6) if took_us else None,
        "finished": not verdict.missing,
        "right": not verdict.wrong,
    }
